"""The fast CPU backend: the functions of `_ops_torch` that are worth compiling.

Same names, same arguments, same bits. What is missing here, or has a dtype that numba
does not know, is left to `_ops_torch`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _kernels, _ops_torch
from gttf_sampler._memory import borrow, empty, give_back, lend
from gttf_sampler._ops_torch import MASS_BITS, Rooted
from gttf_sampler._threads import parallel, ranges, run, start
from gttf_sampler.random import WORD, Key, fold

Array = np.ndarray[Any, Any]

NUMBERS = (torch.int32, torch.int64, torch.float32, torch.float64)
BUCKET_BITS = 9  # as many open pages as the processor keeps translations for
PARTS, PART = 8, 1 << 13  # how finely drawing and numbering a hop are interleaved
ROOM = 1 << 22  # edges that rooted sampling makes room for before it knows their number


def draw_uniform(stream: Tensor, count: Tensor, fanout: int, replace: bool) -> Tensor:
    """Offsets [w, f]; see `_ops_torch`."""
    out = stream.new_empty(stream.numel(), fanout)
    cells = out.view(-1).numpy()
    arrays = stream.numpy(), count.numpy(), fanout, replace, cells
    parallel(_kernels.draw_uniform, stream.numel(), out.numel(), *arrays)
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
    """(edges, nodes) of every depth; see `_ops_torch`."""
    widths = np.cumprod([1, *fanouts], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(widths * seeds.numel())])
    total = int(starts[-1])
    nodes, edges = lend(borrow(total), total), lend(borrow(total), total)
    nodes[: seeds.numel()] = seeds
    parallel(
        _kernels.forest_uniform,
        seeds.numel(),
        nodes.numel(),
        rowptr.numpy(),
        col.numpy(),
        np.array([_word(fold(key, k)) for k in range(len(fanouts))], np.uint64),
        np.array(fanouts, np.int64),
        starts,
        replace,
        stays,
        nodes.numpy(),
        edges.numpy(),
    )
    levels = zip(starts[1:-1].tolist(), starts[2:].tolist(), fanouts, strict=True)
    return [
        (edges[lo:hi].view(-1, fanout), nodes[lo:hi].view(-1, fanout))
        for lo, hi, fanout in levels
    ]


def rooted(
    rowptr: Tensor,
    col: Tensor,
    table: Tensor | None,
    seeds: Tensor,
    fanouts: Sequence[int],
    replace: bool,
    key: Key,
    cell: Tensor,
    floor: int,
    limit: int,
) -> Rooted | None:
    """Rooted sampling with the relabelling in the same pass; see `_ops_torch`."""
    if table is not None and min(fanouts, default=0) < 0:
        return None
    mass = None if table is None else table.numpy()
    graph, cells = (rowptr.numpy(), col.numpy(), mass), cell.numpy()
    most = _ops_torch.most_edges(seeds.numel(), fanouts) + 1
    expected = min(ROOM, most, 2 * col.numel() + seeds.numel())  # it can grow
    row, to, edge = (borrow(expected) for _ in range(3))
    node = _with_room(seeds.numpy(), seeds.numel(), seeds.numel() + expected)
    _kernels.number_seeds(seeds.numpy(), cells, floor)
    begin, known, used = 0, seeds.numel(), 0
    hops, sizes = [known], []
    draw = _draw_rows if mass is None else _draw_rows_by_mass
    for hop, fanout in enumerate(fanouts):
        word = _word(fold(fold(key, hop), 0))
        how = fanout, replace, begin, used
        found = draw(graph, word, node[begin:known], *how, edge, to, row)
        edge, to, row = found.arrays
        drawn = found.ends[-1]
        node = _with_room(node, known, known + drawn + 1)
        begin, at = known, used
        for wait, end in zip(found.waits, found.ends, strict=True):
            wait()  # for this part; the next ones are drawn while it is numbered
            new, at = row[at : used + end], used + end
            known = _kernels.number_nodes(new, cells, floor, limit, known, node)
        for array in found.scratch:
            give_back(array)
        used += drawn
        hops.append(known - begin)
        sizes.append(drawn)
    return Rooted(
        lend(node, known),
        lend(row, used),
        lend(to, used),
        lend(edge, used),
        hops,
        sizes,
    )


class _Drawn(NamedTuple):
    """What a hop draws, perhaps still under way.

    Attributes:
        arrays: edge, to, by, with the new entries behind those used before.
        waits: calls that wait for one part of them after the other.
        ends: where each part ends; the last one is how many are drawn in all.
        scratch: to be given back when all parts are there.
    """

    arrays: tuple[Array, Array, Array]
    waits: list[Callable[[], Any]]
    ends: list[int]
    scratch: list[Array]


def _draw_rows(
    graph: Any,
    key: Any,
    node: Array,
    fanout: int,
    replace: bool,
    base: int,
    used: int,
    *out: Array,
) -> _Drawn:
    """Uniform draws for all nodes, in parts that are worth a thread's while."""
    width, (rowptr, col, _) = node.size, graph
    scratch = [borrow(width) for _ in range(3)]
    begin, count, end = rows = [array[:width] for array in scratch]
    how = fanout, replace
    parallel(_kernels.row_sizes, width, width, rowptr, node, *how, *rows)
    np.cumsum(end, out=end)
    drawn = int(end[-1]) if width else 0
    edge, to, by = (_with_room(array, used, used + drawn) for array in out)
    new = (array[used : used + drawn] for array in (edge, to, by))
    parts = max(1, min(PARTS, drawn // PART))
    bounds = [width * part // parts for part in range(parts + 1)]
    args = col, key, node, begin, count, end, *how, base
    waits = start(_kernels.draw_rows, bounds, *args, *new)
    ends = [int(end[bound - 1]) if bound else 0 for bound in bounds[1:]]
    return _Drawn((edge, to, by), waits, ends, scratch)


def _draw_rows_by_mass(
    graph: Any,
    key: Any,
    node: Array,
    fanout: int,
    replace: bool,
    base: int,
    used: int,
    *out: Array,
) -> _Drawn:
    """The same by edge weight; rows may then give less than their length."""
    width, (rowptr, col, mass) = node.size, graph
    scratch = [borrow(width) for _ in range(4)]
    low, high, stream, before = (array[:width] for array in scratch)
    rows = rowptr, key, node, low, high, stream
    parallel(_kernels.find_rows, width, width, *rows)
    before[:] = 0
    scratch.append(borrow(width * fanout))
    places = scratch[-1][: width * fanout]
    _draw_by_mass((stream, mass, low, high, before), fanout, replace, places)
    most = used + places.size + 1
    edge, to, by = (_with_room(array, used, most) for array in out)
    new = edge[used:], to[used:], by[used:]
    drawn = _kernels.collect(places, max(fanout, 1), col, base, *new)
    return _Drawn((edge, to, by), [lambda: None], [drawn], scratch)


def _draw_by_mass(
    inputs: tuple[Array, ...], fanout: int, replace: bool, out: Array
) -> None:
    """The kernel on all threads, each with scratch of its own."""

    def some(lo: int, hi: int) -> None:
        gone, mass = np.empty((2, fanout + 1), np.int64)
        how = fanout, replace, gone, mass, out
        _kernels.draw_weighted(lo, hi, *inputs, *how)

    parallel(some, inputs[0].size, out.size * 8)


def _word(key: Key) -> Any:
    """A key as the unsigned number that kernels take."""
    return np.uint64(int(key) & WORD)


def _with_room(array: Array, used: int, needed: int) -> Array:
    """`array` with at least `needed` cells, of which the first `used` are kept."""
    if array.size >= needed:
        return array
    larger = borrow(max(needed, array.size + array.size // 2))
    larger[:used] = array[:used]
    return larger


def first_position(ids: Tensor, table: Tensor, floor: int) -> Tensor:
    """Where each id stands first; see `_ops_torch`."""
    out = torch.empty_like(ids)
    _kernels.first_position(ids.numpy(), table.numpy(), floor, out.numpy())
    return out


def take_or_none(values: Tensor, index: Tensor) -> Tensor:
    """values[index] as int64; see `_ops_torch`."""
    out = torch.empty(index.shape, dtype=torch.int64, device="cpu")
    flat = index.reshape(-1)
    arrays = values.numpy(), flat.numpy(), out.view(-1).numpy()
    parallel(_kernels.take_or_none, flat.numel(), flat.numel(), *arrays)
    return out


def compress(mask: Tensor, size: int) -> Tensor:
    """The positions where `mask` holds; see `_ops_torch`."""
    out = torch.empty(size + 1, dtype=torch.int64, device="cpu")
    _kernels.compress(mask.numpy(), out.numpy())
    return out[:size]


def upper_bound(
    values: Tensor, low: Tensor, high: Tensor, bound: Tensor, longest: int
) -> Tensor:
    """The first position whose value is > bound; see `_ops_torch`."""
    if values.dtype not in NUMBERS or bound.dtype not in NUMBERS or low.dim() != 1:
        return _ops_torch.upper_bound(values, low, high, bound, longest)
    out = torch.empty_like(low)
    arrays = (x.contiguous().numpy() for x in (values, low, high, bound, out))
    parallel(_kernels.upper_bound, low.numel(), low.numel() * 8, *arrays)
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
    """Positions [w, f] drawn by mass; see `_ops_torch`."""
    out = low.new_empty(low.numel(), fanout)
    arrays = (x.contiguous().numpy() for x in (stream, table, low, high, before))
    _draw_by_mass(tuple(arrays), fanout, replace, out.view(-1).numpy())
    return out


def weight_table(weight: Tensor, rowptr: Tensor) -> Tensor:
    """Cumulative integer mass [m] of each row; see `_ops_torch`."""
    if weight.dtype not in NUMBERS:
        weight = weight.to(torch.float64)
    out = empty(weight.numel(), torch.int64)
    arrays = weight.contiguous().numpy(), rowptr.numpy(), MASS_BITS, out.numpy()
    parallel(_kernels.weight_table, rowptr.numel() - 1, weight.numel(), *arrays)
    return out


def has_edge(
    rowptr: Tensor, sorted_col: Tensor, source: Tensor, target: Tensor, longest: int
) -> Tensor:
    """Whether row `source` holds `target`; see `_ops_torch`."""
    out = torch.empty_like(source, dtype=torch.bool)
    arrays = (x.numpy() for x in (rowptr, sorted_col, source, target, out))
    parallel(_kernels.has_edge, source.numel(), source.numel() * 8, *arrays)
    return out


def walk_node2vec(
    rowptr: Tensor,
    col: Tensor,
    sorted_col: Tensor,
    seeds: Tensor,
    length: int,
    key: Key,
    shares: tuple[int, int, int],
    rounds: int,
    stays: bool,
) -> list[tuple[Tensor, Tensor]] | None:
    """(edges, nodes) of every step; see `_ops_torch`."""
    batch, total = seeds.numel(), seeds.numel() * (length + 1)
    nodes, edges = lend(borrow(total), total), lend(borrow(total), total)
    nodes[:batch] = seeds
    keys = np.array([_word(fold(key, step)) for step in range(length)], np.uint64)
    refused = np.zeros(1, np.int64)
    graph = (x.numpy() for x in (rowptr, col, sorted_col))
    how = keys, np.array(shares, np.int64), rounds, stays
    out = nodes.numpy(), edges.numpy(), refused
    parallel(_kernels.walk_node2vec, batch, total * 8, *graph, *how, *out)
    if refused[0]:
        return None
    shape = (length + 1, batch)
    levels = zip(edges.view(shape)[1:], nodes.view(shape)[1:], strict=True)
    return [(edge[:, None], node[:, None]) for edge, node in levels]


def draw_node2vec(
    rowptr: Tensor,
    col: Tensor,
    sorted_col: Tensor,
    table: Tensor | None,
    node: Tensor,
    last: Tensor,
    stream: Tensor,
    shares: tuple[int, int, int],
    rounds: int,
    longest: int,
) -> Tensor:
    """Edges [w] accepted by rejection sampling; see `_ops_torch`."""
    out = torch.empty_like(node)
    if table is None:
        table = node.new_empty(0)
    graph = (x.numpy() for x in (rowptr, col, sorted_col, table))
    walkers = (x.contiguous().numpy() for x in (node, last, stream))
    how = np.array(shares, np.int64), rounds, out.numpy()
    work = node.numel() * 16
    parallel(_kernels.draw_node2vec, node.numel(), work, *graph, *walkers, *how)
    return out


def group_by_row(
    row: Tensor, col: Tensor, num_rows: int, num_cols: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Rows of edges by a stable counting sort in two passes; see `_ops_torch`.

    The first pass moves edges into buckets of neighbouring rows, the second one sorts
    every bucket inside the cache. Threads share both; what the first of them puts into
    a bucket comes first there.
    """
    row, col = row.contiguous(), col.contiguous()
    if _kernels.ascends(row.numpy()):
        return _ops_torch.group_by_row(row, col, num_rows, num_cols)
    shift = max(0, (num_rows - 1).bit_length() - BUCKET_BITS)
    parts = ranges(row.numel(), row.numel())
    counts = np.zeros((len(parts), (num_rows >> shift) + 1), np.int64)
    from_, width = row.numpy(), np.uint64(shift)
    works = list(zip(parts, counts, strict=True))
    count = _kernels.count_buckets
    run([partial(count, *part, from_, width, own) for part, own in works])
    ends = counts.T.cumsum().reshape(counts.T.shape)  # by bucket, then by thread
    counts[:] = ends.T - counts  # from how many to where the first of them goes
    sizes = num_rows, num_cols, row.numel()
    moved = [_array(_ops_torch.id_dtype(size), row.numel()) for size in sizes]
    fill, to = _kernels.fill_buckets, (col.numpy(), width)
    run([partial(fill, *part, from_, *to, own, *moved) for part, own in works])
    rowptr = empty(num_rows + 1, torch.int64).zero_()
    done = [_array(_ops_torch.id_dtype(size), row.numel()) for size in sizes[1:]]
    starts = np.append(0, ends[:, -1])
    buckets = starts, width, *moved, rowptr.numpy(), *done
    parallel(_kernels.sort_buckets, starts.size - 1, row.numel(), *buckets)
    return rowptr, torch.from_numpy(done[0]), torch.from_numpy(done[1])


def _array(dtype: torch.dtype, size: int) -> Array:
    """An uninitialised array with the dtype of a tensor."""
    made: Array = empty(size, dtype).numpy()
    return made
