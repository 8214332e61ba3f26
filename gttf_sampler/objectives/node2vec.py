"""Node2VecAcc, whose p and q can be trained, and the loss of PyG's Node2Vec."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gttf_sampler import _check
from gttf_sampler._backends import ops
from gttf_sampler._backends.pairs import (
    LIKE_EPS,
    UNLIKE_EPS,
    Pairs,
    of_walks,
    of_windows,
    terms,
)
from gttf_sampler.forest import WalkForest
from gttf_sampler.graph import tables
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.objectives.base import SCHEMES, LossAcc, complete
from gttf_sampler.objectives.deepwalk import DeepWalkAcc
from gttf_sampler.objectives.scores import Table, pair_loss, table_of

ENTRIES = 1 << 22  # neighbours that are looked at together
BACK, NEAR, AWAY = 0, 1, 2


class Node2VecAcc(LossAcc):
    """The loss of node2vec on uniform walks, in which p and q can be trained.

    A step from v to x, after one from t to v, counts by how much likelier node2vec is
    to take it, δ_v · α(t, x) / Σ_y α(t, y) over all neighbours y of v, and a walker by
    the product over its steps. In expectation over uniform walks (`bias=None`) that is
    `DeepWalkAcc` on node2vec's walks, and so is its gradient, also in p and q. For
    fixed p and q the other form has the smaller variance: `DeepWalkAcc` on walks with
    `bias=Node2VecBias(p, q)`.

    Differs from the paper: N2vAcc multiplies by α alone, which is no ratio of
    probabilities (and so in favour of p, q → 0); `scheme="paper"` does that.

    Args:
        embedding: as in `DeepWalkAcc`, like the other arguments that are there.
        window: C, the largest distance of a pair.
        p: return parameter, a number or a tensor [] > 0, perhaps with a gradient.
        q: in-out parameter, alike.
        num_negatives: per seed ("partition"), or per node left ("logistic").
        negative_power: negatives are drawn ∝ degree ^ negative_power.
        weighted: node2vec with edge weights, on walks with `bias=EdgeWeightBias()`.
        scheme: "unbiased", or "paper".
        options: keyword arguments of `DeepWalkAcc`: contrast, share_negatives, right,
            symmetric, negative_weight, generator.
    """

    def __init__(
        self,
        embedding: object,
        window: int,
        p: float | Tensor = 1.0,
        q: float | Tensor = 1.0,
        num_negatives: int = 5,
        negative_power: float = 0.75,
        *,
        weighted: bool = False,
        scheme: str = "unbiased",
        **options: Any,
    ) -> None:
        self.deepwalk = DeepWalkAcc(
            embedding, window, num_negatives, negative_power, **options
        )
        self.p, self.q = _check.scale("p", p), _check.scale("q", q)
        self.weighted = _check.yes_or_no("weighted", weighted)
        self.scheme = _check.one_of("scheme", scheme, SCHEMES)

    def loss(self, forest: WalkForest) -> Tensor:
        """The sum over the trees of a forest, [], differentiable in p and q, too."""
        return self.deepwalk.weighted(complete(forest), self.weights(forest))

    def weights(self, forest: WalkForest) -> list[Tensor]:
        """Per depth what each walker counts [b, width]: η times its steps' ratios."""
        ratios = step_ratios(forest, self.p, self.q, self.weighted, self.scheme)
        weight = forest.walk_weights()
        product = torch.ones_like(weight[0])
        for k, ratio in enumerate(ratios, 1):
            product = product.repeat_interleave(forest.fanouts[k - 1], dim=1) * ratio
            weight[k] = weight[k] * product
        return weight


class Step(NamedTuple):
    """Kinds of the steps that walkers [b, width] took, and might have taken.

    Where there was no step to take, both say that all is near: a ratio of 1.
    """

    kind: Tensor  # [b, width]: they went back, near the last node, or away
    mass: Tensor  # [b, width, 3], the share of each kind among their neighbours


def step_ratios(
    forest: WalkForest,
    p: float | Tensor,
    q: float | Tensor,
    weighted: bool,
    scheme: str,
) -> list[Tensor]:
    """Per depth 1 … h the ratio [b, width] of each walker's last step.

    α / Σ_y π_y α_y, where π is what the walk was drawn from; α alone in the "paper"
    scheme. 1 for the first step, which has nothing behind it, and where walkers stay.
    """
    dtype = torch.promote_types(_dtype(p), _dtype(q))
    one = torch.ones((), dtype=dtype, device=forest.adj.device)
    alpha = torch.stack([one / p, one, one / q])
    ratios = [one.expand(forest.nodes[1].shape)] if forest.depth else []
    for depth in range(2, forest.depth + 1):
        step = _step(forest, depth, weighted)
        ratio = alpha[step.kind]
        if scheme == "unbiased":
            # of a matrix product the gradient would depend on the number of threads
            ratio = ratio / (step.mass.to(dtype) * alpha).sum(-1)
        ratios.append(ratio)
    return ratios


def _dtype(value: float | Tensor) -> torch.dtype:
    """The precision to work in."""
    return value.dtype if isinstance(value, Tensor) else torch.float32


