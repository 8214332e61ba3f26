"""Edges sorted by row, by counting: the CSR arrays of a graph."""

from functools import partial

import numpy as np
import torch
from numba import int64, uint64
from torch import Tensor

from gttf_sampler._backends.memory import Array, borrow, empty, lend
from gttf_sampler._backends.numba.rng import ONE, compiled
from gttf_sampler._backends.threads import parallel, ranges, run
from gttf_sampler._backends.torch import csr as reference
from gttf_sampler._backends.torch.rows import id_dtype


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
    by_sender, by_receiver = (
        np.empty(2 * edges, np.int64),
        np.empty(2 * edges, np.int64),
    )
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


BUCKET_BITS = 9  # as many open pages as the processor keeps translations for


def both_ways(
    row: Tensor, col: Tensor, num_nodes: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Edges and their reverses, each pair once, by counting; see `torch.csr`."""
    ends = row.contiguous().numpy(), col.contiguous().numpy()
    out = [borrow(2 * row.numel()) for _ in range(3)]
    size = both_ways_kernel(*ends, num_nodes, *out)
    found = [lend(array, size) for array in out]
    return found[0], found[1], found[2]


def group_by_row(
    row: Tensor, col: Tensor, num_rows: int, num_cols: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Rows of edges by a stable counting sort in two passes; see `torch.csr`.

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
    cols, ids = (
        _array(id_dtype(size), row.numel()) for size in (num_cols, row.numel())
    )
    moved = rows, cols, ids
    fill, to = fill_buckets, (col.numpy(), width)
    run([partial(fill, *part, from_, *to, own, *moved) for part, own in works])
    rowptr = empty(num_rows + 1, torch.int64).zero_()
    starts = np.append(0, ends[:, -1])
    buckets = starts, width, *moved, rowptr.numpy()
    parallel(sort_buckets, starts.size - 1, row.numel(), *buckets)
    return rowptr, torch.from_numpy(cols), torch.from_numpy(ids)


def _array(dtype: torch.dtype, size: int) -> Array:
    """An uninitialised array with the dtype of a tensor."""
    made: Array = empty(size, dtype).numpy()
    return made
