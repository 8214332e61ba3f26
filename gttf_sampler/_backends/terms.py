"""Loss terms of pairs, and gradients of the rows that were touched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gttf_sampler._backends.pairs import SCORE, WIDTH, Pairs

# A pair with score s and weight w adds w · φ(s); φ is, by kind:
LINEAR = 0  # s
LIKE = 1  # −log σ(s)
UNLIKE = 2  # −log σ(−s)
LIKE_EPS = 3  # −log(σ(s) + eps)
UNLIKE_EPS = 4  # −log(1 − σ(s) + eps)
PARTITION = 5  # log mean exp s, of all pairs of a source and once for them

# columns of `Terms.blocks`
KIND, WEIGHT, ROW_STEP, PAIR_STEP = range(4)


class Terms(NamedTuple):
    """The loss terms of pairs, block by block.

    Pair i of row r of a block counts weight[WEIGHT + r · ROW_STEP + i · PAIR_STEP]:
    weights may belong to pairs, to sources, or to a block as a whole.

    Attributes:
        blocks: int64 [blocks, 4], a column for each of the above, the kind of φ first.
        eps: of the kinds that have one.
        symmetric: a score is ½ (⟨L_u, R_v⟩ + ⟨R_u, L_v⟩) instead of ⟨L_u, R_v⟩.
    """

    blocks: Tensor
    eps: float = 0.0
    symmetric: bool = False


class Rows(NamedTuple):
    """Gradients of some rows of a table, none of them twice.

    Attributes:
        row: int64 [r], which rows, in any order.
        at: int64 [r], where in `total` the gradient of each is.
        total: [*, d].
    """

    row: Tensor
    at: Tensor
    total: Tensor

    @property
    def device(self) -> torch.device:
        """The device of the rows."""
        return self.total.device


class Passed(NamedTuple):
    """The output of one pass over pairs.

    Attributes:
        value: [], the loss.
        unit: [weights], φ summed per weight, which is the gradient in the weights; zero
            for those of whole blocks, which are constants; None if nobody asked.
        gradients: of the left and the right table, of one if they are the same; empty
            if nobody asked.
    """

    value: Tensor
    unit: Tensor | None
    gradients: list[Rows]


def terms(
    pairs: Pairs, kinds: Sequence[int], weights: Sequence[str], **how: float | bool
) -> Terms:
    """One kind and one sort of weights per block, in the order of the weights.

    Args:
        pairs: whose blocks they are.
        kinds: of φ, per block.
        weights: per block "pair", "source" or "block": what has a weight of its own.
            Blocks of one sort come after each other; all blocks of one kind for which
            "block" is said share a weight.
        how: the other attributes.
    """
    table, start, shared = list[list[int]](), 0, dict[int, int]()
    for block, (kind, sort) in enumerate(zip(kinds, weights, strict=True)):
        width = int(pairs.blocks[block, WIDTH])
        rows = pairs.rows(block)
        if sort == "block":
            if kind not in shared:
                shared[kind] = start
                start += 1
            table.append([kind, shared[kind], 0, 0])
        elif sort == "source":
            table.append([kind, start, 1, 0])
            start += rows
        else:
            table.append([kind, start, width, 1])
            start += rows * width
    made = torch.tensor(table, dtype=torch.int64).view(-1, 4)
    return Terms(made, **how)  # type: ignore[arg-type]


def scored(pairs: Pairs) -> Terms:
    """φ(s) = s, a weight per pair in the order of the scores."""
    count = len(pairs.blocks)
    kind = torch.full((count,), LINEAR)
    columns = [kind, pairs.blocks[:, SCORE], pairs.blocks[:, WIDTH]]
    return Terms(torch.stack([*columns, torch.ones_like(kind)], dim=1))
