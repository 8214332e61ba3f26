"""How a partitioned graph lies on disk: a header, books, and a directory per part.

    header.json              what the graph is, a checksum of every part's header, and
                             the directory of all that follows, cut-0a1b2c3d
      book-0.bin             the part of every node of type 0, unless parts are ranges
      wanted-0.bin           the nodes of type 0 that most edges lead to, most first
      node_id-0.bin          integers that nodes of type 0 are called, unless 0 … n - 1
      name_text-0.bin        or words that they are called, one behind the other
      name_end-0.bin         and where each of these ends
      part-3/header.json     the files of part 3 and their checksums
      part-3/relation-0/     its rows as a CompactAdj: local rows, global columns
      part-3/first-0.bin     where each of these rows begins in the whole graph
      part-3/edge_id-0.bin   the caller's number of every edge, where it has one
      part-3/nodes-0.bin     the nodes whose rows these are, unless they are a range
      part-3/feature-0.npy   its rows of feature 0, in the order of its own nodes, as a
                             FeatureFile

A header is written last and in one step, so that whatever has one is whole. Another
graph is cut into another directory beside the old one, which goes when the new header
is there. Version 2 had all this beside the header itself.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

from torch import Tensor

from gttf_sampler import _check
from gttf_sampler.graph import storage

WHOLE, PART, VERSION = "gttf-partitioned", "gttf-part", 3
READABLE = (2, VERSION)
HEADER = "header.json"
SHARED = ("book", "wanted", *storage.NAMES)  # files of all parts, by node type
MOST_PARTS = 1 << 16
CUT = re.compile(r"cut-[0-9a-f]{8}")
OURS = re.compile(
    rf"{CUT.pattern}|(?:part|relation)-\d+"
    rf"|(?:{'|'.join(SHARED)}|nodes|first|edge_id)-\d+\.bin|feature-\d+\.(?:npy|bin)"
    r"|header\.json(?:\.draft)?|\.gttf-.*"
)
DTYPES = {  # of the arrays that headers name
    **dict.fromkeys(("wanted", "nodes", "first"), ("<i8",)),
    **dict.fromkeys(("edge_id", "node_id", "name_end"), storage.IDS),
    **{"book": ("|u1", "<u2"), "name_text": ("|u1",)},
}


def home_of(folder: Path, header: dict[str, Any]) -> Path:
    """The directory in which everything lies that a header of the whole names."""
    return folder / str(header.get("folder", ""))


def part_folder(home: Path, part: int) -> Path:
    """Where a part lies."""
    return home / f"part-{part}"


def is_ours(name: str) -> bool:
    """Whether a file of a partitioned graph may have this name."""
    return bool(OURS.fullmatch(name) or storage.OURS.fullmatch(name))


def remove(path: Path) -> None:
    """Removes a file or directory of ours; what is not ours stays, where it is."""
    if not is_ours(path.name):
        return
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for file in path.iterdir():
        remove(file)
    if not any(path.iterdir()):
        path.rmdir()


def whereabouts(folder: Path, part: int) -> str:
    """What tells this copy of a part from all others, on any machine; "" for none.

    Processes that see the same file in the same kernel share its pages in memory.
    """
    header = sound_header(folder, WHOLE)
    if header is None:
        return ""
    try:
        machine = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        file = part_folder(home_of(folder, header), part) / HEADER
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
    """The header of a directory, if it is sound and of a version that can be read."""
    try:
        return read_header(folder, kind)
    except ValueError:
        return None


def read_header(folder: Path, kind: str) -> dict[str, Any]:
    """The header of a directory, after checks of everything the readers rely on."""
    file = folder / HEADER
    if not file.is_file():
        what = "a partitioned graph" if kind == WHOLE else "a part of it"
        _refuse(file, f"must be the header of {what}", "no such file")
    header = _told(file)
    found = header.get("format"), header.get("version")
    if found[0] != kind or found[1] not in READABLE:
        _refuse(file, f"must have format {kind!r} version {VERSION}", found)
    if header.get("crc32") != storage.checksum(header):
        _refuse(file, "must match its own checksum", "other content")
    try:
        odd = (_odd_whole if kind == WHOLE else _odd_part)(header)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        odd = repr(error)[:80]
    if odd:
        _refuse(file, "must describe the files that 'partition' wrote", odd)
    return header


def _odd_whole(header: dict[str, Any]) -> str:
    """What a header of the whole says that `partition` never does; "" if nothing."""
    parts, kinds = header["parts"], header["node_types"]
    if not (_is_count(parts) and 0 < parts <= MOST_PARTS):
        return f"parts {parts!r}"
    folder = header.get("folder", "")
    if folder != "" and not CUT.fullmatch(folder):
        return f"the directory {folder!r}"
    if not (_are_counts(header["checks"]) and len(header["checks"]) == parts):
        return "other checksums than of its parts"
    names = [kind["name"] for kind in kinds]
    if len(set(names)) < len(names) or not all(type(name) is str for name in names):
        return f"node types {names!r}"
    for kind in kinds:
        if odd := _odd_kind(kind, parts):
            return f"{odd} of node type {kind['name']!r}"
    for relation in header["relations"]:
        by, name, to = relation["type"]
        sound = type(name) is str and {by, to} <= set(names)
        sound &= relation["direction"] in ("in", "out")
        sound &= _are_counts([relation[x] for x in ("num_edges", "max_degree", "cut")])
        sound &= _are_counts(relation["own"]) and len(relation["own"]) == parts
        if not sound:
            return f"relation {relation['type']!r}"
    for feature in header["features"]:
        sound = type(feature["name"]) is str and feature["type"] in names
        if not (sound and _are_counts(feature["shape"])):
            return f"feature {feature['name']!r}"
    shares = type(header["replicate"]) in (int, float) and 0 <= header["replicate"] <= 1
    return "" if shares and _is_count(header["mark"]) else "another share or mark"


def _odd_kind(kind: dict[str, Any], parts: int) -> str:
    """What is odd about a node type; "" if nothing."""
    size, own = kind["num_nodes"], kind["own"]
    if not (_is_count(size) and size <= _check.MAX_NODES):
        return f"num_nodes {size!r}"
    if not (_are_counts([*own, kind["replicated"]]) and len(own) == parts):
        return f"own {own!r}"
    if sum(own) != size:
        return f"{sum(own)} nodes in all parts, not {size}"
    if "bounds" in kind:
        bounds = kind["bounds"]
        sound = _are_counts(bounds) and len(bounds) == parts + 1
        ends = sound and (bounds[0], bounds[-1]) == (0, size)
        if not ends or [b - a for a, b in pairwise(bounds)] != own:
            return f"bounds {bounds!r}"
    elif odd := _odd_entry("book", kind["book"], lambda n: n == size):
        return odd
    if not set(kind.get("names", {})) <= set(storage.NAMES):
        return f"names {list(kind['names'])!r}"
    for name, entry in {"wanted": kind["wanted"], **kind.get("names", {})}.items():
        fits: Callable[[int], bool] = {
            "wanted": lambda n: n <= size,
            "name_text": lambda n: True,
        }.get(name, lambda n: n == size)
        if odd := _odd_entry(name, entry, fits):
            return odd
    return ""


def _odd_part(header: dict[str, Any]) -> str:
    """What a part's header says that `partition` never does; "" if nothing."""
    if not _are_counts([header["part"], header["mark"]]):
        return f"part {header['part']!r}"
    if not all(_are_counts(count) and len(count) == 2 for count in header["counts"]):
        return f"counts {header['counts']!r}"
    for key, value in header["files"].items():
        name, dash, number = key.partition("-")
        sound = dash == "-" and number.isdecimal()
        if name == "range":
            sound &= _are_counts(value) and len(value) == 2 and value[0] <= value[1]
        elif name == "feature":
            sound &= value["file"] == f"{key}.npy" and _is_count(value["seal"])
        elif name == "relation" or (name == "first" and type(value) is int):
            sound &= _is_count(value)
        elif name in ("nodes", "first", "edge_id"):
            if odd := _odd_entry(name, value, lambda n: True):
                return odd
        else:
            sound = False
        if not sound:
            return f"{key} {value!r}"
    return ""


def _odd_entry(name: str, entry: dict[str, Any], fits: Callable[[int], bool]) -> str:
    """What is odd about an array that a header names; "" if nothing."""
    file, dtype = entry["file"], entry["dtype"]
    if type(file) is not str or not re.fullmatch(rf"{name}-\d+\.bin", file):
        return f"the file {file!r}"
    if dtype not in DTYPES[name]:
        return f"the dtype {dtype!r} of {file!r}"
    if not (_are_counts([entry["length"], entry["crc32"]]) and fits(entry["length"])):
        return f"the length {entry['length']!r} of {file!r}"
    return ""


def _is_count(value: Any) -> bool:
    """Whether this is an integer that is not negative."""
    return type(value) is int and 0 <= value < 1 << 63


def _are_counts(values: Any) -> bool:
    """Whether this is a list of such integers."""
    return type(values) is list and all(map(_is_count, values))


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
