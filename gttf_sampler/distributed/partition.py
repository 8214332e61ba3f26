"""partition(): a graph and its features, cut into parts on disk."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from gttf_sampler import _check, _files
from gttf_sampler._arrays import HEADER, write_array
from gttf_sampler.distributed.book import METHODS, PartitionBook, books_of
from gttf_sampler.distributed.part import MOST_PARTS, SHARED, WHOLE, is_ours, remove
from gttf_sampler.distributed.write import (
    Cut,
    Source,
    fingerprint,
    source_of,
    wanted_nodes,
    write_part,
)
from gttf_sampler.features.write import Report
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.subgraph import EdgeType


def partition(
    graph: CompactAdj | Mapping[EdgeType, CompactAdj],
    path: str | os.PathLike[str],
    parts: int,
    *,
    method: Any = "range",
    features: Mapping[Any, Any] | None = None,
    replicate: float = 0.0,
    stored: Any = None,
    overwrite: bool = False,
    report: Report | None = None,
) -> dict[str, Any]:
    """Cuts a graph into parts, one per process, in a directory that processes open.

    >>> import tempfile
    >>> from gttf_sampler import CompactAdj
    >>> from gttf_sampler.distributed import partition
    >>> ring = CompactAdj.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     facts = partition(ring, folder, parts=2)
    >>> facts["nodes"], facts["cut"]
    ([2, 2], 0.5)

    Rows are read piece by piece, so that a graph that is memory-mapped need not fit
    into memory. Parts that an interrupted call has finished, the next one keeps. A
    graph that is replaced stays whole until the new one is, which takes its place in
    one step; whoever has it open goes on with it.

    Args:
        graph: the rows, or those of every edge type (source, relation, target).
        path: a directory, which is made; one that holds something else is refused.
        parts: how many.
        method: "range" makes ranges of ids with equal numbers of rows and edges,
            "hash" draws by id, "metis" looks for few edges between parts (with
            pymetis); or the part of every node [n], per node type if there are types.
        features: values [n, ...] by name, or by (node type, name) if there are types:
            tensors, arrays (also memory-mapped) or a `FeatureFile`. Every part gets its
            rows in feature files of its own.
        replicate: the share of nodes whose rows every part gets: those that most edges
            lead to.
        stored: "float16", "bfloat16" or "int8" to store floats in less disk, as a
            `FeatureFile` does; rows are read in the dtype that they have here.
        overwrite: whether to replace another partitioned graph.
        report: called with what is being done, and the bytes read since the last call.

    Returns:
        nodes and edges per part, their balance (largest over mean), and the share of
        edges that are cut.
    """
    parts = _check.count("parts", parts)
    if parts > MOST_PARTS:
        _check.fail("parts", f"must not exceed {MOST_PARTS}", parts)
    if not 0 <= _check.number("replicate", replicate) <= 1:
        _check.fail("replicate", "must be a share in [0, 1]", replicate)
    source = source_of(graph, features or {}, stored)
    tick = report or (lambda what, done: None)
    folder = _check.path("path", path)
    books = books_of(method, source.adjs, source.sizes, parts)
    told = method if isinstance(method, str) and method in METHODS else "given"
    mark = fingerprint(source, books, parts, replicate, tick)
    facts = {"parts": parts, "method": told, "replicate": replicate, "mark": mark}
    _check_free(folder, mark, overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    with _files.locked(folder):  # whoever cuts the same graph meanwhile finds it done
        if (done := _check_free(folder, mark, overwrite)) is None:
            _check_apart(folder, source)
            done = _cut(folder, source, books, facts, tick)
        for file in folder.iterdir() if done.get("folder") else ():
            if file.name not in (HEADER, done["folder"]):
                remove(file)  # it was there before
    return facts_of(done)


def _cut(
    folder: Path,
    source: Source,
    books: Mapping[str, PartitionBook],
    facts: dict[str, Any],
    tick: Report,
) -> dict[str, Any]:
    """Writes all parts beside what is there, then the header that takes its place."""
    mark, replicate = facts["mark"], facts["replicate"]
    home = folder / f"cut-{mark:08x}"
    home.mkdir(exist_ok=True)
    wanted = {
        name: wanted_nodes(source, name, replicate, tick) for name in source.sizes
    }
    everywhere = {
        name: nodes[: round(replicate * source.sizes[name])].sort().values
        for name, nodes in wanted.items()
    }
    cut = Cut(source, books, everywhere, mark)
    checks, counts = [], []
    for part in range(facts["parts"]):
        crc, count = write_part(home / f"part-{part}", part, cut, tick)
        checks.append(crc)
        counts.append(count)
    header = {
        "folder": home.name,
        **facts,
        "node_types": _typed_nodes(home, source, books, wanted, everywhere),
        "relations": [
            {
                "type": list(kind),
                "num_edges": adj.num_edges,
                "max_degree": adj.max_degree,
                "direction": adj.direction,
                "arrays": list(adj.arrays()),
                "own": [count[number][0] for count in counts],
                "cut": sum(count[number][1] for count in counts),
            }
            for number, (kind, adj) in enumerate(source.adjs.items())
        ],
        "features": [
            {"type": kind, "name": name, "shape": list(values.shape[1:])}
            for kind, name, values in source.features
        ],
        "checks": checks,
    }
    _files.sync_folder(home)
    WHOLE.write_header(folder, header)
    return header


def facts_of(header: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes, balance and cut of a partitioned graph, from its header."""
    kinds, relations = header["node_types"], header["relations"]
    nodes = [sum(own) for own in zip(*(kind["own"] for kind in kinds), strict=True)]
    edges = [sum(own) for own in zip(*(r["own"] for r in relations), strict=True)]
    every = sum(edges)
    return {
        "parts": header["parts"],
        "method": header["method"],
        "nodes": nodes,
        "edges": edges,
        "balance": max(edges) * len(edges) / every if every else 1.0,
        "cut": sum(r["cut"] for r in relations) / every if every else 0.0,
        "replicated": sum(kind["replicated"] for kind in kinds),
        "features": [f"{f['type']}.{f['name']}".strip(".") for f in header["features"]],
    }


