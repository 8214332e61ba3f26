"""Access statistics: the rows that batches ask for most, to be kept in a cache."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler.features.write import Report
from gttf_sampler.graph import CompactAdj

PIECE = 1 << 22  # edges that are counted at a time


def most_reached(adj: CompactAdj) -> Tensor:
    """int64 [num_cols], all nodes, those first that most edges lead a walker to.

    >>> from gttf_sampler import CompactAdj
    >>> from gttf_sampler.features import most_reached
    >>> most_reached(CompactAdj.from_edge_index([[2, 2, 1], [0, 1, 0]])).tolist()
    [2, 1, 0]
    """
    _check.of_type("adj", adj, CompactAdj)
    return largest(count_reached([adj], adj.num_cols), adj.num_cols)


def count_reached(
    adjs: Iterable[CompactAdj], size: int, report: Report | None = None
) -> Tensor:
    """int32 [size], how many edges of some graphs lead a walker to each node."""
    count = torch.zeros(size, dtype=torch.int32)
    for adj in adjs:
        for piece in adj.col.split(PIECE):
            one = count.new_ones(()).expand(piece.numel())
            count.scatter_add_(0, piece.to("cpu", torch.int64), one)
            if report is not None:
                report("counting", piece.numel() * piece.element_size())
    return count


def largest(counts: Tensor, most: int) -> Tensor:
    """Positions of the `most` largest numbers, largest first, ties in order.

    All of them are not sorted: that would take five times their memory, this three.
    """
    if most >= counts.numel():
        return counts.argsort(descending=True, stable=True)
    low = counts.kthvalue(counts.numel() - most + 1).values
    above = (counts > low).nonzero().view(-1)
    order = counts.index_select(0, above).argsort(descending=True, stable=True)
    equal = (counts == low).nonzero().view(-1)[: most - above.numel()]
    return torch.cat([above.index_select(0, order), equal])


def most_sampled(batches: Iterable[Any], n: int = 20) -> Tensor:
    """int64 [k], the nodes of the first `n` batches, those in most of them first.

    Args:
        batches: ids [k] each; or what a loader gives, with ids as `n_id` or as the
            first entry of a tuple. The loader that trains draws other batches after
            it was profiled: make one for the purpose.
        n: how many batches to look at.
    """
    found = []
    for batch in islice(batches, _check.count("n", n)):
        ids = batch[0] if isinstance(batch, tuple) else getattr(batch, "n_id", batch)
        found.append(_check.integers("batches", ids).cpu().unique())
    if not found:
        _check.fail("batches", "must hold at least one", "none")
    ids, count = torch.cat(found).unique(return_counts=True)
    order: Tensor = count.argsort(descending=True, stable=True)
    ranked: Tensor = ids.to(torch.int64).index_select(0, order)
    return ranked