@torch.no_grad()
def _step(forest: WalkForest, depth: int, weighted: bool) -> Step:
    """The last step of the walkers at one depth, which is 2 or more."""
    adj, fanout = forest.adj, forest.fanouts[depth - 1]
    shape = forest.nodes[depth].shape
    spread = shape[1] // forest.nodes[depth - 2].shape[1]
    last = forest.nodes[depth - 2].repeat_interleave(spread, dim=1)
    way_in = forest.edges[depth - 1]  # the edge by which they came
    chose = (way_in.repeat_interleave(fanout, dim=1) >= 0) & (forest.edges[depth] >= 0)
    kind = torch.full_like(last, NEAR)
    mass = torch.zeros(*shape, 3, dtype=torch.float64, device=adj.device)
    mass[:, :, NEAR] = 1.0
    if adj.num_edges == 0 or way_in.numel() == 0:
        return Step(kind, mass)
    node = forest.nodes[depth].clamp(min=0).view(-1)
    found = _kinds(adj, last.reshape(-1).clamp(min=0), node).view(shape)
    edge, where = way_in.clamp(min=0).view(-1).unique(return_inverse=True)
    shares = _masses(adj, edge, weighted).index_select(0, where)
    shares = shares.repeat_interleave(fanout, dim=0).view(mass.shape)
    return Step(found.where(chose, kind), shares.where(chose[:, :, None], mass))


def _kinds(adj: CompactAdj, last: Tensor, node: Tensor) -> Tensor:
    """Classifies `node` [e] as the last node, its neighbour, or neither."""
    table = tables.sorted_col(adj)
    adjacent = ops.has_edge(adj.rowptr, table, node, last, adj.max_degree)
    kind = torch.full_like(node, AWAY).masked_fill_(adjacent, NEAR)
    return kind.masked_fill_(node == last, BACK)


def _masses(adj: CompactAdj, edge: Tensor, weighted: bool) -> Tensor:
    """The share of each kind among those whom a walker meets beyond an edge [e, 3].

    All neighbours are looked at, O(δ log δ) per edge, some edges at a time.
    """
    last = torch.searchsorted(adj.rowptr, edge, right=True) - 1
    here = ops.take(adj.col, edge).to(torch.int64)
    start, count = adj.row_range(here)
    group = (count.cumsum(0) - 1).div(ENTRIES, rounding_mode="floor")
    sizes = group.unique_consecutive(return_counts=True)[1].tolist()
    groups = zip(*(part.split(sizes) for part in (last, start, count)), strict=True)
    return torch.cat(
        [_mass(adj, behind, low, size, weighted) for behind, low, size in groups]
    )


def _mass(
    adj: CompactAdj, last: Tensor, start: Tensor, count: Tensor, weighted: bool
) -> Tensor:
    """The shares [e, 3] of `_masses` for one group of edges."""
    owner, entry = ops.expand(start, count, int(count.sum()))
    neighbor = ops.take(adj.col, entry).to(torch.int64)
    kind = _kinds(adj, last.index_select(0, owner), neighbor)
    weight = torch.ones(entry.numel(), dtype=torch.float64, device=adj.device)
    if weighted:
        weight = ops.take(tables.edge_weight(adj), entry).to(torch.float64)
    mass = weight.new_zeros(last.numel() * 3)
    mass = mass.index_add_(0, owner * 3 + kind, weight).view(-1, 3)
    return mass / mass.sum(1, keepdim=True).clamp(min=torch.finfo(mass.dtype).tiny)


def node2vec_loss(
    table: nn.Embedding, windows: list[Tensor], per_walk: int, eps: float
) -> Tensor | None:
    """The loss [] of PyG's Node2Vec of positive and negative windows [w, size].

    None if the table is one that kernels cannot read.
    """
    found = table_of(table)
    plain = all(part.dim() == 2 and part.shape[1] > 1 for part in windows)
    if found is None or not plain or not all(part.numel() for part in windows):
        return None
    pairs = of_windows(windows, per_walk)
    nodes = pairs.nodes
    if not 0 <= int(nodes.min()) <= int(nodes.max()) < len(found.matrix):
        return None  # torch says what is wrong
    sizes = [part.shape[0] * (part.shape[1] - 1) for part in windows]
    return _contrast(found, pairs, sizes, eps)


def walk_loss(
    table: nn.Embedding, walks: Sequence[Tensor], context: int, eps: float
) -> Tensor:
    """The loss of `node2vec_loss`, of all windows of a size of walks [w, length].

    For tables that are collected.
    """
    found = table_of(table)
    if found is None:
        _check.fail("table", "must be collected", "no")
    windows = [part.shape[0] * (part.shape[1] - context + 1) for part in walks]
    sizes = [count * (context - 1) for count in windows]
    return _contrast(found, of_walks(walks, context), sizes, eps)


def _contrast(table: Table, pairs: Pairs, sizes: Sequence[int], eps: float) -> Tensor:
    """The mean over positive pairs, and over negative ones; half of the blocks each."""
    each = len(pairs.blocks) // 2
    kinds = [LIKE_EPS] * each + [UNLIKE_EPS] * each
    described = terms(pairs, kinds, ["block"] * 2 * each, eps=eps)
    kind = torch.promote_types(table.matrix.dtype, torch.float32)
    weight = torch.tensor([1 / size for size in sizes], dtype=kind)
    return pair_loss(table, table, pairs, described, weight)
