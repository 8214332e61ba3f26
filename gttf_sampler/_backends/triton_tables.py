"""Tables in which a batch on a GPU looks for nodes; see `triton_claims`."""

from __future__ import annotations

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.plan import Batch, Plan
from gttf_sampler._backends.scratch import CLEAN
from gttf_sampler._backends.triton_arguments import WIDE
from gttf_sampler._backends.triton_claims import EMPTY, SPARE, rehash
from gttf_sampler._backends.triton_launch import ENTRIES, blocks, launch

PAIRS = 1 << 19  # pairs that there is always room for, to make room less often
MOST = (1 << 31) - 2  # entries of a batch: their numbers are of 32 bits


class Cells:
    """A cell per node: stamped, or cleared after use if `entries` are told beforehand.

    A batch makes at most `MOST` entries; `Run.hop` refuses more.
    """

    slots = 0

    def __init__(self, plan: Plan, batch: Batch, entries: int | None = None) -> None:
        self.plan, self.clean = plan, entries is not None
        if self.clean:
            pairs = zip(plan.pools, plan.sizes, strict=True)
            self.tables = [pool.take_clean(size, plan.device) for pool, size in pairs]
            self.floors = [-min(entries or 0, MOST)] * len(self.tables)
            return
        self.tables = plan.take_tables()
        numbers = min(_most_entries(plan, batch), MOST)
        self.floors = [
            table.reserve(numbers) - torch.iinfo(table.cell.dtype).max
            for table in self.tables
        ]

    def make_room(self, entries: int) -> bool:
        """There is room for all nodes already."""
        return False

    def words(self, kind: int) -> tuple[int, int, int]:
        """The table of a node type, whether it is wide, and its floor."""
        cell = self.tables[kind].cell
        return cell.data_ptr(), WIDE[cell.dtype], self.floors[kind]

    def give_back(self) -> None:
        """Lets the next batch have the tables."""
        if not self.clean:
            self.plan.give_back(self.tables)
            return
        plan = self.plan
        for pool, size, table in zip(plan.pools, plan.sizes, self.tables, strict=True):
            pool.give_back(CLEAN - size, table)


class Slots:
    """A hash table of (tree, node) pairs, made for one batch."""

    def __init__(self, plan: Plan, entries: int) -> None:
        self.plan, self.slots = plan, 0
        self.made: list[Tensor] = []
        self.make_room(entries)

    def make_room(self, entries: int) -> bool:
        """Makes sure that half of the slots stay empty; True if all of them are new."""
        slots = 1 << (2 * max(entries, 1) - 1).bit_length()
        if slots <= self.slots:
            return False
        _check.fits("fanouts", 16 * slots)
        size, device = (2 * (slots + SPARE.value),), self.plan.device
        self.made.append(
            torch.full(size, EMPTY.value, dtype=torch.int64, device=device)
        )
        if self.slots:
            grid = (blocks(self.slots, ENTRIES),)
            launch(
                rehash, grid, self.made[-2], self.slots, self.made[-1], slots, B=ENTRIES
            )
            del self.made[0]
        self.slots = slots
        return True

    def words(self, kind: int) -> tuple[int, int, int]:
        """The table, which serves all types of nodes."""
        return self.made[-1].data_ptr(), 1, 0

    def give_back(self) -> None:
        """There is nothing to keep."""


def _most_entries(plan: Plan, batch: Batch) -> int:
    """No batch from these seeds has more seeds and edges; a node is expanded once."""
    seeds = sum(part.numel() for part in batch.seeds)
    total, most = seeds, plan.most_edges(batch.seeds)
    for relation in plan.relations:
        own = relation.adj.num_edges + seeds * relation.adj.max_degree
        if plan.replace:
            nodes = seeds + plan.sizes[relation.to]
            own += nodes * max(relation.fanouts, default=0)
        total += min(own, most)
    return total


def likely_entries(plan: Plan, batch: Batch) -> int:
    """How many entries to make room for: all that there can be, if not too many."""
    seeds = sum(part.numel() for part in batch.seeds)
    return seeds + min(plan.most_edges(batch.seeds), PAIRS)
