"""DeepWalkAcc: pairs of nodes within a window of a walk, and their weights.

The pair of a walker at depth j and the one it left at depth i counts by the weight of
the walker, times (window − (j − i) + 1) / window, word2vec's weight of its distance.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.pairs import (
    LIKE,
    LINEAR,
    PARTITION,
    UNLIKE,
    of_levels,
    of_paths,
)
from gttf_sampler._backends.pairs import terms as terms_of
from gttf_sampler.forest import WalkForest
from gttf_sampler.objectives.base import (
    LossAcc,
    NegativeSampler,
    complete,
    look_up,
    over_trees,
    standing,
    vectors,
)
from gttf_sampler.objectives.scores import SCORES, fused, loss_of
from gttf_sampler.random import fold

CONTRASTS = ("partition", "logistic")


class DeepWalkAcc(LossAcc):
    """The loss of DeepWalk on a walk forest; section 3.3.2 of the paper.

    >>> import torch
    >>> from gttf_sampler import CompactAdj, DeepWalkAcc, traverse
    >>> ring = CompactAdj.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]], direction="out")
    >>> embedding = torch.nn.Embedding(4, 8)
    >>> loss = DeepWalkAcc(embedding, window=2)
    >>> forest = traverse(ring, [0, 1, 2, 3], [3, 3], accumulate=loss)
    >>> loss.result().backward()
    >>> embedding.weight.grad.shape
    torch.Size([4, 8])

    A walker at v and the node w that it left k <= window steps ago are a pair, which
    counts η · (window − k + 1) / window, word2vec's weight of position k. The contrast
    is what pairs of a node and its negatives are for:

    - "partition", as printed: a pair adds −⟨Z_w, Z_v⟩, and every seed u, once,
      log mean exp⟨Z_u, Z_n⟩ over its negatives n. This has no lower bound, with five
      negatives or all: embeddings grow, fastest those of nodes with many neighbours,
      for as long as they are trained. Take a fixed number of steps.
    - "logistic": a pair adds −log σ(⟨Z_w, Z_v⟩) − Σ_n log σ(−⟨Z_w, Z_n⟩), the
      skip-gram with negative sampling of word2vec, node2vec and PyG.

    With `right`, R, a score is ⟨L_w, R_v⟩ where one of Z is ⟨Z_w, Z_v⟩: word2vec's two
    vectors of a node, one as a word and one as a context. With `symmetric=True` it is
    ½ (⟨L_w, R_v⟩ + ⟨R_w, L_v⟩).

    Differs from the paper: η is that of the walker, not of the node it left, with which
    pairs at distance k would count fᵏ times; and the whole forest is used.

    Args:
        embedding: Z, or L, a module or function of nodes, or a matrix [n, d].
        window: C, the largest distance of a pair.
        num_negatives: per seed ("partition"), or per node left ("logistic").
        negative_power: negatives are drawn ∝ degree ^ negative_power.
        contrast: "partition" or "logistic".
        share_negatives: all walkers of a tree have the same ones ("logistic"); fewer
            vectors are looked up, and the expectation is the same.
        right: R of the nodes that are come to, and of negatives; None is one Z for all.
        symmetric: of two vectors of a node, see above.
        negative_weight: what terms of negatives are multiplied by.
        generator: draws the negatives; None is torch's default generator.
    """

    def __init__(
        self,
        embedding: object,
        window: int,
        num_negatives: int = 5,
        negative_power: float = 0.75,
        *,
        contrast: str = "partition",
        share_negatives: bool = False,
        right: object = None,
        symmetric: bool = False,
        negative_weight: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        self.embedding = self.right = vectors("embedding", embedding)
        if right is not None:
            self.right = vectors("right", right)
        self.symmetric = _check.yes_or_no("symmetric", symmetric)
        if self.symmetric and right is None:
            _check.fail("symmetric", "must be False of one vector per node", symmetric)
        self.negative_weight = _check.positive("negative_weight", negative_weight)
        self.window = _check.count("window", window)
        self.num_negatives = _check.count("num_negatives", num_negatives)
        self.negative_power = _check.number("negative_power", negative_power)
        self.contrast = _check.one_of("contrast", contrast, CONTRASTS)
        self.share_negatives = _check.yes_or_no("share_negatives", share_negatives)
        self.generator = _check.cpu_generator("generator", generator)

    def loss(self, forest: WalkForest) -> Tensor:
        """The sum over the trees of a forest, []."""
        return self.weighted(complete(forest), forest.walk_weights())

    def weighted(self, forest: WalkForest, weight: Sequence[Tensor]) -> Tensor:
        """The loss if walkers count by `weight`, per depth [b, width], instead of η."""
        _check.one_node_set("adj", forest.adj.num_rows, forest.adj.num_cols)
        nodes = standing(forest)
        nodes += self._negatives(forest, nodes)
        if fused(self.embedding, self.right):
            return self._fused(nodes, weight)

        def work(own: list[Tensor], levels: list[Tensor]) -> Tensor:
            return self._group(*self._ends(own, forest.depth), levels)

        each = sum(level[:1].numel() for level in nodes)
        return over_trees(work, [nodes, weight], each)

    def _fused(self, nodes: list[Tensor], weight: Sequence[Tensor]) -> Tensor:
        """The loss by kernels, in one pass over the pairs."""
        depth, window = len(weight) - 1, self.window
        widths = [level.shape[1] for level in weight]
        pairs, plain = pairs_within(window, depth), widths[-1] == 1
        alone = 0 if self.share_negatives else 1  # how many sources have their own
        left = range(1 if self.contrast == "partition" else depth)
        others = [(i, alone * i) for i in left]
        common = None if alone else depth + 1

        partition = self.contrast == "partition"
        kinds = (LINEAR, PARTITION) if partition else (LIKE, UNLIKE)

        def work(own: list[Tensor], levels: list[Tensor]) -> Tensor:
            if plain:
                walk, rest = own[: depth + 1], own[depth + 1 :]
                described = of_paths(walk, rest, window, others)
                count = path_counts(levels, window)
            else:
                strangers = [(i, depth + 1 + number) for i, number in others]
                described = of_levels(own, pairs + strangers, common)
                count = counts(levels, pairs, window)
            far = len(others)
            near = len(described.blocks) - far
            how = [kinds[0]] * near + [kinds[1]] * far
            sort = ["pair"] * near + ["block" if partition else "source"] * far
            terms = terms_of(described, how, sort, symmetric=self.symmetric)
            mass = count.new_ones(1) if partition else masses(levels, window)
            signed = -count if partition else count
            weights = torch.cat([signed, self.negative_weight * mass])
            return loss_of(self.embedding, self.right, described, terms, weights)

        each = sum(widths[j] for _, j in pairs)
        each += sum(self.num_negatives * widths[i] for i in left)
        return over_trees(work, [nodes, weight], each, SCORES)

    def _negatives(self, forest: WalkForest, nodes: Sequence[Tensor]) -> list[Tensor]:
        """The negatives [b, width, num_negatives] of each depth that needs them.

        If they are shared, one level [b, 1, num_negatives] is for all depths.
        """
        sampler = NegativeSampler(forest.adj, self.negative_power)
        one = self.contrast == "partition" or self.share_negatives
        depths = 1 if one else forest.depth
        key = self._new_key(forest)
        sizes = [(*level.shape, self.num_negatives) for level in nodes[:depths]]
        most = max(self.num_negatives, sum(map(math.prod, sizes)))
        _check.fits("num_negatives", 16 * most)
        return [sampler.at(fold(key, i), torch.Size(s)) for i, s in enumerate(sizes)]

    def _ends(
        self, nodes: list[Tensor], depth: int
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Vectors of nodes as sources, and as targets: their products are scores.

        Sources are of depths 0 to `depth` − 1, targets of 1 to `depth`, and negatives.
        """
        last, one = max(1, depth), self.right is self.embedding
        whole = one or self.symmetric  # every vector may be a source and a target
        left = look_up(self.embedding, nodes if whole else nodes[:last])
        if one or not nodes[1:]:  # of a forest of no depth there are no targets
            return left[:last], left[1:]
        right = look_up(self.right, nodes if whole else nodes[1:])
        self.right.must_match(self.embedding, right[-1], left[-1])
        if not self.symmetric:
            return left, right
        both = list(zip(left, right, strict=True))
        sources = [torch.cat([own, other], dim=-1) / 2 for own, other in both[:last]]
        return sources, [torch.cat([other, own], dim=-1) for own, other in both[1:]]

    def _group(
        self, source: list[Tensor], target: list[Tensor], weight: list[Tensor]
    ) -> Tensor:
        """The loss of some trees, from the vectors of their walkers and negatives."""
        depth, window = len(weight) - 1, self.window
        target, negative = target[:depth], target[depth:]
        if self.contrast == "logistic":
            if self.share_negatives:
                negative = negative * depth
            every = source, target, negative, weight
            return logistic(*every, window, self.negative_weight)
        score = (source[0][:, :, None] * negative[0]).sum(-1)
        partition = score.logsumexp(-1) - math.log(self.num_negatives)
        pushed = self.negative_weight * partition.sum()
        return pushed - similarity(source, target, weight, window)


