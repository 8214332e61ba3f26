"""The fast CPU backend: the functions of `torch_ops` that are worth compiling.

Same names, same arguments, same bits. What is missing here, or has a dtype that numba
does not know, is left to `torch_ops`.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import (
    draw_kernels,
    forest_kernels,
    gather_kernels,
    group_kernels,
    index_kernels,
    node2vec_kernels,
    second_order_kernels,
    torch_ops,
)
from gttf_sampler._backends.memory import IDS, borrow, empty, lend
from gttf_sampler._backends.numba_asked import Numbers as Numbers
from gttf_sampler._backends.numba_asked import asked as asked
from gttf_sampler._backends.numba_disk import read_all as read_all
from gttf_sampler._backends.numba_disk import read_runs as read_runs
from gttf_sampler._backends.numba_pairs import as_gradient as as_gradient
from gttf_sampler._backends.numba_pairs import draw_alias as draw_alias
from gttf_sampler._backends.numba_pairs import pair_gradients as pair_gradients
from gttf_sampler._backends.numba_pairs import pair_pass as pair_pass
from gttf_sampler._backends.numba_pairs import pair_scores as pair_scores
from gttf_sampler._backends.numba_pairs import step_rows as step_rows
from gttf_sampler._backends.numba_rooted import rooted as rooted
from gttf_sampler._backends.numba_rooted import word
from gttf_sampler._backends.threads import held, parallel, ranges, run
from gttf_sampler._backends.types import MASS_BITS, Moves, SecondOrder
from gttf_sampler.random import Key, fold

Array = np.ndarray[Any, Any]

NUMBERS = (torch.int32, torch.int64, torch.float32, torch.float64)
PIECE = 1 << 16  # bytes of features, fewer are not worth another thread
BUCKET_BITS = 9  # as many open pages as the processor keeps translations for


def draw_uniform(stream: Tensor, count: Tensor, fanout: int, replace: bool) -> Tensor:
    """Offsets [w, f]; see `torch_ops`."""
    out = stream.new_empty(stream.numel(), fanout)
    cells = out.view(-1).numpy()
    arrays = stream.numpy(), count.numpy(), fanout, replace, cells
    parallel(draw_kernels.draw_uniform, stream.numel(), out.numel(), *arrays)
    return out


def forest_uniform(
    rowptr: Tensor,
    col: Tensor,
    seeds: Tensor,
    fanouts: Sequence[int],
    replace: bool,
    key: Key,
    stays: bool,
) -> list[tuple[Tensor, Tensor]]:
    """(edges, nodes) of every depth; see `torch_ops`."""
    widths = np.cumprod([1, *fanouts], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(widths * seeds.numel())])
    total = int(starts[-1])
    nodes, edges = IDS.make(total), IDS.make(total)
    nodes[: seeds.numel()] = seeds
    parallel(
        forest_kernels.forest_uniform,
        seeds.numel(),
        nodes.numel(),
        rowptr.numpy(),
        col.numpy(),
        np.array([word(fold(key, k)) for k in range(len(fanouts))], np.uint64),
        np.array(fanouts, np.int64),
        starts,
        replace,
        stays,
        nodes.numpy(),
        edges.numpy(),
        changed := _unchanged(),
    )
    _check_unchanged(changed)
    levels = zip(starts[1:-1].tolist(), starts[2:].tolist(), fanouts, strict=True)
    return [
        (edges[lo:hi].view(-1, fanout), nodes[lo:hi].view(-1, fanout))
        for lo, hi, fanout in levels
    ]


def both_ways(
    row: Tensor, col: Tensor, num_nodes: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Edges and their reverses, each pair once, by counting; see `torch_ops`."""
    ends = row.contiguous().numpy(), col.contiguous().numpy()
    out = [borrow(2 * row.numel()) for _ in range(3)]
    size = group_kernels.both_ways(*ends, num_nodes, *out)
    found = [lend(array, size) for array in out]
    return found[0], found[1], found[2]


def first_position(ids: Tensor, table: Tensor, floor: int) -> Tensor:
    """Where each id stands first; see `torch_ops`."""
    out = torch.empty_like(ids)
    if not index_kernels.first_position(ids.numpy(), table.numpy(), floor, out.numpy()):
        _check.changed()
    return out


