"""`gttf features`: values per node, from an .npy file to one that is read by id."""

import argparse
from pathlib import Path

import numpy as np

from gttf_sampler import FeatureFile, _check, _files
from gttf_sampler.cli.progress import progress
from gttf_sampler.features.encoding import ENCODINGS
from gttf_sampler.features.write import chunks_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments to its parser."""
    add = parser.add_argument
    add("values", nargs="+", help=".npy files with rows; several are joined")
    add("out", help="file to write, readable as .npy as well")
    add("--stored", choices=ENCODINGS, help="fewer bytes; rows are read as before")
    add("--force", action="store_true", help="replace a file that is there")


def run(args: argparse.Namespace) -> list[str]:
    """Writes the file; returns what to tell."""
    for name in args.values:
        if not Path(name).is_file():
            _check.fail("values", "must be .npy files that are there", repr(name))
    arrays = [np.load(name, mmap_mode="r", allow_pickle=False) for name in args.values]
    _files.check_free("out", args.out, args.force)
    size = sum(array.nbytes for array in arrays)
    with progress(size) as report:
        made = FeatureFile.from_chunks(
            args.out,
            (chunk for array in arrays for chunk in chunks_of(array)),
            stored=args.stored,
            overwrite=args.force,
            report=report,
        )
    return [repr(made), f"wrote {args.out}"]


def describe(file: FeatureFile) -> dict[str, object]:
    """Returns the facts of a feature file, after reading and checking all of it."""
    file.validate()
    return {
        "rows": len(file),
        "row": list(file.shape[1:]),
        "dtype": str(file.dtype).removeprefix("torch."),
        "stored": file.stored,
        "bytes": file.nbytes,
        "checksums": "all match",
    }
