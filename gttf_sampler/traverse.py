"""traverse(): Algorithm 1 of the paper, for a whole batch at once."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler._backends.torch.forest import ForestSpec
from gttf_sampler._compat import is_compiling
from gttf_sampler.bias.base import Bias, as_bias
from gttf_sampler.draw import BiasFn, Walkers, draw_edges
from gttf_sampler.forest import WalkForest
from gttf_sampler.graph.compact import CompactAdj, RemoteRows


class AccumulateFn(Protocol):
    """AccumulateFn(T, u, f) of the paper, called once per depth for all walkers.

    An object may also have a method `begin(forest)`, called before the first step with
    the forest that is about to grow: what is not in the arguments can be read there. If
    it needs nothing else, an attribute `watches = False` saves the calls on the way.
    """

    def __call__(self, path: Tensor, node: Tensor, fanout: int) -> None:
        """Records what a model or a loss needs.

        Args:
            path: [w, k], the nodes visited before `node`, seed first.
            node: [w], where the walkers have just arrived, -1 where they have stopped.
            fanout: how many walkers each of the nodes `path[:, -1]` has sent out.
        """


def traverse(
    adj: CompactAdj,
    seeds: Any,
    fanouts: Sequence[int],
    bias: BiasFn | None = None,
    accumulate: AccumulateFn | Sequence[AccumulateFn] | None = None,
    *,
    replace: bool = True,
    generator: random.Randomness = None,
    out: WalkForest | None = None,
    validate: bool = True,
) -> WalkForest:
    """Walks from every seed; each walker splits into `fanout` walkers at every depth.

    >>> from gttf_sampler import CompactAdj, traverse
    >>> ring = CompactAdj.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]], direction="out")
    >>> forest = traverse(ring, [0, 2], fanouts=[1, 1, 1])  # random walks of 3 steps
    >>> forest.path(3).tolist()
    [[0, 1, 2, 3], [2, 3, 0, 1]]

    A node without neighbours keeps its walkers, as if it had an edge to itself; one
    whose neighbours all have weight zero stops them for good (-1).

    Differs from the paper: depth by depth instead of depth first, and the fanouts of
    deeper levels are used where Algorithm 1 prints the current one again.

    Args:
        adj: where to walk. The work is done on its device, without waiting for it.
        seeds: int [b], the nodes to start from; they may repeat.
        fanouts: how many walkers each walker becomes, per depth.
        bias: weights of the neighbours; None draws uniformly.
        accumulate: one function or several, called in turn at every depth.
        replace: draw `fanout` neighbours independently, as the paper does; False draws
            min(fanout, degree) different ones, in no particular order.
        generator: a torch.Generator, an integer, or None for torch's default generator;
            or an int64 [] on the graph's device, which counts as that integer and is
            not waited for.
        out: a forest of as many seeds and the same fanouts, as an earlier call returned
            it: its tensors are written to, and are those of the result.
        validate: check seeds that are on an accelerator, without waiting for it: one
            that is no node is torch's error some time later. False saves the check.
    """
    if not isinstance(adj, RemoteRows):
        _check.of_type("adj", adj, CompactAdj)
    adj.ensure_sound()
    sound = not _check.yes_or_no("validate", validate)
    start = _check.seeds(seeds, adj.num_rows, adj.device, sound=sound)
    widths = _check.fanouts(fanouts, allow_all=False, seeds=start.numel())
    forest = WalkForest(adj, tuple(widths))
    if len(forest.fanouts) > 1:
        _check.one_node_set("adj", adj.num_rows, adj.num_cols)
    if out is not None:
        _check.of_type("out", out, WalkForest)
        out.ensure_room(adj, start.numel(), forest.fanouts)
    replace = _check.yes_or_no("replace", replace)
    steered = as_bias(bias)
    callbacks = _check.functions("accumulate", accumulate, many=True)
    randomness = _check.randomness_on(generator, adj.device)
    forest.begin(start, out)
    if steered is not None:
        if isinstance(adj, RemoteRows):
            adj.law_of(steered)
        steered.begin(adj, start)
    for callback in callbacks:
        if hasattr(callback, "begin"):
            callback.begin(forest)

    stays = adj.num_rows == adj.num_cols  # else there is no edge to itself
    key = random.new_key(randomness, adj.device, random.FOREST)
    levels: Iterable[tuple[Tensor, Tensor]] | None
    levels = _draw_at_once(forest, steered, replace, key, stays)
    if levels is None:
        levels = _draw_in_steps(forest, steered, replace, key, stays)
    watching = [each for each in callbacks if getattr(each, "watches", True)]
    watched = _Watched(watching, forest, levels) if watching else None
    for edge, arrived in levels:
        forest.add(edge, arrived, out)
        if watched is not None:
            watched.show()
    return forest


class _Watched:
    """Shows every new depth of a forest to functions that may do as they like.

    Each gets the walkers' ways in memory of its own, to which nothing is written later:
    it may keep them, and what it writes reaches neither the forest nor the others.
    """

    def __init__(
        self, callbacks: Sequence[AccumulateFn], forest: WalkForest, levels: Any
    ) -> None:
        self.callbacks, self.forest = callbacks, forest
        self.way = forest.nodes[0].view(1, -1)  # [depth + 1, w]
        self.whole: list[Tensor] | None = None
        if isinstance(levels, list) and set(forest.fanouts) == {1}:
            # walks that are drawn already: one copy serves all depths
            rows = [self.way, *(node.view(1, -1) for _, node in levels)]
            self.whole = [torch.cat(rows) for _ in callbacks]

    def show(self) -> None:
        """Calls all of them with the walkers that have just arrived."""
        forest, depth = self.forest, self.forest.depth
        fanout = forest.fanouts[depth - 1]
        if self.whole is None:
            before = self.way[:, :, None].expand(-1, -1, fanout).reshape(depth, -1)
            self.way = torch.cat([before, forest.nodes[depth].view(1, -1)])
        for number, callback in enumerate(self.callbacks):
            way = self.way.clone() if self.whole is None else self.whole[number]
            callback(way[:depth].t(), way[depth], fanout)


def _draw_at_once(
    forest: WalkForest,
    bias: Bias | None,
    replace: bool,
    key: random.Key,
    stays: bool,
) -> list[tuple[Tensor, Tensor]] | None:
    """All depths of the forest, where there is a faster way than one by one."""
    adj, seeds, fanouts = forest.adj, forest.nodes[0].view(-1), forest.fanouts
    if isinstance(adj, RemoteRows):
        return adj.walk(seeds, fanouts, bias, replace, key, stays)
    spec = ForestSpec(adj.rowptr, adj.col, None, fanouts, replace, stays)
    if bias is None:
        found = ops.walk_forest(spec, seeds, key)
        if found:
            _check_inside(adj, found[-1][1])
        return found
    if replace and set(fanouts) == {1}:
        levels = bias.walk(adj, seeds, len(fanouts), key, stays)
        if levels is not None:
            return levels
    law = bias.law(adj) if bias.draws_by_law else None
    if law is None or law.cumulative_weight is None:
        return None
    if law.time is not None or law.excluded_edges is not None:
        return None
    weighted = spec._replace(mass=law.cumulative_weight)
    return ops.walk_forest(weighted, seeds, key)


def _check_inside(adj: CompactAdj, arrived: Tensor) -> None:
    """Refuses nodes that a graph does not have, after it was edited."""
    if arrived.device.type != "cpu" or is_compiling() or not arrived.numel():
        return  # a device must not be waited for, a compiler cannot branch on numbers
    low, high = arrived.aminmax()
    if low < -1 or high >= adj.num_cols:
        _check.changed()


def _draw_in_steps(
    forest: WalkForest,
    bias: Bias | None,
    replace: bool,
    key: random.Key,
    stays: bool,
) -> Iterator[tuple[Tensor, Tensor]]:
    """The edges taken and where they led [w, f], depth by depth."""
    adj, node = forest.adj, forest.nodes[0].view(-1)
    way = node.new_empty(node.numel(), len(forest.fanouts))
    keys = random.folds(key, len(forest.fanouts))
    for depth, fanout in enumerate(forest.fanouts):
        slot = torch.arange(node.numel(), device=node.device)
        root, own = slot // forest.nodes[-1].shape[1], random.stream(keys[depth], slot)
        walkers = Walkers(adj, way[:, :depth], node, root, own, keys[depth])
        edge = draw_edges(walkers, bias, fanout, replace)  # [w, fanout]
        degree = adj.row_range(node)[1]
        arrived = ops.arrive(adj.col, node, degree, edge, replace, stays)
        _check_inside(adj, arrived)
        way[:, depth] = node
        if fanout > 1:
            way = way.repeat_interleave(fanout, dim=0)  # [w · fanout, h]
        node = arrived.view(-1)
        yield edge, arrived
