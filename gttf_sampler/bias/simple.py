"""Biases by a number per edge or node: weights, exclusion, time, visits, attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import ops
from gttf_sampler._backends.record import Law
from gttf_sampler.bias.base import Bias
from gttf_sampler.draw import Neighborhood, Walkers, draw_within, neighborhood
from gttf_sampler.estimate import share
from gttf_sampler.graph import tables
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.subgraph import Subgraph

INT64_MAX = (1 << 63) - 1
STRATEGIES = ("uniform", "last")


class EdgeWeightBias(Bias):
    """Neighbours in proportion to `adj.edge_weight`; weight zero is never drawn.

    >>> from gttf_sampler import CompactAdj, traverse
    >>> adj = CompactAdj.from_edge_index([[0, 1], [2, 2]], edge_weight=[0.0, 1.0])
    >>> traverse(adj, [2, 2, 2], [1], bias=EdgeWeightBias()).nodes[1].tolist()
    [[1], [1], [1]]

    Weights are kept to 2⁻⁶¹ · degree of the largest in their row; smaller positive ones
    are rounded up to that.
    """

    needs_weights = True
    takes_whole_rows = True

    def law(self, adj: CompactAdj) -> Law:
        """The graph's table of cumulative weights, which is searched in O(log δ)."""
        return Law(
            cumulative_weight=tables.weight_table(adj),
            has_zero_weight=tables.has_gaps(adj),
        )

    def __repr__(self) -> str:
        return "EdgeWeightBias()"


class ExcludeBias(Bias):
    """Uniform over the neighbours, as if the given edges had been taken out.

    >>> from gttf_sampler import CompactAdj, ExcludeBias, sample_rooted
    >>> adj = CompactAdj.from_edge_index([[1, 2, 3], [0, 0, 0]])
    >>> which, edge = adj.edges_between([0], [2])  # the edge 2 → 0
    >>> sample_rooted(adj, [0], [2], bias=ExcludeBias(edge)).node.tolist()
    [0, 1, 3]

    They are left out before anything is drawn, so that a node still gets its full
    fanout: what a link predictor needs to hide the edges it is asked about.

    Args:
        edge: [k], positions in `adj.col`, in any order; `adj.edges_between` finds them.
    """

    takes_whole_rows = True

    def __init__(self, edge: Any) -> None:
        edge = _check.integers("edge", edge).to(torch.int64)
        self.edge: Tensor = edge.unique()  # sorted
        self._ends = self.edge[[0, -1]].cpu() if self.edge.numel() else self.edge[:0]

    def begin(self, adj: CompactAdj, seeds: Tensor) -> None:
        """Checks that the positions are positions in this graph."""
        _check.within("edge", self._ends, adj.num_edges, "edges")  # without waiting

    def law(self, adj: CompactAdj) -> Law:
        """The edges that are not there; they are stepped over in O(log k)."""
        return Law(excluded_edges=self.edge)

    def __repr__(self) -> str:
        return f"ExcludeBias({self.edge.numel()} edges)"


