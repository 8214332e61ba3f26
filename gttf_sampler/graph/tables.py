"""Caches: tables derived from a graph, and results kept with objects of a host."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import ops
from gttf_sampler._backends.torch.node2vec import Reverse
from gttf_sampler._compat import version_of

if TYPE_CHECKING:  # which asks here for the order of its rows
    from gttf_sampler.graph.compact import CompactAdj

T = TypeVar("T")
Nodes = tuple[Tensor, Tensor | None]  # ids [n], and the tree of each; None if shared


def edge_weight(adj: CompactAdj) -> Tensor:
    """`adj.edge_weight`, which must be there."""
    if adj.edge_weight is None:
        cure = "build the CompactAdj with 'edge_weight'"
        _check.fail("bias", "needs edge weights", "a graph without them", cure)
    return adj.edge_weight


def _cached(make: Callable[[CompactAdj], T]) -> Callable[[CompactAdj], T]:
    """Makes a table once per graph: of the rows that are in this process."""

    @wraps(make)
    def table(adj: CompactAdj) -> T:
        rows = adj.local
        return rows.cached(make.__name__, lambda: make(rows))

    return table


@_cached
def weight_table(adj: CompactAdj) -> Tensor:
    """Cumulative integer weights [m] of each row."""
    weight = edge_weight(adj)
    adj.ensure_inside()
    return ops.weight_table(weight, adj.rowptr)


@_cached
def has_gaps(adj: CompactAdj) -> bool:
    """True if some edges have weight zero."""
    return bool((edge_weight(adj) <= 0).any())


@_cached
def sorted_col(adj: CompactAdj) -> Tensor:
    """`adj.col` with every row in ascending order."""
    return _ordered(adj, _ascending(adj))


@_cached
def sorted_order(adj: CompactAdj) -> Tensor | None:
    """Positions in `adj.col` of the entries of `sorted_col`; None if the same."""
    order = _ascending(adj)
    adj.cached("sorted_col", lambda: _ordered(adj, order))  # one sort for both
    return order


@_cached
def reverse_rows(adj: CompactAdj) -> Reverse:
    """Row pointer and ascending columns of the reversed graph.

    They are `adj`'s own if every edge has its reverse, which takes no more memory.
    """
    adj.ensure_inside()
    row, sizes = _row_of_edge(adj), (adj.num_cols, adj.num_rows)
    rowptr, col, _ = ops.group_by_row(adj.col, row, *sizes)
    col, own = col.to(adj.col.dtype), sorted_col(adj)
    if torch.equal(rowptr, adj.rowptr) and torch.equal(col, own):
        return adj.rowptr, own
    return rowptr, col


@_cached
def edge_filter(adj: CompactAdj) -> Tensor | None:
    """A Bloom filter of each row, which tells most absent edges without a search.

    None where the backend has none.
    """
    adj.ensure_inside()
    return ops.edge_filter(adj.rowptr, adj.col)


@_cached
def most_copies(adj: CompactAdj) -> int:
    """At least as many as any edge has parallel ones, itself included; a power of 2."""
    col, row, copies = sorted_col(adj), _row_of_edge(adj), 1
    while copies < adj.num_edges and bool(
        ((col[copies:] == col[:-copies]) & (row[copies:] == row[:-copies])).any()
    ):
        copies *= 2
    return copies


def sorted_time(adj: CompactAdj) -> Tensor:
    """`adj.edge_time`, known to ascend within every row."""
    adj = adj.local
    time = adj.edge_time
    if time is None:
        cure = "build the CompactAdj with 'edge_time' or 'node_time'"
        _check.fail("bias", "needs edge times", "a graph without them", cure)

    if not ascends_in_time(adj):
        cure = "build the CompactAdj with sort_by_time=True"
        _check.fail("bias", "needs rows sorted by time", "unsorted rows", cure)
    return time


@_cached
def ascends_in_time(adj: CompactAdj) -> bool:
    """True if the times of the edges ascend within every row."""
    time, row = adj.edge_time, _row_of_edge(adj)
    return time is None or bool(((time[1:] >= time[:-1]) | (row[1:] != row[:-1])).all())


def edges_between(
    adj: CompactAdj, node: Tensor, neighbor: Tensor
) -> tuple[Tensor, Tensor]:
    """Finds all entries of row node[i] that lead to neighbor[i]; see `CompactAdj`."""
    order, ordered = sorted_order(adj), sorted_col(adj)
    start, count = adj.row_range(node)
    low, high = (
        ops.upper_bound(ordered, start, start + count, bound, adj.max_degree)
        for bound in (neighbor - 1, neighbor)
    )
    found = high - low
    which, edge = ops.expand(low, found, int(found.sum()))
    return which, edge if order is None else ops.take_or_none(order, edge)


def edges_inside(
    adj: CompactAdj, target: Nodes, source: Nodes
) -> tuple[Tensor, Tensor, Tensor]:
    """(row, col, edge) of the edges from `source` to `target` nodes, sorted by col.

    Within a tree only. Of a repeated source the first one sends.
    """
    (node, tree), (known, known_tree) = target, source
    start, count = adj.row_range(node)
    col, edge = ops.expand(start, count, int(count.sum()))
    neighbor = ops.take(adj.col, edge).to(torch.int64)
    if tree is None or known_tree is None:
        with adj.borrow_table(adj.num_cols) as table:
            row, _ = ops.relabel(known, neighbor, table)
    else:
        tree = tree * adj.num_cols
        known = known + known_tree * adj.num_cols
        row, _ = ops.relabel(known, neighbor + ops.take(tree, col), None)
    inside = (row < known.numel()).nonzero().view(-1)
    return row[inside], col[inside], edge[inside]


def _ascending(adj: CompactAdj) -> Tensor | None:
    """The order [m] that sorts every row, stably; None if they are sorted already."""
    adj.ensure_inside()
    row, sizes = _row_of_edge(adj), (adj.num_cols, adj.num_rows)
    if bool(((adj.col[1:] >= adj.col[:-1]) | (row[1:] != row[:-1])).all()):
        return None
    _, row, by_col = ops.group_by_row(adj.col, row, *sizes)
    by_row = ops.group_by_row(row, row, *sizes[::-1])[2]
    if by_col is None or by_row is None:
        return by_row if by_col is None else by_col
    return by_col.index_select(0, by_row)


def _ordered(adj: CompactAdj, order: Tensor | None) -> Tensor:
    """`adj.col` in the given order; itself if there is none to give."""
    return adj.col if order is None else adj.col.index_select(0, order)


def _row_of_edge(adj: CompactAdj) -> Tensor:
    row = torch.arange(adj.num_rows, dtype=torch.int32, device=adj.device)
    return row.repeat_interleave(adj.degree, output_size=adj.num_edges)


MOST = 128  # results of one object


class Kept:
    """Cache of results by name, each with the tensors that it was made of.

    A result is found again for the same tensors, if torch has counted no change of them
    in place since. Where it does not count, as in inference mode, it is made anew.
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, tuple[Any, tuple[Tensor, ...], list[Any]]] = {}

    def get(self, name: Hashable, make: Callable[[], T], *made_of: Tensor) -> T:
        """Returns the result for these tensors; calls `make` if they are others."""
        changes = [version_of(x) for x in made_of]
        if name in self._made:
            found: T = self._made[name][0]
            before, changes_before = self._made[name][1:]
            same = all(x is y for x, y in zip(before, made_of, strict=True))
            if same and None not in changes and changes == changes_before:
                return found
        if len(self._made) >= MOST:  # names that keep changing must not pile up
            self._made.clear()
        result = make()
        self._made[name] = result, made_of, changes
        return result


_kept: dict[int, tuple[weakref.ref[Any], Kept]] = {}  # by id: not all can be hashed


def _forget(place: int, _: Any, kept: dict[int, Any] = _kept) -> None:
    """Drops what was kept for an object that has been collected.

    The dictionary is bound as a default: at exit, module globals may be gone before.
    """
    kept.pop(place, None)


def kept_of(owner: Any) -> Kept:
    """Returns the cache of `owner`, which is forgotten together with it."""
    place = id(owner)
    if place not in _kept:  # forgotten with its owner, before the id is used again
        _kept[place] = weakref.ref(owner, partial(_forget, place)), Kept()
    return _kept[place][1]
