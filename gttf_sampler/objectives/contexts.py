"""The loss of PyG's Node2Vec: contexts of walks, and of walks to random nodes."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gttf_sampler import _check
from gttf_sampler._backends.pairs import Pairs, of_walks, of_windows
from gttf_sampler._backends.terms import LIKE_EPS, UNLIKE_EPS, terms
from gttf_sampler.objectives.scores import Table, pair_loss, table_of


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
