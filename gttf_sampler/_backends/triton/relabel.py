"""First occurrences of nodes, and the local ids of those that a hop has found.

    enter     the seeds are level 0, and claim their nodes
    mark      which edges of a hop have claimed a node that is new
    settle    the new nodes, in order of discovery

A node is claimed in a cell that the smallest position wins. A cell belongs to a node,
and what earlier batches have left there is larger than all positions of this one. Where
trees are apart, it belongs to a (tree, node) pair that is found in an open-addressing
hash table: all codes first, then all positions. Which slot a code gets may depend on
who comes first; the smallest position in it does not.

Atomics are relaxed: they order nothing but accesses to their own cell, and cost no
fence. That is enough on a GPU, where memory is weakly ordered:

    - Who wins a cell, and what a sum comes to, is read by a later launch of the same
      stream, which comes after everything that this one has done. Within a launch
      nobody reads them. A minimum and a sum do not depend on the order of updates, and
      each update is one step on its cell, whatever its neighbours see when.
    - A slot is read in the launch that fills it, by compare-and-swap alone. It changes
      once, from empty to a code. All threads agree on the order of updates of one cell:
      whoever has passed a slot has met a code there that is not its own, and whoever
      comes to it later meets the same one. So equal codes walk the same slots to the
      same end, although nothing is known of the order of updates of two slots.
    - No other memory is reached through what an atomic returns: the position of a slot
      is claimed in a cell that was filled before the launch.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.record import WIDE, Batch, Plan
from gttf_sampler._backends.triton import record as tt
from gttf_sampler._backends.triton.launch import ENTRIES, blocks, launch_long
from gttf_sampler._backends.triton.rng import any_of, longs, mix

SPARE = tl.constexpr(256)  # slots behind the table, for lanes that have no code
EMPTY = tl.constexpr((1 << 63) - 1)  # as a code, and as a position


@triton.jit
def _top(wide):
    """The largest number that a cell can hold."""
    return tl.where(wide != 0, 0x7FFFFFFFFFFFFFFF, 0x7FFFFFFF)


@triton.jit
def find_slot(keys, slots, code, lane, mask):
    """The slot of every code, which is entered where it is new."""
    last = slots - 1
    slot = mix(code.to(tl.uint64)).to(tl.int64) & last
    slot = tl.where(mask, slot, slots + (lane & (SPARE - 1)))
    waiting = mask
    empty = tl.zeros_like(code) + EMPTY
    while any_of(waiting):
        found = tl.atomic_cas(keys + slot, empty, code, sem="relaxed")
        waiting = waiting & (found != EMPTY) & (found != code)
        slot = tl.where(waiting, (slot + 1) & last, slot)
    return slot


@triton.jit
def claim(kind, node, code, position, mask, slots, APART):
    """Claims nodes of a type for positions; returns the place of each one's cell."""
    cells, wide = tl.load(kind + tt.CELLS), tl.load(kind + tt.WIDE_CELLS)
    if APART:
        place = find_slot(longs(cells), slots, code, position, mask)
        values = longs(cells) + slots + SPARE
        tl.atomic_min(values + place, position, mask=mask, sem="relaxed")
    else:
        place = node
        value = position + (_top(wide) + tl.load(kind + tt.FLOOR))
        if wide != 0:
            tl.atomic_min(longs(cells) + place, value, mask=mask, sem="relaxed")
        else:
            narrow = cells.to(tl.pointer_type(tl.int32))
            small = value.to(tl.int32)
            tl.atomic_min(narrow + place, small, mask=mask, sem="relaxed")
    return place


@triton.jit
def claimed(kind, place, mask, slots, APART):
    """The smallest position that has claimed a cell."""
    cells, wide = tl.load(kind + tt.CELLS), tl.load(kind + tt.WIDE_CELLS)
    if APART:
        found = tl.load(longs(cells) + slots + SPARE + place, mask=mask, other=0)
    else:
        floor = _top(wide) + tl.load(kind + tt.FLOOR)
        if wide != 0:
            found = tl.load(longs(cells) + place, mask=mask, other=0) - floor
        else:
            narrow = cells.to(tl.pointer_type(tl.int32))
            found = tl.load(narrow + place, mask=mask, other=0).to(tl.int64) - floor
    return found


