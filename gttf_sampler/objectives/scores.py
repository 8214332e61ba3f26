"""Losses of pairs of vectors, without a vector per pair in memory.

Where both tables of vectors are plain matrices in memory and compiled code is there,
one pass over the pairs finds the loss and the gradients of the rows, and of what pairs
count. Losses that are not a sum over pairs get their scores. Elsewhere losses look
vectors up, which is the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gttf_sampler import _check
from gttf_sampler._backends import ops
from gttf_sampler._backends.ops import fast_backend
from gttf_sampler._backends.pairs import Pairs, RowGradients, Terms, of_levels, scored
from gttf_sampler._backends.torch import pairs as torch_pairs
from gttf_sampler._compat import has_hooks, is_compiling
from gttf_sampler.objectives.base import Vectors

SCORES = 1 << 24  # pairs that are scored together
SOURCE, TARGET = range(2)

_current: ContextVar[Collector | None] = ContextVar("gttf_collector", default=None)


class Owed(NamedTuple):
    """Gradients of some rows of a table, found by one pass over pairs."""

    table: int  # its number
    rows: RowGradients
    scale: float  # what they are multiplied by


class Collector:
    """Keeps row gradients for an optimizer, in the place of gradients of tables."""

    def __init__(self, tables: Sequence[Tensor]) -> None:
        self.tables = list(tables)  # [n, d], of one dtype and width
        self.owed: list[Owed] = []  # found by `backward` since it was cleared last
        self.scored = 0  # pairs, ever

    def numbers(self, left: Tensor, right: Tensor | None) -> tuple[int, int]:
        """The numbers of two tables, which must be collected."""
        first = self.number(left)
        second = first if right is None else self.number(right)
        if first is None or second is None:
            _check.fail("tables", "must be those that are collected", "another one")
        return first, second

    def number(self, table: Tensor) -> int | None:
        """Returns the number of a table; None if it is not collected."""
        same = (number for number, own in enumerate(self.tables) if own is table)
        return next(same, None)

    @contextmanager
    def use(self) -> Iterator[None]:
        """Losses of this thread, and their `backward`, are collected inside."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


class Table(NamedTuple):
    """A matrix of vectors that kernels can read."""

    matrix: Tensor  # [n, d]
    sparse: bool  # its gradient is


def table_of(owner: object) -> Table | None:
    """Returns the matrix whose rows are an embedding's vectors, if kernels can read it.

    None if vectors have to be asked for: by a function, of another device, of a module
    that does more than to look up.
    """
    sparse, weight = False, owner
    if type(owner) is nn.Embedding:
        if owner.padding_idx is not None or owner.max_norm is not None:
            return None
        if owner.scale_grad_by_freq or has_hooks(owner):
            return None
        sparse, weight = owner.sparse, owner.weight
    if type(weight) not in (Tensor, nn.Parameter):
        return None
    table: Tensor = weight  # type: ignore[assignment]
    if is_compiling():
        return None
    collects = _current.get()
    if collects is not None and collects.number(table) is not None:
        return Table(table, sparse)
    if not hasattr(fast_backend(table.device), "pair_pass"):
        return None
    known = table.dtype in (torch.float32, torch.float64) and table.dim() == 2
    if not known or not table.is_contiguous() or table.is_neg() or table.is_conj():
        return None
    return Table(table, sparse)


def fused(*embeddings: Vectors) -> bool:
    """True if kernels can read the vectors: matrices of one dtype and width."""
    tables = [table_of(embedding.owner) for embedding in embeddings]
    found = [table.matrix for table in tables if table is not None]
    alike = {(table.dtype, table.shape[1]) for table in found}
    return len(found) == len(tables) and len(alike) == 1


def loss_of(
    left: Vectors, right: Vectors, pairs: Pairs, terms: Terms, weight: Tensor
) -> Tensor:
    """The sum [] of w · φ(⟨L_source, R_target⟩) over pairs, of vectors that are fused.

    Differentiable in the vectors and the weights; both gradients come from the pass
    that finds the loss.
    """
    tables = _known(left, pairs, SOURCE), _known(right, pairs, TARGET)
    return pair_loss(*tables, pairs, terms, weight)


def level_scores(
    left: Vectors, right: Vectors, seed: Tensor, nodes: Sequence[Tensor]
) -> list[Tensor]:
    """⟨L_u, R_v⟩ of seeds u [b, 1] and the nodes v of each level, per level [b, ...].

    The vectors must be fused.
    """
    every = torch.cat([level.flatten(1) for level in nodes], dim=1)
    pairs = of_levels([seed, every], [(0, 1)])
    tables = _known(left, pairs, SOURCE), _known(right, pairs, TARGET)
    score = score_pairs(*tables, pairs).view_as(every)
    widths = [level.flatten(1).shape[1] for level in nodes]
    parts = zip(score.split(widths, dim=1), nodes, strict=True)
    return [part.reshape(level.shape) for part, level in parts]


def _known(embedding: Vectors, pairs: Pairs, side: int) -> Table:
    """The matrix of an embedding; refuses one without a row for every node of pairs."""
    found = table_of(embedding.owner)
    if found is None:
        _check.fail(embedding.name, "must be a matrix in memory", "a function")
    rows = found.matrix.shape[0]
    if pairs.nodes.numel() and int(pairs.nodes.max()) >= rows:
        ends = [pairs.ends(block)[side].amax() for block in range(len(pairs.blocks))]
        most = int(max(ends, default=0))
        if most >= rows:
            rule = "must have a vector for every node of the forest"
            _check.fail(embedding.name, rule, f"none for node {most}")
    return found


