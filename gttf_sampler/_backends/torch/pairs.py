"""Losses of pairs, gradients, optimizers and negatives: the reference in torch.

Losses of pairs, their gradients, steps of optimizers, and negatives.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gttf_sampler import random
from gttf_sampler._backends.pairs import (
    LIKE,
    LIKE_EPS,
    LINEAR,
    PARTITION,
    UNLIKE,
    WIDTH,
    Pairs,
    Passed,
    RowGradients,
    Rule,
    Terms,
)
from gttf_sampler.random import Key


def pair_scores(pairs: Pairs, left: Tensor, right: Tensor) -> Tensor:
    """⟨left[source], right[target]⟩ of all pairs [scores], differentiable."""
    found = [left.new_zeros(0, dtype=precise(left))]
    for block in range(len(pairs.blocks)):
        source, target = pairs.ends(block)
        product = left[source][:, None].to(found[0]) * right[target].to(found[0])
        found.append(product.sum(-1).view(-1))
    return torch.cat(found)


def pair_loss(
    pairs: Pairs, terms: Terms, weight: Tensor, left: Tensor, right: Tensor
) -> Tensor:
    """The sum [] of w · φ(s) over all pairs, differentiable.

    In vectors and weights, other than those of a whole block.
    """
    score = pair_scores(pairs, left, right)
    if terms.symmetric:
        score = (score + pair_scores(pairs, right, left)) / 2
    weight, total, low = weight.to(score), score.new_zeros(()), 0
    for block, (kind, start, row_step, pair_step) in enumerate(terms.blocks.tolist()):
        rows, width = pairs.rows(block), int(pairs.blocks[block, WIDTH])
        part = score[low : low + rows * width].view(rows, width)
        low += rows * width
        shape = rows, width if kind != PARTITION else 1
        counts = weight.as_strided(shape, (row_step, pair_step), start)
        counts = counts.detach() if row_step == 0 else counts
        total = total + (counts * _phi(kind, part, terms.eps)).sum()
    return total


def _phi(kind: int, score: Tensor, eps: float) -> Tensor:
    """φ of scores [rows, width], by kind; see `pairs`."""
    if kind == LINEAR:
        return score
    if kind == LIKE:
        return -F.logsigmoid(score)
    if kind == UNLIKE:
        return -F.logsigmoid(-score)
    if kind == PARTITION:
        return score.logsumexp(-1, keepdim=True) - math.log(score.shape[1])
    chance = score.sigmoid() if kind == LIKE_EPS else 1 - score.sigmoid()
    return -torch.log(chance + eps)


def pair_pass(
    pairs: Pairs,
    terms: Terms,
    weight: Tensor,
    left: Tensor,
    right: Tensor,
    gradients: bool,
    units: bool,
) -> Passed:
    """The loss of pairs, and what it owes to the rows of both tables and to weights.

    With one table for both there is one set of rows. What is not asked for is left out.
    """
    both = [left] if right is left else [left, right]
    tables = [table.detach().to(precise(table)).requires_grad_() for table in both]
    weight = weight.detach().requires_grad_()
    with torch.enable_grad():
        value = pair_loss(pairs, terms, weight, tables[0], tables[-1])
    wanted = [*(tables if gradients else []), *([weight] if units else [])]
    how: dict[str, Any] = {"allow_unused": True, "materialize_grads": True}
    found = list(torch.autograd.grad(value, wanted, **how)) if wanted else []
    unit = found.pop() if units else None
    mixed = len(both) == 1 or terms.symmetric
    sides = [(0, 1)] * 2 if mixed else [(0,), (1,)]
    made = [_touched(pairs, g, side) for g, side in zip(found, sides, strict=False)]
    return Passed(value.detach(), unit, made)


def as_gradient(
    rows: RowGradients, table: Tensor, sparse: bool, scale: float
) -> Tensor:
    """`scale` times a gradient of a table [n, d], dense, or sparse and coalesced."""
    value = scale * rows.total[rows.at]
    if not sparse:
        return value.new_zeros(table.shape).index_copy_(0, rows.row, value)
    row, order = rows.row.sort()
    return torch.sparse_coo_tensor(
        row[None], value[order], table.shape, is_coalesced=True, check_invariants=False
    )


def join(several: Sequence[tuple[RowGradients, float]]) -> RowGradients:
    """The sum of gradients of one table, each times a number."""
    row, where = torch.cat([rows.row for rows, _ in several]).unique(
        return_inverse=True
    )
    value = torch.cat([scale * rows.total[rows.at] for rows, scale in several])
    total = value.new_zeros(row.numel(), value.shape[1]).index_add_(0, where, value)
    return RowGradients(row, torch.arange(row.numel(), device=row.device), total)


def step_rows(
    rows: RowGradients, table: Tensor, state: Sequence[Tensor], rule: Rule
) -> None:
    """Changes some rows of a table [n, d] by their gradients.

    `state` [n, d] is s of "adagrad", m and s of "adam", and changes in these rows.
    """
    row = rows.row
    before = table[row].to(rows.total.dtype)
    gradient = rule.scale * rows.total[rows.at] + rule.decay * before
    change = gradient
    if rule.kind == "adagrad":
        (total,) = state
        summed = total[row].addcmul_(gradient, gradient)
        total[row] = summed
        change = gradient / summed.sqrt_().add_(rule.eps)
    elif rule.kind == "adam":
        first, second = state
        mean = first[row].lerp_(gradient, 1 - rule.beta1)
        square = second[row].lerp_(gradient.square(), 1 - rule.beta2)
        first[row], second[row] = mean, square
        change = mean / square.sqrt_().add_(rule.eps)
    moved = before.add_(change, alpha=-rule.rate)
    table[row] = rounded(moved, row, rule.key) if table.itemsize == 2 else moved


def rounded(value: Tensor, row: Tensor, key: int) -> Tensor:
    """float32 [r, d] as bfloat16, up or down at random, so that the mean stays.

    Four numbers of a row share a random word, which belongs to the row and the key.
    """
    size = value.shape[1]
    at = row[:, None] * -(-size // 4) + torch.arange(-(-size // 4), device=row.device)
    word = random.stream(key, at)[:, :, None]
    shift = torch.arange(0, 64, 16, device=row.device)
    coin = (word >> shift & 0xFFFF).flatten(1)[:, :size].to(torch.int32)
    bits = value.contiguous().view(torch.int32) + coin
    return (bits & ~0xFFFF).view(torch.float32).to(torch.bfloat16)


def draw_alias(
    share: Tensor, alias: Tensor, bits: int, key: Key, first: int, count: int
) -> Tensor:
    """Draws number `first` to `first` + `count` of a key from an alias table, [count].

    A row keeps a draw with chance `share` [n] of 2^bits and passes it on to `alias`
    [n] otherwise.
    """
    rows = share.numel()
    slot = torch.arange(first, first + count, device=share.device)
    word = random.bits(random.stream(key, slot), 0)
    row = random.below_wide(word, torch.full_like(word, rows))
    # What the product of word and n leaves below 2⁶⁴ is uniform within the row.
    coin = (word * rows >> (64 - bits)).bitwise_and_((1 << bits) - 1)
    own = coin < share.index_select(0, row)
    return row.where(own, alias.index_select(0, row))


def _touched(pairs: Pairs, gradient: Tensor, sides: Iterable[int]) -> RowGradients:
    """The rows of a gradient that belong to sources (0), targets (1), or both."""
    ends = [pairs.ends(block) for block in range(len(pairs.blocks))]
    nodes = [end[side].reshape(-1) for end in ends for side in sides]
    row = torch.cat([pairs.nodes[:0], *nodes]).unique()
    return RowGradients(row, row, gradient)


def precise(table: Tensor) -> torch.dtype:
    """The dtype that products are added up in."""
    return torch.promote_types(table.dtype, torch.float32)
