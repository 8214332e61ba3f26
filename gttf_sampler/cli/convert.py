"""`gttf convert`: a graph from one format to another, names and all."""

import argparse
from pathlib import Path

from gttf_sampler import _check, _files
from gttf_sampler.cli import reading
from gttf_sampler.graph.write import WRITTEN, write_graph

FOLDER = "a directory"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments to its parser."""
    add = parser.add_argument
    add("graph", help=reading.KINDS)
    add(
        "out",
        help=f"file to write: {', '.join(WRITTEN)}, text also in .gz; or {FOLDER}",
    )
    add("--direction", choices=("in", "out"), default="in", help=f"of rows in {FOLDER}")
    add("--force", action="store_true", help="overwrite what is there")
    reading.add_arguments(parser)


def run(args: argparse.Namespace) -> list[str]:
    """Reads and writes; returns what to tell."""
    out, plain = Path(args.out), Path(args.graph)
    if out.exists() and plain.exists() and out.samefile(plain):
        _check.fail("out", "must not be the graph itself", args.out)
    folder = out.is_dir() or not out.suffix
    if not folder:
        _files.check_free("out", out, args.force)
    adj, told = reading.read(args, args.graph, "graph", direction=args.direction)
    if folder:
        with reading.called(args, "out"):
            adj.save(out, overwrite=args.force)
    else:
        with reading.called(args, "out"):
            write_graph(out, adj)
    return [*told, f"{adj}", f"wrote {args.out}"]
