"""A CompactAdj on disk: a directory of arrays, replaced in one step.

The header names the files and is replaced last: a crash leaves the old header with its
old files, or the new one with its new files, never a mixture.
"""

import json
import os
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _arrays, _check, _files
from gttf_sampler._arrays import (
    HEADER,
    IDS,
    NUMBERS,
    Entry,
    Pieces,
    Rules,
    entry_rules,
    is_count,
)

REQUIRED, OPTIONAL = ("rowptr", "col"), ("edge_id", "edge_weight", "edge_time")
NAMES = ("node_id", "name_text", "name_end")  # ids that nodes have elsewhere
DTYPES = {"edge_weight": NUMBERS, "edge_time": NUMBERS, "name_text": ("|u1",)}
TOKEN = "[0-9a-f]{12}"
OURS = re.compile(
    rf"(?:{'|'.join((*REQUIRED, *OPTIONAL, *NAMES))})\.({TOKEN})\.bin"
    rf"|header\.json\.({TOKEN})"
)


def _rules(header: dict[str, Any]) -> Rules:
    """Rules for every header that `save` writes."""
    arrays, size = header["arrays"], header["num_cols"]
    yield header["direction"] in ("in", "out"), f"direction {header['direction']!r}"
    yield is_count(size) and size <= _check.MAX_NODES, f"num_cols {size!r}"
    known = set(REQUIRED) <= set(arrays) <= {*REQUIRED, *OPTIONAL, *NAMES}
    yield known, f"arrays {sorted(arrays)}"
    edges = arrays["col"]["length"]
    for name, entry in arrays.items():
        yield from entry_rules(entry, rf"{name}\.{TOKEN}\.bin", DTYPES.get(name, IDS))
        size = entry["length"]
        alike = name not in OPTIONAL or size == edges
        yield alike, f"{size} numbers in {name!r} for {edges} edges"


GRAPH = _arrays.Format(
    name="gttf-compact-adj",
    version=1,
    holds="a saved CompactAdj",
    content="the arrays that 'save' wrote",
    cure="save the graph again",
    rules=_rules,
)


def save(
    path: str | os.PathLike[str],
    arrays: Mapping[str, Tensor | Pieces],
    facts: dict[str, Any],
    overwrite: bool = False,
) -> int:
    """Writes `arrays` and `facts` into the directory `path`, replacing what it held.

    Returns the checksum of the header.
    """
    plain = {
        name: array if isinstance(array, Pieces) else _arrays.as_numpy(name, array)
        for name, array in arrays.items()
    }

    def write(files: Mapping[str, Path]) -> dict[str, Entry]:
        return {name: _arrays.write_array(files[name], a) for name, a in plain.items()}

    return replace(path, plain, facts, overwrite, write)


def replace(
    path: str | os.PathLike[str],
    names: Iterable[str],
    facts: dict[str, Any],
    overwrite: bool,
    write: Callable[[Mapping[str, Path]], dict[str, Entry]],
) -> int:
    """Has `write` write the files of some arrays, and puts them into force at once.

    It is given a file per array, and returns what the header says of each.

    Every call writes files of its own. Calls at the same time meet only where they
    replace the header, one after the other; each then removes what the header named
    before, and what a process that died has left.
    """
    folder = check_free(path, overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    token = uuid.uuid4().hex[:12]
    files = {name: folder / f"{name}.{token}.bin" for name in names}
    draft = folder / f"{HEADER}.{token}"
    with ExitStack() as until_done:
        with _files.locked(folder):  # or another call could take it for a dead one's
            draft.touch()
            until_done.enter_context(_files.locked(draft))
        try:
            header = GRAPH.seal({**facts, "arrays": write(files)})
            text = json.dumps(header, indent=1).encode()
            _arrays.write_array(draft, np.frombuffer(text, np.uint8))
            with _files.locked(folder) as alone:
                before = _token_of(folder)
                os.replace(draft, folder / HEADER)
                _files.sync_folder(folder)
                _clean(folder, token, None if alone else before)
        except BaseException:
            if _token_of(folder) != token:  # another header is in force
                for file in (*files.values(), draft):
                    file.unlink(missing_ok=True)
            raise
    return int(header["crc32"])


def check_free(path: str | os.PathLike[str], overwrite: bool) -> Path:
    """The directory to write into, where files of others are not in the way."""
    folder = _check.path("path", path)
    cure = "pass overwrite=True to write beside it"
    if not (overwrite and folder.is_dir()) and not _token_of(folder):
        _files.check_folder(folder, OURS.fullmatch, "a saved graph", cure)
    return folder


def _clean(folder: Path, token: str, before: str | None) -> None:
    """Removes the files of all other tokens that no process is writing.

    Where locks do not exist, removes those of the token `before` alone.
    """
    others = {m[1] or m[2] for f in folder.iterdir() if (m := OURS.fullmatch(f.name))}
    for other in others - {token}:
        if before is None and _files.is_locked(folder / f"{HEADER}.{other}"):
            continue
        if before is None or other == before:
            for file in folder.glob(f"*.{other}*"):
                if OURS.fullmatch(file.name):
                    file.unlink(missing_ok=True)


def _token_of(folder: Path) -> str:
    """The token in the names of the files that a directory's header refers to."""
    try:
        header = json.loads((folder / HEADER).read_text(encoding="utf-8"))
        return str(header["arrays"]["col"]["file"].split(".")[1])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return ""


def load(
    path: str | os.PathLike[str], mmap: bool, verify: bool
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The arrays and the header of the directory `path`."""
    folder = _check.path("path", path)
    while True:
        header = GRAPH.read_header(folder)
        try:
            arrays = {
                name: torch.from_numpy(GRAPH.numpy(folder, entry, verify, mmap))
                for name, entry in header["arrays"].items()
            }
            return arrays, header
        except _arrays.GoneError:
            if _token_of(folder) == header["arrays"]["col"]["file"].split(".")[1]:
                raise
            # else it has been replaced meanwhile, and there is a new one to read
