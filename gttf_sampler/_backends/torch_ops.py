"""The reference backend: every hot loop as torch operations, on any device.

Shapes are static wherever they can be, so nothing here waits for a device except
`group_by_row`, which runs once per graph, and `compress` on the CPU, where there is
nothing to wait for. -1 means "none" in every array of edges, nodes or offsets.
"""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gttf_sampler._backends.plan import Batch, Padded, Plan, Rooted
from gttf_sampler._backends.torch_rows import (
    cumulative_rows,
    draw_distinct,
    draw_replaced,
)
from gttf_sampler._backends.types import (
    MASS_BITS,
    WHOLE_ROWS,
    Move,
    Moves,
)
from gttf_sampler._compat import is_compiling
from gttf_sampler.random import Key, below, below_wide, bits, folds
from gttf_sampler.random import stream as streams

INT32_MAX = (1 << 31) - 1
MAX_ROW = INT32_MAX  # how long a row can be
NONE_LAST = 1 << 62  # sorts behind every position


def id_dtype(upper: int) -> torch.dtype:
    """The smallest integer type here that holds every id below `upper`."""
    return torch.int32 if upper <= INT32_MAX else torch.int64


def is_free_to_ask(values: Tensor) -> bool:
    """Whether nobody has to wait to see the values, neither a host nor a compiler."""
    return values.device.type == "cpu" and not is_compiling()


