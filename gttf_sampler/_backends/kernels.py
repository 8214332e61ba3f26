"""The compiled loops of the fast CPU backend.

Every kernel works on the range [lo, hi) of its outermost dimension, so that threads can
share it, releases the GIL, and computes what the function of the same purpose in
`torch_ops` computes, bit for bit. Indices are unsigned: numba then leaves out the test
for negative ones, and the loops over random words become vector instructions.

Those of rooted sampling are in `rooted_kernels`.
"""

import os
from pathlib import Path

import numba
import numpy as np
from llvmlite import ir
from numba import int64, types, uint64
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import intrinsic

from gttf_sampler._backends.kernel_cache import guard, stamp_of
from gttf_sampler._backends.types import REFUSED
from gttf_sampler.random import GOLDEN, LOW32, MULTIPLIERS, WORD

_GOLDEN = np.uint64(GOLDEN & WORD)
_FIRST, _SECOND = (np.uint64(multiplier & WORD) for multiplier in MULTIPLIERS)
_LOW32, _32 = np.uint64(LOW32), np.uint64(32)
_30, _27, _31, _1 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(1)
_29, _63 = np.uint64(29), np.uint64(63)
_AHEAD = np.uint64(48)  # how many entries ahead memory is asked for what it holds
_SHORT = 64  # rows of which it is faster to read all than to search in them
_BLOCK = 64  # seeds that walk side by side, to wait for memory together
_CROWD = 128  # the same for node2vec, whose walkers are not done all at once

# A process that forks while one of its threads compiles would leave the child a lock
# that nobody opens, and the child's first kernel would wait for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )

_STAMP = stamp_of(Path(__file__).parent.glob("*kernels.py"))


def _compiled(function, **how):
    """The function as machine code, kept on disk where there is a place to keep it."""
    try:
        return guard(numba.njit(nogil=True, cache=True, **how)(function), _STAMP)
    except RuntimeError:  # no directory to write to: compile anew in every process
        return numba.njit(nogil=True, **how)(function)


def cached() -> bool:
    """Whether an earlier process has left machine code on disk."""
    where = draw_uniform.stats.cache_path
    return where is not None and any(Path(where).glob("*kernels.*.nbi"))


