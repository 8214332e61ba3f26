"""What backends are given and what they return, where it is more than a few tensors."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

MASS_BITS = 62  # the integer mass of one row of weights stays below 2**MASS_BITS
WHOLE_ROWS = 1 << 22  # entries, of all walkers, that are looked at side by side
REFUSED = -2  # where rejection sampling has accepted nothing

Reverse = tuple[Tensor, Tensor]  # rowptr and sorted columns of the reversed graph


class Moves(NamedTuple):
    """Rows to be gathered.

    Attributes:
        device: where all of it is.
        columns: (values, index, out), all contiguous, with an index of int64.
    """

    device: torch.device
    columns: list[tuple[Tensor, Tensor, Tensor]]


class Envelope(NamedTuple):
    """How node2vec proposes edges and accepts them.

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
        reverse: the reversed graph, where near neighbours may be sought; or None.
        envelope: what is proposed, and how much of it is accepted.
        rounds: how often to propose before a walker weighs its neighbours exactly.
        alpha: the weights of the way back, of common neighbours, of the rest.
        longest: no row is longer.
        codes: says, if asked, row · n + column [m] of all edges, ascending; None where
            those are beyond 63 bits.
    """

    rowptr: Tensor
    col: Tensor
    sorted_col: Tensor
    order: Callable[[], Tensor | None]
    bloom: Tensor | None
    table: Tensor | None
    reverse: Reverse | None
    envelope: Envelope
    rounds: int
    alpha: tuple[float, float, float]
    longest: int
    codes: Callable[[], Tensor] | None = None

    @property
    def device(self) -> torch.device:
        """Where the arrays are."""
        return self.col.device
