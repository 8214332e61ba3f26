"""Link prediction and classification: edges to hide, and how well they are found.

By torch alone: scipy and scikit-learn, which have some of it, are no dependency, and
splits have the same bits on every device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler.graph import build

TURNS = 32  # of guesses, after which pairs without an edge are counted instead
PAIRS = 1 << 18  # pairs that are scored together

Score = Callable[[Tensor], Tensor]


class LinkSplit(NamedTuple):
    """A split for link prediction: edges to train on, hidden edges to test with.

    Attributes:
        train: int64 [2, m], the edges that are left, both directions.
        positive: int64 [2, t], the hidden edges, each once.
        negative: int64 [2, t], pairs of different nodes that never had an edge.
        num_nodes: of the graph.
    """

    train: Tensor
    positive: Tensor
    negative: Tensor
    num_nodes: int


def split_links(
    edge_index: Any,
    num_nodes: int | None = None,
    hide: float = 0.5,
    *,
    generator: random.Randomness = None,
) -> LinkSplit:
    """Hides a share of the edges of an undirected graph, at random.

    >>> from gttf_sampler.embedding import split_links
    >>> split = split_links([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]], hide=0.4, generator=0)
    >>> split.train.shape, split.positive.shape  # 3 of 5 edges keep 4 nodes connected
    (torch.Size([2, 6]), torch.Size([2, 2]))

    A random spanning forest is never hidden, so that what was connected stays so. Where
    the edges to be left are fewer than that takes, they are a random part of it.

    Args:
        edge_index: [2, m]; directions, copies and self-loops are ignored.
        num_nodes: by default the largest id + 1.
        hide: share of the edges, between 0 and 1.
        generator: a torch.Generator, an integer, or None for torch's default generator.
    """
    if not 0 < _check.number("hide", hide) < 1:
        _check.fail("hide", "must lie between 0 and 1", hide)
    edge, n = _undirected(edge_index, num_nodes)
    randomness = _check.randomness(generator)
    key = random.new_key(randomness, edge.device, random.SPLIT)
    total = edge.shape[1]
    hidden = round(hide * total)
    # Edges go in a random order, the largest rank first, unless one has to stay to keep
    # its ends connected: the spanning forest of the smallest ranks, hidden last of all.
    slot = torch.arange(total, device=edge.device)
    rank = random.stream(key, slot).argsort().argsort()
    tree, _ = spanning_forest(edge, rank, n)
    order = (total * tree - rank).argsort()
    positive, left = edge[:, order[:hidden]], edge[:, order[hidden:]]
    negative = _negatives(edge, n, hidden, random.fold(key, 1))
    return LinkSplit(torch.cat([left, left.flip(0)], dim=1), positive, negative, n)


def largest_component(
    edge_index: Any, num_nodes: int | None = None
) -> tuple[Tensor, Tensor]:
    """The edges [2, m] of the largest connected part, renumbered, and its nodes [n]."""
    edge, n = _edges(edge_index, num_nodes)
    label = components(edge, n)
    largest = label.bincount(minlength=1).argmax()
    inside = label == largest
    number = inside.cumsum(0) - 1
    return number[edge[:, inside[edge[0]]]], inside.nonzero().view(-1)


def components(edge: Tensor, num_nodes: int) -> Tensor:
    """The component [n] of every node, named by its smallest node; edges [2, m]."""
    node = torch.arange(num_nodes, device=edge.device)
    rank = torch.arange(edge.shape[1], device=edge.device)
    _, label = spanning_forest(edge, rank, num_nodes)
    return node.scatter_reduce(0, label, node, "amin")[label]


def spanning_forest(
    edge: Tensor, rank: Tensor, num_nodes: int
) -> tuple[Tensor, Tensor]:
    """Marks the edges [2, m] of the spanning forest of smallest ranks, bool [m].

    Borůvka's method: every component takes its edge of the smallest rank to another
    one; as ranks differ, no cycle can close. O(m log n), log n rounds at most. With the
    marks come the components [n], each named by one of its nodes.
    """
    label = torch.arange(num_nodes, device=edge.device)
    taken = torch.zeros_like(rank, dtype=torch.bool)
    position = rank.argsort()  # of the edge that has a rank
    none = rank.numel()
    while True:
        left, right = label[edge]
        between = left != right
        if not bool(between.any()):
            return taken, label
        best = torch.full_like(label, none)
        for end in (left, right):
            best = best.scatter_reduce(0, end[between], rank[between], "amin")
        root = (best < none).nonzero().view(-1)
        chosen = position[best[root]]
        taken[chosen] = True
        other = left[chosen] + right[chosen] - root  # the component at the other end
        target = label.clone()
        target[root] = other
        # Two components that chose each other: the smaller one is the root.
        both = (target[other] == root) & (root < other)
        target[root[both]] = root[both]
        while not torch.equal(above := target[target], target):  # to their roots
            target = above
        label = target[label]


def _undirected(edge_index: Any, num_nodes: int | None) -> tuple[Tensor, int]:
    """Each edge once, the smaller node above, without self-loops; and the size."""
    edge, n = _edges(edge_index, num_nodes)
    high, low, _ = ops.both_ways(edge[0], edge[1], n)
    return torch.stack([low, high])[:, low < high], n


def _edges(edge_index: Any, num_nodes: int | None) -> tuple[Tensor, int]:
    """Edges int64 [2, m], and the number of nodes, which all ids are below."""
    ends = build.endpoints(edge_index, "out")
    size, _ = build.sizes(*ends, num_nodes, "out")
    _check.fits("num_nodes", 8 * size)
    edge = _check.within("edge_index", torch.stack(ends), size)
    return edge.to(torch.int64), size


def _negatives(edge: Tensor, n: int, count: int, key: random.Key) -> Tensor:
    """`count` pairs [2, count] of different nodes without an edge, at random."""
    free = n * (n - 1) // 2 - edge.shape[1]
    if free < min(1, count):
        _check.fail("edge_index", "must leave pairs without an edge", "all of them")
    known, found = edge[0] * n + edge[1], [edge[:, :0]]
    bound, missing, turn = torch.tensor(n, device=edge.device), count, 0
    turns = TURNS if 2 * TURNS * free >= n * n else 0
    while missing and turn < turns:
        slot = torch.arange(2 * count, device=edge.device).view(2, count)
        word = random.stream(random.fold(key, turn), slot)
        pair = random.below(word, bound).sort(dim=0).values
        code = pair[0] * n + pair[1]
        at = torch.searchsorted(known, code).clamp_(max=max(0, known.numel() - 1))
        fresh = (pair[0] != pair[1]) & (known[at] != code)
        found.append(pair[:, fresh][:, :missing])
        missing -= found[-1].shape[1]
        turn += 1
    found.append(_counted(edge, n, missing, random.fold(key, TURNS)))
    return torch.cat(found, dim=1)


def _counted(edge: Tensor, n: int, count: int, key: random.Key) -> Tensor:
    """The same by numbers of pairs without an edge, however few there are.

    Pairs u < v are numbered row by row; before the edge with rank i and number e there
    are e − i pairs without an edge.
    """
    if not count:
        return edge[:, :0]
    free = n * (n - 1) // 2 - edge.shape[1]
    start = torch.arange(n, device=edge.device)
    start = start * (2 * n - start - 1) // 2  # the number of the first pair of a row
    number = start[edge[0]] + edge[1] - edge[0] - 1
    before = number - torch.arange(number.numel(), device=edge.device)
    slot = torch.arange(count, device=edge.device)
    bound = torch.tensor(free, device=edge.device)
    drawn = random.below_wide(random.stream(key, slot), bound)
    pair = drawn + torch.searchsorted(before, drawn, right=True)
    low = torch.searchsorted(start, pair, right=True) - 1
    low = low.clamp_(max=n - 2)  # the last row is empty
    return torch.stack([low, pair - start[low] + low + 1])


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
    """The scores [k] of a kind of pairs, which must be finite."""
    score = _check.tensor(name, _check.real(name, value))
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
    value = _check.real("score", found).detach()
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
    """The accuracy of a logistic regression from embeddings to classes.

    Multinomial, with intercept and penalty ½ ‖W‖², as scikit-learn's default is.
    """
    for name, z, y in (("train", train_z, train_y), ("test", test_z, test_y)):
        title = f"{name}_z"
        _check.tensor(title, _check.real(title, z), rank=2)
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
