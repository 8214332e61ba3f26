"""node2vec: rounds of proposals, and exact weights where all of them were refused."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from gttf_sampler._backends.torch.draw import MASS_BITS
from gttf_sampler._backends.torch.rows import (
    expand,
    has_edge,
    is_free_to_ask,
    row_range,
    take,
    take_or_none,
    upper_bound,
)
from gttf_sampler.random import below_wide, bits

REFUSED = -2  # where rejection sampling has accepted nothing

Reverse = tuple[Tensor, Tensor]  # rowptr and sorted columns of the reversed graph


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


def weigh_node2vec(
    graph: SecondOrder, node: Tensor, last: Tensor, stream: Tensor
) -> Tensor:
    """Edges [w] by the exact weights of the way back, near it, and away.

    Counts of the three kinds make integer masses; within a kind all weigh the same, and
    stand in the order of the sorted rows.
    """
    rowptr, sorted_col = graph.rowptr, graph.sorted_col
    start, count = row_range(rowptr, node)
    owner, at = expand(start, count, int(count.sum()))  # all neighbours
    name, behind = take(sorted_col, at).to(torch.int64), take(last, owner)
    near = has_edge(rowptr, sorted_col, name, behind, graph.longest)
    kind = torch.where(near, 1, 2).masked_fill_(name == behind, 0)
    own = 3 * owner + kind
    number = own.bincount(minlength=3 * node.numel()).view(-1, 3).t()
    mass = _kind_mass(number, count, graph.alpha)
    ends = (mass * number).cumsum(0)
    left = below_wide(bits(stream, 0), ends[2])
    taken = (left >= ends[:2]).sum(0)[None]  # the kind
    before = torch.cat([torch.zeros_like(ends[:1]), ends[:2]])
    rank = (left - before.gather(0, taken)[0]) // mass.gather(0, taken)[0]
    by_kind = own.sort(stable=True).indices
    first = number.t().reshape(-1)
    first = (first.cumsum(0) - first).view(-1, 3).gather(1, taken.t())[:, 0]
    sorted_at = take_or_none(at, take_or_none(by_kind, first + rank))
    places = graph.order()
    return sorted_at if places is None else take_or_none(places, sorted_at)


def _kind_mass(
    number: Tensor, count: Tensor, alpha: tuple[float, float, float]
) -> Tensor:
    """Integer masses [3, w] of one neighbour of every kind, as in `weight_table`."""
    weight = torch.tensor(alpha, dtype=torch.float64, device=number.device)[:, None]
    top = weight.expand(number.shape).where(number > 0, 0).amax(0)
    length = torch.frexp(count.to(torch.float64)).exponent
    unit = 1 << (MASS_BITS - length.to(torch.int64))
    return (weight / top).mul_(unit).to(torch.int64).clamp_(min=1)


def draw_node2vec(
    graph: SecondOrder, node: Tensor, last: Tensor, stream: Tensor
) -> Tensor:
    """Edges [w] accepted within so many rounds of proposals; REFUSED where none was.

    A proposal is uniform but for second chances of the way back, or by mass if there is
    a table of masses.
    """
    edge = torch.full_like(node, REFUSED)
    waiting = torch.arange(node.numel(), device=node.device)
    start, count = row_range(graph.rowptr, node)
    for turn in range(graph.rounds):
        some = [take(x, waiting) for x in (start, count, last, stream)]
        if graph.table is None:
            found, coin = _propose(graph, some, turn)
        else:
            found, coin = _propose_by_mass(graph.table, some, turn, graph.longest)
        found = _accept(graph, found, coin, last=some[2])
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
    graph: SecondOrder, walkers: list[Tensor], turn: int
) -> tuple[Tensor, Tensor]:
    """An edge per walker, REFUSED or -1 for none; and its coin, 0 if it is accepted."""
    sorted_col, envelope = graph.sorted_col, graph.envelope
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
    at = upper_bound(sorted_col, start, start + count, last - 1, graph.longest)
    at = at + copy
    there = take(sorted_col, at.clamp(max=sorted_col.numel() - 1)) == last
    there &= at < start + count
    places = graph.order()
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


def _accept(graph: SecondOrder, edge: Tensor, coin: Tensor, last: Tensor) -> Tensor:
    """The proposed edges, REFUSED where the coin is above the share of its kind."""
    envelope, to = graph.envelope, take_or_none(graph.col, edge.clamp(min=-1))
    at = to.clamp(min=0)
    adjacent = has_edge(graph.rowptr, graph.sorted_col, at, last, graph.longest)
    share = torch.full_like(to, envelope.away).masked_fill_(adjacent, envelope.near)
    share.masked_fill_(to == last, envelope.back)
    return edge.masked_fill((coin > share) & (edge >= 0), REFUSED)
