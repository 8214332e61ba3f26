"""node2vec: proposals by rejection, and exact weights where all were refused."""

import numpy as np
import torch
from numba import int64, uint64
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.memory import IDS, Array
from gttf_sampler._backends.numba.draw import find_rows, follow, step
from gttf_sampler._backends.numba.rng import (
    GOLDEN,
    ONE,
    below_wide,
    bits,
    compiled,
    mix,
    prefetch,
    words,
)
from gttf_sampler._backends.numba.rows import (
    bisect,
    parallel_inside,
    place,
    row_holds,
    row_range,
)
from gttf_sampler._backends.threads import parallel
from gttf_sampler._backends.torch.draw import MASS_BITS
from gttf_sampler._backends.torch.node2vec import REFUSED, SecondOrder
from gttf_sampler.random import Key


@compiled
def find_copy(col, bloom, start, count, last, copy):
    """The edge number `copy` to `last` in a row, REFUSED if there are not as many.

    It may read all of the row. node2vec's way back asks for it in proportion to 1 / δ,
    which comes to the same whatever the row's length.
    """
    if bloom.size:
        at, bit = place(start, count, last)
        if not bloom[at] & bit:
            return int64(REFUSED)
    for e in range(start, start + count):
        if col[uint64(e)] == last:
            if copy == 0:
                return e
            copy -= 1
    return int64(REFUSED)


@compiled
def _copies(sorted_col, start, stop, value):
    """The range of positions in a sorted row that hold `value`."""
    low = bisect(sorted_col, start, stop, value - 1)
    return low, bisect(sorted_col, low, stop, value)


@compiled
def _shared(graph, reverse, start, stop, last):
    """A sorted list that names every neighbour in a row whose own row holds `last`.

    The row itself, or what `last` can be reached from, whichever is shorter.
    """
    if reverse[0].size:
        first, size = row_range(reverse[0], reverse[0].size - 1, reverse[1].size, last)
        if 0 <= size < stop - start:
            return reverse[1][first : first + size]
    return graph[2][start:stop]


@compiled
def _near(graph, start, stop, last, names, k):
    """The copies in a row of the k-th name, if it is new and next to `last`."""
    value = int64(names[k])
    repeated = k > 0 and names[k - ONE] == names[k]
    if repeated or value == last or not row_holds(graph[0], graph[2], value, last):
        return start, start
    return _copies(graph[2], start, stop, value)


@compiled
def weigh_exactly(graph, exact, node, last, word):
    """An edge by the exact weights of all neighbours; see `torch.node2vec`.

    `exact` is the reversed graph, whether rows are sorted, and the three weights.
    """
    reverse, in_order, alpha = exact
    rowptr, col, sorted_col, bloom = graph
    start, size = row_range(rowptr, rowptr.size - 1, col.size, node)
    if size <= 0:
        return int64(-1)
    stop = start + size
    names = _shared(graph, reverse, start, stop, last)
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
    unit = float(int64(1) << (MASS_BITS - length))
    mass, total = np.empty(3, np.int64), int64(0)
    for k in range(3):
        mass[k] = max(int64(alpha[k] / top * unit), int64(1))
        total += mass[k] * count[k]
    left, kind = int64(below_wide(word, uint64(total))), 0
    while kind < 2 and left >= mass[kind] * count[kind]:
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
    at = min(max(at, start), stop - 1)  # where a row was edited, nothing else holds
    if in_order:
        return at
    value = int64(sorted_col[uint64(at)])
    copy = at - bisect(sorted_col, start, stop, value - 1)
    return find_copy(col, bloom, start, stop - start, value, copy)


@compiled
def weigh_node2vec_kernel(lo, hi, graph, exact, node, last, stream, out):
    for i in range(lo, hi):
        word = bits(uint64(stream[i]), uint64(0))
        out[i] = weigh_exactly(graph, exact, node[i], last[i], word)


_CROWD = 128  # walkers side by side: more than in forests, as not all are done at once


@compiled
def _propose(stream, start, count, table, plan, turn):
    """An edge of the row, or -1 - i for copy i of the way back; a coin of 63 bits."""
    word = bits(stream, turn + turn)
    coin = int64(bits(stream, turn + turn + ONE) >> ONE)
    if table.size:
        total = table[uint64(start + count - 1)]
        target = int64(below_wide(word, uint64(total)))
        return bisect(table, start, start + count, target), coin
    unit, extra, copies = plan[3], plan[4], plan[5]
    ordinary = count << unit
    target = int64(below_wide(word, uint64(ordinary + extra * copies)))
    if target < ordinary:
        return start + (target >> unit), coin
    return -1 - (target - ordinary) // extra, coin


@compiled
def _node2vec_block(
    graph, table, node, last, stream, plan, rounds, out, scratch, changed
):
    """Steps of a block of walkers, with every move made together.

    So their cache misses overlap, and only those look for the edge to `last` whose coin
    leaves the decision open.
    """
    rowptr, col, bloom = graph[0], graph[1], graph[3]
    start, count, edge, to, coin, low, size, open_, asking = scratch
    sure, hopeless = min(plan[1], plan[2]), max(plan[1], plan[2])
    find_rows(rowptr, col.size, node, start, count, changed)
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
            prefetch(col, uint64(max(edge[k], start[k])))
        for i in range(waiting):
            k = uint64(open_[i])
            if edge[k] < 0:
                row = start[k], count[k]
                out[k] = find_copy(col, bloom, *row, last[k], -1 - edge[k])
                to[k] = -1
                continue
            edge[k] = min(edge[k], start[k] + count[k] - 1)
            to[k] = col[uint64(edge[k])]
            prefetch(rowptr, uint64(to[k]))
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


