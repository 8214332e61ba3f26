"""Ways to share the nodes of a graph among parts: ranges, by hash, METIS, as given."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler.distributed.book import PartitionBook
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.subgraph import EdgeType

METHODS = ("range", "hash", "metis")
CHUNK = 1 << 22
Adjs = Mapping[EdgeType, CompactAdj]


def books_of(
    method: Any, adjs: Adjs, sizes: Mapping[str, int], parts: int
) -> dict[str, PartitionBook]:
    """The partition book of every node type.

    Args:
        method: a word of METHODS, a part per node, or that for every node type.
        adjs: the rows of every relation.
        sizes: how many nodes of each type there are.
        parts: how many parts to make.
    """
    if isinstance(method, str):
        _check.one_of("method", method, METHODS)
        make = {"range": _ranges, "hash": _hashes, "metis": _metis}[method]
        return make(adjs, sizes, parts)
    given = method if isinstance(method, Mapping) else {next(iter(sizes)): method}
    _check.known_types("method", given, list(sizes), "node types")
    books = {}
    for name, size in sizes.items():
        if name not in given:
            _check.fail("method", "must have parts for every node type", f"no {name!r}")
        book = PartitionBook.of_owners(given[name], parts)
        if book.num_nodes != size:
            rule = f"must have one part per node, {size} in all"
            _check.fail("method", rule, book.num_nodes)
        books[name] = book
    return books


def _ranges(
    adjs: Adjs, sizes: Mapping[str, int], parts: int
) -> dict[str, PartitionBook]:
    """Ranges of ids with as many rows and edges in each, as far as rows allow it."""
    books = {}
    for name, size in sizes.items():
        work = torch.arange(size + 1)
        for (_, _, to), adj in adjs.items():
            if to == name:
                work += adj.rowptr
        share = torch.arange(1, parts, dtype=torch.float64) / parts
        aims = (share * int(work[-1])).to(torch.int64)
        bounds = torch.searchsorted(work, aims)
        ends = torch.tensor([0]), bounds, torch.tensor([size])
        books[name] = PartitionBook.of_bounds(torch.cat(ends))
    return books


def _hashes(
    adjs: Adjs, sizes: Mapping[str, int], parts: int
) -> dict[str, PartitionBook]:
    """Parts drawn by the bits of the ids: equal sizes, whatever the order of ids."""
    books = {}
    for number, (name, size) in enumerate(sizes.items()):
        pieces = []
        for first in range(0, size, CHUNK):
            ids = torch.arange(first, min(first + CHUNK, size))
            words = random.bits(random.stream(number, ids), 0)
            drawn = random.below(words, torch.tensor(parts)).numpy()
            pieces.append(drawn.astype(np.uint16))
        owner = np.concatenate(pieces) if pieces else np.empty(0, np.uint16)
        books[name] = PartitionBook.of_owners(owner, parts)
    return books


def _metis(
    adjs: Adjs, sizes: Mapping[str, int], parts: int
) -> dict[str, PartitionBook]:
    """Few edges between parts of equal sizes; all types of nodes are shared at once."""
    owners = _owners(adjs, sizes, parts, False)
    return {
        name: PartitionBook.of_owners(owners[name].numpy(), parts) for name in sizes
    }


def metis_parts(
    adjs: Adjs, parts: int, *, recursive: bool = False
) -> dict[str, Tensor]:
    """The part of every node, [n] per node type: equal sizes, few edges between parts.

    Args:
        adjs: the rows of every relation; edges count both ways, self-loops do not.
        parts: how many parts to make.
        recursive: halve the graph again and again, instead of cutting it k ways.
    """
    return _owners(
        adjs, _check.node_types(adjs), _check.count("parts", parts), recursive
    )


def _owners(
    adjs: Adjs, sizes: Mapping[str, int], parts: int, recursive: bool
) -> dict[str, Tensor]:
    """The part of every node of all types, those without a relation included."""
    if find_spec("pymetis") is None:
        raise ImportError(
            "parts by METIS need pymetis; get it with: pip install pymetis"
        )
    offset = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
    total = sum(sizes.values())
    rowptr, col = _undirected(adjs, offset, total)
    owner = torch.arange(total) % parts  # METIS leaves parts empty, and complains
    if 1 < parts < total:
        pymetis = import_module("pymetis")
        rows = pymetis.CSRAdjacency(rowptr.numpy(), col.numpy())
        _, found = pymetis.part_graph(parts, adjacency=rows, recursive=recursive)
        owner = torch.as_tensor(np.asarray(found), dtype=torch.int64)
    return {name: owner[offset[name] :][:size] for name, size in sizes.items()}


def _undirected(
    adjs: Adjs, offset: Mapping[str, int], total: int
) -> tuple[Tensor, Tensor]:
    """All relations as one graph, each edge both ways and once, without self-loops."""
    codes = []
    for (by, _, to), adj in adjs.items():
        row = torch.arange(adj.num_rows).repeat_interleave(adj.degree) + offset[to]
        col = adj.col.to(torch.int64) + offset[by]
        apart = row != col
        row, col = row[apart], col[apart]
        codes += [row * total + col, col * total + row]
    code = torch.cat(codes).unique() if codes else torch.empty(0, dtype=torch.int64)
    row, col = code // max(total, 1), code % max(total, 1)
    counts = torch.bincount(row, minlength=total)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)]), col
