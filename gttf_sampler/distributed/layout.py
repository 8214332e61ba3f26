"""A partitioned graph on disk: a header, books, and a directory per part.

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

import os
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from gttf_sampler import _check
from gttf_sampler._arrays import (
    HEADER,
    IDS,
    Entry,
    Format,
    are_counts,
    is_count,
    odd_entry,
)
from gttf_sampler.graph import storage

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
    **dict.fromkeys(("edge_id", "node_id", "name_end"), IDS),
    **{"book": ("|u1", "<u2"), "name_text": ("|u1",)},
}


def home_of(folder: Path, header: dict[str, Any]) -> Path:
    """The directory in which everything lies that a header of the whole names."""
    return folder / str(header.get("folder", ""))


def part_folder(home: Path, part: int) -> Path:
    """The directory of a part."""
    return home / f"part-{part}"


def is_ours(name: str) -> bool:
    """True for names that files of a partitioned graph may have."""
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
    """A text that tells this copy of a part from others on any machine; "" for none.

    Processes that see the same file in the same kernel share its pages in memory.
    """
    header = WHOLE.sound_header(folder)
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


def _odd_whole(header: dict[str, Any]) -> str:
    """Names something in a header that `partition` never writes; "" if nothing."""
    parts, kinds = header["parts"], header["node_types"]
    if not (is_count(parts) and 0 < parts <= MOST_PARTS):
        return f"parts {parts!r}"
    folder = header.get("folder", "")
    if folder != "" and not CUT.fullmatch(folder):
        return f"the directory {folder!r}"
    if not (are_counts(header["checks"]) and len(header["checks"]) == parts):
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
        sound &= are_counts([relation[x] for x in ("num_edges", "max_degree", "cut")])
        sound &= are_counts(relation["own"]) and len(relation["own"]) == parts
        if not sound:
            return f"relation {relation['type']!r}"
    for feature in header["features"]:
        sound = type(feature["name"]) is str and feature["type"] in names
        if not (sound and are_counts(feature["shape"])):
            return f"feature {feature['name']!r}"
    shares = type(header["replicate"]) in (int, float) and 0 <= header["replicate"] <= 1
    return "" if shares and is_count(header["mark"]) else "another share or mark"


def _odd_kind(kind: dict[str, Any], parts: int) -> str:
    """Names something of a node type that is never written; "" if nothing."""
    size, own, names = kind["num_nodes"], kind["own"], kind.get("names", {})
    if not (is_count(size) and size <= _check.MAX_NODES):
        return f"num_nodes {size!r}"
    if not (are_counts([*own, kind["replicated"]]) and len(own) == parts):
        return f"own {own!r}"
    if sum(own) != size:
        return f"{sum(own)} nodes in all parts, not {size}"
    arrays: dict[str, Entry] = {"wanted": kind["wanted"], **names}
    if "bounds" in kind:
        bounds = kind["bounds"]
        sound = are_counts(bounds) and len(bounds) == parts + 1
        ends = sound and (bounds[0], bounds[-1]) == (0, size)
        if not ends or [b - a for a, b in pairwise(bounds)] != own:
            return f"bounds {bounds!r}"
    else:
        arrays["book"] = kind["book"]
    if not set(names) <= set(storage.NAMES):
        return f"names {list(names)!r}"
    fits: dict[str, Callable[[int], bool]] = {
        "wanted": lambda length: length <= size,
        "name_text": lambda length: True,
    }
    for name, entry in arrays.items():
        length = fits.get(name, lambda length: length == size)
        if odd := odd_entry(entry, rf"{name}-\d+\.bin", DTYPES[name], length):
            return odd
    return ""


def _odd_part(header: dict[str, Any]) -> str:
    """Names something in a part's header that is never written; "" if nothing."""
    if not are_counts([header["part"], header["mark"]]):
        return f"part {header['part']!r}"
    if not all(are_counts(count) and len(count) == 2 for count in header["counts"]):
        return f"counts {header['counts']!r}"
    for key, value in header["files"].items():
        name, dash, number = key.partition("-")
        sound = dash == "-" and number.isdecimal()
        if name == "range":
            sound &= are_counts(value) and len(value) == 2 and value[0] <= value[1]
        elif name == "feature":
            sound &= value["file"] == f"{key}.npy" and is_count(value["seal"])
        elif name == "relation" or (name == "first" and type(value) is int):
            sound &= is_count(value)
        elif name in ("nodes", "first", "edge_id"):
            if odd := odd_entry(value, rf"{name}-\d+\.bin", DTYPES[name]):
                return odd
        else:
            sound = False
        if not sound:
            return f"{key} {value!r}"
    return ""


WHOLE = Format(
    name="gttf-partitioned",
    version=3,
    holds="a partitioned graph",
    content="the files that 'partition' wrote",
    cure="run 'gttf partition' again",
    odd=_odd_whole,
    readable=(2,),
)
PART = WHOLE._replace(name="gttf-part", holds="a part of it", odd=_odd_part)