@triton.jit(do_not_specialize=["old_slots", "slots"])
def rehash(old, old_slots, keys, slots, B: tl.constexpr):
    """Moves the entries of a hash table into a larger one."""
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    code = tl.load(old + at, mask=at < old_slots, other=EMPTY)
    mask = code != EMPTY
    value = tl.load(old + old_slots + SPARE + at, mask=mask, other=0)
    place = find_slot(keys, slots.to(tl.int64), code, at, mask)
    tl.store(keys + slots + SPARE + place, value, mask=mask)


@triton.jit
def _look_ahead(words, row, hop, shape, by, node, new):
    """Adds up the edges in front of new nodes, where all of them will be taken."""
    if hop < tt.depth_of(shape):
        sums = row + tt.types_of(shape) + tt.relations_of(shape)
        for relation in range(tt.relations_of(shape)):
            own = tt.relation_row(words, relation, shape)
            fanout = tl.load(own + tt.FANOUTS + hop)
            if (tl.load(own + tt.DST_TYPE) == by) & (fanout < 0):
                rowptr = longs(tl.load(own + tt.ROWPTR))
                begin = tl.load(rowptr + node, mask=new, other=0)
                count = tl.load(rowptr + node + 1, mask=new, other=0) - begin
                tl.atomic_add(sums + relation, tl.sum(count, 0), sem="relaxed")


@triton.jit(do_not_specialize=["shape", "slots"])
def enter(
    words, levels, shape, seeds, roots, slots, APART: tl.constexpr, B: tl.constexpr
):
    """Level 0: the seeds of every type; of equal ones the first claims the node."""
    by, types = tl.program_id(1), tt.types_of(shape)
    kind = words + by * tt.TYPE_COLUMNS
    here = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    count, first = tl.load(kind + tt.SEEDS), tl.load(kind + tt.FIRST_SEED)
    if tl.program_id(0) == 0:
        start = tt.node_start(levels, shape) + by
        tl.store(levels + by, count)
        tl.store(start, first)
        tl.store(start + types, tl.zeros_like(first))
        place = tt.addresses(levels, shape)
        tl.store(place + tt.IDS, seeds.to(tl.int64))
        tl.store(place + tt.ROOTS, roots.to(tl.int64))
    mask = here < count
    node = tl.load(seeds + first + here, mask=mask, other=0)
    code = node
    if APART:
        first_root = tl.load(kind + tt.FIRST_ROOT)
        root = tl.where(first_root < 0, 0, first_root + here)
        tl.store(roots + first + here, root, mask=mask)
        code = (root * tl.load(kind + tt.SIZE) + node) * types + by
    claim(kind, node, code, first + here, mask, slots.to(tl.int64), APART)
    _look_ahead(words, levels, 0, shape, by, node, mask)


@triton.jit
def _new_edges(kind, level, relation, block, shape, claims, APART, B):
    """The edges of a block of a relation, and which of them have claimed a new node.

    Returns their places in the hop, which are there, the places of the claimed cells,
    the positions that have claimed those, and which are new.
    """
    reached, position, slots = claims
    here = block * B + tl.arange(0, B).to(tl.int64)
    mask = here < tl.load(level + tt.types_of(shape) + relation)
    at = tl.load(tt.edge_start(level, shape) + relation) + here
    place = tl.load(reached + at, mask=mask, other=0)
    found = claimed(kind, place, mask, slots.to(tl.int64), APART)
    return at, mask, place, found, mask & (found == position + at)


@triton.jit(do_not_specialize=["shape", "position", "slots"])
def mark(
    words,
    levels,
    shape,
    reached,
    position,
    slots,
    sums,
    APART: tl.constexpr,
    B: tl.constexpr,
):
    """Counts, per block, the edges that have claimed a node that is new."""
    block, relation, own, _, level = tt.program(words, levels, shape)
    by = tl.load(own + tt.SRC_TYPE)
    kind = words + by * tt.TYPE_COLUMNS
    claims = (reached, position, slots)
    new = _new_edges(kind, level, relation, block, shape, claims, APART, B)[4]
    blocks, total = tl.num_programs(0), tl.sum(new.to(tl.int64), 0)
    parts = tt.new_parts(level, relation, shape)
    tt.add_up(sums + relation * blocks, parts, block, blocks, total)
    tl.atomic_add(tt.new_of(level, shape) + relation, total, sem="relaxed")
    tl.atomic_add(level + by, total, sem="relaxed")


