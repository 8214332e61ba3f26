"""Rows of a CSR matrix: made of edges by counting, searched, and gathered.

The arrays of a graph are tensors that anybody can edit. So a row is followed if it lies
inside of the edges, and an edge if it leads to a node; where one does not, a flag is
set, and the caller refuses the result.
"""

from functools import partial
from typing import Any

import numba
import numpy as np
import torch
from numba import int64, types, uint64
from numba.extending import intrinsic
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.memory import borrow, empty, lend
from gttf_sampler._backends.numba.rng import GOLDEN, HALF, ONE, compiled, prefetch
from gttf_sampler._backends.threads import parallel, ranges, run
from gttf_sampler._backends.torch import rows as reference
from gttf_sampler._backends.torch.rows import id_dtype


def table_of(*rows: Any) -> np.dtype[np.void]:
    """The dtype of a table whose rows are declared records, one behind the other.

    Numba takes plain numbers faster than such a table, so where that counts, kernels
    are given int64 [rows, fields] and make a table of it by `as_table`.
    """
    return np.dtype([(name, np.int64) for row in rows for name in row._fields])


BUCKET_BITS = 9  # as many open pages as the processor keeps translations for


@compiled
def as_table(numbers, dtype):
    """The same memory as a table of `dtype`."""
    return numbers.view(dtype)[:, 0]


@compiled
def row_range(rowptr, rows, edges, node):
    """Start and length of the row of a node; length -1 if it is not in the graph."""
    here = uint64(node)
    if here >= uint64(rows):
        return int64(0), int64(-1)
    start, end = rowptr[here], rowptr[here + ONE]
    if start < 0 or end < start or end > edges:
        return int64(0), int64(-1)
    return int64(start), int64(end - start)


@compiled
def empty_if_outside(start, count, edges):
    """True if all rows lie inside of the edges; makes all of them empty if not.

    A pass of its own: the loop before it waits for memory, and is to do nothing else.
    """
    low, high = int64(0), int64(0)
    for i in range(uint64(start.size)):
        low = min(low, min(start[i], count[i]))
        high = max(high, start[i] + count[i])
    if low >= 0 and high <= edges:
        return True
    start[:], count[:] = 0, 0
    return False


@compiled
def replace_outside(ids, least, size, instead):
    """True if all ids lie in [least, size); replaces those that do not."""
    low, high = int64(least), int64(least)
    for i in range(uint64(ids.size)):
        low, high = min(low, ids[i]), max(high, ids[i])
    if low >= least and (high < size or not ids.size):
        return True
    for i in range(uint64(ids.size)):
        if ids[i] < least or ids[i] >= size:
            ids[i] = instead
    return False


def _pointer_to(kind):
    """An intrinsic that makes a pointer to values of a kind out of an address."""

    @intrinsic
    def pointer(_, address):
        def emit(context, builder, signature, args):
            pointed = context.get_value_type(types.CPointer(kind))
            return builder.inttoptr(args[0], pointed)

        return types.CPointer(kind)(address), emit

    return pointer


_to_int32, _to_int64 = _pointer_to(types.int32), _pointer_to(types.int64)
_to_float32, _to_float64 = _pointer_to(types.float32), _pointer_to(types.float64)


# The arrays that addresses stand for, by what is in them.
@compiled
def ints(address):
    return numba.carray(_to_int32(address), (1 << 60,))


@compiled
def longs(address):
    return numba.carray(_to_int64(address), (1 << 60,))


@compiled
def floats(address):
    return numba.carray(_to_float32(address), (1 << 60,))


@compiled
def doubles(address):
    return numba.carray(_to_float64(address), (1 << 60,))


@compiled
def bisect(values, low, high, bound):
    """The first position in [low, high) whose value is > bound, else high.

    Without a branch on the comparison, so that the next searches can start meanwhile.
    """
    size = high - low
    if size <= 0:
        return low
    while size > 1:
        half = size >> 1
        low += half * int64(values[uint64(low + half - 1)] <= bound)
        size -= half
    return low + int64(values[uint64(low)] <= bound)


@compiled
def upper_bound_kernel(lo, hi, values, low, high, bound, out):
    for i in range(lo, hi):
        out[i] = bisect(values, low[i], min(high[i], values.size), bound[i])


@compiled
def prefetch_row(table, low, high):
    """Asks for the cache lines of a row of eight-byte values, at most 32 of them."""
    for i in range(low, min(high, low + 256), 8):
        prefetch(table, uint64(i))


_29 = np.uint64(29)


@compiled
def take_or_none_kernel(lo, hi, values, index, out, changed):
    sound = True
    for i in range(uint64(lo), uint64(hi)):
        at = index[i]
        there = uint64(at) < uint64(values.size)
        out[i] = values[uint64(at)] if there else -1
        sound &= there or at < 0
    if not sound:
        changed[0] = True


