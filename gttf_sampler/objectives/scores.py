"""Products of the vectors of pairs, without a vector per pair in memory.

Where both tables of vectors are plain matrices in memory and compiled code is there,
one kernel multiplies all pairs and another one adds up the gradients of the rows; what
is between them is one number per pair, and up to torch. Elsewhere losses look vectors
up, which is the reference.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gttf_sampler import _check
from gttf_sampler._backends import ops, torch_pairs
from gttf_sampler._backends.pairs import (
    Pairs,
    of_levels,
    of_walks,
    of_windows,
)
from gttf_sampler.backend import fast_backend
from gttf_sampler.objectives.base import Vectors
from gttf_sampler.objectives.collect import Collector, Owed, collector

SCORES = 1 << 24  # pairs that are scored together
HOOKS = (
    *("_forward_hooks", "_forward_pre_hooks"),
    *("_backward_hooks", "_backward_pre_hooks"),
)


def table_of(owner: object) -> tuple[Tensor, bool] | None:
    """The matrix [n, d] that vectors are rows of, and whether its gradient is sparse.

    None if vectors have to be asked for: by a function, of another device, of a module
    that does more than to look up.
    """
    sparse, weight = False, owner
    if type(owner) is nn.Embedding:
        if owner.padding_idx is not None or owner.max_norm is not None:
            return None
        if owner.scale_grad_by_freq or any(getattr(owner, name) for name in HOOKS):
            return None
        sparse, weight = owner.sparse, owner.weight
    if type(weight) not in (Tensor, nn.Parameter):
        return None
    table: Tensor = weight  # type: ignore[assignment]
    if torch.compiler.is_compiling():
        return None
    collects = collector()
    if collects is not None and collects.number(table) is not None:
        return table, sparse
    if fast_backend(table.device) is None:
        return None
    known = table.dtype in (torch.float32, torch.float64) and table.dim() == 2
    if not known or not table.is_contiguous() or table.is_neg() or table.is_conj():
        return None
    return table, sparse


def fused(*embeddings: Vectors) -> bool:
    """Whether kernels can read the vectors, all of one kind."""
    tables = [table_of(embedding.owner) for embedding in embeddings]
    found = [table[0] for table in tables if table is not None]
    alike = {(table.dtype, table.shape[1]) for table in found}
    return len(found) == len(tables) and len(alike) == 1


def scores(embedding: Vectors, pairs: Pairs) -> Tensor:
    """⟨Z_source, Z_target⟩ of all pairs [scores], of vectors that are fused."""
    found = _known(embedding, [pairs.nodes])
    return score_pairs(found, found, pairs)


def level_scores(
    left: Vectors, right: Vectors, seed: Tensor, nodes: Sequence[Tensor]
) -> list[Tensor]:
    """⟨L_u, R_v⟩ of seeds u [b, 1] and the nodes v of each level, per level [b, ...].

    The vectors must be fused.
    """
    every = torch.cat([level.flatten(1) for level in nodes], dim=1)
    tables = _known(left, [seed]), _known(right, [every])
    score = score_pairs(*tables, of_levels([seed, every], [(0, 1)])).view_as(every)
    widths = [level.flatten(1).shape[1] for level in nodes]
    parts = zip(score.split(widths, dim=1), nodes, strict=True)
    return [part.reshape(level.shape) for part, level in parts]


def _known(embedding: Vectors, nodes: Sequence[Tensor]) -> tuple[Tensor, bool]:
    """The table of fused vectors, which must have a row for every node."""
    found = table_of(embedding.owner)
    if found is None:
        _check.fail(embedding.name, "must be a matrix in memory", "a function")
    rows = found[0].shape[0]
    for level in nodes:
        if level.numel() and int(level.max()) >= rows:
            rule = "must have a vector for every node of the forest"
            _check.fail(embedding.name, rule, f"none for node {int(level.max())}")
    return found


def score_pairs(
    first: tuple[Tensor, bool], second: tuple[Tensor, bool], pairs: Pairs
) -> Tensor:
    """The scores [scores] of pairs by two tables, whose gradients may be sparse."""
    (left, sparse), (right, also) = first, second
    other = None if right is left else right
    found: Tensor = _PairScores.apply(left, other, (sparse, also), pairs)  # type: ignore[no-untyped-call]
    return found


def window_scores(table: nn.Embedding, windows: list[Tensor], per_walk: int) -> Any:
    """Per array of windows [w, size] the scores [w · (size − 1)] of PyG's Node2Vec.

    That is of the first node with each other one, window by window. None if the table
    is one that kernels cannot read.
    """
    found = table_of(table)
    plain = all(part.dim() == 2 and part.shape[1] > 1 for part in windows)
    if found is None or not plain:
        return None
    described = of_windows(windows, per_walk)
    nodes = described.nodes
    if nodes.numel() and not 0 <= int(nodes.min()) <= int(nodes.max()) < len(found[0]):
        return None  # torch says what is wrong
    sizes = [part.shape[0] * (part.shape[1] - 1) for part in windows]
    return score_pairs(found, found, described).split(sizes)


def walk_scores(
    table: nn.Embedding, walks: Sequence[Tensor], context: int
) -> Sequence[Tensor]:
    """Per array of walks [w, length] the scores of all their windows of a size.

    Those of `window_scores`, without the windows; for tables that are collected.
    """
    found = table_of(table)
    if found is None:
        _check.fail("table", "must be collected", "no")
    described = of_walks(walks, context)
    windows = [part.shape[1] - context + 1 for part in walks]
    sizes = [
        part.shape[0] * number * (context - 1)
        for part, number in zip(walks, windows, strict=True)
    ]
    parts: Sequence[Tensor] = score_pairs(found, found, described).split(sizes)
    return parts


class _PairScores(torch.autograd.Function):
    """Scores of pairs, with gradients by a kernel."""

    @staticmethod
    def forward(
        ctx: Any,
        left: Tensor,
        right: Tensor | None,
        sparse: tuple[bool, bool],
        described: Pairs,
    ) -> Tensor:
        ctx.sparse, ctx.described, ctx.collector = sparse, described, collector()
        if ctx.collector is None:
            ctx.save_for_backward(left, right)
        else:
            ctx.collector.scored += described.scores
            ctx.tables = _numbers(ctx.collector, left, right)
        return ops.pair_scores(described, left, left if right is None else right)

    @staticmethod
    def backward(ctx: Any, coefficient: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.collector is not None:
            found = Owed(ctx.described, ctx.tables, coefficient)
            ctx.collector.owed.append(found)
            return None, None, None, None
        left, other = ctx.saved_tensors
        right = left if other is None else other
        if torch.is_grad_enabled():  # somebody wants the gradient of the gradient
            score = torch_pairs.pair_scores(ctx.described, left, right)
            tables = [left] if other is None else [left, right]
            twice = torch.autograd.grad(score, tables, coefficient, create_graph=True)
            return (*twice, *[None] * (4 - len(twice)))
        made = ops.pair_gradients(ctx.described, left, right, coefficient, ctx.sparse)
        return (*made, None, None)


def _numbers(
    collects: Collector, left: Tensor, right: Tensor | None
) -> tuple[int, int]:
    """Which tables of a collector these are."""
    first = collects.number(left)
    second = first if right is None else collects.number(right)
    if first is None or second is None:
        _check.fail("tables", "must be those that are collected", "another one")
    return first, second
