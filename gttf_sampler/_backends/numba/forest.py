"""Walk forests of uniform draws: all depths of a block of seeds in one pass."""

import numpy as np
from numba import int64, uint64
from torch import Tensor

from gttf_sampler._backends.memory import IDS
from gttf_sampler._backends.numba.draw import draw_row
from gttf_sampler._backends.numba.rng import GOLDEN, ONE, compiled, mix, words
from gttf_sampler._backends.numba.rows import (
    empty_if_outside,
    parallel_inside,
    replace_outside,
)
from gttf_sampler._backends.torch.forest import ForestSpec, Levels
from gttf_sampler.random import Key

_ANY = 1 << 62  # more than there are nodes
_BLOCK = 64  # seeds that walk side by side, to wait for memory together


@compiled
def find_rows(rowptr, edges, node, start, count, changed):
    """The row of every node; nothing here waits for anything else.

    `changed` is set where a row is not inside of the edges; see `numba.hop`.
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
    """Follows edges to their nodes; at a dead end a walker that `stays` is there.

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
def step(first, graph, how, key, node, edge, arrived, start, count, changed):
    """One depth of an unbiased forest, for walkers number `first` and following.

    `graph` is (rowptr, col, the number of nodes that edges may lead to), `how` the
    fanout, whether draws are replaced, and whether a walker stays. `start` and `count`
    are scratch.
    """
    rowptr, col, limit = graph
    fanout, replace, stays = how
    find_rows(rowptr, col.size, node, start, count, changed)
    for i in range(node.size):
        stream, at = mix(key + uint64(first + i) * GOLDEN), i * fanout
        drawn = draw_row(stream, start[i], count[i], fanout, replace, edge, at)
        for j in range(drawn, fanout):
            edge[at + j] = -1
    follow(col, limit, node, count, fanout, replace, stays, edge, arrived, changed)


@compiled
def forest_kernel(
    lo, hi, rowptr, col, keys, fanouts, starts, replace, stays, nodes, edges, changed
):
    """The trees of seeds lo to hi; level k of all trees begins at starts[k]."""
    widest = min(_BLOCK, hi - lo)
    for depth in range(fanouts.size - 1):
        widest *= fanouts[depth]
    start, count = np.empty(widest, np.int64), np.empty(widest, np.int64)
    for first in range(lo, hi, _BLOCK):
        last, width = min(hi, first + _BLOCK), 1
        for depth in range(fanouts.size):
            here, there = starts[depth], starts[depth + 1]
            wider = width * fanouts[depth]
            final = depth + 1 == fanouts.size  # whose nodes may be of another set
            limit = _ANY if final else rowptr.size - 1
            graph, how = (rowptr, col, limit), (fanouts[depth], replace, stays)
            node = nodes[here + first * width : here + last * width]
            edge = edges[there + first * wider : there + last * wider]
            arrived = nodes[there + first * wider : there + last * wider]
            key, walker = keys[depth], first * width
            step(walker, graph, how, key, node, edge, arrived, start, count, changed)
            width = wider


def walk_forest(spec: ForestSpec, seeds: Tensor, key: Key) -> Levels | None:
    """(edges, nodes) of every depth, unless drawn by mass; see `torch.forest`."""
    if spec.mass is not None:
        return None
    fanouts = spec.fanouts
    widths = np.cumprod([1, *fanouts], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(widths * seeds.numel())])
    total = int(starts[-1])
    nodes, edges = IDS.make(total), IDS.make(total)
    nodes[: seeds.numel()] = seeds
    parallel_inside(
        forest_kernel,
        *(seeds.numel(), total, spec.rowptr.numpy(), spec.col.numpy()),
        *(words(key, len(fanouts)), np.array(fanouts, np.int64), starts),
        *(spec.replace, spec.stays, nodes.numpy(), edges.numpy()),
    )
    levels = zip(starts[1:-1].tolist(), starts[2:].tolist(), fanouts, strict=True)
    return [
        (edges[lo:hi].view(-1, fanout), nodes[lo:hi].view(-1, fanout))
        for lo, hi, fanout in levels
    ]