class TemporalBias(Bias):
    """Neighbours no later than the time of the seed the walker started from.

    >>> from gttf_sampler import CompactAdj, sample_rooted
    >>> edges, time = [[0, 1, 2], [3, 3, 3]], [10, 20, 30]
    >>> adj = CompactAdj.from_edge_index(edges, edge_time=time)
    >>> seen = sample_rooted(adj, [3, 3], [-1], bias=TemporalBias([10, 25]))
    >>> seen.node.tolist(), seen.batch.tolist()
    ([3, 3, 0, 0, 1], [0, 1, 0, 1, 1])

    Rows sorted by time make the admissible neighbours one range, found by bisection.

    Args:
        seed_time: [b], the time of every seed, integer if the edges' times are; it is
            rounded to the edges' type of float.
        strategy: "uniform" draws among the admissible neighbours, "last" takes the
            latest (with replacement: draws from the `fanout` latest).
        window: admit only times >= seed_time - window.
        weighted: draw by `adj.edge_weight` instead of uniformly.
    """

    needs_times = True
    separates_trees = True

    def __init__(
        self,
        seed_time: Any,
        *,
        strategy: str = "uniform",
        window: float | None = None,
        weighted: bool = False,
    ) -> None:
        self.strategy = _check.one_of("strategy", strategy, STRATEGIES)
        self.seed_time = _check.times("seed_time", seed_time)
        if window is not None and not 0 <= _check.number("window", window) < math.inf:
            _check.fail("window", "must be finite and not negative", window)
        weighted = _check.yes_or_no("weighted", weighted)
        if weighted and strategy == "last":
            _check.fail("weighted", "needs strategy='uniform'", "strategy='last'")
        self.window, self.needs_weights = window, weighted
        self.multiplies = self.strategy == "uniform"
        self._known: dict[Any, tuple[Tensor, Tensor | None]] = {}

    def at(self, seed_time: Tensor) -> TemporalBias:
        """The same rule for other seeds, of times [b]."""
        if seed_time.dim() != 1 or seed_time.dtype not in _check.INTEGERS:
            seed_time = _check.times("seed_time", seed_time)
        found = copy(self)
        found.seed_time, found._known = seed_time, {}
        return found

    def begin(self, adj: CompactAdj, seeds: Tensor) -> None:
        """Checks that every seed has a time."""
        if self.seed_time.numel() != seeds.numel():
            _check.length("seed_time", self.seed_time, seeds.numel(), "seed")

    def law(self, adj: CompactAdj) -> Law:
        """The range of times of every seed, found in O(log δ)."""
        time = tables.sorted_time(adj)
        place = time.dtype, time.device
        if place not in self._known:  # relations with such times have the same bounds
            latest = self._own(time)
            self._known[place] = latest, self._too_old(latest)
        latest, too_old = self._known[place]
        table, gaps = None, False
        if self.needs_weights:
            table, gaps = tables.weight_table(adj), tables.has_gaps(adj)
        last = self.strategy == "last"
        return Law(table, gaps, time, latest, too_old, most_recent=last)

    def _own(self, time: Tensor) -> Tensor:
        """The times [b] of the seeds, comparable with the edges' times."""
        own = self.seed_time
        if time.is_floating_point():
            own = own.to(time.dtype)  # equal times must stay equal
        elif own.is_floating_point():
            _check.mistyped("seed_time", "must be integer like the edges'", own.dtype)
        else:
            own = own.to(torch.int64)
        return own.to(time.device)

    def _too_old(self, latest: Tensor) -> Tensor | None:
        """The last time [b] before the window begins; None if it never does."""
        if self.window is None:
            return None
        if latest.is_floating_point():
            earliest = latest - float(self.window)
            return earliest.nextafter(torch.full_like(earliest, -math.inf))
        span = min(math.floor(self.window), INT64_MAX)
        earliest = latest.clamp(min=span - INT64_MAX) - span  # without wrapping around
        return earliest - 1

    def __repr__(self) -> str:
        window = "" if self.window is None else f", window={self.window}"
        weighted = ", weighted=True" if self.needs_weights else ""
        return (
            f"TemporalBias({self.seed_time.numel()} seeds, "
            f"strategy={self.strategy!r}{window}{weighted})"
        )


