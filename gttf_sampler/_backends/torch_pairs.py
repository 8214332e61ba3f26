"""What embeddings are trained with, by torch: the reference of the fused kernels.

Scores of pairs, their gradients, and negatives.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from gttf_sampler import random
from gttf_sampler._backends.pairs import Pairs, Rule
from gttf_sampler.random import Key

Gradient = Tensor | None


def pair_scores(pairs: Pairs, left: Tensor, right: Tensor) -> Tensor:
    """⟨left[source], right[target]⟩ of all pairs [scores], differentiable."""
    found = [left.new_zeros(0, dtype=_precise(left))]
    for block in range(len(pairs.blocks)):
        source, target = pairs.ends(block)
        product = left[source][:, None].to(found[0]) * right[target].to(found[0])
        found.append(product.sum(-1).view(-1))
    return torch.cat(found)


def pair_gradients(
    pairs: Pairs,
    left: Tensor,
    right: Tensor,
    coefficient: Tensor,
    sparse: tuple[bool, bool],
) -> tuple[Tensor, Gradient]:
    """What pairs with these coefficients [scores] add to the gradients of both tables.

    With one table for both, the first gradient is that of both and the second is None.
    Sparse ones are coalesced.
    """
    both = [left] if right is left else [left, right]
    tables = [table.detach().to(_precise(table)).requires_grad_() for table in both]
    with torch.enable_grad():
        score = pair_scores(pairs, tables[0], tables[-1])
    found = torch.autograd.grad(score, tables, coefficient)
    made = [
        _rows(pairs, gradient, number, right is left) if asked else gradient
        for number, (gradient, asked) in enumerate(zip(found, sparse, strict=False))
    ]
    return made[0], made[1] if len(made) > 1 else None


def step_rows(
    row: Tensor, gradient: Tensor, table: Tensor, state: Sequence[Tensor], rule: Rule
) -> None:
    """Changes the rows [r] of a table [n, d], each there once, by gradients [r, d].

    `state` [n, d] is s of "adagrad", m and s of "adam", and changes in these rows.
    """
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
    moved = table[row].to(gradient.dtype).add_(change, alpha=-rule.rate)
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


def _rows(pairs: Pairs, gradient: Tensor, number: int, both: bool) -> Tensor:
    """The rows of a gradient that belong to sources (0) or targets (1), or to both."""
    ends = [pairs.ends(block) for block in range(len(pairs.blocks))]
    wanted = range(2) if both else (number,)
    nodes = [end[side].reshape(-1) for end in ends for side in wanted]
    row = torch.cat([pairs.nodes[:0], *nodes]).unique()
    shape = gradient.shape
    return torch.sparse_coo_tensor(
        row[None], gradient[row], shape, is_coalesced=True, check_invariants=False
    )


def _precise(table: Tensor) -> torch.dtype:
    """What products are added up in."""
    return torch.promote_types(table.dtype, torch.float32)