@compiled
def _look_up(graph, asking, questions, to, last, low, size):
    """Looks for last[k] in row to[k], for all that ask at once; answers in size[k].

    Most rows do not, and most of the time a bit of the filter says so.
    """
    rowptr, _, sorted_col, bloom = graph
    for i in range(questions):
        k = uint64(asking[i])
        inside = rowptr.size - 1, sorted_col.size
        low[k], size[k] = row_range(rowptr, *inside, to[k])
        size[k] = max(size[k], 0)
        if bloom.size:
            prefetch(bloom, place(low[k], size[k], last[k])[0])
    for i in range(questions):
        k = uint64(asking[i])
        if bloom.size and size[k]:
            at, bit = place(low[k], size[k], last[k])
            size[k] *= int64((bloom[at] & bit) != 0)
    for i in range(questions):
        k = uint64(asking[i])
        if size[k]:
            end = low[k] + size[k]
            at = bisect(sorted_col, low[k], end, last[k] - 1)
            size[k] = at < end and sorted_col[uint64(at)] == last[k]


@compiled
def draw_node2vec_kernel(
    lo, hi, graph, table, node, last, stream, plan, rounds, out, changed
):
    """By mass if `table` is not empty, else uniform; see `torch.node2vec`."""
    scratch = np.empty((9, _CROWD + 1), np.int64)
    for first in range(lo, hi, _CROWD):
        stop = min(hi, first + _CROWD)
        walkers = node[first:stop], last[first:stop], stream[first:stop]
        own = out[first:stop], scratch, changed
        _node2vec_block(graph, table, *walkers, plan, rounds, *own)


@compiled
def walk_node2vec_kernel(
    lo, hi, graph, exact, keys, plan, rounds, stays, nodes, edges, changed
):
    """Whole walks from seeds lo to hi, level by level as in `forest_kernel`."""
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
                how, own = (1, True, stays), (node, edge, arrived, scratch, changed)
                step(first, rowptr, col, rowptr.size - 1, how, keys[0], *own)
                continue
            for k in range(stop - first):
                word = mix(keys[depth] + uint64(first + k) * GOLDEN)
                stream[k] = int64(bits(word, uint64(0)))
            last = nodes[at - total + first : at - total + stop]
            block = plan, rounds, edge, scratch, changed
            _node2vec_block(graph, table, node, last, stream, *block)
            for k in range(edge.size):
                if edge[k] == REFUSED:
                    # words that no round has used
                    word = bits(uint64(stream[k]), uint64(rounds + rounds))
                    word = bits(word, uint64(0))
                    edge[k] = weigh_exactly(graph, exact, node[k], last[k], word)
            here = scratch[1], 1, True, stays, edge, arrived, changed
            follow(col, rowptr.size - 1, node, *here)


def walk_node2vec(
    graph: SecondOrder, seeds: Tensor, length: int, key: Key, stays: bool
) -> list[tuple[Tensor, Tensor]] | None:
    """(edges, nodes) of every step; see `torch.node2vec`.

    Weighted ones go step by step.
    """
    if graph.table is not None:
        return None
    batch, total = seeds.numel(), seeds.numel() * (length + 1)
    nodes, edges = IDS.make(total), IDS.make(total)
    nodes[:batch] = seeds
    parallel_inside(
        walk_node2vec_kernel,
        *(batch, total * 8, _arrays(graph), _exact(graph), words(key, length)),
        *(np.array(graph.envelope, np.int64), graph.rounds, stays),
        *(nodes.numpy(), edges.numpy()),
    )
    shape = (length + 1, batch)
    levels = zip(edges.view(shape)[1:], nodes.view(shape)[1:], strict=True)
    return [(edge[:, None], node[:, None]) for edge, node in levels]


def draw_node2vec(
    graph: SecondOrder, node: Tensor, last: Tensor, stream: Tensor
) -> Tensor:
    """Edges [w] accepted by rejection sampling; see `torch.node2vec`."""
    out = torch.empty_like(node)
    table = node.new_empty(0) if graph.table is None else graph.table
    walkers = (x.contiguous().numpy() for x in (table, node, last, stream))
    how = np.array(graph.envelope, np.int64), graph.rounds, out.numpy()
    args = _arrays(graph), *walkers, *how
    parallel_inside(draw_node2vec_kernel, node.numel(), node.numel() * 16, *args)
    return out


def weigh_node2vec(
    graph: SecondOrder, node: Tensor, last: Tensor, stream: Tensor
) -> Tensor:
    """Edges [w] by the exact weights; see `torch.node2vec`."""
    out = torch.empty_like(node)
    walkers = (x.contiguous().numpy() for x in (node, last, stream))
    work = node.numel() * 1024  # rows are long where this is needed
    args = _arrays(graph), _exact(graph), *walkers, out.numpy()
    parallel(weigh_node2vec_kernel, node.numel(), work, *args)
    return out


def _exact(graph: SecondOrder) -> tuple[tuple[Array, Array], bool, Array]:
    """The reversed graph, empty if missing; whether rows are sorted; the weights."""
    missing = graph.rowptr[:0], graph.col[:0]
    start, name = missing if graph.reverse is None else graph.reverse
    in_order = graph.sorted_col.data_ptr() == graph.col.data_ptr()
    return (start.numpy(), name.numpy()), in_order, np.array(graph.alpha)


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