@compiled
def row_holds(rowptr, sorted_col, source, target):
    low, size = row_range(rowptr, rowptr.size - 1, sorted_col.size, source)
    if size <= 0:
        return False
    high = low + size
    position = bisect(sorted_col, low, high, target - 1)
    return position < high and sorted_col[uint64(position)] == target


@compiled
def has_edge_kernel(lo, hi, rowptr, sorted_col, source, target, out):
    for i in range(lo, hi):
        out[i] = row_holds(rowptr, sorted_col, source[i], target[i])


@compiled
def place(start, count, target):
    """The byte and the bit that stand for `target` in the filter of its row."""
    bit = (uint64(target) * GOLDEN >> HALF) * uint64(count) >> _29  # below 8 · count
    return uint64(start) + (bit >> uint64(3)), np.uint8(ONE << (bit & uint64(7)))


@compiled
def edge_filter_kernel(lo, hi, rowptr, col, out):
    for row in range(lo, hi):
        start, count = rowptr[row], rowptr[row + 1] - rowptr[row]
        for e in range(uint64(start), uint64(start + count)):
            at, bit = place(start, count, col[e])
            out[at] |= bit


NUMBERS = (torch.int32, torch.int64, torch.float32, torch.float64)


def take_or_none(values: Tensor, index: Tensor) -> Tensor:
    """values[index] as int64; see `torch.rows`."""
    out = torch.empty(index.shape, dtype=torch.int64, device="cpu")
    flat = index.reshape(-1)
    arrays = values.numpy(), flat.numpy(), out.view(-1).numpy()
    parallel_inside(take_or_none_kernel, flat.numel(), flat.numel(), *arrays)
    return out


def upper_bound(
    values: Tensor, low: Tensor, high: Tensor, bound: Tensor, longest: int
) -> Tensor:
    """The first position whose value is > bound; see `torch.rows`."""
    if values.dtype not in NUMBERS or bound.dtype not in NUMBERS or low.dim() != 1:
        return reference.upper_bound(values, low, high, bound, longest)
    out = torch.empty_like(low)
    arrays = (x.contiguous().numpy() for x in (values, low, high, bound, out))
    parallel(upper_bound_kernel, low.numel(), low.numel() * 8, *arrays)
    return out


def has_edge(
    rowptr: Tensor, sorted_col: Tensor, source: Tensor, target: Tensor, longest: int
) -> Tensor:
    """True [w] where row `source` holds `target`; see `torch.rows`."""
    out = torch.empty_like(source, dtype=torch.bool)
    arrays = (x.numpy() for x in (rowptr, sorted_col, source, target, out))
    parallel(has_edge_kernel, source.numel(), source.numel() * 8, *arrays)
    return out


def edge_filter(rowptr: Tensor, col: Tensor) -> Tensor | None:
    """Eight bits per edge that tell most absent edges; see `torch.rows`."""
    out = empty(col.numel(), torch.uint8).zero_()
    arrays = rowptr.numpy(), col.numpy(), out.numpy()
    parallel(edge_filter_kernel, rowptr.numel() - 1, col.numel(), *arrays)
    return out


def parallel_inside(kernel: Any, size: int, work: int, *args: Any) -> None:
    """`parallel`; refuses a graph that was edited to lead out of itself.

    The last argument of the kernel is a flag, which it sets in that case.
    """
    changed = np.zeros(1, np.bool_)
    parallel(kernel, size, work, *args, changed)
    if changed[0]:
        _check.changed()


@compiled
def both_ways_kernel(row, col, num_nodes, out_row, out_col, out_at):
    """Sorts edges and reverses by counting: by sender, then stably by receiver.

    A node sends as often as it receives, so that both passes have the same counts.
    """
    edges = row.size
    start = np.zeros(num_nodes + 1, np.int64)
    for e in range(edges):
        start[uint64(row[e]) + ONE] += 1
        start[uint64(col[e]) + ONE] += 1
    for node in range(num_nodes):
        start[node + 1] += start[node]
    free = start.copy()
    order = np.empty((2, 2 * edges), np.int64)
    by_sender, by_receiver = order[0], order[1]
    for e in range(2 * edges):
        sender = uint64(row[e] if e < edges else col[e - edges])
        by_sender[uint64(free[sender])] = e
        free[sender] += 1
    free[:] = start
    for i in range(2 * edges):
        e = by_sender[uint64(i)]
        receiver = uint64(col[uint64(e)] if e < edges else row[uint64(e - edges)])
        by_receiver[uint64(free[receiver])] = e
        free[receiver] += 1
    count, last_row, last_col = int64(0), int64(-1), int64(-1)
    for i in range(2 * edges):
        e = by_receiver[uint64(i)]
        at = uint64(e if e < edges else e - edges)
        sender, receiver = row[at], col[at]
        if e >= edges:
            sender, receiver = receiver, sender
        if sender != last_row or receiver != last_col:
            out_row[uint64(count)], out_col[uint64(count)] = sender, receiver
            out_at[uint64(count)] = int64(at)
            last_row, last_col, count = sender, receiver, count + 1
    return count


