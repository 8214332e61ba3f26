"""Arguments of backends that are more than a few tensors."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

MASS_BITS = 62  # the integer mass of one row of weights stays below 2**MASS_BITS
WHOLE_ROWS = 1 << 22  # entries, of all walkers, that are looked at side by side
REFUSED = -2  # where rejection sampling has accepted nothing

Reverse = tuple[Tensor, Tensor]  # rowptr and sorted columns of the reversed graph


class Move(NamedTuple):
    """Rows to copy, and where they are written; all of it is contiguous.

    Attributes:
        values: [n, ...] each; their rows are counted end to end.
        row: int64 [k], which rows; None for all of them.
        out: [m, ...].
        to: int64 [k], which rows of `out` they become; None for the first k.
        gaps: whether negative rows are left out.
    """

    values: Sequence[Tensor]
    row: Tensor | None
    out: Tensor
    to: Tensor | None = None
    gaps: bool = False

    @property
    def plain(self) -> bool:
        """True if row i of `out` becomes row[i], for all of them."""
        return self.to is None and not self.gaps


class Moves(NamedTuple):
    """Rows to be gathered.

    Attributes:
        device: where all of it is.
        columns: any number of them.
    """

    device: torch.device
    columns: list[Move]


class Reads(NamedTuple):
    """Rows to be read from a file, in runs that are one read each.

    Attributes:
        device: where the rows go, the CPU.
        handle: of the open file.
        base: where its rows begin.
        stride: bytes of a row.
        align: what places and sizes must be multiples of; 1 for anything.
        ids: int64 [k], ascending; equal ones are in one run.
        place: int64 [k], which row of `out` an id belongs to.
        start: int64 [r + 1]; run i has the ids `start[i]` to `start[i + 1]`.
        out: uint8 [places, stride], contiguous.
        failed: uint8 [r], set to 1 where a read has failed or was short.
    """

    device: torch.device
    handle: int
    base: int
    stride: int
    align: int
    ids: np.ndarray[Any, Any]
    place: np.ndarray[Any, Any]
    start: np.ndarray[Any, Any]
    out: Tensor
    failed: np.ndarray[Any, Any]

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.start) - 1


class Envelope(NamedTuple):
    """Proposal masses and acceptance shares of node2vec.

    Attributes:
        back, near, away: the share of proposals accepted that lead back to the last
            node, next to it, or away; in units of 2**-63, less one.
        unit: every edge of a row is proposed with mass 2**unit.
        extra: the mass of a second chance for the way back. It weighs more than the
            others may, who would be refused most of the time if all were proposed as
            often as it has to be.
        copies: how many such chances there are: one per parallel edge, at least.
    """

    back: int
    near: int
    away: int
    unit: int
    extra: int
    copies: int


class SecondOrder(NamedTuple):
    """A graph and a law of second-order walks on it, as node2vec needs them.

    Attributes:
        rowptr: [n + 1].
        col: [m], the rows as they are.
        sorted_col: [m], every row sorted.
        order: says, if asked, where [m] the entries of `sorted_col` stand in `col`;
            None for the same places.
        bloom: the Bloom filter of each row, or None.
        table: [m], cumulative masses of the edges; None if all weigh the same.
        weight: [m], what those masses are made of; None with `table`.
        reverse: the reversed graph, where near neighbours may be sought; or None.
        envelope: what is proposed, and how much of it is accepted.
        rounds: how often to propose before a walker weighs its neighbours exactly.
        alpha: the weights of the way back, of common neighbours, of the rest.
        longest: no row is longer.
    """

    rowptr: Tensor
    col: Tensor
    sorted_col: Tensor
    order: Callable[[], Tensor | None]
    bloom: Tensor | None
    table: Tensor | None
    weight: Tensor | None
    reverse: Reverse | None
    envelope: Envelope
    rounds: int
    alpha: tuple[float, float, float]
    longest: int

    @property
    def device(self) -> torch.device:
        """The device of the arrays."""
        return self.col.device
