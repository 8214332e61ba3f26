"""node2vec: proposals by rejection, and exact weights where all were refused."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numba import int64, uint64
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.memory import IDS, Array
from gttf_sampler._backends.numba.forest import find_rows, follow, step
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
from gttf_sampler._backends.torch.node2vec import REFUSED, Envelope, SecondOrder
from gttf_sampler.random import Key


class Graph(NamedTuple):
    """The rows that walkers move on.

    Attributes:
        rowptr: int64 [n + 1].
        col: [m], the rows as they are.
        sorted_col: [m], every row sorted.
        bloom: uint8 [m], the Bloom filter of each row; empty if there is none.
    """

    rowptr: Array
    col: Array
    sorted_col: Array
    bloom: Array


class Exact(NamedTuple):
    """The arrays that draws by exact weights need beside the graph.

    Attributes:
        rowptr, col: the reversed graph, rows sorted; empty if there is none.
        in_order: whether the rows of the graph itself are sorted.
        alpha: float64 [3], weights of the way back, of common neighbours, of the rest.
    """

    rowptr: Array
    col: Array
    in_order: bool
    alpha: Array


class Scratch(NamedTuple):
    """Memory for a block of walkers, int64 [k] each.

    Attributes:
        start, length: the rows in front of the walkers.
        edge: the edge that is proposed.
        to: the node at its other end.
        coin: by which it is accepted, 63 bits.
        low, size: the row of that node; `size` then tells if it holds the last one.
        waiting: walkers whose proposals were all refused so far.
        asking: those of them whose proposal depends on what is next to the last node.
    """

    start: Array
    length: Array
    edge: Array
    to: Array
    coin: Array
    low: Array
    size: Array
    waiting: Array
    asking: Array


@compiled
def scratch_for(walkers):
    """Memory for a block of so many walkers."""
    cells = np.empty((9, walkers), np.int64)
    return Scratch(
        start=cells[0],
        length=cells[1],
        edge=cells[2],
        to=cells[3],
        coin=cells[4],
        low=cells[5],
        size=cells[6],
        waiting=cells[7],
        asking=cells[8],
    )


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
def _shared(graph, exact, start, stop, last):
    """A sorted list that names every neighbour in a row whose own row holds `last`.

    The row itself, or what `last` can be reached from, whichever is shorter.
    """
    if exact.rowptr.size:
        rows, edges = exact.rowptr.size - 1, exact.col.size
        first, size = row_range(exact.rowptr, rows, edges, last)
        if 0 <= size < stop - start:
            return exact.col[first : first + size]
    return graph.sorted_col[start:stop]


@compiled
def _near(graph, start, stop, last, names, k):
    """The copies in a row of the k-th name, if it is new and next to `last`."""
    value = int64(names[k])
    if value == last or (k > 0 and names[k - ONE] == names[k]):
        return start, start
    if not row_holds(graph.rowptr, graph.sorted_col, value, last):
        return start, start
    return _copies(graph.sorted_col, start, stop, value)


@compiled
def weigh_exactly(graph, exact, node, last, word):
    """An edge by the exact weights of all neighbours; see `torch.node2vec`."""
    rowptr, col, sorted_col = graph.rowptr, graph.col, graph.sorted_col
    alpha = exact.alpha
    start, size = row_range(rowptr, rowptr.size - 1, col.size, node)
    if size <= 0:
        return int64(-1)
    stop = start + size
    names = _shared(graph, exact, start, stop, last)
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
    if exact.in_order:
        return at
    value = int64(sorted_col[uint64(at)])
    copy = at - bisect(sorted_col, start, stop, value - 1)
    return find_copy(col, graph.bloom, start, stop - start, value, copy)


@compiled
def weigh_node2vec_kernel(lo, hi, graph, exact, node, last, stream, out):
    graph, exact = Graph(*graph), Exact(*exact)
    for i in range(lo, hi):
        word = bits(uint64(stream[i]), uint64(0))
        out[i] = weigh_exactly(graph, exact, node[i], last[i], word)


_CROWD = 128  # walkers side by side: more than in forests, as not all are done at once


@compiled
def _propose(stream, start, count, table, envelope, turn):
    """An edge of the row, or -1 - i for copy i of the way back; a coin of 63 bits."""
    word = bits(stream, turn + turn)
    coin = int64(bits(stream, turn + turn + ONE) >> ONE)
    if table.size:
        total = table[uint64(start + count - 1)]
        target = int64(below_wide(word, uint64(total)))
        return bisect(table, start, start + count, target), coin
    ordinary = count << envelope.unit
    extra = envelope.extra
    target = int64(below_wide(word, uint64(ordinary + extra * envelope.copies)))
    if target < ordinary:
        return start + (target >> envelope.unit), coin
    return -1 - (target - ordinary) // extra, coin


@compiled
def _node2vec_block(
    graph, table, node, last, stream, envelope, rounds, out, scratch, changed
):
    """Steps of a block of walkers, with every move made together.

    So their cache misses overlap, and only those look for the edge to `last` whose coin
    leaves the decision open.
    """
    rowptr, col, bloom = graph.rowptr, graph.col, graph.bloom
    start, count, edge, to = scratch.start, scratch.length, scratch.edge, scratch.to
    coin, size = scratch.coin, scratch.size
    open_, asking = scratch.waiting, scratch.asking
    sure = min(envelope.near, envelope.away)
    hopeless = max(envelope.near, envelope.away)
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
            edge[k], coin[k] = _propose(
                uint64(stream[k]), start[k], count[k], table, envelope, turn
            )
            prefetch(col, uint64(max(edge[k], start[k])))
        for i in range(waiting):
            k = uint64(open_[i])
            if edge[k] < 0:
                copy = -1 - edge[k]
                out[k] = find_copy(col, bloom, start[k], count[k], last[k], copy)
                to[k] = -1
                continue
            edge[k] = min(edge[k], start[k] + count[k] - 1)
            to[k] = col[uint64(edge[k])]
            prefetch(rowptr, uint64(to[k]))
        questions = uint64(0)
        for i in range(waiting):
            k = uint64(open_[i])
            back = to[k] == last[k]
            taken = to[k] >= 0 and coin[k] <= (envelope.back if back else sure)
            out[k] += (edge[k] - out[k]) * int64(taken)
            open_end = to[k] >= 0 and not back and sure < coin[k] <= hopeless
            asking[questions] = int64(k)
            questions += uint64(open_end)
        _look_up(graph, questions, last, scratch)
        for i in range(questions):
            k = uint64(asking[i])
            if coin[k] <= (envelope.near if size[k] else envelope.away):
                out[k] = edge[k]
        still = uint64(0)
        for i in range(waiting):
            k = uint64(open_[i])
            open_[still] = int64(k)
            still += uint64(out[k] == REFUSED)
        waiting = still


@compiled
def _look_up(graph, questions, last, scratch):
    """Looks for last[k] in row to[k], for all that ask at once; answers in size[k].

    Most rows do not hold it, and most of the time a bit of the filter says so.
    """
    rowptr, sorted_col, bloom = graph.rowptr, graph.sorted_col, graph.bloom
    asking, to, low, size = scratch.asking, scratch.to, scratch.low, scratch.size
    for i in range(questions):
        k = uint64(asking[i])
        low[k], size[k] = row_range(rowptr, rowptr.size - 1, sorted_col.size, to[k])
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
    lo, hi, graph, table, node, last, stream, envelope, rounds, out, changed
):
    """By mass if `table` is not empty, else uniform; see `torch.node2vec`."""
    graph, envelope = Graph(*graph), Envelope(*envelope)
    scratch = scratch_for(_CROWD + 1)
    for first in range(lo, hi, _CROWD):
        stop = min(hi, first + _CROWD)
        here, before, own = node[first:stop], last[first:stop], stream[first:stop]
        edge = out[first:stop]
        _node2vec_block(
            graph, table, here, before, own, envelope, rounds, edge, scratch, changed
        )


@compiled
def walk_node2vec_kernel(
    lo, hi, graph, exact, keys, envelope, rounds, stays, nodes, edges, changed
):
    """Whole walks from seeds lo to hi, level by level as in `forest_kernel`."""
    graph, exact, envelope = Graph(*graph), Exact(*exact), Envelope(*envelope)
    rowptr, col = graph.rowptr, graph.col
    how, rows = (1, True, stays), (rowptr, col, rowptr.size - 1)
    scratch = scratch_for(_CROWD + 1)
    start, count = scratch.start, scratch.length
    stream, table = np.empty(_CROWD, np.int64), np.empty(0, np.int64)
    total = edges.size // (keys.size + 1)
    for first in range(lo, hi, _CROWD):
        stop = min(hi, first + _CROWD)
        for depth in range(keys.size):
            at, key = depth * total, keys[depth]
            node = nodes[at + first : at + stop]
            edge = edges[at + total + first : at + total + stop]
            arrived = nodes[at + total + first : at + total + stop]
            if depth == 0:
                step(first, rows, how, key, node, edge, arrived, start, count, changed)
                continue
            for k in range(stop - first):
                word = mix(key + uint64(first + k) * GOLDEN)
                stream[k] = int64(bits(word, uint64(0)))
            last = nodes[at - total + first : at - total + stop]
            _node2vec_block(
                graph,
                table,
                node,
                last,
                stream,
                envelope,
                rounds,
                edge,
                scratch,
                changed,
            )
            for k in range(edge.size):
                if edge[k] == REFUSED:
                    # words that no round has used
                    word = bits(uint64(stream[k]), uint64(rounds + rounds))
                    word = bits(word, uint64(0))
                    edge[k] = weigh_exactly(graph, exact, node[k], last[k], word)
            follow(
                col,
                rowptr.size - 1,
                node,
                count,
                1,
                True,
                stays,
                edge,
                arrived,
                changed,
            )


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
        batch,
        total * 8,
        _arrays(graph),
        _exact(graph),
        words(key, length),
        tuple(graph.envelope),
        graph.rounds,
        stays,
        nodes.numpy(),
        edges.numpy(),
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
    parallel_inside(
        draw_node2vec_kernel,
        node.numel(),
        node.numel() * 16,
        _arrays(graph),
        table.contiguous().numpy(),
        node.contiguous().numpy(),
        last.contiguous().numpy(),
        stream.contiguous().numpy(),
        tuple(graph.envelope),
        graph.rounds,
        out.numpy(),
    )
    return out


def weigh_node2vec(
    graph: SecondOrder, node: Tensor, last: Tensor, stream: Tensor
) -> Tensor:
    """Edges [w] by the exact weights; see `torch.node2vec`."""
    out = torch.empty_like(node)
    parallel(
        weigh_node2vec_kernel,
        node.numel(),
        node.numel() * 1024,  # rows are long where this is needed
        _arrays(graph),
        _exact(graph),
        node.contiguous().numpy(),
        last.contiguous().numpy(),
        stream.contiguous().numpy(),
        out.numpy(),
    )
    return out


def _exact(graph: SecondOrder) -> tuple[Any, ...]:
    """The fields of `Exact`, plain, which numba is told of faster."""
    missing = graph.rowptr[:0], graph.col[:0]
    rowptr, col = missing if graph.reverse is None else graph.reverse
    in_order = graph.sorted_col.data_ptr() == graph.col.data_ptr()
    return tuple(Exact(rowptr.numpy(), col.numpy(), in_order, np.array(graph.alpha)))


def _arrays(graph: SecondOrder) -> tuple[Array, ...]:
    """The fields of `Graph`, plain; refuses rows that were edited meanwhile."""
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
    rows = graph.rowptr.numpy(), graph.col.numpy(), graph.sorted_col.numpy()
    return tuple(Graph(*rows, bloom.numpy()))
