"""What embeddings are trained with, by compiled kernels; see `torch_pairs`."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gttf_sampler._backends import pair_kernels, row_kernels
from gttf_sampler._backends.memory import FEATURES, empty
from gttf_sampler._backends.numba_rooted import word
from gttf_sampler._backends.pairs import RULES, Pairs, Rule
from gttf_sampler._backends.terms import Passed, Rows, Terms, scored
from gttf_sampler._backends.threads import held, parallel, run
from gttf_sampler.random import Key

Array = np.ndarray[Any, Any]

FAR = 1 << 24  # bytes of a table that does not stay in the cache
CHUNK = 1 << 20  # multiplications that a chunk is worth
CHUNKS = 4  # at most; what they have in common is added up afterwards
_idle: list[Array] = []  # tables of places, all -1; steps on the list are atomic


def pair_pass(
    pairs: Pairs,
    terms: Terms,
    weight: Tensor,
    left: Tensor,
    right: Tensor,
    gradients: bool,
    units: bool,
) -> Passed:
    """The loss of pairs and its gradients, in one pass; see `torch_pairs`."""
    both, size, kind = right is left, left.shape[1], _precise(left)
    weights = weight.detach().to(kind).contiguous().numpy()
    unit = np.zeros(weights.size if units else 0, weights.dtype)
    bounds = _chunks(pairs, size)
    tables = [left] if both else [left, right]
    sides = [Side(pairs, table, bounds, gradients) for table in tables]
    arrays = pairs.blocks.numpy(), pairs.looked_up.numpy(), pairs.nodes.numpy()
    vectors = flat(left), flat(right)
    how = size, is_far(right), terms.blocks.numpy(), terms.eps, terms.symmetric
    values = [0.0] * len(bounds)

    def work(chunk: int) -> None:
        ends = [sides[0].chunk(chunk), sides[-1].chunk(chunk)]
        given = zip(*ends, strict=True)
        trees = bounds[chunk]
        values[chunk] = pair_kernels.pair_pass(
            *trees, *arrays, vectors, *how, weights, unit, gradients, both, *given
        )

    run([partial(held, None, work, chunk) for chunk in range(len(bounds))])
    value = torch.tensor(sum(values), dtype=kind)
    found = [side.joined() for side in sides] if gradients else []
    return Passed(value, torch.from_numpy(unit) if units else None, found)


def _chunks(pairs: Pairs, size: int) -> list[tuple[int, int]]:
    """The first and the last tree of every chunk: a power of two of them."""
    worth = pairs.scores * size // CHUNK
    count = min(CHUNKS, 1 << max(0, worth.bit_length() - 1), max(1, pairs.trees))
    cuts = [pairs.trees * chunk // count for chunk in range(count + 1)]
    return list(pairwise(cuts))


class Side:
    """Where the gradients of a table are added up, chunk by chunk.

    Attributes:
        begin: per chunk, where its rows begin; and where the last one ends.
        count: int64 [chunks], where they end.
        places: int32 [chunks, n], where the gradient of a node is, or -1.
        rows: int64 [*], the node of every gradient row.
        total: [*, d], the gradient rows.
    """

    def __init__(
        self, pairs: Pairs, table: Tensor, bounds: list[tuple[int, int]], wanted: bool
    ) -> None:
        nodes, self.size = table.shape
        each = -(-pairs.nodes.numel() // max(1, pairs.trees)) if wanted else 0
        most = [min(nodes, each * (high - low)) for low, high in bounds]
        self.begin = np.cumsum([0, *most])
        self.count = self.begin[:-1].copy()
        self.places = _take_places(len(bounds), nodes if wanted else 0)
        self.rows = np.empty(self.begin[-1], np.int64)
        self.total = _room(int(self.begin[-1]), self.size, _precise(table))

    def chunk(self, number: int) -> tuple[Array, Array, Array, Array]:
        """What a kernel is given for one chunk: places, rows, count, total."""
        count = self.count[number : number + 1]
        return self.places[number], self.rows, count, flat(self.total)

    def joined(self) -> Rows:
        """The gradients, when all chunks are done."""
        total = flat(self.total)
        ends = list(zip(self.begin.tolist(), self.count.tolist(), strict=False))
        for chunk, (low, high) in enumerate(ends[1:], 1):
            work = (high - low) * self.size // 4
            how = chunk, self.places, self.rows, total, self.size
            shifted = partial(_from, low, row_kernels.join_rows)
            parallel(shifted, high - low, work, *how)
        for chunk, (low, high) in enumerate(ends):
            row_kernels.forget_rows(low, high, self.rows, self.places[chunk])
        _idle.append(self.places)
        del _idle[:-4]
        parts = [low + np.flatnonzero(self.rows[low:high] >= 0) for low, high in ends]
        at = np.concatenate(parts)
        row = torch.from_numpy(self.rows[at])
        return Rows(row, torch.from_numpy(at), self.total)


def step_rows(rows: Rows, table: Tensor, state: Sequence[Tensor], rule: Rule) -> None:
    """Changes the rows of a table by their gradients; see `torch_pairs`."""
    keeps = 1 - rule.beta1, 1 - rule.beta2
    numbers = rule.rate, *keeps, rule.eps, rule.scale, rule.decay
    wide = np.float64 if rows.total.dtype == torch.float64 else np.float32
    kept = [*map(flat, state), *[np.empty(0, wide)] * 2][:2]
    half = table.itemsize == 2
    kernel = row_kernels.step_rows_half if half else row_kernels.step_rows
    count, size = rows.row.numel(), table.shape[1]
    parallel(
        kernel,
        *(count, count * size),
        *(RULES.index(rule.kind), tuple(map(wide, numbers))),
        *(rows.row.numpy(), rows.at.numpy(), flat(rows.total), flat(table), *kept),
        *(size, word(rule.key)),
    )


def as_gradient(rows: Rows, table: Tensor, sparse: bool, scale: float) -> Tensor:
    """A gradient of a table, dense, or sparse and coalesced; see `torch_pairs`."""
    size, row, at = table.shape[1], rows.row.numpy(), rows.at.numpy()
    if sparse:
        order = np.argsort(row)
        index, at = row[order], at[order]
        row = np.arange(row.size)
        out = _room(row.size, size, rows.total.dtype)
    else:
        out = _room(table.shape[0], size, rows.total.dtype).zero_()
    kernel, work = row_kernels.copy_rows, row.size * size // 4
    factor = flat(rows.total).dtype.type(scale)
    how = row, at, flat(rows.total), factor, size, flat(out)
    parallel(kernel, row.size, work, *how)
    if not sparse:
        return out
    return torch.sparse_coo_tensor(
        torch.from_numpy(index)[None],
        out,
        table.shape,
        is_coalesced=True,
        check_invariants=False,
    )


def pair_scores(pairs: Pairs, left: Tensor, right: Tensor) -> Tensor:
    """⟨left[source], right[target]⟩ of all pairs [scores]; see `torch_pairs`."""
    weight = torch.zeros(pairs.scores, dtype=_precise(left), device="cpu")
    found = pair_pass(pairs, scored(pairs), weight, left, right, False, True)
    return weight if found.unit is None else found.unit


def pair_gradients(
    pairs: Pairs, left: Tensor, right: Tensor, coefficient: Tensor
) -> list[Rows]:
    """What pairs add to the gradients of both tables; see `torch_pairs`."""
    how = scored(pairs), coefficient, left, right, True, False
    return pair_pass(pairs, *how).gradients


def draw_alias(
    share: Tensor, alias: Tensor, bits: int, key: Key, first: int, count: int
) -> Tensor:
    """Draws number `first` to `first` + `count` of a key [count]; see `torch_pairs`."""
    out = torch.empty(count, dtype=torch.int64, device="cpu")
    table = share.numpy(), alias.numpy(), np.uint64(bits), word(key)
    parallel(pair_kernels.draw_alias, count, count * 4, *table, first, out.numpy())
    return out


def _from(start: int, kernel: Any, lo: int, hi: int, *args: Any) -> None:
    """A kernel over a range that does not begin at 0."""
    kernel(start + lo, start + hi, *args)


def _room(rows: int, size: int, dtype: torch.dtype) -> Tensor:
    """A table [rows, size], in memory that was used before if there is some."""
    nbytes = rows * size * dtype.itemsize
    if nbytes < FEATURES.small:
        return torch.empty(rows, size, dtype=dtype, device="cpu")
    memory = FEATURES.lend(FEATURES.borrow(nbytes), nbytes)
    return memory.view(dtype).view(rows, size)


def _take_places(chunks: int, nodes: int) -> Array:
    """Tables of places [chunks, nodes], all -1."""
    for _ in range(len(_idle)):
        try:
            found = _idle.pop()
        except IndexError:
            break
        if found.shape == (chunks, nodes):
            return found
        _idle.insert(0, found)
    made: Array = empty(chunks * nodes, torch.int32).fill_(-1).numpy()
    return made.reshape(chunks, nodes)


def flat(table: Tensor) -> Array:
    """The numbers of a table, one after the other; bfloat16 as uint16."""
    numbers = table.detach().view(-1)
    if numbers.dtype == torch.bfloat16:
        return numbers.view(torch.int16).numpy().view(np.uint16)  # torch 2.2 has none
    made: Array = numbers.numpy()
    return made


def is_far(table: Tensor) -> bool:
    """Whether its rows come from memory rather than from the cache."""
    return table.nbytes > FAR


def _precise(table: Tensor) -> torch.dtype:
    """What products are added up in."""
    return torch.promote_types(table.dtype, torch.float32)
