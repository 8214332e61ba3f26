"""Book: which part a node belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler.distributed.rowset import RowSet

Array = np.ndarray[Any, Any]
FEW = 16  # parts that are told apart faster by one comparison each than by bisection


@dataclass(frozen=True, eq=False)
class Book:
    """The part of every node of one type: ranges of ids, or a number per node.

    Attributes:
        parts: how many parts there are.
        num_nodes: how many nodes.
        bounds: int64 [parts + 1]; part p has the nodes from bounds[p] to bounds[p + 1].
            None if it takes a number per node.
        owner: uint8 or uint16 [n], the part of every node; None if there are ranges.
    """

    parts: int
    num_nodes: int
    bounds: Tensor | None = None
    owner: Array | None = None

    @classmethod
    def of_bounds(cls, bounds: Tensor) -> Book:
        """Ranges of ids."""
        return cls(bounds.numel() - 1, int(bounds[-1]), bounds=bounds)

    @classmethod
    def of_owners(cls, owner: Any, parts: int, name: str = "method") -> Book:
        """A part number per node, in one byte each or two."""
        numbers = np.asarray(owner)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            rule = "must be integers [n], a part per node"
            _check.fail(name, rule, f"{numbers.dtype} {list(numbers.shape)}")
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < parts:
            rule = f"must hold part numbers in [0, {parts})"
            _check.fail(name, rule, f"{numbers.min()} to {numbers.max()}")
        small = np.uint8 if parts <= 1 << 8 else np.uint16
        return cls(parts, numbers.size, owner=numbers.astype(small, copy=False))

    def part_of(self, node: Tensor) -> Tensor:
        """The part [k] of every node [k], in one byte or two: those are sorted soon."""
        small = torch.uint8 if self.parts <= 1 << 8 else torch.int32
        if self.bounds is not None and self.parts > FEW:
            return torch.bucketize(node, self.bounds[1:], right=True).to(small)
        part = torch.zeros(node.shape, dtype=small)
        if self.bounds is not None:
            for bound in self.bounds[1:-1].tolist():
                part += node >= bound
        elif self.owner is not None:
            found = self.owner[node.numpy()]
            part = torch.from_numpy(
                found if self.parts <= 1 << 8 else found.astype("i4")
            )
        return part

    def rows_of(self, part: int) -> RowSet:
        """The nodes of a part, and where each of them stands."""
        return RowSet(self.nodes_of(part), self.num_nodes)

    def lies_elsewhere(self, node: Tensor, part: int) -> Tensor:
        """Which of the nodes [k], of any integer dtype, belong to other parts."""
        if self.bounds is not None:
            first, stop = self.bounds[part : part + 2].tolist()
            away: Tensor = (node < first) | (node >= stop)
            return away
        if self.owner is None:
            return torch.zeros_like(node, dtype=torch.bool)
        return torch.from_numpy(self.owner[node.numpy()] != part)

    def nodes_of(self, part: int) -> Tensor:
        """The nodes of a part, ascending."""
        if self.bounds is not None:
            first, stop = self.bounds[part : part + 2].tolist()
            return torch.arange(first, stop)
        if self.owner is None:
            return torch.arange(self.num_nodes)
        return torch.from_numpy(np.flatnonzero(self.owner == part))

    def sizes(self) -> list[int]:
        """How many nodes every part has."""
        if self.bounds is not None:
            return self.bounds.diff().tolist()
        if self.owner is None:
            return [self.num_nodes]
        counts: list[int] = np.bincount(self.owner, minlength=self.parts).tolist()
        return counts