def group_by_row(
    row: Tensor, col: Tensor, num_rows: int, num_cols: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Row pointer [n+1], columns [m] row by row, and where each edge stood before [m].

    The order within a row is kept; None says that all edges stay where they are. Torch
    sorts integers by radix, on the CPU and on GPUs: linear time.
    """
    row, col = row.to(id_dtype(num_rows)), col.to(id_dtype(num_cols))
    rowptr = row.new_zeros(num_rows + 1, dtype=torch.int64)
    torch.cumsum(row.bincount(minlength=num_rows), 0, out=rowptr[1:])
    if row.numel() < 2 or bool((row[1:] >= row[:-1]).all()):
        return rowptr, col.contiguous(), None
    order = row.sort(stable=True).indices.to(id_dtype(row.numel()))
    return rowptr, col.index_select(0, order), order


def both_ways(
    row: Tensor, col: Tensor, num_nodes: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Edges and their reverses, each pair of nodes once, sorted by (col, row).

    With them comes which edge [e] each was; of several, the first one that was given in
    its own direction.
    """
    edge = torch.arange(row.numel(), device=row.device).repeat(2)
    row, col = torch.cat([row, col]), torch.cat([col, row])
    pair, order = (col * num_nodes + row).sort(stable=True)
    first = torch.ones_like(pair, dtype=torch.bool)
    first[1:] = pair[1:] != pair[:-1]
    order = order[first]
    return row[order], col[order], edge[order]


def expand(start: Tensor, count: Tensor, total: int) -> tuple[Tensor, Tensor]:
    """The ranges [start, start + count) end to end: owner [e] and position [e]."""
    owner = torch.arange(start.numel(), device=start.device)
    owner = owner.repeat_interleave(count, output_size=total)
    shift = (start + count - count.cumsum(0)).index_select(0, owner)
    return owner, shift.add_(torch.arange(total, device=start.device))


def row_range(rowptr: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
    """Start and length [w] of the row of each node; length 0 where it is -1."""
    here = node.clamp(min=0)
    if rowptr.numel() == 1:
        return here, torch.zeros_like(node)
    start = take(rowptr, here)
    count = take(rowptr, here + 1).sub_(start)
    return start, count.masked_fill_(node < 0, 0)


def arrive(
    col: Tensor,
    node: Tensor,
    degree: Tensor,
    edge: Tensor,
    replace: bool,
    stays: bool,
) -> Tensor:
    """Where the edges [w, f] lead; at a dead end a walker that `stays` is there."""
    arrived = take_or_none(col, edge)
    if not stays:
        return arrived
    stay = node.where((degree == 0) & (node >= 0), -1)[:, None]
    if not replace:  # one edge to itself gives one walker, the other draws find none
        stay = torch.cat([stay, stay.new_full((1, 1), -1).expand_as(edge[:, 1:])], 1)
    return torch.maximum(arrived, stay)


def forest_uniform(
    rowptr: Tensor,
    col: Tensor,
    seeds: Tensor,
    fanouts: Sequence[int],
    replace: bool,
    key: Key,
    stays: bool,
) -> list[tuple[Tensor, Tensor]]:
    """(edges, nodes) [w, f] of every depth of unbiased walks from the seeds [b]."""
    levels, node = [], seeds
    for fanout, own in zip(fanouts, folds(key, len(fanouts)), strict=True):
        slot = torch.arange(node.numel(), device=node.device)
        start, count = row_range(rowptr, node)
        stream = streams(own, slot)
        offset = draw_uniform(stream, count, fanout, replace)
        edge = offset.add(start[:, None]).masked_fill_(offset < 0, -1)
        levels.append((edge, arrive(col, node, count, edge, replace, stays)))
        node = levels[-1][1].view(-1)
    return levels


def forest_by_mass(
    rowptr: Tensor,
    col: Tensor,
    mass: Tensor,
    seeds: Tensor,
    fanouts: Sequence[int],
    replace: bool,
    key: Key,
    stays: bool,
) -> list[tuple[Tensor, Tensor]] | None:
    """`forest_uniform` of walks by the cumulative mass [m] of every row's entries.

    None where a backend has no such call, as here: the walks are taken step by step
    then, and come out the same.
    """
    return None


def draw_uniform(stream: Tensor, count: Tensor, fanout: int, replace: bool) -> Tensor:
    """Offsets [w, f] in [0, count), uniform; -1 where there is nothing to draw."""
    if replace:
        draw = torch.arange(fanout, device=stream.device)
        offset = below(bits(stream[:, None], draw), count[:, None])
        return offset.masked_fill_((count == 0)[:, None], -1)
    return _draw_distinct(stream, count, fanout)


def _draw_distinct(stream: Tensor, count: Tensor, fanout: int) -> Tensor:
    """Floyd's method: every subset of min(f, count) offsets is equally likely.

    Draw i picks among the first `last` + 1 offsets, and takes `last` itself if its pick
    was taken before. It was if an earlier draw has picked the same, or if the pick is
    the `last` of an earlier draw that had to take that: a chain of draws, each earlier
    than the one before, which is followed in steps of doubling length.
    """
    slot = torch.arange(fanout, device=count.device)
    short = (count <= fanout)[:, None]
    if is_free_to_ask(count):  # elsewhere, that costs more than to draw in vain
        some = positions(~short.view(-1))
        if some.numel() < count.numel():
            every = slot.where(slot < count[:, None], -1)
            if some.numel():
                every[some] = _draw_distinct(stream[some], count[some], fanout)
            return every
    spare = (count - fanout).clamp_(min=0)[:, None]
    last = spare + slot
    pick = below(bits(stream[:, None], slot), last + 1)
    ordered, order = pick.sort(dim=1, stable=True)  # by pick, then by draw
    again = F.pad(ordered[:, 1:] == ordered[:, :-1], (1, 0))
    taken = torch.empty_like(again).scatter_(1, order, again)
    before = pick - spare  # the draw whose `last` was picked: itself, if not an earlier
    before = torch.where(before < 0, slot, before)
    before = F.pad(before.masked_fill_(taken, fanout), (0, 1), value=fanout)
    for _ in range((fanout - 1).bit_length()):
        before = before.gather(1, before)  # a chain that ends beyond all draws is taken
    taken = (before[:, :-1] == fanout).logical_or_(short)
    return last.where(taken, pick).masked_fill_(last >= count[:, None], -1)


def weight_table(weight: Tensor, rowptr: Tensor) -> Tensor:
    """Cumulative integer mass [m] of each row: what `draw_weighted` searches.

    A weight becomes its share of the row's largest one, in units of a power of two
    small enough for the row to sum to less than 2**62: no rounding depends on the order
    of summation. Positive weights keep a positive mass, zero weights get none.
    """
    weight = weight.to(torch.float64)
    degree = rowptr.diff()
    top = torch.segment_reduce(weight, "max", offsets=rowptr, initial=0.0, unsafe=True)
    length = torch.frexp(degree.to(torch.float64)).exponent  # of the degree, in bits
    unit = 1 << (MASS_BITS - length.to(torch.int64))
    top, unit = (
        row.repeat_interleave(degree, output_size=weight.numel()) for row in (top, unit)
    )
    mass = (weight / top).mul_(unit).to(torch.int64).clamp_(min=1)
    mass.masked_fill_(weight <= 0, 0)
    cumulative = mass.cumsum(0)  # wraps around; differences within a row are exact
    before = torch.cat([cumulative.new_zeros(1), cumulative])[rowptr[:-1]]
    return cumulative.sub_(before.repeat_interleave(degree, output_size=mass.numel()))


def upper_bound(
    values: Tensor, low: Tensor, high: Tensor, bound: Tensor, longest: int
) -> Tensor:
    """The first position in [low, high) whose value is > bound, else high >= low.

    Binary search in every range at once; `longest` bounds the length of a range. The
    part that is known to be <= bound grows by steps of half the length each.
    """
    if values.numel() == 0:
        return low
    known, top = low - 1, (high - 1).clamp_(min=0)
    for bit in reversed(range(longest.bit_length())):
        probe = torch.minimum(known + (1 << bit), top)
        known = torch.where(take(values, probe) <= bound, probe, known)
    return torch.minimum(known.add_(1), high)


def draw_weighted(
    stream: Tensor,
    table: Tensor,
    low: Tensor,
    high: Tensor,
    before: Tensor,
    fanout: int,
    replace: bool,
    longest: int,
) -> Tensor:
    """Positions [w, f] in [low, high), drawn by the mass in `table`; -1 for none.

    `before` [w] is the mass of the row in front of `low`. Without replacement each draw
    is made from the mass that is left, and positions come out in ascending order.
    """
    if table.numel() == 0:
        return low.new_full((low.numel(), fanout), -1)
    if not is_free_to_ask(low) and low.numel() * longest <= WHOLE_ROWS:
        ends = cumulative_rows(table, low, high, before, longest)
        law = draw_replaced if replace else draw_distinct
        place = law(stream, ends, fanout)
        return (low[:, None] + place).masked_fill_(place >= longest, -1)
    end = take(table, (high - 1).clamp_(min=0))
    total = (end - before).masked_fill_(high <= low, 0)
    if not replace:
        return _draw_distinct_weighted(
            stream, table, low, high, before, total, fanout, longest
        )
    low, high, before, total = (x[:, None] for x in (low, high, before, total))
    draw = torch.arange(fanout, device=stream.device)
    target = below_wide(bits(stream[:, None], draw), total) + before
    position = upper_bound(table, low, high, target, longest)
    return position.masked_fill(total == 0, -1)


def _draw_distinct_weighted(
    stream: Tensor,
    table: Tensor,
    low: Tensor,
    high: Tensor,
    before: Tensor,
    total: Tensor,
    fanout: int,
    longest: int,
) -> Tensor:
    """Successive sampling: aim into the mass that is left, then step over what is gone.

    `gone` holds the start of every position taken so far, measured in the mass that is
    left in front of it, and `mass` its mass: a target at or beyond `gone` moves on.
    """
    chosen, gone, mass = (total.new_zeros(total.numel(), fanout) for _ in range(3))
    words = bits(stream[:, None], torch.arange(fanout, device=stream.device))
    for i in range(fanout):
        target = below_wide(words[:, i], total)
        skipped = mass[:, :i].where(gone[:, :i] <= target[:, None], 0).sum(1)
        position = upper_bound(table, low, high, target + skipped + before, longest)
        start = torch.where(
            position > low, take(table, (position - 1).clamp_(min=0)), before
        )
        own = take(table, position.clamp(max=table.numel() - 1)) - start
        own = own.masked_fill_(total == 0, 0)
        mine = (start - before - skipped)[:, None]
        gone[:, :i] -= own[:, None].where(gone[:, :i] > mine, 0)
        gone[:, i], mass[:, i] = mine[:, 0], own
        chosen[:, i] = position.masked_fill(total == 0, NONE_LAST)
        total = total - own
    chosen = chosen.sort(1).values
    return chosen.masked_fill_(chosen == NONE_LAST, -1)


def take(values: Tensor, index: Tensor) -> Tensor:
    """values[index] for an index of any shape: index_select is the fastest gather."""
    return values.index_select(0, index.reshape(-1)).view(index.shape)


def gather(moves: Moves) -> list[Tensor]:
    """Rows [k, ...] of every column's values [n, ...], written to where they belong."""
    for move in moves.columns:
        if len(move.values) == 1 and move.row is not None and move.plain:
            torch.index_select(move.values[0], 0, move.row, out=move.out)
        else:
            _gather_pieces(move)
    return [move.out for move in moves.columns]


def _gather_pieces(move: Move) -> None:
    """One column of `gather`, piece by piece."""
    total = sum(values.shape[0] for values in move.values)
    row = torch.arange(total) if move.row is None else move.row
    place = torch.arange(row.numel()) if move.to is None else move.to
    least = row.min() if row.numel() and not move.gaps else 0
    if least < 0 or (row.numel() and row.max() >= total):
        raise IndexError("an index is out of range")
    first = 0
    for values in move.values:
        here = ((row >= first) & (row < first + values.shape[0])).nonzero().view(-1)
        move.out[place[here]] = values[row[here] - first]
        first += values.shape[0]


def rooted(plan: Plan, batch: Batch) -> Rooted | None:
    """A whole batch in one call; None where a backend has none for what is asked.

    The loop in `rooted.hops`, which calls the functions of this module, draws the same.
    """
    return None


def rooted_padded(plan: Plan, batch: Batch) -> Padded | None:
    """`rooted` with static shapes and no word to the host; None where there is none.

    No fanout is -1, every bias has a law, and the seeds are sound. `rooted.padded`
    draws the same.
    """
    return None


def take_or_none(values: Tensor, index: Tensor) -> Tensor:
    """values[index] as int64, and -1 where the index is -1."""
    if values.numel() == 0:
        return torch.full_like(index, -1)
    found = take(values, index.clamp(min=0)).to(torch.int64)
    return found.masked_fill_(index < 0, -1)


def first_position(ids: Tensor, table: Tensor, floor: int) -> Tensor:
    """Where the id of each entry stands first in `ids` [e].

    `table` [n + 1] holds nothing below `floor` + e on entry: its cells are won by
    the smallest position, and what an earlier call left there is larger. The last cell
    takes the entries that are -1.
    """
    cell = ids.masked_fill(ids < 0, table.numel() - 1)
    position = torch.arange(
        floor, floor + ids.numel(), dtype=table.dtype, device=ids.device
    )
    table.scatter_reduce_(0, cell, position, "amin")
    return take(table, cell).to(torch.int64).sub_(floor)


def first_position_sorted(ids: Tensor) -> Tensor:
    """Where the id of each entry stands first, by sorting: for ids of any size."""
    ordered, order = ids.sort(stable=True)
    position = torch.arange(ids.numel(), device=ids.device)
    starts = torch.ones_like(ids, dtype=torch.bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    group = position.where(starts, 0).cummax(0).values
    return torch.empty_like(ids).scatter_(0, order, take(order, group))


def compress(mask: Tensor, size: int) -> Tensor:
    """The `size` positions where `mask` holds, without asking the device for `size`."""
    if is_free_to_ask(mask):
        return positions(mask)
    number = torch.arange(1, size + 1, device=mask.device)
    return torch.searchsorted(mask.cumsum(0), number)


def positions(mask: Tensor) -> Tensor:
    """The positions where `mask`, on the CPU, holds; numpy is ten times faster."""
    return torch.from_numpy(np.flatnonzero(mask.numpy()))


def has_edge(
    rowptr: Tensor, sorted_col: Tensor, source: Tensor, target: Tensor, longest: int
) -> Tensor:
    """Whether row `source` holds `target`; columns ascend within every row."""
    if sorted_col.numel() == 0:
        return torch.zeros_like(source, dtype=torch.bool)
    low, high = take(rowptr, source), take(rowptr, source + 1)
    position = upper_bound(sorted_col, low, high, target - 1, longest)
    value = take(sorted_col, position.clamp(max=sorted_col.numel() - 1))
    return (position < high).logical_and_(value == target)


def edge_filter(rowptr: Tensor, col: Tensor) -> Tensor | None:
    """What lets a backend deny most edges that are not there without a search.

    Here, None: other backends know what they store.
    """
    return None
