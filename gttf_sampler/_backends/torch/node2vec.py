"""node2vec: rounds of proposals, and exact weights where all of them were refused."""

from collections.abc import Callable

import torch
from torch import Tensor

from gttf_sampler._backends.torch.rows import (
    MAX_ROW,
    expand,
    has_edge,
    is_free_to_ask,
    row_range,
    take,
    take_or_none,
    upper_bound,
)
from gttf_sampler._backends.types import (
    MASS_BITS,
    REFUSED,
    Envelope,
    Reverse,
    SecondOrder,
)
from gttf_sampler.random import Key, below_wide, bits


def walk_node2vec(
    graph: SecondOrder, seeds: Tensor, length: int, key: Key, stays: bool
) -> list[tuple[Tensor, Tensor]] | None:
    """(edges, nodes) [b, 1] of every step of walks, in one call.

    None where a backend has no such call, as here: the walks are taken step by step
    then, and come out the same.
    """
    return None


def weigh_node2vec(
    graph: SecondOrder, node: Tensor, last: Tensor, stream: Tensor
) -> Tensor:
    """Edges [w] by the exact weights of the way back, near it, and away.

    How many neighbours are near is found in the row of the node, or, where there is a
    reversed graph, among the nodes from which `last` can be reached, if those are
    fewer. Counts of the three kinds make integer masses; within a kind all weigh the
    same.
    """
    rowptr, sorted_col = graph.rowptr, graph.sorted_col
    start, count = row_range(rowptr, node)
    name, owner = _shared(rowptr, sorted_col, graph.reverse, node, last)
    here, behind = take(start, owner), take(last, owner)
    near = has_edge(rowptr, sorted_col, name, behind, _longest(rowptr, name))
    low, high = (
        upper_bound(sorted_col, here, here + take(count, owner), bound, MAX_ROW)
        for bound in (name - 1, name)
    )
    size = (high - low).where(near | (name == behind), 0)
    back = size.where(name == behind, 0)
    number = count.new_zeros(3, count.numel())
    number[0].index_add_(0, owner, back)
    number[1].index_add_(0, owner, size - back)
    number[2] = count - number[0] - number[1]
    mass = _kind_mass(number, count, graph.alpha)
    total = (mass * number).sum(0)
    left = below_wide(bits(stream, 0), total)
    kind, rank = torch.zeros_like(node), left
    for k in range(2):
        whole = (mass * number)[k]
        beyond = (kind == k) & (rank >= whole)
        rank = torch.where(beyond, rank - whole, rank)
        kind = kind + beyond
    rank = rank // mass.gather(0, kind[None])[0]
    # the first name, in order, up to which there are more than `rank` of the kind
    ends = torch.cat([owner.new_zeros(1), owner.bincount(minlength=node.numel())])
    ends = ends.cumsum(0)
    kinds = take(kind, owner)
    counted = torch.where(kinds == 0, back, size - back)
    before = _before(counted, ends)
    first, stop = ends[:-1], ends[1:]
    at = upper_bound(before + counted, first, stop, rank, MAX_ROW)
    at = at.clamp_(max=max(0, name.numel() - 1))
    taken = take(low, at) + rank - take(before, at)
    # away: step over all names whose copies stand before it
    gone = _before(size, ends)
    passed = upper_bound(low - here - gone, first, stop, rank, MAX_ROW)
    behind = (passed - 1).clamp_(min=0)
    skipped = take(torch.cat([gone + size, gone.new_zeros(1)]), behind)
    skipped = skipped.where(passed > first, 0)
    sorted_at = torch.where(kind == 2, start + rank + skipped, taken)
    places = graph.order()
    return sorted_at if places is None else take_or_none(places, sorted_at)


def _shared(
    rowptr: Tensor,
    sorted_col: Tensor,
    reverse: Reverse | None,
    node: Tensor,
    last: Tensor,
) -> tuple[Tensor, Tensor]:
    """Names [e] that hold all near neighbours and `last`, ascending, and whose [e]."""
    low, count = row_range(rowptr, node)
    owner, at = expand(low, count, int(count.sum()))
    if reverse is None:
        name = take(sorted_col, at).to(torch.int64)
    else:
        other, size = row_range(reverse[0], last)
        short = size < count
        low, count = torch.where(short, other, low), torch.where(short, size, count)
        owner, at = expand(low, count, int(count.sum()))
        top = sorted_col.numel() - 1
        name = torch.where(
            take(short, owner),
            take(reverse[1], at.clamp(max=top)).to(torch.int64),
            take(sorted_col, at.clamp(max=top)).to(torch.int64),
        )
    every = torch.arange(node.numel(), device=node.device)
    name, owner = torch.cat([name, last]), torch.cat([owner, every])
    most = rowptr.numel()
    code = (owner * most + name).unique()
    return code % most, code // most