def _check_free(folder: Path, mark: int, overwrite: bool) -> dict[str, Any] | None:
    """The header of the same partition that is there already; refuses another one."""
    if WHOLE.is_in(folder):
        header = WHOLE.sound_header(folder)
        if header is not None and header["mark"] == mark:
            return header
        if not overwrite:
            rule = "must not hold another partitioned graph"
            _check.fail("path", rule, str(folder), "pass overwrite=True to replace it")
    _files.check_folder(folder, is_ours, "a partitioned graph")
    return None


def _check_apart(folder: Path, source: Source) -> None:
    for feature in source.features:
        values = feature.values
        file = getattr(values, "path", getattr(values, "filename", None))
        if file and folder.resolve() in Path(file).resolve().parents:
            rule = "must not hold what is being cut"
            _check.fail("path", rule, str(folder), "cut it into another directory")


def _typed_nodes(
    folder: Path,
    source: Source,
    books: Mapping[str, PartitionBook],
    wanted: Mapping[str, Tensor],
    everywhere: Mapping[str, Tensor],
) -> list[dict[str, Any]]:
    """Node types as the header declares them; writes the arrays that it names."""
    for name in SHARED:  # of somebody who was killed; maps stay as they are
        for file in folder.glob(f"{name}-*.bin"):
            file.unlink()
    entries = []
    for number, (name, size) in enumerate(source.sizes.items()):
        book = books[name]
        entry: dict[str, Any] = {"name": name, "num_nodes": size, "own": book.sizes()}
        entry["replicated"] = everywhere[name].numel()
        if book.bounds is not None:
            entry["bounds"] = book.bounds.tolist()
        else:
            file = folder / f"book-{number}.bin"
            entry["book"] = write_array(file, book.owner)
        file = folder / f"wanted-{number}.bin"
        entry["wanted"] = write_array(file, wanted[name].numpy())
        entry["names"] = {
            array: write_array(folder / f"{array}-{number}.bin", told.numpy())
            for array, told in source.names[name].items()
        }
        entries.append(entry)
    return entries
