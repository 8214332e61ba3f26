"""Rooted sampling of the fast CPU backend: draws shared by threads, numbers by one.

A hop is drawn in parts; while the nodes of one part get their numbers, which has to be
done in order, the next ones are drawn.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import kernels
from gttf_sampler._backends.memory import borrow, give_back, lend
from gttf_sampler._backends.threads import parallel, start
from gttf_sampler._backends.types import Rooted
from gttf_sampler.random import WORD, Key, fold

Array = np.ndarray[Any, Any]

PARTS, PART = 8, 1 << 13  # how finely drawing and numbering a hop are interleaved
ROOM = 1 << 22  # edges that rooted sampling makes room for before it knows their number


def rooted(
    rowptr: Tensor,
    col: Tensor,
    table: Tensor | None,
    seeds: Tensor,
    fanouts: Sequence[int],
    replace: bool,
    key: Key,
    cell: Tensor,
    reserve: Callable[[int], int],
) -> Rooted | None:
    """Rooted sampling, relabelled in the same pass; see `torch_rooted`."""
    if table is not None and min(fanouts, default=0) < 0:
        return None
    mass = None if table is None else table.numpy()
    graph, cells = (rowptr.numpy(), col.numpy(), mass), cell.numpy()
    most = _most_edges(seeds.numel(), fanouts) + 1
    numbers = min(rowptr.numel() - 1, most) + seeds.numel()  # nodes have one each
    floor = reserve(numbers)
    limit = floor + numbers
    expected = min(ROOM, most, 2 * col.numel() + seeds.numel())  # it can grow
    out: tuple[Array, ...] = tuple(borrow(expected) for _ in range(3))
    node = _with_room(seeds.numpy(), seeds.numel(), seeds.numel() + expected)
    kernels.number_seeds(seeds.numpy(), cells, floor)
    begin, known, used = 0, seeds.numel(), 0
    hops, sizes = [known], []
    draw = _draw_rows if mass is None else _draw_rows_by_mass
    for number, fanout in enumerate(fanouts):
        hop_key = word(fold(fold(key, number), 0))
        frontier = node[begin:known]
        hop = _Hop(*graph, hop_key, frontier, begin, fanout, replace, used, out)
        found = draw(hop)
        out, drawn = found.out, found.ends[-1]
        node = _with_room(node, known, known + drawn + 1)
        begin, at = known, used
        for wait, end in zip(found.waits, found.ends, strict=True):
            wait()  # for this part; the next ones are drawn while it is numbered
            new, at = out[2][at : used + end], used + end
            known = kernels.number_nodes(new, cells, floor, limit, known, node)
        for array in found.scratch:
            give_back(array)
        used += drawn
        hops.append(known - begin)
        sizes.append(drawn)
    edge, to, row = (lend(array, used) for array in out)
    return Rooted(lend(node, known), row, to, edge, hops, sizes)


def _most_edges(batch: int, fanouts: Sequence[int]) -> int:
    """How many edges rooted sampling can take, unless a hop takes all it finds."""
    total, width = 0, batch
    for fanout in fanouts:
        width *= fanout if fanout >= 0 else 1 << 31
        total += width
    return total


class _Hop(NamedTuple):
    """What a hop is to draw, and where to.

    Attributes:
        rowptr, col: the graph.
        mass: cumulative weights of its edges, or None.
        key: of this hop.
        node: the frontier, whose local ids start at `base`.
        fanout, replace: how many neighbours of each, and how.
        used: entries of `out` that earlier hops have filled.
        out: edge, to, by: the edge, the node that receives and the one that sends.
    """

    rowptr: Array
    col: Array
    mass: Array | None
    key: Any
    node: Array
    base: int
    fanout: int
    replace: bool
    used: int
    out: tuple[Array, ...]

    def room(self, count: int) -> tuple[Array, ...]:
        """`out`, with room for `count` more entries."""
        return tuple(_with_room(x, self.used, self.used + count) for x in self.out)


class _Drawn(NamedTuple):
    """What a hop draws, perhaps still under way.

    Attributes:
        out: as in `_Hop`, with the new entries behind those used before.
        waits: calls that wait for one part of them after the other.
        ends: where each part ends; the last one is how many are drawn in all.
        scratch: to be given back when all parts are there.
    """

    out: tuple[Array, ...]
    waits: list[Callable[[], Any]]
    ends: list[int]
    scratch: list[Array]


def _draw_rows(hop: _Hop) -> _Drawn:
    """Uniform draws for all nodes, in parts that are worth a thread's while."""
    width = hop.node.size
    scratch = [borrow(width) for _ in range(3)]
    begin, count, end = rows = [array[:width] for array in scratch]
    how = hop.fanout, hop.replace
    parallel(kernels.row_sizes, width, width, hop.rowptr, hop.node, *how, *rows)
    np.cumsum(end, out=end)
    drawn = int(end[-1]) if width else 0
    _check.fits("fanouts", 24 * drawn)
    out = hop.room(drawn)
    new = (array[hop.used : hop.used + drawn] for array in out)
    parts = max(1, min(PARTS, drawn // PART))
    bounds = [width * part // parts for part in range(parts + 1)]
    args = hop.col, hop.key, hop.node, begin, count, end, *how, hop.base
    waits = start(kernels.draw_rows, bounds, *args, *new)
    ends = [int(end[bound - 1]) if bound else 0 for bound in bounds[1:]]
    return _Drawn(out, waits, ends, scratch)


def _draw_rows_by_mass(hop: _Hop) -> _Drawn:
    """Draws by edge weight for all nodes; rows may give less than their length."""
    width, fanout = hop.node.size, hop.fanout
    scratch = [borrow(width) for _ in range(4)]
    low, high, stream, before = (array[:width] for array in scratch)
    rows = hop.rowptr, hop.key, hop.node, low, high, stream
    parallel(kernels.find_rows, width, width, *rows)
    before[:] = 0
    _check.fits("fanouts", 32 * width * fanout)
    scratch.append(borrow(width * fanout))
    places = scratch[-1][: width * fanout]
    draw_by_mass((stream, hop.mass, low, high, before), fanout, hop.replace, places)
    out = hop.room(places.size + 1)
    new = (array[hop.used :] for array in out)
    drawn = kernels.collect(places, max(fanout, 1), hop.col, hop.base, *new)
    return _Drawn(out, [lambda: None], [drawn], scratch)


def draw_by_mass(
    inputs: tuple[Any, ...], fanout: int, replace: bool, out: Array
) -> None:
    """The kernel on all threads, each with scratch of its own."""

    def some(lo: int, hi: int) -> None:
        gone, mass = np.empty((2, fanout), np.int64)
        how = fanout, replace, gone, mass, out
        kernels.draw_weighted(lo, hi, *inputs, *how)

    parallel(some, inputs[0].size, out.size * 8)


def word(key: Key) -> Any:
    """A key as the unsigned number that kernels take."""
    return np.uint64(int(key) & WORD)


def _with_room(array: Array, used: int, needed: int) -> Array:
    """`array` with at least `needed` cells, of which the first `used` are kept."""
    if array.size >= needed:
        return array
    larger = borrow(max(needed, array.size + array.size // 2))
    larger[:used] = array[:used]
    return larger