def _kind_mass(
    number: Tensor, count: Tensor, alpha: tuple[float, float, float]
) -> Tensor:
    """Integer masses [3, w] of one neighbour of every kind, as in `weight_table`."""
    weight = torch.tensor(alpha, dtype=torch.float64, device=number.device)[:, None]
    top = weight.expand(number.shape).where(number > 0, 0).amax(0)
    length = torch.frexp(count.to(torch.float64)).exponent
    unit = 1 << (MASS_BITS - length.to(torch.int64))
    return (weight / top).mul_(unit).to(torch.int64).clamp_(min=1)


def _before(size: Tensor, ends: Tensor) -> Tensor:
    """Sums of what stands in front of every entry among those of the same owner."""
    whole = torch.cat([size.new_zeros(1), size.cumsum(0)])
    each = ends.diff()
    base = take(whole, ends[:-1]).repeat_interleave(each, output_size=size.numel())
    return whole[:-1] - base


def _longest(rowptr: Tensor, node: Tensor) -> int:
    """The length of the longest of some rows."""
    count = row_range(rowptr, node)[1]
    return int(count.max()) if count.numel() else 0


def draw_node2vec(
    graph: SecondOrder, node: Tensor, last: Tensor, stream: Tensor
) -> Tensor:
    """Edges [w] accepted within so many rounds of proposals; REFUSED where none was.

    A proposal is uniform but for second chances of the way back, or by mass if there is
    a table of masses.
    """
    rowptr, col, sorted_col = graph.rowptr, graph.col, graph.sorted_col
    order, envelope, longest = graph.order, graph.envelope, graph.longest
    edge = torch.full_like(node, REFUSED)
    waiting = torch.arange(node.numel(), device=node.device)
    start, count = row_range(rowptr, node)
    for turn in range(graph.rounds):
        some = [take(x, waiting) for x in (start, count, last, stream)]
        if graph.table is None:
            found, coin = _propose(sorted_col, order, some, envelope, turn, longest)
        else:
            found, coin = _propose_by_mass(graph.table, some, turn, longest)
        found = _accept(rowptr, col, sorted_col, found, coin, some, envelope, longest)
        before = take(edge, waiting)
        edge[waiting] = torch.where(before == REFUSED, found, before)
        if is_free_to_ask(edge):
            waiting = waiting[found == REFUSED]
            if waiting.numel() == 0:
                break
        elif turn % 8 == 7 and not bool((edge == REFUSED).any()):
            break  # elsewhere, to ask costs more than to try
    return edge


def _propose(
    sorted_col: Tensor,
    order: Callable[[], Tensor | None],
    walkers: list[Tensor],
    envelope: Envelope,
    turn: int,
    longest: int,
) -> tuple[Tensor, Tensor]:
    """An edge per walker, REFUSED or -1 for none; and its coin, 0 if it is accepted."""
    start, count, last, stream = walkers
    ordinary = count << envelope.unit
    total = ordinary + envelope.extra * envelope.copies
    target = below_wide(bits(stream, 2 * turn), total.masked_fill_(count == 0, 0))
    edge = (start + (target >> envelope.unit)).masked_fill_(count == 0, -1)
    coin = _coin(stream, turn)
    if envelope.extra == 0 or sorted_col.numel() == 0:
        return edge, coin
    second = (target >= ordinary) & (count > 0)
    copy = (target - ordinary).clamp_(min=0) // envelope.extra
    at = copy + upper_bound(sorted_col, start, start + count, last - 1, longest)
    there = take(sorted_col, at.clamp(max=sorted_col.numel() - 1)) == last
    there &= at < start + count
    places = order()
    back = at if places is None else take_or_none(places, at.where(there, -1))
    edge = edge.where(~second, back.where(there, REFUSED))
    return edge, coin.masked_fill_(second, 0)


def _propose_by_mass(
    table: Tensor, walkers: list[Tensor], turn: int, longest: int
) -> tuple[Tensor, Tensor]:
    """Proposes neighbours in proportion to the mass of their edges."""
    start, count, _, stream = walkers
    total = take_or_none(table, start + count - 1).masked_fill_(count == 0, 0)
    target = below_wide(bits(stream, 2 * turn), total)
    edge = upper_bound(table, start, start + count, target, longest)
    return edge.masked_fill(total == 0, -1), _coin(stream, turn)


def _coin(stream: Tensor, turn: int) -> Tensor:
    """63 random bits."""
    return (bits(stream, 2 * turn + 1) >> 1).bitwise_and_((1 << 63) - 1)


def _accept(
    rowptr: Tensor,
    col: Tensor,
    sorted_col: Tensor,
    edge: Tensor,
    coin: Tensor,
    walkers: list[Tensor],
    envelope: Envelope,
    longest: int,
) -> Tensor:
    """The proposed edges, REFUSED where the coin is above the share of its kind."""
    last = walkers[2]
    to = take_or_none(col, edge.clamp(min=-1))
    adjacent = has_edge(rowptr, sorted_col, to.clamp(min=0), last, longest)
    share = torch.full_like(to, envelope.away).masked_fill_(adjacent, envelope.near)
    share.masked_fill_(to == last, envelope.back)
    return edge.masked_fill((coin > share) & (edge >= 0), REFUSED)
