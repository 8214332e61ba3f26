"""node2vec by rejection: proposals, and coins that decide on them."""

import numpy as np
from numba import int64, uint64

from gttf_sampler._backends.draw_kernels import bisect
from gttf_sampler._backends.forest_kernels import (
    find_rows,
    follow,
    step,
)
from gttf_sampler._backends.hop_kernels import row_range
from gttf_sampler._backends.index_kernels import find_copy, place
from gttf_sampler._backends.second_order_kernels import weigh_exactly
from gttf_sampler._backends.types import REFUSED
from gttf_sampler._backends.word_kernels import (
    GOLDEN,
    ONE,
    below_wide,
    bits,
    compiled,
    mix,
    prefetch,
)

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
    """Whether row to[k] holds last[k], for all that ask at once; answers in size[k].

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
def draw_node2vec(lo, hi, graph, table, node, last, stream, plan, rounds, out, changed):
    """By mass if `table` is not empty, else uniform; see `torch_ops`."""
    scratch = np.empty((9, _CROWD + 1), np.int64)
    for first in range(lo, hi, _CROWD):
        stop = min(hi, first + _CROWD)
        walkers = node[first:stop], last[first:stop], stream[first:stop]
        own = out[first:stop], scratch, changed
        _node2vec_block(graph, table, *walkers, plan, rounds, *own)


@compiled
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
    changed,
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
                step(
                    *(first, rowptr, col, rowptr.size - 1, keys[0], 1, True, stays),
                    *(node, edge, arrived, scratch, changed),
                )
                continue
            for k in range(stop - first):
                word = mix(keys[depth] + uint64(first + k) * GOLDEN)
                stream[k] = int64(bits(word, uint64(0)))
            last = nodes[at - total + first : at - total + stop]
            walkers = node, last, stream
            own = rounds, edge, scratch, changed
            _node2vec_block(graph, table, *walkers, plan, *own)
            for k in range(edge.size):
                if edge[k] == REFUSED:
                    # words that no round has used
                    word = bits(uint64(stream[k]), uint64(rounds + rounds))
                    word = bits(word, uint64(0))
                    args = graph, reverse, in_order, node[k], last[k], word
                    edge[k] = weigh_exactly(*args, alpha, mass_bits)
            how = scratch[1], 1, True, stays, edge, arrived, changed
            follow(col, rowptr.size - 1, node, *how)