def pairs_within(window: int, depth: int) -> list[tuple[int, int]]:
    """The depths (i, j) of all pairs, i < j, in a forest of a depth."""
    return [
        (i, j) for i in range(depth) for j in range(i + 1, min(depth, i + window) + 1)
    ]


def counts(
    weight: Sequence[Tensor], pairs: Sequence[tuple[int, int]], window: int
) -> Tensor:
    """Weights of all pairs, those of (i, j) after each other, by their walkers at j."""
    parts = [weight[j] * ((window - j + i + 1) / window) for i, j in pairs]
    return torch.cat([weight[0].new_zeros(0), *(part.view(-1) for part in parts)])


def path_counts(weight: Sequence[Tensor], window: int) -> Tensor:
    """Weights of all pairs of plain walks, grouped by the depth that they leave."""
    every, depth = torch.cat(list(weight), dim=1), len(weight) - 1
    share = _shares(every, window, depth)
    parts = [every[:, i + 1 : i + 1 + window] for i in range(depth)]
    counted = [(part * share[: part.shape[1]]).view(-1) for part in parts]
    return torch.cat([every.new_zeros(0), *counted])


def masses(weight: Sequence[Tensor], window: int) -> Tensor:
    """Sums of the weights of pairs that leave each walker, depth by depth."""
    found: list[Tensor] = []
    sums: list[Tensor] = []
    shares = _shares(weight[-1], window, len(weight) - 1)  # p and q may be wider
    for i in reversed(range(len(weight) - 1)):
        sums = [weight[i + 1], *sums][:window]
        family = weight[i].shape[1], weight[i + 1].shape[1] // weight[i].shape[1]
        if family[1] > 1:
            sums = [level.unflatten(1, family).sum(-1) for level in sums]
        every = torch.stack(sums).flatten(1)
        found.append(shares[: len(sums)].to(every.dtype) @ every)
    return torch.cat([*found, weight[0].new_zeros(0)][::-1])