@triton.jit
def _begin_nodes(before, level, shape, new_nodes):
    """Notes where the new nodes of each type begin, and where those of the hop are."""
    types, begin = tt.types_of(shape), tl.full((), 0, tl.int64)
    for by in range(types):
        first = tt.node_start(level, shape) + by
        old = tl.load(tt.node_start(before, shape) + types + by)
        tl.store(first, begin)
        tl.store(first + types, old + tl.load(before + by))
        begin += tl.load(level + by)
    place = tt.addresses(level, shape)
    ids, roots, local = new_nodes
    tl.store(place + tt.IDS, ids.to(tl.int64))
    tl.store(place + tt.ROOTS, roots.to(tl.int64))
    tl.store(place + tt.LOCAL, local.to(tl.int64))


@triton.jit
def _earlier_nodes(words, level, relation, shape, by):
    """New nodes of a type by relations before one, [LOOK] numbers to be summed."""
    lane, found = tl.arange(0, tt.LOOK), tl.zeros([tt.LOOK], tl.int64)
    for first in range(0, relation, tt.LOOK):
        other = first + lane
        mask = other < relation
        kinds = tt.relation_row(words, other, shape) + tt.SRC_TYPE
        mask = mask & (tl.load(kinds, mask=mask, other=-1) == by)
        found += tl.load(tt.new_of(level, shape) + other, mask=mask, other=0)
    return found


@triton.jit(do_not_specialize=["shape", "position", "slots"])
def settle(
    words,
    levels,
    shape,
    out,
    position,
    slots,
    sums,
    new_nodes,
    APART: tl.constexpr,
    B: tl.constexpr,
):
    """Writes new nodes, their roots and local ids; `reached` turns into positions."""
    block, relation, own, before, level = tt.program(words, levels, shape)
    by, to = tl.load(own + tt.SRC_TYPE), tl.load(own + tt.DST_TYPE)
    _, receiver, landed, reached = out
    ids, roots, local = new_nodes
    kind, types = words + by * tt.TYPE_COLUMNS, tt.types_of(shape)
    claims = (reached, position, slots)
    at, mask, node, found, new = _new_edges(
        kind, level, relation, block, shape, claims, APART, B
    )
    if APART:
        node = tl.load(landed + at, mask=mask, other=0)
    blocks = tl.num_programs(0)
    parts = tt.new_parts(level, relation, shape)
    earlier = tt.before_block(sums + relation * blocks, parts, block, blocks)
    earlier += _earlier_nodes(words, level, relation, shape, by)
    rank = tl.sum(earlier, 0) + tl.cumsum(new.to(tl.int64), 0) - 1
    name = rank + tl.load(before + by)
    name += tl.load(tt.node_start(before, shape) + types + by)
    for other in range(by):
        rank += tl.load(level + other)
    if (block == 0) & (relation == 0):
        _begin_nodes(before, level, shape, new_nodes)
    tl.store(ids + rank, node, mask=new)
    tl.store(local + at, name, mask=new)
    tl.store(reached + at, found, mask=mask)
    if APART:
        here = tt.node_start(before, shape) + to
        parent = tl.load(receiver + at, mask=new, other=0) - tl.load(here + types)
        others = tt.array(before, tt.ROOTS, shape) + tl.load(here)
        tl.store(roots + rank, tl.load(others + parent, mask=new, other=0), mask=new)
    _look_ahead(words, level, tt.hop_of(shape) + 1, shape, by, node, new)


PAIRS = 1 << 19  # pairs that there is always room for, to make room less often


MOST = (1 << 31) - 2  # entries of a batch: their numbers are of 32 bits


class Cells:
    """A cell per node, stamped.

    A batch makes at most `MOST` entries; `Run.hop` refuses more.
    """

    slots = 0

    def __init__(self, plan: Plan, batch: Batch) -> None:
        self.plan = plan
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
        self.plan.give_back(self.tables)


class Slots:
    """A hash table of (tree, node) pairs, made for one batch.

    Also of nodes, which are then of one tree, where a cell per node would be more.
    """

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
            launch_long(
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
            nodes = seeds + plan.sizes[relation.dst_type]
            own += nodes * max(relation.fanouts, default=0)
        total += min(own, most)
    return total


def captured_tables(plan: Plan, batch: Batch, entries: int) -> Cells | Slots:
    """The smaller of both tables, for a CUDA graph to fill again in every replay."""
    slots = 1 << (2 * entries - 1).bit_length()
    return Slots(plan, entries) if 4 * slots < sum(plan.sizes) else Cells(plan, batch)


def likely_entries(plan: Plan, batch: Batch) -> int:
    """Entries to make room for: all that there can be, if not too many."""
    seeds = sum(part.numel() for part in batch.seeds)
    return seeds + min(plan.most_edges(batch.seeds), PAIRS)
