"""RemoteRows: the interface of a graph whose rows are not all in this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gttf_sampler._backends.scratch import ScratchPool

if TYPE_CHECKING:  # which need graphs themselves
    from gttf_sampler._backends.record import Batch, Law, Plan, Rooted
    from gttf_sampler.graph.compact import CompactAdj
    from gttf_sampler.random import Key


class RemoteRows(ABC):
    """Rows of which some are in other processes; `gttf_sampler.distributed` has them.

    It takes the place of a `CompactAdj` where draws can be told as data. Whoever holds
    a row draws from it, and draws the same.

    Attributes:
        num_rows, num_cols, num_edges, max_degree, direction: of the whole graph.
        local: the rows that are here, with columns of the whole graph.
        scratch: where tables wait for their next use.
    """

    num_rows: int
    num_cols: int
    num_edges: int
    max_degree: int
    direction: str
    local: CompactAdj
    scratch: ScratchPool

    @property
    def device(self) -> torch.device:
        """The device of everything that is drawn: the CPU."""
        return torch.device("cpu")

    def ensure_sound(self) -> None:
        """Does nothing: rows are checked when they are opened."""
        return

    @abstractmethod
    def told_as_data(self, bias: Any, trees: int | None = None) -> Law:
        """The law of a bias; refuses one that has to see the rows.

        `trees` is how many seeds there are, if the law is to be checked against them.
        """

    @abstractmethod
    def sample(self, plan: Plan, batch: Batch) -> Rooted:
        """A batch of rooted sampling; all relations of the plan are of one graph."""

    @abstractmethod
    def walk(
        self,
        seeds: Tensor,
        fanouts: Sequence[int],
        bias: Any,
        replace: bool,
        key: Key,
        stays: bool,
    ) -> list[tuple[Tensor, Tensor]]:
        """(edges, nodes) [w, f] of every depth of a forest."""
