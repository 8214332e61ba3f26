"""What embeddings are trained with, by compiled kernels; see `torch_pairs`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gttf_sampler._backends import pair_kernels as kernels
from gttf_sampler._backends.memory import FEATURES, borrow, empty, give_back
from gttf_sampler._backends.numba_rooted import word
from gttf_sampler._backends.pairs import RULES, Pairs, Rule
from gttf_sampler._backends.threads import parallel
from gttf_sampler._backends.torch_pairs import Gradient
from gttf_sampler.random import Key

Array = np.ndarray[Any, Any]

FAR = 1 << 24  # bytes of a table that does not stay in the cache
_idle: list[Array] = []  # tables of places, all -1; steps on the list are atomic


def pair_scores(pairs: Pairs, left: Tensor, right: Tensor) -> Tensor:
    """⟨left[source], right[target]⟩ of all pairs [scores]; see `torch_pairs`."""
    out = torch.empty(pairs.scores, dtype=_precise(left), device="cpu")
    size = left.shape[1]
    arrays = pairs.blocks.numpy(), pairs.looked_up.numpy(), pairs.nodes.numpy()
    tables = flat(left), flat(right)
    how = size, is_far(right), out.numpy()
    work = pairs.scores * size // 8
    parallel(kernels.pair_scores, pairs.trees, work, *arrays, *tables, *how)
    return out


def pair_gradients(
    pairs: Pairs,
    left: Tensor,
    right: Tensor,
    coefficient: Tensor,
    sparse: tuple[bool, bool],
) -> tuple[Tensor, Gradient]:
    """What pairs add to the gradients of both tables; see `torch_pairs`."""
    both = right is left
    sides = [Side(pairs, left, True, both, sparse[0])]
    if not both:
        sides.append(Side(pairs, right, False, True, sparse[1]))
    add_gradients(pairs, left, right, coefficient, sides)
    made = [side.result() for side in sides]
    return made[0], None if both else made[1]


class Side:
    """Where the gradient of a table is added up: all of its rows, or those needed.

    Attributes:
        rows: int64 [r], the nodes whose rows they are; None for all.
        place: int32 [n], in which row the gradient of a node is.
        total: [r, d] or [n, d], the gradient.
    """

    def __init__(
        self, pairs: Pairs, table: Tensor, sources: bool, targets: bool, sparse: bool
    ) -> None:
        self.shape = table.shape
        self.rows: Array | None = None
        if sparse:
            self.place = _take_place(table.shape[0])
            self.rows = _rows(pairs, self.place, sources, targets)
            kernels.number_rows(self.rows, self.place)
        else:
            self.place = np.arange(table.shape[0], dtype=np.int32)
        rows = table.shape[0] if self.rows is None else self.rows.size
        self.total = _zeros(rows, table.shape[1], _precise(table))

    def forget(self) -> None:
        """Gives the table of places back."""
        if self.rows is not None:
            kernels.forget_rows(self.rows, self.place)
            _idle.append(self.place)
            del _idle[:-4]

    def result(self) -> Tensor:
        """The gradient, sparse and coalesced if asked."""
        if self.rows is None:
            return self.total
        self.forget()
        return torch.sparse_coo_tensor(
            torch.from_numpy(self.rows)[None],
            self.total,
            self.shape,
            is_coalesced=True,
            check_invariants=False,
        )


def add_gradients(
    pairs: Pairs, left: Tensor, right: Tensor, coefficient: Tensor, sides: list[Side]
) -> None:
    """Adds the gradients of all pairs to those of sources and targets."""
    size = left.shape[1]
    arrays = pairs.blocks.numpy(), pairs.looked_up.numpy(), pairs.nodes.numpy()
    tables = flat(left), flat(right)
    places = sides[0].place, sides[-1].place
    totals = flat(sides[0].total), flat(sides[-1].total)
    given = coefficient.contiguous().numpy()
    parallel(
        kernels.pair_gradients,
        -(-size // kernels.LANES),
        pairs.scores * size // 4,
        *(pairs.trees, *arrays, tables, size, is_far(right), given, places, totals),
    )


def step_rows(
    row: Tensor, gradient: Tensor, table: Tensor, state: Sequence[Tensor], rule: Rule
) -> None:
    """Changes the rows of a table by their gradients; see `torch_pairs`."""
    numbers = rule.rate, 1 - rule.beta1, 1 - rule.beta2, rule.eps
    wide = np.float64 if gradient.dtype == torch.float64 else np.float32
    kept = [*map(flat, state), *[np.empty(0, wide)] * 2][:2]
    kernel = kernels.step_rows_half if table.itemsize == 2 else kernels.step_rows
    parallel(
        kernel,
        *(row.numel(), gradient.numel()),
        *(RULES.index(rule.kind), tuple(map(wide, numbers))),
        *(row.numpy(), flat(gradient), flat(table), *kept),
        *(table.shape[1], word(rule.key)),
    )


def draw_alias(
    share: Tensor, alias: Tensor, bits: int, key: Key, first: int, count: int
) -> Tensor:
    """Draws number `first` to `first` + `count` of a key [count]; see `torch_pairs`."""
    out = torch.empty(count, dtype=torch.int64, device="cpu")
    table = share.numpy(), alias.numpy(), np.uint64(bits), word(key)
    parallel(kernels.draw_alias, count, count * 4, *table, first, out.numpy())
    return out


def _zeros(rows: int, size: int, dtype: torch.dtype) -> Tensor:
    """A table of zeros, in memory that was used before if there is some."""
    nbytes = rows * size * dtype.itemsize
    if nbytes < FEATURES.small:
        return torch.zeros(rows, size, dtype=dtype, device="cpu")
    memory = FEATURES.lend(FEATURES.borrow(nbytes), nbytes)
    return memory.view(dtype).zero_().view(rows, size)


def _rows(pairs: Pairs, place: Array, sources: bool, targets: bool) -> Array:
    """The nodes of one side, or of both, in their order."""
    found = borrow(min(pairs.nodes.numel(), place.size))
    arrays = pairs.blocks.numpy(), pairs.nodes.numpy(), sources, targets
    count = kernels.mark_rows(pairs.trees, *arrays, place, found)
    rows: Array = np.sort(found[:count])
    give_back(found)
    return rows


def _take_place(nodes: int) -> Array:
    """A table of places, all -1."""
    for _ in range(len(_idle)):
        try:
            found = _idle.pop()
        except IndexError:
            break
        if found.size == nodes:
            return found
        _idle.insert(0, found)
    made: Array = empty(nodes, torch.int32).fill_(-1).numpy()
    return made


def flat(table: Tensor) -> Array:
    """The numbers of a table, one after the other; bfloat16 as uint16."""
    numbers = table.detach().view(-1)
    if numbers.dtype == torch.bfloat16:
        numbers = numbers.view(torch.uint16)
    made: Array = numbers.numpy()
    return made


def is_far(table: Tensor) -> bool:
    """Whether its rows come from memory rather than from the cache."""
    return table.nbytes > FAR


def _precise(table: Tensor) -> torch.dtype:
    """What products are added up in."""
    return torch.promote_types(table.dtype, torch.float32)