@intrinsic
def _prefetch(_, array, index):
    """Asks memory for array[index], which is read soon, and does not wait for it."""

    def emit(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        call = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        where = builder.bitcast(builder.gep(data, [args[1]]), byte)
        builder.call(call, [where, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, index), emit


@_compiled
def _mix(word):
    word = (word ^ (word >> _30)) * _FIRST
    word = (word ^ (word >> _27)) * _SECOND
    return word ^ (word >> _31)


@_compiled
def _bits(stream, draw):
    return _mix(stream + (draw + _1) * _GOLDEN)


@_compiled
def _below(word, bound):
    return (((word & _LOW32) * bound >> _32) + (word >> _32) * bound) >> _32


@intrinsic
def _below_wide(_, word, bound):
    """⌊word · bound / 2⁶⁴⌋ of unsigned numbers: the upper half of one product."""

    def emit(context, builder, signature, args):
        wide = ir.IntType(128)
        left, right = (builder.zext(arg, wide) for arg in args)
        upper = builder.lshr(builder.mul(left, right), wide(64))
        return builder.trunc(upper, ir.IntType(64))

    return types.uint64(word, bound), emit


@_compiled
def _draw_row(stream, start, count, fanout, replace, out, at):
    """Writes the edges drawn from one row; returns how many there are."""
    if count == 0:
        return int64(0)
    first, at = uint64(start), uint64(at)
    if replace:
        for i in range(uint64(fanout)):
            out[at + i] = int64(first + _below(_bits(stream, i), uint64(count)))
        return int64(fanout)
    if count <= fanout:
        for i in range(uint64(count)):
            out[at + i] = int64(first + i)
        return int64(count)
    spare = uint64(count - fanout)
    for i in range(uint64(fanout)):
        out[at + i] = int64(first + _below(_bits(stream, i), spare + i + _1))
    seen = uint64(0)  # a bit for each pick so far: most of them need no second look
    for i in range(uint64(fanout)):
        pick = out[at + i]
        bit = _1 << (uint64(pick) & _63)
        if seen & bit:
            for j in range(i):
                if out[at + j] == pick:
                    pick = int64(first + spare + i)
                    out[at + i] = pick
                    bit = _1 << (uint64(pick) & _63)
                    break
        seen |= bit
    return int64(fanout)


@_compiled
def draw_uniform(lo, hi, stream, count, fanout, replace, out):
    for i in range(lo, hi):
        at = i * fanout
        drawn = _draw_row(uint64(stream[i]), 0, count[i], fanout, replace, out, at)
        for j in range(drawn, fanout):
            out[at + j] = -1


@_compiled
def _find_rows(rowptr, node, start, count):
    """The row of every node; nothing here waits for anything else."""
    for i in range(uint64(node.size)):
        here = node[i]
        start[i], count[i] = 0, 0
        if here >= 0:
            start[i] = rowptr[uint64(here)]
            count[i] = rowptr[uint64(here) + _1] - start[i]


@_compiled
def _follow(col, node, count, fanout, replace, stays, edge, arrived):
    """Where the edges lead; at a dead end a walker that `stays` is there."""
    for e in range(uint64(edge.size)):
        taken = edge[e]
        if taken >= 0:
            arrived[e] = col[uint64(taken)]
            continue
        walker = e // uint64(fanout)
        arrived[e] = -1
        if stays and count[walker] == 0 and (replace or e == walker * uint64(fanout)):
            arrived[e] = node[walker]


@_compiled
def _step(
    first, rowptr, col, key, fanout, replace, stays, node, edge, arrived, scratch
):
    """One depth of an unbiased forest, for walkers number `first` and following."""
    start, count = scratch[0], scratch[1]
    _find_rows(rowptr, node, start, count)
    for i in range(node.size):
        stream, at = _mix(key + uint64(first + i) * _GOLDEN), i * fanout
        drawn = _draw_row(stream, start[i], count[i], fanout, replace, edge, at)
        for j in range(drawn, fanout):
            edge[at + j] = -1
    _follow(col, node, count, fanout, replace, stays, edge, arrived)


@_compiled
def forest_uniform(
    lo, hi, rowptr, col, keys, fanouts, starts, replace, stays, nodes, edges
):
    """The trees of seeds lo to hi; level k of all trees begins at starts[k]."""
    widest = min(_BLOCK, hi - lo)
    for depth in range(fanouts.size - 1):
        widest *= fanouts[depth]
    scratch = np.empty((2, widest), np.int64)
    for first in range(lo, hi, _BLOCK):
        last, width = min(hi, first + _BLOCK), 1
        for depth in range(fanouts.size):
            here, there = starts[depth], starts[depth + 1]
            wider = width * fanouts[depth]
            _step(
                first * width,
                rowptr,
                col,
                keys[depth],
                fanouts[depth],
                replace,
                stays,
                nodes[here + first * width : here + last * width],
                edges[there + first * wider : there + last * wider],
                nodes[there + first * wider : there + last * wider],
                scratch,
            )
            width = wider


@_compiled
def both_ways(row, col, num_nodes, out_row, out_col, out_at):
    """Sorts edges and reverses by counting: by sender, then stably by receiver.

    A node sends as often as it receives, so that both passes have the same counts.
    """
    edges = row.size
    start = np.zeros(num_nodes + 1, np.int64)
    for e in range(edges):
        start[uint64(row[e]) + _1] += 1
        start[uint64(col[e]) + _1] += 1
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


@_compiled
def first_position(ids, cell, floor, out):
    limit, last = floor + ids.size, cell.size - 1
    for i in range(ids.size):
        at = uint64(ids[i]) if ids[i] >= 0 else uint64(last)
        value = int64(cell[at])
        if value >= limit:
            value = floor + i
            cell[at] = value
        out[i] = value - floor


@_compiled
def take_or_none(lo, hi, values, index, out):
    for i in range(uint64(lo), uint64(hi)):
        at = index[i]
        out[i] = values[uint64(at)] if at >= 0 else -1


@_compiled
def compress(mask, out):
    count = 0
    for i in range(uint64(mask.size)):
        out[uint64(count)] = int64(i)
        count += mask[i]


@_compiled
def _bisect(values, low, high, bound):
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


@_compiled
def upper_bound(lo, hi, values, low, high, bound, out):
    for i in range(lo, hi):
        out[i] = _bisect(values, low[i], high[i], bound[i])


@_compiled
def _prefetch_row(table, low, high):
    """Asks for the cache lines of a row of eight-byte values, at most 32 of them."""
    for i in range(low, min(high, low + 256), 8):
        _prefetch(table, uint64(i))


@_compiled
def _cells(fanout):
    """How many cells of scratch `_draw_row_weighted` needs."""
    return max(fanout, _SHORT)


@_compiled
def _draw_short_weighted(stream, row, first, base, fanout, left, taken, out, at):
    """The same draws from the masses of a short row, which are read one by one."""
    total = row[row.size - 1] - base
    for p in range(uint64(row.size)):
        left[p], taken[p] = row[p] - base, 0
        base = row[p]
    drawn = int64(0)
    while drawn < fanout and total > 0:
        word = _bits(stream, uint64(drawn))
        target, p = int64(_below_wide(word, uint64(total))), uint64(0)
        reached = left[p]
        while reached <= target:
            p += _1
            reached += left[p]
        total -= left[p]
        left[p], taken[p] = 0, 1
        drawn += 1
    for p in range(uint64(row.size)):
        if taken[p]:
            out[at] = first + int64(p)
            at += 1
    return drawn


@_compiled
def _draw_row_weighted(
    stream, table, low, high, base, fanout, replace, scratch, out, at
):
    """Writes the edges drawn from one row by mass; returns how many there are.

    `scratch` [2, `_cells`] holds what is gone; see `torch_ops`.
    """
    total = table[uint64(high - 1)] - base if high > low else 0
    if total == 0:
        return int64(0)
    gone, mass = scratch[0], scratch[1]
    if not replace and high - low <= _SHORT:
        row = table[low:high]
        return _draw_short_weighted(stream, row, low, base, fanout, gone, mass, out, at)
    for j in range(fanout):
        word = _bits(stream, uint64(j))
        target = int64(_below_wide(word, uint64(total)))
        if replace:
            out[at + j] = _bisect(table, low, high, target + base)
            continue
        skipped = int64(0)
        for k in range(uint64(j)):
            skipped += mass[k] * int64(gone[k] <= target)
        position = _bisect(table, low, high, target + skipped + base)
        start = table[uint64(position - 1)] if position > low else base
        own, mine = table[uint64(position)] - start, start - base - skipped
        for k in range(uint64(j)):
            gone[k] -= own * int64(gone[k] > mine)
        gone[j], mass[j] = mine, own
        k = j
        while k > 0 and out[at + k - 1] > position:
            out[at + k] = out[at + k - 1]
            k -= 1
        out[at + k] = position
        total -= own
        if total == 0:
            return int64(j + 1)
    return int64(fanout)


@_compiled
def draw_weighted(lo, hi, stream, table, low, high, before, fanout, replace, out):
    """Draws by mass, with gaps of -1 where there is none left; see `torch_ops`."""
    scratch = np.empty((2, _cells(fanout)), np.int64)
    for i in range(lo, hi):
        soon = min(i + 2, hi - 1)
        _prefetch_row(table, low[soon], high[soon])
        own, at = (low[i], high[i], before[i]), i * fanout
        how = fanout, replace, scratch, out, at
        drawn = _draw_row_weighted(uint64(stream[i]), table, *own, *how)
        for j in range(drawn, fanout):
            out[at + j] = -1


@_compiled
def weight_table(lo, hi, weight, rowptr, mass_bits, out):
    for row in range(lo, hi):
        start, stop = rowptr[row], rowptr[row + 1]
        top = 0.0
        for e in range(start, stop):
            top = max(top, float(weight[e]))
        length, degree = 0, stop - start
        while degree > 0:
            degree >>= 1
            length += 1
        unit = float(int64(1) << (mass_bits - length))
        total = int64(0)
        for e in range(start, stop):
            if weight[e] > 0:
                total += max(int64(float(weight[e]) / top * unit), int64(1))
            out[e] = total


@_compiled
def _has_edge(rowptr, sorted_col, source, target):
    low, high = rowptr[uint64(source)], rowptr[uint64(source + 1)]
    position = _bisect(sorted_col, low, high, target - 1)
    return position < high and sorted_col[uint64(position)] == target


@_compiled
def has_edge(lo, hi, rowptr, sorted_col, source, target, out):
    for i in range(lo, hi):
        out[i] = _has_edge(rowptr, sorted_col, source[i], target[i])


@_compiled
def _place(start, count, target):
    """The byte and the bit that stand for `target` in the filter of its row."""
    bit = (uint64(target) * _GOLDEN >> _32) * uint64(count) >> _29  # below 8 · count
    return uint64(start) + (bit >> uint64(3)), np.uint8(_1 << (bit & uint64(7)))


@_compiled
def edge_filter(lo, hi, rowptr, col, out):
    for row in range(lo, hi):
        start, count = rowptr[row], rowptr[row + 1] - rowptr[row]
        for e in range(uint64(start), uint64(start + count)):
            at, bit = _place(start, count, col[e])
            out[at] |= bit


@_compiled
def _propose(stream, start, count, table, plan, turn):
    """An edge of the row, or -1 - i for copy i of the way back; a coin of 63 bits."""
    word = _bits(stream, turn + turn)
    coin = int64(_bits(stream, turn + turn + _1) >> _1)
    if table.size:
        total = table[uint64(start + count - 1)]
        target = int64(_below_wide(word, uint64(total)))
        return _bisect(table, start, start + count, target), coin
    unit, extra, copies = plan[3], plan[4], plan[5]
    ordinary = count << unit
    target = int64(_below_wide(word, uint64(ordinary + extra * copies)))
    if target < ordinary:
        return start + (target >> unit), coin
    return -1 - (target - ordinary) // extra, coin


@_compiled
def _way_back(col, bloom, start, count, last, copy):
    """The edge number `copy` to `last` in a row, REFUSED if there are not as many.

    The way back gets second chances in proportion to 1 / δ, so that reading all of a
    row comes to the same whatever its length.
    """
    if bloom.size:
        at, bit = _place(start, count, last)
        if not bloom[at] & bit:
            return int64(REFUSED)
    for e in range(start, start + count):
        if col[uint64(e)] == last:
            if copy == 0:
                return e
            copy -= 1
    return int64(REFUSED)


@_compiled
def _node2vec_block(graph, table, node, last, stream, plan, rounds, out, scratch):
    """Steps of a block of walkers, with every move made together.

    So their cache misses overlap, and only those look for the edge to `last` whose coin
    leaves the decision open.
    """
    rowptr, col, bloom = graph[0], graph[1], graph[3]
    start, count, edge, to, coin, low, size, open_, asking = scratch
    sure, hopeless = min(plan[1], plan[2]), max(plan[1], plan[2])
    _find_rows(rowptr, node, start, count)
    waiting = uint64(0)
    for k in range(uint64(node.size)):
        mass = count[k]
        if table.size and mass:
            mass = table[uint64(start[k] + count[k] - 1)]
        out[k] = REFUSED if mass else -1
        open_[waiting] = int64(k)
        waiting += uint64(mass > 0)
    for turn in range(uint64(rounds)):
        if waiting == 0:
            break
        for i in range(waiting):
            k = uint64(open_[i])
            own = uint64(stream[k]), start[k], count[k]
            edge[k], coin[k] = _propose(*own, table, plan, turn)
            _prefetch(col, uint64(max(edge[k], start[k])))
        for i in range(waiting):
            k = uint64(open_[i])
            if edge[k] < 0:
                row = start[k], count[k]
                out[k] = _way_back(col, bloom, *row, last[k], -1 - edge[k])
                to[k] = -1
                continue
            to[k] = col[uint64(edge[k])]
            _prefetch(rowptr, uint64(to[k]))
        questions = uint64(0)
        for i in range(waiting):
            k = uint64(open_[i])
            back = to[k] == last[k]
            taken = to[k] >= 0 and coin[k] <= (plan[0] if back else sure)
            out[k] += (edge[k] - out[k]) * int64(taken)
            open_end = to[k] >= 0 and not back and sure < coin[k] <= hopeless
            asking[questions] = int64(k)
            questions += uint64(open_end)
        _look_up(graph, asking, questions, to, last, low, size)
        for i in range(questions):
            k = uint64(asking[i])
            if coin[k] <= (plan[1] if size[k] else plan[2]):
                out[k] = edge[k]
        still = uint64(0)
        for i in range(waiting):
            k = uint64(open_[i])
            open_[still] = int64(k)
            still += uint64(out[k] == REFUSED)
        waiting = still


@_compiled
def _look_up(graph, asking, questions, to, last, low, size):
    """Whether row to[k] holds last[k], for all that ask at once; answers in size[k].

    Most rows do not, and most of the time a bit of the filter says so.
    """
    rowptr, _, sorted_col, bloom = graph
    for i in range(questions):
        k = uint64(asking[i])
        low[k] = rowptr[uint64(to[k])]
        size[k] = rowptr[uint64(to[k]) + _1] - low[k]
        if bloom.size:
            _prefetch(bloom, _place(low[k], size[k], last[k])[0])
    for i in range(questions):
        k = uint64(asking[i])
        if bloom.size and size[k]:
            at, bit = _place(low[k], size[k], last[k])
            size[k] *= int64((bloom[at] & bit) != 0)
    for i in range(questions):
        k = uint64(asking[i])
        if size[k]:
            end = low[k] + size[k]
            at = _bisect(sorted_col, low[k], end, last[k] - 1)
            size[k] = at < end and sorted_col[uint64(at)] == last[k]


@_compiled
def _copies(sorted_col, start, stop, value):
    """The range of positions in a sorted row that hold `value`."""
    low = _bisect(sorted_col, start, stop, value - 1)
    return low, _bisect(sorted_col, low, stop, value)


@_compiled
def _shared(graph, reverse, node, last):
    """A sorted list that names every neighbour of `node` whose row holds `last`.

    The row itself, or what `last` can be reached from, whichever is shorter.
    """
    rowptr, sorted_col = graph[0], graph[2]
    start, stop = rowptr[uint64(node)], rowptr[uint64(node) + _1]
    if reverse[0].size:
        first, end = reverse[0][uint64(last)], reverse[0][uint64(last) + _1]
        if end - first < stop - start:
            return reverse[1][first:end]
    return sorted_col[start:stop]


@_compiled
def _near(graph, start, stop, last, names, k):
    """The copies in a row of the k-th name, if it is new and next to `last`."""
    value = int64(names[k])
    repeated = k > 0 and names[k - _1] == names[k]
    if repeated or value == last or not _has_edge(graph[0], graph[2], value, last):
        return start, start
    return _copies(graph[2], start, stop, value)


@_compiled
def _weigh(graph, reverse, in_order, node, last, word, alpha, mass_bits):
    """An edge by the exact weights of all neighbours; see `torch_ops`."""
    rowptr, col, sorted_col, bloom = graph
    start, stop = rowptr[uint64(node)], rowptr[uint64(node) + _1]
    names = _shared(graph, reverse, node, last)
    back_low, back_high = _copies(sorted_col, start, stop, last)
    back, near = back_high - back_low, int64(0)
    for k in range(uint64(names.size)):
        low, high = _near(graph, start, stop, last, names, k)
        near += high - low
    count = (back, near, stop - start - back - near)
    length, degree, top = 0, stop - start, 0.0
    while degree > 0:
        degree >>= 1
        length += 1
    for k in range(3):
        top = max(top, alpha[k] if count[k] else 0.0)
    unit = float(int64(1) << (mass_bits - length))
    mass, total = np.empty(3, np.int64), int64(0)
    for k in range(3):
        mass[k] = max(int64(alpha[k] / top * unit), int64(1))
        total += mass[k] * count[k]
    left, kind = int64(_below_wide(word, uint64(total))), 0
    while left >= mass[kind] * count[kind]:
        left -= mass[kind] * count[kind]
        kind += 1
    rank = left // mass[kind]
    at = back_low + rank
    if kind == 1:
        for k in range(uint64(names.size)):
            low, high = _near(graph, start, stop, last, names, k)
            if rank < high - low:
                at = low + rank
                break
            rank -= high - low
    elif kind == 2:
        at, waits = start + rank, back > 0
        for k in range(uint64(names.size)):
            low, high = _near(graph, start, stop, last, names, k)
            if waits and low > back_low:  # its turn among the others has come
                if back_low > at:
                    break
                at, waits = at + back, False
            if high > low and low > at:
                break
            at += high - low
        if waits and back_low <= at:
            at += back
    if in_order:
        return at
    value = int64(sorted_col[uint64(at)])
    copy = at - _bisect(sorted_col, start, stop, value - 1)
    return _way_back(col, bloom, start, stop - start, value, copy)


@_compiled
def weigh_node2vec(
    lo, hi, graph, reverse, in_order, node, last, stream, alpha, mass_bits, out
):
    for i in range(lo, hi):
        word = _bits(uint64(stream[i]), uint64(0))
        args = graph, reverse, in_order, node[i], last[i], word
        out[i] = _weigh(*args, alpha, mass_bits)


@_compiled
def draw_node2vec(lo, hi, graph, table, node, last, stream, plan, rounds, out):
    """By mass if `table` is not empty, else uniform; see `torch_ops`."""
    scratch = np.empty((9, _CROWD + 1), np.int64)
    for first in range(lo, hi, _CROWD):
        stop = min(hi, first + _CROWD)
        walkers = node[first:stop], last[first:stop], stream[first:stop]
        own = out[first:stop], scratch
        _node2vec_block(graph, table, *walkers, plan, rounds, *own)


@_compiled
def walk_node2vec(
    lo,
    hi,
    graph,
    reverse,
    in_order,
    keys,
    plan,
    rounds,
    alpha,
    mass_bits,
    stays,
    nodes,
    edges,
):
    """Whole walks from seeds lo to hi, level by level as in `forest_uniform`."""
    rowptr, col = graph[0], graph[1]
    scratch = np.empty((9, _CROWD + 1), np.int64)
    stream, table = np.empty(_CROWD, np.int64), np.empty(0, np.int64)
    total = edges.size // (keys.size + 1)
    for first in range(lo, hi, _CROWD):
        stop = min(hi, first + _CROWD)
        for depth in range(keys.size):
            at = depth * total
            node = nodes[at + first : at + stop]
            edge = edges[at + total + first : at + total + stop]
            arrived = nodes[at + total + first : at + total + stop]
            if depth == 0:
                _step(
                    *(first, rowptr, col, keys[0], 1, True, stays),
                    *(node, edge, arrived, scratch),
                )
                continue
            for k in range(stop - first):
                word = _mix(keys[depth] + uint64(first + k) * _GOLDEN)
                stream[k] = int64(_bits(word, uint64(0)))
            last = nodes[at - total + first : at - total + stop]
            walkers = node, last, stream
            _node2vec_block(graph, table, *walkers, plan, rounds, edge, scratch)
            for k in range(edge.size):
                if edge[k] == REFUSED:
                    # words that no round has used
                    own = _bits(uint64(stream[k]), uint64(rounds + rounds))
                    own = _bits(own, uint64(0))
                    args = graph, reverse, in_order, node[k], last[k], own
                    edge[k] = _weigh(*args, alpha, mass_bits)
            _follow(col, node, scratch[1], 1, True, stays, edge, arrived)


@_compiled
def ascends(index):
    """Whether the entries are sorted already."""
    for i in range(1, index.size):  # noqa: SIM110 (numba compiles no generators)
        if index[i] < index[i - 1]:
            return False
    return True


@_compiled
def count_buckets(lo, hi, row, shift, counts):
    """How many of the edges lo to hi fall into each bucket of 2**shift rows."""
    for i in range(uint64(lo), uint64(hi)):
        counts[uint64(row[i]) >> shift] += 1


@_compiled
def fill_buckets(lo, hi, row, col, shift, free, rows, cols, ids):
    """Moves the edges lo to hi behind one another into their buckets."""
    for i in range(uint64(lo), uint64(hi)):
        bucket = uint64(row[i]) >> shift
        at = uint64(free[bucket])
        free[bucket] = int64(at) + 1
        rows[at] = uint64(row[i]) - (bucket << shift)
        cols[at], ids[at] = col[i], i


@_compiled
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