@compiled
def ascends(index):
    """True if the entries are sorted already."""
    for i in range(1, index.size):  # noqa: SIM110 (numba compiles no generators)
        if index[i] < index[i - 1]:
            return False
    return True


@compiled
def count_buckets(lo, hi, row, shift, counts):
    """Counts the edges lo to hi in each bucket of 2**shift rows."""
    for i in range(uint64(lo), uint64(hi)):
        counts[uint64(row[i]) >> shift] += 1


@compiled
def fill_buckets(lo, hi, row, col, shift, free, rows, cols, ids):
    """Moves the edges lo to hi behind one another into their buckets."""
    for i in range(uint64(lo), uint64(hi)):
        bucket = uint64(row[i]) >> shift
        at = uint64(free[bucket])
        free[bucket] = int64(at) + 1
        rows[at] = uint64(row[i]) - (bucket << shift)
        cols[at], ids[at] = col[i], i


@compiled
def sort_buckets(lo, hi, starts, shift, rows, cols, ids, rowptr):
    """Sorts the edges of buckets lo to hi by row; a bucket's rows fit in the cache.

    In place: only the bucket at hand is copied, so that a graph is never there twice.
    """
    free = np.empty(int64(1) << int64(shift), np.int64)
    largest = 0
    for bucket in range(lo, hi):
        largest = max(largest, starts[bucket + 1] - starts[bucket])
    own_cols, own_ids = np.empty(largest, cols.dtype), np.empty(largest, ids.dtype)
    for bucket in range(lo, hi):
        begin, end = starts[bucket], starts[bucket + 1]
        first = bucket << int64(shift)
        last = min(first + free.size, rowptr.size - 1)
        free[:] = 0
        for i in range(uint64(begin), uint64(end)):
            free[uint64(rows[i])] += 1
            own_cols[i - uint64(begin)] = cols[i]
            own_ids[i - uint64(begin)] = ids[i]
        at = begin
        for row in range(first, last):
            count = free[row - first]
            free[row - first] = at
            at += count
            rowptr[row + 1] = at
        for i in range(uint64(begin), uint64(end)):
            own = uint64(rows[i])
            to = uint64(free[own])
            free[own] += 1
            cols[to], ids[to] = own_cols[i - uint64(begin)], own_ids[i - uint64(begin)]


def both_ways(
    row: Tensor, col: Tensor, num_nodes: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Edges and their reverses, each pair once, by counting; see `torch.rows`."""
    ends = row.contiguous().numpy(), col.contiguous().numpy()
    out = [borrow(2 * row.numel()) for _ in range(3)]
    size = both_ways_kernel(*ends, num_nodes, *out)
    found = [lend(array, size) for array in out]
    return found[0], found[1], found[2]


def group_by_row(
    row: Tensor, col: Tensor, num_rows: int, num_cols: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Rows of edges by a stable counting sort in two passes; see `torch.rows`.

    The first pass moves edges into buckets of neighbouring rows, the second one sorts
    every bucket inside the cache, in place. Threads share both; what the first of them
    puts into a bucket comes first there.
    """
    row, col = row.contiguous(), col.contiguous()
    if ascends(row.numpy()):
        return reference.group_by_row(row, col, num_rows, num_cols)
    shift = max(0, (num_rows - 1).bit_length() - BUCKET_BITS)
    parts = ranges(row.numel(), row.numel())
    counts = np.zeros((len(parts), (num_rows >> shift) + 1), np.int64)
    from_, width = row.numpy(), np.uint64(shift)
    works = list(zip(parts, counts, strict=True))
    count = count_buckets
    run([partial(count, *part, from_, width, own) for part, own in works])
    ends = counts.T.cumsum().reshape(counts.T.shape)  # by bucket, then by thread
    counts[:] = ends.T - counts  # from how many to where the first of them goes
    # Rows are counted from the first of their bucket, which takes two bytes for most.
    rows = np.empty(row.numel(), np.uint16 if shift <= 16 else np.uint32)
    widths = id_dtype(num_cols), id_dtype(row.numel())
    cols, ids = (empty(row.numel(), dtype).numpy() for dtype in widths)
    moved = rows, cols, ids
    fill, to = fill_buckets, (col.numpy(), width)
    run([partial(fill, *part, from_, *to, own, *moved) for part, own in works])
    rowptr = empty(num_rows + 1, torch.int64).zero_()
    starts = np.append(0, ends[:, -1])
    buckets = starts, width, *moved, rowptr.numpy()
    parallel(sort_buckets, starts.size - 1, row.numel(), *buckets)
    return rowptr, torch.from_numpy(cols), torch.from_numpy(ids)
