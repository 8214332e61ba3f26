"""The matrices that layers of PyG multiply by, estimated from sampled edges.

A layer that normalises by degree computes Σ c(i, j) w(i, j) x(j) over all edges into i.
From |S| of δ edges, drawn uniformly, that is estimated by the same sum over S times
δ / |S|, with c from the degrees of the whole graph; what a node has of itself, a loop
that the layer adds, is not drawn and keeps its weight. The expectation is exact, and
with all neighbours so is the value.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gttf_pyg._full_graph import KEPT, LOOPS, RECEIVED, SENT
from gttf_pyg._sampled import Sample
from gttf_sampler.estimate import share

Entries = tuple[Tensor, Tensor]  # edge_index [2, e] and weight [e]


class Drawn(NamedTuple):
    """The edges that one step of a layer sees, and how they were drawn.

    Attributes:
        edge_index: [2, e], plain.
        sample: how they were drawn.
        first: where they start among all edges of the sample.
        size: how many nodes the layer was given.
        weight: [e], the layer's edge weights, or None.
        name: what the data calls them.
        dtype: of the result.
    """

    edge_index: Tensor
    sample: Sample
    first: int
    size: int
    weight: Tensor | None
    name: str | None
    dtype: torch.dtype

    def sums(self, kind: str) -> Tensor:
        """[size]: `RECEIVED` or `SENT` by each node, in the whole graph."""
        found: Tensor = self._of_nodes(kind)
        return found

    def loops(self, kind: str) -> Tensor | None:
        """[size]: `LOOPS` or `KEPT` of each node; None if the graph has no loops."""
        found: Tensor | None = self._of_nodes(kind)
        return found

    def others(self, kind: str) -> Tensor:
        """[size]: the sums without what a node has from itself."""
        sums, loops = self.sums(kind), self.loops(LOOPS)
        return sums if loops is None else sums - loops

    def _of_nodes(self, kind: str) -> Any:
        side = 0 if kind == SENT else 1
        found = self.sample.local(kind, self.name, side, self.edge_index.device)
        return None if found is None else found[: self.size].to(self.dtype)

    def share(self) -> Tensor:
        """[n] or, if edges were drawn by weight, [e]: what each edge stands for."""
        receiver = self.edge_index[self.sample.receiver]
        device, name = self.edge_index.device, self.sample.drawn_by
        total = self.sample.local(RECEIVED, name, 1, device)
        each = share(total.to(self.dtype), receiver)
        if name is None:
            return each
        likely = self.sample.column(name, device)[self.first :][: receiver.numel()]
        return each[receiver] / likely.to(self.dtype)

    def entries(self, sender: Tensor, receiver: Tensor, loops: bool = True) -> Tensor:
        """[e]: weight times share times one factor for each end.

        Args:
            sender: [size], the factor of a node as a source.
            receiver: [size], the factor of a node as a target.
            loops: whether loops of the graph are among the edges, or left out.
        """
        ends = self.edge_index
        each = self.share()
        if self.sample.drawn_by is None and self.sample.receiver == 1:
            value = sender[ends[0]] * (each[: self.size] * receiver)[ends[1]]
        else:
            value = sender[ends[0]] * receiver[ends[1]]
            drawer = ends[self.sample.receiver]
            value = value * (each[drawer] if self.sample.drawn_by is None else each)
        if self.weight is not None:
            value = value * self.weight
        if not loops and self.loops(LOOPS) is not None:
            ids = self.sample.node[1].to(ends.device)  # of a repeated node, all copies
            value = value.masked_fill(ids[ends[0]] == ids[ends[1]], 0)
        return value

    def with_loops(self, value: Tensor, loop: Tensor) -> Entries:
        """The edges, and behind them a loop for every node."""
        every = torch.arange(self.size, device=self.edge_index.device)
        index = torch.cat([self.edge_index, every.expand(2, -1)], dim=1)
        return index, torch.cat([value, loop])


Operator = Callable[..., Entries]  # of a layer and a `Drawn`


def gcn(layer: Any, drawn: Drawn) -> Entries:
    """D^-½ (A + I) D^-½, or without I where a layer adds no loops."""
    loops = getattr(layer, "add_self_loops", False)
    degree, loop = drawn.sums(RECEIVED), None
    if loops:
        weighted = drawn.weight is not None  # else PyG gives every loop the weight 1
        fill = 2.0 if weighted and getattr(layer, "improved", False) else 1.0
        loop = torch.full_like(degree, fill)
        kept = drawn.loops(KEPT)
        if weighted and kept is not None:
            loop = torch.where(kept.isnan(), loop, kept)
        degree = drawn.others(RECEIVED) + loop
    root = _finite(degree.pow(-0.5))
    value = drawn.entries(root, root, loops=not loops)
    if loop is None:
        return drawn.edge_index, value
    return drawn.with_loops(value, loop * root * root)


def chebyshev(layer: Any, drawn: Drawn, lambda_max: Any = None) -> Entries:
    """2 L / λ - I for the Laplacian L that the layer asks for."""
    degree = drawn.others(SENT)
    own = one = torch.ones_like(degree)
    largest = one.new_ones(())  # of the entries of L, if no weight is negative
    if layer.normalization == "sym":
        root = _finite(degree.pow(-0.5))
        value = drawn.entries(root, root, loops=False)
    elif layer.normalization == "rw":
        value = drawn.entries(_finite(degree.reciprocal()), one, loops=False)
    else:
        value, own = drawn.entries(one, one, loops=False), degree
        largest = drawn.sample.largest(drawn.name, degree.device).to(degree.dtype)
    if lambda_max is None:
        lambda_max = 2 * largest
    scale = _finite(2 / torch.as_tensor(lambda_max, dtype=one.dtype).to(one.device))
    return drawn.with_loops(-value * scale, own * scale - 1)


def cluster(layer: Any, drawn: Drawn) -> Entries:
    """D^-1 (A + I) + λ diag(D^-1 (A + I))."""
    inverse = (drawn.others(RECEIVED) + 1).reciprocal()
    value = drawn.entries(torch.ones_like(inverse), inverse, loops=False)
    return drawn.with_loops(value, inverse * (1 + layer.diag_lambda))


def _finite(factor: Tensor) -> Tensor:
    """`factor` with zeros for infinities, as PyG has for nodes of degree zero."""
    return factor.masked_fill(factor.isinf(), 0)
