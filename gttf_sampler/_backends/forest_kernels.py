"""Walk forests without a bias, all depths of a block of seeds in one pass."""

import numpy as np
from numba import int64, uint64

from gttf_sampler._backends.draw_kernels import draw_row
from gttf_sampler._backends.hop_kernels import empty_if_outside, replace_outside
from gttf_sampler._backends.word_kernels import GOLDEN, ONE, compiled, mix

_ANY = 1 << 62  # more than there are nodes
_BLOCK = 64  # seeds that walk side by side, to wait for memory together


@compiled
def find_rows(rowptr, edges, node, start, count, changed):
    """The row of every node; nothing here waits for anything else.

    `changed` is set where a row is not inside of the edges; see `hop_kernels`.
    """
    for i in range(uint64(node.size)):
        here = node[i]
        start[i], count[i] = 0, 0
        if here >= 0:
            start[i] = rowptr[uint64(here)]
            count[i] = rowptr[uint64(here) + ONE] - start[i]
    if not empty_if_outside(start[: node.size], count[: node.size], edges):
        changed[0] = True


@compiled
def follow(col, nodes, node, count, fanout, replace, stays, edge, arrived, changed):
    """Where the edges lead; at a dead end a walker that `stays` is there.

    `changed` is set where that is none of so many `nodes`; -1 stands for it.
    """
    for e in range(uint64(edge.size)):
        taken = edge[e]
        if taken >= 0:
            arrived[e] = col[uint64(taken)]
            continue
        walker = e // uint64(fanout)
        arrived[e] = -1
        if stays and count[walker] == 0 and (replace or e == walker * uint64(fanout)):
            arrived[e] = node[walker]
    low = int64(0)
    for e in range(uint64(edge.size)):  # -1 is for those without an edge alone
        low = min(low, arrived[e] & ~(edge[e] >> 63))
    if low < 0 or not replace_outside(arrived, -1, nodes, -1):
        changed[0] = True
        replace_outside(arrived, -1, nodes, -1)


@compiled
def step(
    first,
    rowptr,
    col,
    limit,
    key,
    fanout,
    replace,
    stays,
    node,
    edge,
    arrived,
    scratch,
    changed,
):
    """One depth of an unbiased forest, for walkers number `first` and following."""
    start, count = scratch[0], scratch[1]
    find_rows(rowptr, col.size, node, start, count, changed)
    for i in range(node.size):
        stream, at = mix(key + uint64(first + i) * GOLDEN), i * fanout
        drawn = draw_row(stream, start[i], count[i], fanout, replace, edge, at)
        for j in range(drawn, fanout):
            edge[at + j] = -1
    how = fanout, replace, stays
    follow(col, limit, node, count, *how, edge, arrived, changed)


@compiled
def forest_uniform(
    lo, hi, rowptr, col, keys, fanouts, starts, replace, stays, nodes, edges, changed
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
            final = depth + 1 == fanouts.size  # whose nodes may be of another set
            step(
                first * width,
                rowptr,
                col,
                _ANY if final else rowptr.size - 1,
                keys[depth],
                fanouts[depth],
                replace,
                stays,
                nodes[here + first * width : here + last * width],
                edges[there + first * wider : there + last * wider],
                nodes[there + first * wider : there + last * wider],
                scratch,
                changed,
            )
            width = wider
