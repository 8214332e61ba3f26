"""Evaluates embeddings: how well they find hidden links, and classes of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler.embedding.links import LinkSplit

Score = Callable[[Tensor], Tensor]
PAIRS = 1 << 18  # pairs that are scored together


def roc_auc(positive: Tensor, negative: Tensor) -> float:
    """The chance that a positive scores above a negative, ties counted half.

    >>> roc_auc(torch.tensor([3.0, 1.0]), torch.tensor([0.0, 1.0]))
    0.875
    """
    positive = _scores("positive", positive).contiguous()
    ordered = _scores("negative", negative).to(positive.device).sort().values
    kind = torch.promote_types(positive.dtype, ordered.dtype)
    positive, ordered = positive.to(kind), ordered.to(kind)
    below = torch.searchsorted(ordered, positive).double().mean()
    not_above = torch.searchsorted(ordered, positive, right=True).double().mean()
    return float((below + not_above) / (2 * ordered.numel()))


def _scores(name: str, value: Tensor) -> Tensor:
    """The scores [k] of a kind of pairs, each of which has a rank."""
    score = _check.tensor(name, _check.real(name, _check.dense(name, value)))
    if not score.numel():
        _check.fail(name, "must hold scores", "none")
    if not bool(score.isfinite().all()):
        worst = score[~score.isfinite()][0].item()
        _check.fail(name, "must hold finite scores", worst)
    return score


@torch.no_grad()
def score_links(score: Score, edge: Tensor) -> Tensor:
    """`score` of the pairs [2, e], so many at a time that memory stays small."""
    return torch.cat([_score(score, part) for part in edge.split(PAIRS, dim=1)])


def _score(score: Score, edge: Tensor) -> Tensor:
    """Scores pairs [2, e], and checks that they get one number each."""
    found, entries = score(edge), edge.shape[1]
    value = _check.real("score", _check.dense("score", found)).detach()
    if value.shape != (entries,):
        rule = f"must return one number per pair, shape [{entries}]"
        _check.fail("score", rule, f"shape {list(value.shape)}")
    return value


def link_auc(score: Score, split: LinkSplit) -> float:
    """ROC-AUC of a score, pairs [2, e] → [e], on the hidden edges of a split."""
    _check_split(score, split)
    pairs = split.positive, split.negative
    return roc_auc(*(score_links(score, edge) for edge in pairs))


@torch.no_grad()
def mean_rank(
    score: Score,
    split: LinkSplit,
    num_negatives: int = 1000,
    *,
    generator: random.Randomness = None,
) -> float:
    """The mean rank, from 1, of a hidden edge among pairs with random targets.

    `num_negatives` targets are drawn per edge, uniformly; those that make an edge of
    the split count as well. Ties count half.
    """
    _check_split(score, split)
    count = _check.count("num_negatives", num_negatives)
    _check.fits("num_negatives", 64 * count)
    edge = split.positive
    if not edge.numel():
        _check.fail("split", "must hide at least one edge", "none")
    randomness = _check.randomness(generator)
    key = random.new_key(randomness, edge.device, random.RANK)
    total = 0.0
    step = max(1, PAIRS // count)
    for low in range(0, edge.shape[1], step):
        source, target = edge[:, low : low + step]
        slot = torch.arange(low, low + source.numel(), device=edge.device)
        draw = torch.arange(count, device=edge.device)
        word = random.bits(random.stream(key, slot)[:, None], draw)
        other = random.below(word, torch.full_like(word, split.num_nodes))
        pairs = torch.stack([source[:, None].expand_as(other), other]).flatten(1)
        rival = _score(score, pairs).view_as(other)
        own = _score(score, torch.stack([source, target]))[:, None]
        ahead = (rival > own).double().sum() + (rival == own).double().sum() / 2
        total += float(ahead) + source.numel()
    return total / edge.shape[1]


def _check_split(score: Any, split: Any) -> None:
    """Refuses what cannot score, and what is no split."""
    if len(_check.functions("score", score)) == 0:
        _check.mistyped("score", "must be a function of pairs", None)
    _check.of_type("split", split, LinkSplit)


def accuracy(train_z: Tensor, train_y: Tensor, test_z: Tensor, test_y: Tensor) -> float:
    """The share of test nodes whose class a linear model of their embedding finds.

    Multinomial, with intercept and penalty ½ ‖W‖², as scikit-learn's default is.
    """
    for name, z, y in (("train", train_z, train_y), ("test", test_z, test_y)):
        title = f"{name}_z"
        _check.tensor(title, _check.real(title, _check.dense(title, z)), rank=2)
        if not bool(z.isfinite().all()):
            _check.fail(title, "must hold finite numbers", "others, too")
        title = f"{name}_y"
        labels = _check.integers(title, _check.dense(title, y))
        _check.length(title, labels, len(z), "row")
        if len(y) and int(y.min()) < 0:
            _check.fail(title, "must not hold negative classes", int(y.min()))
    if train_z.shape[1] != test_z.shape[1]:
        rule = f"must have as many columns as 'train_z', {train_z.shape[1]}"
        _check.fail("test_z", rule, test_z.shape[1])
    if not len(train_y) or not len(test_y):
        _check.fail("train_y", "must hold classes to learn and to test", "none")
    z = train_z.detach().double()
    classes = int(torch.cat([train_y, test_y]).max()) + 1
    _check.fits("train_y", 8 * classes * (len(train_y) + z.shape[1]))
    size = z.shape[1] + 1, classes
    weight = torch.zeros(size, dtype=z.dtype, device=z.device, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight], max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(_logits(z, weight), train_y.long(), reduction="sum")
        loss = loss + weight[1:].square().sum() / 2
        loss.backward()
        return loss

    with torch.enable_grad():
        optimizer.step(closure)
    found = _logits(test_z.detach().double(), weight.detach()).argmax(1)
    return float((found == test_y).double().mean())


def _logits(z: Tensor, weight: Tensor) -> Tensor:
    """The scores [n, classes] of every class; the first row is the intercept."""
    return z @ weight[1:] + weight[0]