def gather(moves: Moves) -> list[Tensor]:
    """Rows of all columns, with memory asked ahead of time; see `torch_ops`."""
    table, total = [], 0
    pieces: list[tuple[int, int]] = []  # address, number of the first row
    for values, index, out, to, gaps in moves.columns:
        known, first = len(pieces), 0
        for some in values:
            pieces.append((some.data_ptr(), first))
            first += some.shape[0]
        count = first if index is None else index.numel()
        size = count * (out.nbytes // max(out.shape[0], 1))
        if size:
            places = (0 if x is None else x.data_ptr() for x in (index, to))
            about = known, len(values), first, size // count, *places, count, gaps
            table.append((*about, out.data_ptr(), total))
            total += size
    outs = [move.out for move in moves.columns]
    if not table:
        return outs
    wrong = np.zeros(1, np.bool_)
    args = np.array(table, np.int64), np.array(pieces, np.int64), wrong
    parts = max(1, min(2 * torch.get_num_threads(), total // PIECE))
    bounds = [total * part // parts for part in range(parts + 1)]
    calls = [partial(gather_kernels.gather, *part, *args) for part in pairwise(bounds)]
    run([partial(held, moves, call) for call in calls])
    if wrong[0]:
        raise IndexError("an index is out of range")  # `gather_rows` words it
    return outs


def take_or_none(values: Tensor, index: Tensor) -> Tensor:
    """values[index] as int64; see `torch_ops`."""
    out = torch.empty(index.shape, dtype=torch.int64, device="cpu")
    flat = index.reshape(-1)
    changed = _unchanged()
    arrays = values.numpy(), flat.numpy(), out.view(-1).numpy(), changed
    parallel(index_kernels.take_or_none, flat.numel(), flat.numel(), *arrays)
    _check_unchanged(changed)
    return out


def compress(mask: Tensor, size: int) -> Tensor:
    """The positions where `mask` holds; see `torch_ops`."""
    out = torch.empty(size + 1, dtype=torch.int64, device="cpu")
    index_kernels.compress(mask.numpy(), out.numpy())
    return out[:size]


def upper_bound(
    values: Tensor, low: Tensor, high: Tensor, bound: Tensor, longest: int
) -> Tensor:
    """The first position whose value is > bound; see `torch_ops`."""
    if values.dtype not in NUMBERS or bound.dtype not in NUMBERS or low.dim() != 1:
        return torch_ops.upper_bound(values, low, high, bound, longest)
    out = torch.empty_like(low)
    arrays = (x.contiguous().numpy() for x in (values, low, high, bound, out))
    parallel(draw_kernels.upper_bound, low.numel(), low.numel() * 8, *arrays)
    return out


def draw_weighted(
    stream: Tensor,
    table: Tensor,
    low: Tensor,
    high: Tensor,
    before: Tensor,
    fanout: int,
    replace: bool,
    longest: int,
) -> Tensor:
    """Positions [w, f] drawn by mass; see `torch_ops`."""
    out = low.new_empty(low.numel(), fanout)
    arrays = (x.contiguous().numpy() for x in (stream, table, low, high, before))
    how = fanout, replace, out.view(-1).numpy()
    parallel(draw_kernels.draw_weighted, low.numel(), out.numel() * 8, *arrays, *how)
    return out


def weight_table(weight: Tensor, rowptr: Tensor) -> Tensor:
    """Cumulative integer mass [m] of each row; see `torch_ops`."""
    if weight.dtype not in NUMBERS:
        weight = weight.to(torch.float64)
    out = empty(weight.numel(), torch.int64)
    arrays = weight.contiguous().numpy(), rowptr.numpy(), MASS_BITS, out.numpy()
    parallel(draw_kernels.weight_table, rowptr.numel() - 1, weight.numel(), *arrays)
    return out


def has_edge(
    rowptr: Tensor, sorted_col: Tensor, source: Tensor, target: Tensor, longest: int
) -> Tensor:
    """Whether row `source` holds `target`; see `torch_ops`."""
    out = torch.empty_like(source, dtype=torch.bool)
    arrays = (x.numpy() for x in (rowptr, sorted_col, source, target, out))
    parallel(index_kernels.has_edge, source.numel(), source.numel() * 8, *arrays)
    return out


def edge_filter(rowptr: Tensor, col: Tensor) -> Tensor | None:
    """Eight bits per edge that tell most absent edges; see `torch_ops`."""
    out = empty(col.numel(), torch.uint8).zero_()
    arrays = rowptr.numpy(), col.numpy(), out.numpy()
    parallel(index_kernels.edge_filter, rowptr.numel() - 1, col.numel(), *arrays)
    return out


def walk_node2vec(
    graph: SecondOrder, seeds: Tensor, length: int, key: Key, stays: bool
) -> list[tuple[Tensor, Tensor]] | None:
    """(edges, nodes) of every step; see `torch_ops`. Weighted ones go step by step."""
    if graph.table is not None:
        return None
    batch, total = seeds.numel(), seeds.numel() * (length + 1)
    nodes, edges = IDS.make(total), IDS.make(total)
    nodes[:batch] = seeds
    keys = np.array([word(fold(key, step)) for step in range(length)], np.uint64)
    how = keys, np.array(graph.envelope, np.int64), graph.rounds
    changed = _unchanged()
    out = nodes.numpy(), edges.numpy(), changed
    rest = np.array(graph.alpha), MASS_BITS, stays, *out
    arrays = _arrays(graph), *_reversed(graph)
    parallel(node2vec_kernels.walk_node2vec, batch, total * 8, *arrays, *how, *rest)
    _check_unchanged(changed)
    shape = (length + 1, batch)
    levels = zip(edges.view(shape)[1:], nodes.view(shape)[1:], strict=True)
    return [(edge[:, None], node[:, None]) for edge, node in levels]


def draw_node2vec(
    graph: SecondOrder, node: Tensor, last: Tensor, stream: Tensor
) -> Tensor:
    """Edges [w] accepted by rejection sampling; see `torch_ops`."""
    out = torch.empty_like(node)
    table = node.new_empty(0) if graph.table is None else graph.table
    walkers = (x.contiguous().numpy() for x in (table, node, last, stream))
    changed = _unchanged()
    how = np.array(graph.envelope, np.int64), graph.rounds, out.numpy(), changed
    work = node.numel() * 16
    args = _arrays(graph), *walkers, *how
    parallel(node2vec_kernels.draw_node2vec, node.numel(), work, *args)
    _check_unchanged(changed)
    return out


def weigh_node2vec(
    graph: SecondOrder, node: Tensor, last: Tensor, stream: Tensor
) -> Tensor:
    """Edges [w] by the exact weights; see `torch_ops`."""
    out = torch.empty_like(node)
    walkers = (x.contiguous().numpy() for x in (node, last, stream))
    how = np.array(graph.alpha), MASS_BITS, out.numpy()
    work = node.numel() * 1024  # rows are long where this is needed
    args = _arrays(graph), *_reversed(graph), *walkers, *how
    parallel(second_order_kernels.weigh_node2vec, node.numel(), work, *args)
    return out


def _reversed(graph: SecondOrder) -> tuple[tuple[Array, Array], bool]:
    """The arrays of the reversed graph, empty if missing; whether rows are sorted."""
    missing = graph.rowptr[:0], graph.col[:0]
    start, name = missing if graph.reverse is None else graph.reverse
    in_order = graph.sorted_col.data_ptr() == graph.col.data_ptr()
    return (start.numpy(), name.numpy()), in_order


def _arrays(graph: SecondOrder) -> tuple[Array, ...]:
    """The arrays that node2vec's kernels read; a filter that is missing is empty."""
    bloom = graph.bloom
    sizes = {
        x.numel()
        for x in (graph.col, graph.sorted_col, bloom, graph.table)
        if x is not None
    }
    if len(sizes) > 1:  # what was made of the rows before is of other ones
        _check.changed()
    if bloom is None:
        bloom = torch.empty(0, dtype=torch.uint8, device="cpu")
    return tuple(x.numpy() for x in (graph.rowptr, graph.col, graph.sorted_col, bloom))


def group_by_row(
    row: Tensor, col: Tensor, num_rows: int, num_cols: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Rows of edges by a stable counting sort in two passes; see `torch_ops`.

    The first pass moves edges into buckets of neighbouring rows, the second one sorts
    every bucket inside the cache, in place. Threads share both; what the first of them
    puts into a bucket comes first there.
    """
    row, col = row.contiguous(), col.contiguous()
    if group_kernels.ascends(row.numpy()):
        return torch_ops.group_by_row(row, col, num_rows, num_cols)
    shift = max(0, (num_rows - 1).bit_length() - BUCKET_BITS)
    parts = ranges(row.numel(), row.numel())
    counts = np.zeros((len(parts), (num_rows >> shift) + 1), np.int64)
    from_, width = row.numpy(), np.uint64(shift)
    works = list(zip(parts, counts, strict=True))
    count = group_kernels.count_buckets
    run([partial(count, *part, from_, width, own) for part, own in works])
    ends = counts.T.cumsum().reshape(counts.T.shape)  # by bucket, then by thread
    counts[:] = ends.T - counts  # from how many to where the first of them goes
    # Rows are counted from the first of their bucket, which takes two bytes for most.
    rows = np.empty(row.numel(), np.uint16 if shift <= 16 else np.uint32)
    cols, ids = (
        _array(torch_ops.id_dtype(size), row.numel())
        for size in (num_cols, row.numel())
    )
    moved = rows, cols, ids
    fill, to = group_kernels.fill_buckets, (col.numpy(), width)
    run([partial(fill, *part, from_, *to, own, *moved) for part, own in works])
    rowptr = empty(num_rows + 1, torch.int64).zero_()
    starts = np.append(0, ends[:, -1])
    buckets = starts, width, *moved, rowptr.numpy()
    parallel(group_kernels.sort_buckets, starts.size - 1, row.numel(), *buckets)
    return rowptr, torch.from_numpy(cols), torch.from_numpy(ids)


def _unchanged() -> Array:
    """What kernels set where a graph leads out of itself."""
    return np.zeros(1, np.bool_)


def _check_unchanged(changed: Array) -> None:
    """Refuses walks on a graph that was edited to lead out of itself."""
    if changed[0]:
        _check.changed()


def _array(dtype: torch.dtype, size: int) -> Array:
    """An uninitialised array with the dtype of a tensor."""
    made: Array = empty(size, dtype).numpy()
    return made