class NoRevisitBias(Bias):
    """Uniform where a node is first reached, nothing where it was reached before.

    With `RootedAdjAcc` this is the paper's message passing: a node is expanded once. Of
    several walkers that reach a node at the same depth, the first goes on.
    """

    def in_rooted_sampling(self) -> None:
        """Nothing: there is nothing for it to do."""
        return None

    def begin(self, adj: CompactAdj, seeds: Tensor) -> None:
        """Forgets the nodes of the last traversal."""
        self._seen = seeds.new_empty(0)

    def __call__(
        self, path: Tensor, node: Tensor, neighborhood: Neighborhood
    ) -> Tensor:
        """One for all neighbours of a node that is new, else zero."""
        new = self._note(neighborhood.adj, node)
        return ops.take(new.to(torch.float32), neighborhood.walker)

    def draw(self, walkers: Walkers, fanout: int, replace: bool) -> Tensor:
        """Draws uniformly where the node is new: O(1) per draw."""
        start, count = walkers.adj.row_range(walkers.node)
        count = count.masked_fill_(~self._note(walkers.adj, walkers.node), 0)
        return draw_within(walkers, start, count, fanout, replace)

    def _note(self, adj: CompactAdj, node: Tensor) -> Tensor:
        """Marks nodes [w] seen for the first time, and remembers them."""
        with adj.borrow_table(adj.num_rows) as table:
            new = ops.relabel(self._seen, node, table)[1]
        self._seen = torch.cat([self._seen, node])
        return new

    def __repr__(self) -> str:
        return "NoRevisitBias()"


class AttentionBias(Bias):
    """Neighbours by the square root of an attention value; GatBias of the paper.

    Samples spend little on negligible edges. A model that multiplies the message of a
    sampled neighbour v by √a_v · Σ√a / f, where the sum goes over all neighbours of the
    node and f draws were made with replacement, gets Σ a_v m_v in expectation: the
    attention it asked for. √a_v alone is off by that factor, which differs per node.
    `factor` has what a_v m_v is to be multiplied by.

    Differs from the paper: does not contain `NoRevisitBias`; multiply the two.

    Args:
        score_fn: (node [e], neighbor [e]) → attention values >= 0 [e]; it is called
            without gradients.
    """

    def __init__(self, score_fn: Callable[[Tensor, Tensor], Tensor]) -> None:
        if not callable(score_fn) or isinstance(score_fn, type):
            got = _check.shown(score_fn)
            _check.mistyped("score_fn", "must be callable", got)
        self.score_fn = score_fn

    @torch.no_grad()
    def __call__(
        self, path: Tensor, node: Tensor, neighborhood: Neighborhood
    ) -> Tensor:
        """√attention of every edge in front of the walkers."""
        here = ops.take(node, neighborhood.walker)
        score = self.score_fn(here, neighborhood.neighbor)
        entries = neighborhood.edge.numel()
        return _check.bias_weights(score, entries, "score_fn").sqrt()

    @torch.no_grad()
    def factor(self, adj: CompactAdj, subgraph: Subgraph) -> Tensor:
        """[e]: how many edges each edge of a sample stands for, Σ√a / (f √a_v).

        The sum over a sample of a_v m_v times this is unbiased for the sum over all
        neighbours. So is that of a_v alone: where attention is normalised by it, as a
        softmax is, the quotient of the two is consistent, and not unbiased.

        For samples drawn by this bias alone and with replacement, stratified or not;
        without, √a is no longer in proportion to how often an edge is drawn.
        """
        _check.of_type("adj", adj, CompactAdj)
        _check.of_type("subgraph", subgraph, Subgraph)
        _check.sampled_from(subgraph.node, adj.num_rows)
        receiver, place = subgraph.col.unique(return_inverse=True)
        node = ops.take(subgraph.node, receiver)  # those that have drawn
        zero = torch.zeros_like(node)
        hood = neighborhood(Walkers(adj, node[:, None], node, zero, zero, 0))
        start, count = adj.row_range(node)
        inside = subgraph.edge - ops.take(start, place)
        if bool(((inside < 0) | (inside >= ops.take(count, place))).any()):
            rule = "must be the graph that the sample was drawn from"
            _check.fail("adj", rule, adj)
        root = self(node[:, None], node, hood).to(torch.float64)
        total = torch.zeros(node.numel(), dtype=root.dtype, device=root.device)
        total.scatter_add_(0, hood.walker, root)
        own = ops.take(root, ops.take(hood.ptr, place) + inside)
        return ops.take(share(total, place), place) / own

    def __repr__(self) -> str:
        return f"AttentionBias({self.score_fn!r})"
