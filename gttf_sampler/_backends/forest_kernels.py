"""Walk forests without a bias, all depths of a block of seeds in one pass."""

import numpy as np
from numba import uint64

from gttf_sampler._backends.draw_kernels import draw_row
from gttf_sampler._backends.word_kernels import GOLDEN, ONE, compiled, mix

_BLOCK = 64  # seeds that walk side by side, to wait for memory together


@compiled
def find_rows(rowptr, node, start, count):
    """The row of every node; nothing here waits for anything else."""
    for i in range(uint64(node.size)):
        here = node[i]
        start[i], count[i] = 0, 0
        if here >= 0:
            start[i] = rowptr[uint64(here)]
            count[i] = rowptr[uint64(here) + ONE] - start[i]


@compiled
def follow(col, node, count, fanout, replace, stays, edge, arrived):
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


@compiled
def step(first, rowptr, col, key, fanout, replace, stays, node, edge, arrived, scratch):
    """One depth of an unbiased forest, for walkers number `first` and following."""
    start, count = scratch[0], scratch[1]
    find_rows(rowptr, node, start, count)
    for i in range(node.size):
        stream, at = mix(key + uint64(first + i) * GOLDEN), i * fanout
        drawn = draw_row(stream, start[i], count[i], fanout, replace, edge, at)
        for j in range(drawn, fanout):
            edge[at + j] = -1
    follow(col, node, count, fanout, replace, stays, edge, arrived)


@compiled
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
            step(
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
