"""PartitionBook: the part of every node; RowIndex: its row among those of a part."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler.distributed.messages import need_ids

Array = np.ndarray[Any, Any]
FEW = 16  # parts that are told apart faster by one comparison each than by bisection
PAIRS, QUADS, NIBBLES, BYTES = (
    np.uint64(word)
    for word in (
        0x5555555555555555,
        0x3333333333333333,
        0x0F0F0F0F0F0F0F0F,
        0x0101010101010101,
    )
)


@dataclass(frozen=True, eq=False)
class PartitionBook:
    """The part of every node of one type: ranges of ids, or a number per node.

    Attributes:
        parts: how many parts there are.
        num_nodes: how many nodes.
        bounds: int64 [parts + 1]; part p has the nodes from bounds[p] to bounds[p + 1].
            None if it takes a number per node.
        owner: uint8 or uint16 [n], the part of every node; empty if there are ranges.
    """

    parts: int
    num_nodes: int
    bounds: Tensor | None = None
    owner: Array = field(default_factory=partial(np.empty, 0, np.uint8))

    @classmethod
    def of_bounds(cls, bounds: Tensor) -> PartitionBook:
        """Ranges of ids."""
        return cls(bounds.numel() - 1, int(bounds[-1]), bounds=bounds)

    @classmethod
    def of_owners(cls, owner: Any, parts: int, name: str = "method") -> PartitionBook:
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
        if self.bounds is None:
            found = self.owner[node.numpy()]
            few = found.dtype == np.uint8
            return torch.from_numpy(found if few else found.astype(np.int32))
        part = torch.zeros(node.shape, dtype=small)
        for bound in self.bounds[1:-1].tolist():
            part += node >= bound
        return part

    def rows_of(self, part: int) -> RowIndex:
        """The index of the rows of a part's nodes."""
        return RowIndex(self.nodes_of(part), self.num_nodes)

    def lies_elsewhere(self, node: Tensor, part: int) -> Tensor:
        """A mask of the nodes [k], of any integer dtype, that belong to other parts."""
        if self.bounds is not None:
            first, stop = self.bounds[part : part + 2].tolist()
            away: Tensor = (node < first) | (node >= stop)
            return away
        return torch.from_numpy(self.owner[node.numpy()] != part)

    def nodes_of(self, part: int) -> Tensor:
        """The nodes of a part, ascending."""
        if self.bounds is not None:
            first, stop = self.bounds[part : part + 2].tolist()
            return torch.arange(first, stop)
        return torch.from_numpy(np.flatnonzero(self.owner == part))

    def sizes(self) -> list[int]:
        """The number of nodes of every part."""
        if self.bounds is not None:
            return self.bounds.diff().tolist()
        counts: list[int] = np.bincount(self.owner, minlength=self.parts).tolist()
        return counts


class RowIndex:
    """The position of a node's row among an ascending set of rows, in constant time.

    One bit per node of the graph and a count per 64 of them: 0.19 bytes per node, where
    a table of positions takes 4. A range of ids takes nothing.

    Args:
        nodes: int64 [k], ascending, each once.
        num_nodes: how many nodes the graph has.
    """

    def __init__(self, nodes: Tensor, num_nodes: int) -> None:
        self.size = nodes.numel()
        self.first = int(nodes[0]) if self.size else 0
        last = int(nodes[-1]) if self.size else -1
        self.is_range = last - self.first + 1 == self.size
        self._range = (self.first, last + 1)
        self._nodes, self._num_nodes = nodes[:0] if self.is_range else nodes, num_nodes

    @cached_property
    def _table(self) -> tuple[Array, Array]:
        """A bit per node, and how many are set before each word of them."""
        bits = np.zeros((self._num_nodes + 63) // 64 * 64, np.uint8)
        bits[self._nodes.numpy()] = 1
        words: Array = np.packbits(bits, bitorder="little").view("<u8")
        counts = _ones(words)
        wide = np.int32 if self._num_nodes < 1 << 31 else np.int64
        return words, (np.cumsum(counts, dtype=np.int64) - counts).astype(wide)

    @property
    def nodes(self) -> Tensor:
        """int64 [k], the nodes, ascending."""
        return torch.arange(*self._range) if self.is_range else self._nodes

    def locate(self, node: Tensor) -> tuple[Tensor, Tensor]:
        """(in the set, position) of each node [k]; a position counts where it is in."""
        if self.is_range:
            position = node - self.first
            return (position >= 0) & (position < self.size), position
        ids = node.numpy()
        place, bit = ids >> 6, (ids & 63).astype(np.uint64)
        words, before = self._table
        word = words[place]
        here = (word >> bit) & np.uint64(1)
        below = word & ((np.uint64(1) << bit) - np.uint64(1))
        position = before[place] + _ones(below)
        return torch.from_numpy(here.astype(bool)), torch.from_numpy(position)

    def find(self, node: Tensor) -> Tensor:
        """The positions of nodes [k], int32 or int64, which must be in the set."""
        ids = need_ids("nodes", node, 0, self._num_nodes, node.numel())
        here, position = self.locate(ids)
        if not bool(here.all()):
            got = int(ids[~here][0])
            raise ValueError(f"nodes must be of the process that is asked (got {got})")
        return position


def _ones(word: Array) -> Array:
    """The number of bits that are set in every word, int64."""
    word = word - ((word >> np.uint64(1)) & PAIRS)
    word = (word & QUADS) + ((word >> np.uint64(2)) & QUADS)
    word = (word + (word >> np.uint64(4))) & NIBBLES
    return ((word * BYTES) >> np.uint64(56)).astype(np.int64)
