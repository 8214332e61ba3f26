"""How a partitioned graph lies on disk: a header, books, and a directory per part.

    header.json              what the graph is, and a checksum of every part's header
    book-0.bin               the part of every node of type 0, unless parts are ranges
    wanted-0.bin             the nodes of type 0 that most edges lead to, most first
    node_id-0.bin            integers that nodes of type 0 are called, unless 0 … n - 1
    name_text-0.bin          or words that they are called, one behind the other
    name_end-0.bin           and where each of these ends
    part-3/header.json       the files of part 3 and their checksums
    part-3/relation-0/       its rows as a CompactAdj: local rows, global columns
    part-3/first-0.bin       where each of these rows begins in the whole graph
    part-3/edge_id-0.bin     the caller's number of every edge, where it has one
    part-3/nodes-0.bin       the nodes whose rows these are, unless they are a range
    part-3/feature-0.npy     its rows of feature 0, in the order of its own nodes, as a
                             FeatureFile

A header is written last and in one step, so that whatever has one is whole.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NoReturn

from torch import Tensor

from gttf_sampler import _check
from gttf_sampler.graph import storage

WHOLE, PART, VERSION = "gttf-partitioned", "gttf-part", 2
HEADER = "header.json"
SHARED = ("book", "wanted", *storage.NAMES)  # files of all parts, by node type


def part_folder(folder: Path, part: int) -> Path:
    """Where a part lies."""
    return folder / f"part-{part}"


def whereabouts(folder: Path, part: int) -> str:
    """What tells this copy of a part from all others, on any machine; "" for none.

    Processes that see the same file in the same kernel share its pages in memory.
    """
    try:
        machine = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        file = part_folder(folder, part) / HEADER
        found = file.stat()
        readable = os.access(file, os.R_OK)
    except OSError:
        return ""
    return f"{machine}:{found.st_dev}:{found.st_ino}" if readable else ""


def write_header(folder: Path, kind: str, content: dict[str, Any]) -> int:
    """Writes a header in one step; returns its checksum."""
    said = {"format": kind, "version": VERSION, **content}
    said["crc32"] = storage.checksum(said)
    draft = folder / f"{HEADER}.draft"
    storage.write_bytes(draft, [json.dumps(said, indent=1).encode()])
    os.replace(draft, folder / HEADER)
    storage.sync_folder(folder)
    return int(said["crc32"])


def is_partitioned(path: str | os.PathLike[str]) -> bool:
    """Whether a directory holds a partitioned graph, of any version."""
    return _told(Path(path) / HEADER).get("format") == WHOLE


def sound_header(folder: Path, kind: str) -> dict[str, Any] | None:
    """The header of a directory, if it is sound and of this version."""
    header = _told(folder / HEADER)
    sound = (header.get("format"), header.get("version")) == (kind, VERSION)
    return header if sound and header.get("crc32") == storage.checksum(header) else None


def read_header(folder: Path, kind: str) -> dict[str, Any]:
    """The header of a directory, after a check of its checksum."""
    file = folder / HEADER
    if not file.is_file():
        what = "a partitioned graph" if kind == WHOLE else "a part of it"
        _refuse(file, f"must be the header of {what}", "no such file")
    header = _told(file)
    if (found := (header.get("format"), header.get("version"))) != (kind, VERSION):
        _refuse(file, f"must have format {kind!r} version {VERSION}", found)
    if header.get("crc32") != storage.checksum(header):
        _refuse(file, "must match its own checksum", "other content")
    return header


def read_array(folder: Path, entry: dict[str, Any], verify: bool) -> Tensor:
    """An array that a header names, mapped into memory."""
    try:
        return storage.read_array(folder / entry["file"], entry, True, verify)
    except storage.GoneError:
        missing(folder / entry["file"])


def missing(file: Path) -> NoReturn:
    """Raises the ValueError for a file that a header names."""
    _refuse(file, "must be there, the header names it", "no file")


def _told(file: Path) -> dict[str, Any]:
    """What a header says; nothing if it cannot be read."""
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _refuse(file: Path, rule: str, got: object) -> NoReturn:
    """Raises the ValueError that names the file."""
    _check.fail(str(file), rule, got, "run 'gttf partition' again")
