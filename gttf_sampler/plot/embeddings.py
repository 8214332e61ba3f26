"""draw_embeddings(): vectors as points of a plane, coloured by class or community."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler.graph.compact import CompactAdj

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("auto", "tsne", "pca")
LEGEND = 20  # classes beyond this many are coloured, but not listed


def draw_embeddings(
    embedding: Tensor, label: Any = None, *, method: str = "auto", title: str = ""
) -> Figure:
    """A matplotlib figure with one dot per node.

    Args:
        embedding: [n, d].
        label: int [n], the class or community of each node, or None.
        method: "tsne", which needs scikit-learn, "pca", or "auto": t-SNE if it can be.
        title: written above the dots, before the name of the method.
    """
    embedding = _check.real("embedding", _check.tensor("embedding", embedding, rank=2))
    if not bool(embedding.isfinite().all()):
        _check.fail("embedding", "must hold finite numbers", "others, too")
    _check.one_of("method", method, METHODS)
    _check.of_type("title", title, str)
    installed = find_spec("sklearn") is not None
    if method == "tsne" and not installed:
        raise ImportError("t-SNE needs scikit-learn; method='pca' does without")
    colour = torch.zeros(len(embedding), dtype=torch.int64)
    if label is not None:
        colour = _check.integers("label", label).cpu()
        _check.length("label", colour, len(embedding), "node")
    by_tsne = installed and method != "pca" and len(embedding) > 3
    point = _tsne(embedding) if by_tsne else plane(embedding)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 6), layout="constrained")
    axes = figure.add_subplot()
    kinds = colour.unique().tolist()
    for number, kind in enumerate(kinds):
        x, y = point[colour == kind].T.tolist()
        shade = f"C{number % 10}" if len(kinds) <= 10 else None
        axes.scatter(
            x, y, s=min(40, max(4, 16000 / len(point))), label=kind, color=shade, lw=0
        )
    name = "t-SNE" if by_tsne else "principal components"
    axes.set_title(f"{title}: {name}" if title else name)
    axes.set(xticks=[], yticks=[])
    if 1 < len(kinds) <= LEGEND:
        axes.legend(title="class", frameon=False, bbox_to_anchor=(1, 1), loc=2)
    return figure


def plane(embedding: Tensor) -> Tensor:
    """The first two principal components [n, 2], in float64."""
    z = embedding.detach().double().cpu()
    z = z - z.mean(0)
    if z.shape[1] < 2:
        return torch.nn.functional.pad(z, (0, 2 - z.shape[1]))
    # The eigenvectors of a small symmetric matrix: no randomness, any number of rows.
    axes: Tensor = torch.linalg.eigh(z.T @ z).eigenvectors
    return z @ axes[:, -2:].flip(1)


def communities(
    adj: CompactAdj, rounds: int = 20, *, generator: random.Randomness = None
) -> Tensor:
    """A community [n] per node, by label propagation; 0 is the largest.

    In a round half of the nodes, at random, take the label that most neighbours have,
    ties by chance. Good enough to colour a picture by; use a library for more.
    """
    _check.of_type("adj", adj, CompactAdj)
    _check.one_node_set("adj", adj.num_rows, adj.num_cols)
    rounds = _check.steps("rounds", rounds)
    n, col = adj.num_rows, adj.col.to(torch.int64)
    row = torch.arange(n, device=adj.device).repeat_interleave(adj.degree)
    label = torch.arange(n, device=adj.device)
    randomness = _check.randomness(generator)
    key = random.new_key(randomness, adj.device, random.COMMUNITY)
    for turn in range(rounds):
        ties, coins = (random.fold(random.fold(key, turn), i) for i in range(2))
        code, count = (row * n + label[col]).unique(return_counts=True)
        tie = random.stream(ties, code).bitwise_and_(0xFFFF)
        vote = (count << 16) + tie
        best = vote.new_zeros(n).scatter_reduce(0, code // n, vote, "amax")
        wins = vote == best[code // n]
        choice = label.clone()
        choice[code[wins] // n] = code[wins] % n
        coin = random.stream(coins, torch.arange(n, device=adj.device)) > 0
        label = choice.where(coin, label)
    number, size = label.unique(return_inverse=True, return_counts=True)[1:]
    place: Tensor = size.argsort(descending=True).argsort()
    return place[number]


def _tsne(embedding: Tensor) -> Tensor:
    """scikit-learn's t-SNE [n, 2], started from the principal components."""
    manifold = import_module("sklearn.manifold")
    z = embedding.detach().float().cpu()
    start = plane(z)  # of any width, where scikit-learn's own asks for two
    start = start / start[:, 0].std().clamp(min=1e-12) * 1e-4
    near = min(30.0, max(1.0, (len(z) - 1) / 3))
    tsne = manifold.TSNE(init=start.numpy(), perplexity=near, random_state=0)
    return torch.as_tensor(tsne.fit_transform(z.numpy()))