def pair_loss(
    left: Table, right: Table, pairs: Pairs, terms: Terms, weight: Tensor
) -> Tensor:
    """The loss [] of pairs by two tables, whose gradients may be sparse."""
    other = None if right.matrix is left.matrix else right.matrix
    learns = torch.is_grad_enabled()  # which nobody can ask inside
    found: Tensor = _PairLoss.apply(  # type: ignore[no-untyped-call]
        left.matrix, other, weight, (left.sparse, right.sparse), pairs, terms, learns
    )
    return found


def score_pairs(left: Table, right: Table, pairs: Pairs) -> Tensor:
    """The scores [scores] of pairs by two tables, whose gradients may be sparse."""
    other = None if right.matrix is left.matrix else right.matrix
    found: Tensor = _PairScores.apply(  # type: ignore[no-untyped-call]
        left.matrix, other, (left.sparse, right.sparse), pairs
    )
    return found


class _PairLoss(torch.autograd.Function):
    """A loss of pairs, with gradients by the pass that finds it."""

    @staticmethod
    def forward(
        ctx: Any,
        left: Tensor,
        right: Tensor | None,
        weight: Tensor,
        sparse: tuple[bool, bool],
        pairs: Pairs,
        terms: Terms,
        learns: bool,
    ) -> Tensor:
        other = left if right is None else right
        ctx.sparse, ctx.pairs, ctx.terms, ctx.collector = *(sparse, pairs, terms), None
        wanted, counted = any(ctx.needs_input_grad[:2]), ctx.needs_input_grad[2]
        how = weight, left, other, learns and wanted, learns and counted
        passed = ops.pair_pass(pairs, terms, *how)
        ctx.collector = collects = _current.get()
        if collects is not None:
            collects.scored += pairs.scores
            ctx.tables = collects.numbers(left, right)
            ctx.passed = passed
        else:
            rows = [part for side in passed.gradients for part in side]
            ctx.save_for_backward(left, right, weight, passed.unit, *rows)
        return passed.value

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        nothing = None, None, None, None
        if ctx.collector is not None:
            scale = float(slope)
            for number, rows in zip(ctx.tables, ctx.passed.gradients, strict=False):
                ctx.collector.owed.append(Owed(number, rows, scale))
            unit, ctx.passed = ctx.passed.unit, None
            return None, None, None if unit is None else unit * slope, *nothing
        left, other, weight, unit, *parts = ctx.saved_tensors
        right = left if other is None else other
        if torch.is_grad_enabled():  # somebody wants the gradient of the gradient
            how = weight, left, right
            value = torch_pairs.pair_loss(ctx.pairs, ctx.terms, *how)
            inputs = [left, weight] if other is None else [left, right, weight]
            asked = [given for given in inputs if given.requires_grad]
            twice = iter(torch.autograd.grad(value, asked, slope, create_graph=True))
            made = [next(twice) if g.requires_grad else None for g in inputs]
            if other is None:
                made.insert(1, None)
            return *made, *nothing
        rows = [RowGradients(*parts[i : i + 3]) for i in range(0, len(parts), 3)]
        found = _gradients(rows, (left, right), ctx.sparse, float(slope))
        return *found, None if unit is None else unit.to(weight) * slope, *nothing


def _owed(
    pairs: Pairs, left: Tensor, right: Tensor, slope: Tensor
) -> list[RowGradients]:
    """Gradients of both tables, or of the one for both, by slopes [scores] of pairs."""
    how = scored(pairs), slope, left, right, True, False
    return ops.pair_pass(pairs, *how).gradients


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
        ctx.sparse, ctx.described, ctx.collector = sparse, described, _current.get()
        ctx.save_for_backward(left, right)
        if ctx.collector is not None:
            ctx.collector.scored += described.scores
            ctx.tables = ctx.collector.numbers(left, right)
        return ops.pair_scores(described, left, left if right is None else right)

    @staticmethod
    def backward(ctx: Any, coefficient: Tensor) -> tuple[Tensor | None, ...]:
        left, other = ctx.saved_tensors
        right = left if other is None else other
        if ctx.collector is not None:
            made = _owed(ctx.described, left, right, coefficient)
            for number, rows in zip(ctx.tables, made, strict=False):
                ctx.collector.owed.append(Owed(number, rows, 1.0))
            return None, None, None, None
        if torch.is_grad_enabled():  # somebody wants the gradient of the gradient
            score = torch_pairs.pair_scores(ctx.described, left, right)
            tables = [left] if other is None else [left, right]
            twice = torch.autograd.grad(score, tables, coefficient, create_graph=True)
            return (*twice, *[None] * (4 - len(twice)))
        owed = _owed(ctx.described, left, right, coefficient)
        return *_gradients(owed, (left, right), ctx.sparse, 1.0), None, None


def _gradients(
    rows: Sequence[RowGradients],
    tables: tuple[Tensor, Tensor],
    sparse: tuple[bool, bool],
    scale: float,
) -> list[Tensor | None]:
    """Those of both tables; None for the second one if it is the first."""
    found: list[Tensor | None] = [None, None]
    for number, part in enumerate(rows):
        own = tables[number], sparse[number]
        found[number] = ops.as_gradient(part, *own, scale)
    return found
