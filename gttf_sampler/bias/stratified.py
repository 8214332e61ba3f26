"""StratifiedBias: draws that are spread over a row, with the law of any other bias."""

from __future__ import annotations

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler._backends.record import UNIFORM
from gttf_sampler.bias.base import TRAITS, Bias, as_bias
from gttf_sampler.draw import BiasFn, Neighborhood, Walkers, admitted, neighborhood
from gttf_sampler.graph.compact import CompactAdj

WORDS = 1 << 64
HALF = (1 << 63) - 1


class StratifiedBias(Bias):
    """Spreads the `fanout` draws of a walker over its row: one per equal part of it.

    >>> from gttf_sampler import CompactAdj, EdgeWeightBias, StratifiedBias, traverse
    >>> adj = CompactAdj.from_edge_index([[0, 1], [2, 2]], edge_weight=[3.0, 1.0])
    >>> forest = traverse(adj, [2], [4], bias=StratifiedBias(EdgeWeightBias()))
    >>> sorted(forest.nodes[1][0].tolist())  # three quarters of them are 0
    [0, 0, 0, 1]

    Each draw alone has the law of `bias`, so all that is a mean over draws keeps its
    expectation; together they vary less. It is systematic sampling: draw i of f lands
    at (r + i / f) mod 1 of the row's cumulative weight, with one random r. A neighbour
    with share s of the weight is drawn ⌊f s⌋ or ⌈f s⌉ times.

    For draws with replacement, and not in a product: put that inside. Uniform draws
    without replacement spread as well; those by weight are biased.

    Args:
        bias: how likely each neighbour is; None draws uniformly.
        systematic: False takes a random number for each part of the row: the variance
            is never above that of independent draws, where one r for all can be, if the
            row repeats itself every 1 / f of its length.
    """

    multiplies = False  # no weights say that draws keep apart

    def __init__(self, bias: BiasFn | None = None, *, systematic: bool = True) -> None:
        self.bias = as_bias(bias)
        self.systematic = _check.yes_or_no("systematic", systematic)
        if self.bias is None:
            return
        if not self.bias.multiplies:
            rule = "must be a bias whose weights say all"
            _check.fail("bias", rule, self.bias)
        for trait in TRAITS:
            if trait not in ("takes_whole_rows", "multiplies"):
                setattr(self, trait, getattr(self.bias, trait))

    def begin(self, adj: CompactAdj, seeds: Tensor) -> None:
        """Passes the start of a traversal on."""
        if self.bias is not None:
            self.bias.begin(adj, seeds)

    def __call__(
        self, path: Tensor, node: Tensor, neighborhood: Neighborhood
    ) -> Tensor:
        """The weights of the bias, where all neighbours are taken."""
        entries = neighborhood.edge.numel()
        if self.bias is None:
            return torch.ones(entries, device=node.device)
        return _check.bias_weights(self.bias(path, node, neighborhood), entries)

    def draw(self, walkers: Walkers, fanout: int, replace: bool) -> Tensor:
        """Positions in `adj.col` [w, fanout]; O(log δ) each if the bias has a law."""
        if not replace:
            rule = "must be True with StratifiedBias, which has its own way to spread"
            _check.fail("replace", rule, replace)
        word = spread(walkers.stream, fanout, self.systematic)
        law = UNIFORM if self.bias is None else self.bias.law(walkers.adj)
        if law is not None and law.excluded_edges is None:
            start, count = admitted(walkers, law)
            if law.cumulative_weight is None:
                offset = random.below(word, count[:, None])
                return offset.add_(start[:, None]).masked_fill_(count[:, None] == 0, -1)
            if law.time is None:
                return _aim(
                    word, law.cumulative_weight, start, start + count, walkers.adj
                )
        hood = neighborhood(walkers)
        table = ops.weight_table(self(walkers.path, walkers.node, hood), hood.ptr)
        place = _aim(word, table, hood.ptr[:-1], hood.ptr[1:], walkers.adj)
        return ops.take_or_none(hood.edge, place)

    def in_rooted_sampling(self) -> Bias:
        """Itself, around what is left of the bias."""
        if self.bias is None:
            return self
        inner = self.bias.in_rooted_sampling()
        same = inner is self.bias
        return self if same else StratifiedBias(inner, systematic=self.systematic)

    def __repr__(self) -> str:
        """The call that makes it."""
        shown = [] if self.bias is None else [repr(self.bias)]
        shown += [] if self.systematic else ["systematic=False"]
        return f"StratifiedBias({', '.join(shown)})"


def spread(stream: Tensor, fanout: int, systematic: bool) -> Tensor:
    """Words [w, fanout], each uniform on its own, one in every part of all words.

    Integers alone, as everything that is drawn: the same on every device.
    """
    draw = torch.arange(fanout, device=stream.device)
    part = random.signed(WORDS // max(fanout, 1))  # of all words, one per draw
    if systematic:
        return random.bits(stream[:, None], 0) + draw * part
    turn = random.bits(stream[:, None], fanout)  # which part is whose
    turn = random.below(turn, torch.full_like(turn, fanout))
    inside = (random.bits(stream[:, None], draw) >> 1).bitwise_and_(HALF)
    inside = inside.div_(max(fanout, 1), rounding_mode="floor").mul_(2)
    return ((draw + turn) % max(fanout, 1)).mul_(part).add_(inside)


def _aim(
    word: Tensor, table: Tensor, low: Tensor, high: Tensor, adj: CompactAdj
) -> Tensor:
    """Positions [w, f] in [low, high) where words fall into the mass of whole rows."""
    if not table.numel():
        return torch.full_like(word, -1)
    total = ops.take(table, (high - 1).clamp_(min=0)).masked_fill_(high <= low, 0)
    target = random.below_wide(word, total[:, None])
    low, high = (end[:, None].expand_as(word).reshape(-1) for end in (low, high))
    place = ops.upper_bound(table, low, high, target.view(-1), adj.max_degree)
    return place.view(word.shape).masked_fill_(total[:, None] == 0, -1)