def _shares(like: Tensor, window: int, depth: int) -> Tensor:
    """Weights of pairs by distance, made on their device so that nothing is copied."""
    first = torch.arange(
        *(window, window - min(window, depth), -1), dtype=like.dtype, device=like.device
    )
    return first / window


def similarity(
    source: list[Tensor], target: list[Tensor], weight: list[Tensor], window: int
) -> Tensor:
    """The sum of ⟨L_w, R_v⟩ over all pairs, by their weights.

    Sources are of depths 0, 1, …, targets of depths 1, 2, …. The sum is linear in R_v,
    so that walkers are added up from the leaves to the seeds: a level is multiplied at
    the width of the one above.
    """
    total = source[0].new_zeros(())
    sums: list[Tensor] = []
    for i in reversed(range(len(target))):
        sums = [weight[i + 1][:, :, None] * target[i], *sums][:window]
        trees, width, size = source[i].shape
        fanout = target[i].shape[1] // width
        if fanout > 1:
            sums = [level.view(trees, width, fanout, size).sum(2) for level in sums]
        shares = [(window - k) / window for k in range(len(sums))]
        context = sum(s * level for s, level in zip(shares, sums, strict=True))
        total = total + (source[i] * context).sum()
    return total


def logistic(
    source: list[Tensor],
    target: list[Tensor],
    negative: list[Tensor],
    weight: list[Tensor],
    window: int,
    negative_weight: float,
) -> Tensor:
    """Skip-gram with negative sampling: every pair, and the negatives of its first."""
    loss = source[0].new_zeros(())
    for i, (z, others) in enumerate(zip(source, negative, strict=False)):
        here = z[:, :, None]  # [b, width, 1, d]
        mass = z.new_zeros(z.shape[:2])  # of the pairs that have left here
        for k, level in enumerate(target[i : i + window], 1):
            spread = level.shape[1] // z.shape[1]
            count = weight[i + k].view(*z.shape[:2], spread) * (window - k + 1) / window
            score = (here * level.view(*count.shape, z.shape[2])).sum(-1)
            loss = loss - (count * F.logsigmoid(score)).sum()
            mass = mass + count.sum(-1)
        score = (here * others).sum(-1)  # [b, width, num_negatives]
        pushed = (mass * F.softplus(score).sum(-1)).sum()
        loss = loss + negative_weight * pushed
    return loss
