"""What the entries of walkers' rows are to the node behind: back to it, near, away."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from gttf_sampler._backends.torch.draw import cumulative_rows, draw_whole_replaced
from gttf_sampler._backends.torch.rows import is_free_to_ask, take
from gttf_sampler._backends.types import MASS_BITS, WHOLE_ROWS, SecondOrder
from gttf_sampler.random import (
    GOLDEN,
    Key,
    below,
    bits,
    fold,
    limbs,
    mix,
    multiply_high,
    signed,
)
from gttf_sampler.random import stream as streams

BACK, NEAR, AWAY, NONE = range(4)  # kinds of entries of a row


class Constants(NamedTuple):
    """What does not change from step to step, on the device.

    Attributes:
        slot: [1, longest], the places of a row.
        kinds: [3, 1], BACK, NEAR and AWAY.
        alpha: float64 [4], their weights, and that of what is not there.
        share: [4], up to which coin each kind is accepted.
        one: [1]; a number of no dimensions would be cast to what it meets.
        codes: [m], row · n + column of all edges, ascending.
        places: [m], where the entries of sorted rows stand; None for the same places.
    """

    slot: Tensor
    kinds: Tensor
    alpha: Tensor
    share: Tensor
    one: Tensor
    codes: Tensor
    places: Tensor | None


class Words(NamedTuple):
    """The random words of one step.

    Attributes:
        low, high: [w, rounds + 1], halves of the words of proposals and the exact draw.
        coin: [w, rounds], 63 bits each.
    """

    low: Tensor
    high: Tensor
    coin: Tensor


def constants_of(graph: SecondOrder, codes: Tensor) -> Constants:
    """Made of numbers, without a copy from the host."""
    device, envelope = graph.device, graph.envelope
    shares = (envelope.back, envelope.near, envelope.away, 0)
    return Constants(
        torch.arange(graph.longest, device=device)[None],
        torch.arange(3, device=device)[:, None],
        torch.stack([number(a, device, torch.float64) for a in (*graph.alpha, 0)]),
        torch.stack([number(share, device, torch.int64) for share in shares]),
        number(1, device, torch.int64).view(1),
        codes,
        graph.order(),
    )


def number(value: float, device: torch.device, dtype: torch.dtype) -> Tensor:
    """A number on the device."""
    return torch.full((), value, device=device, dtype=dtype)


def kinds_of(
    graph: SecondOrder, constants: Constants, at: Tensor, count: Tensor, last: Tensor
) -> Tensor:
    """The kind [w, longest] of every entry of the rows of walkers."""
    to = take(graph.col, at)
    code = torch.add(last, to, alpha=graph.rowptr.numel() - 1)  # the edge back to last
    near = torch.searchsorted(constants.codes, code)
    found = take(constants.codes, near.clamp_(max=constants.codes.numel() - 1))
    kind = (found != code) + constants.one  # NEAR or AWAY
    return kind.masked_fill_(to == last, BACK).masked_fill_(
        constants.slot >= count, NONE
    )


def accepted_of(
    constants: Constants, kind: Tensor, offset: Tensor, coin: Tensor
) -> Tensor:
    """Whether [w, rounds] what was proposed, places in a row, is accepted."""
    found = kind.gather(1, offset)
    return coin <= take(constants.share, found)


def units(constants: Constants, count: Tensor) -> Tensor:
    """What the heaviest entry of rows [w, 1] weighs, a power of two: `weight_table`."""
    length = torch.frexp(count.to(torch.float64)).exponent
    return constants.one << (MASS_BITS - length)


Steps = list[tuple[Tensor, Tensor]]


def _codes(graph: SecondOrder, node: Tensor) -> Tensor | None:
    """`graph.codes()`, if these walkers [w] are to look at whole rows.

    Not where one can ask who is waiting, nor where there are too many entries.
    """
    if is_free_to_ask(node) or graph.codes is None:
        return None
    width = max(graph.longest, 2 * graph.rounds)
    some = graph.longest > 0 and node.numel() * width <= WHOLE_ROWS
    return graph.codes() if some else None


def walk_node2vec(
    graph: SecondOrder, seeds: Tensor, length: int, key: Key, stays: bool
) -> Steps | None:
    """(edges, nodes) [b, 1] of every step of walks, in one call.

    A walker that was refused in all rounds goes on as in `weigh_node2vec`, or by the
    weights of all its neighbours if edges have some. None where
    it is better to take the walks step by step, as where one can ask who is waiting;
    they come out the same.
    """
    codes = _codes(graph, seeds)
    if codes is None or not stays or not length:
        return None
    constants = constants_of(graph, codes)
    slot = torch.arange(seeds.numel(), device=seeds.device)
    first = streams(fold(key, 0), slot)
    start, count = _rows(graph, seeds)
    if graph.table is None:
        edge = start + below(bits(first, 0), count)
    else:
        edge = first_by_mass(graph, first, start, count)
    steps = [_arrive(graph, seeds, edge, count)]
    last, node = seeds, steps[0][1].view(-1)
    step, rows = _step, _rows
    if graph.table is not None:  # where no edge has mass, a walker is gone
        step, rows = step_by_mass, _rows_or_none
    for words in _all_words(graph, key, slot, length):
        start, count = rows(graph, node)
        edge = step(graph, constants, words, start, count, last)
        steps.append(_arrive(graph, node, edge, count))
        last, node = node, steps[-1][1].view(-1)
    return steps


def draw_exact_node2vec(
    graph: SecondOrder, node: Tensor, last: Tensor, stream: Tensor
) -> Tensor | None:
    """Edges [w] accepted, or drawn exactly; -1 at dead ends.

    None where it is better to ask who was refused.
    """
    codes = _codes(graph, node)
    if codes is None:
        return None
    start, count = _rows_or_none(graph, node)
    words = _words(graph, stream[None], _exact_word(graph, stream)[None])
    step = _step if graph.table is None else step_by_mass
    edge = step(graph, constants_of(graph, codes), words[0], start, count, last)
    return edge.masked_fill_(count == 0, -1)


def _all_words(
    graph: SecondOrder, key: Key, slot: Tensor, length: int
) -> Iterator[Words]:
    """The words of every step but the first, made for many steps at once."""
    many = max(1, WHOLE_ROWS // max(1, slot.numel() * 2 * graph.rounds))
    if isinstance(key, int):
        key = number(signed(key), slot.device, torch.int64)
    for begin in range(1, length, many):
        depth = torch.arange(begin, min(begin + many, length), device=slot.device)
        keys = bits(key, depth)  # `fold` for all of them
        stream = mix(torch.add(keys[:, None], slot, alpha=GOLDEN))
        stream = bits(stream, 0)  # of the one draw of each walker
        yield from _words(graph, stream, _exact_word(graph, stream))


def _exact_word(graph: SecondOrder, stream: Tensor) -> Tensor:
    """The word of the exact draw, of a stream that no round has used."""
    return bits(bits(stream, 2 * graph.rounds), 0)


def _words(graph: SecondOrder, stream: Tensor, exact: Tensor) -> list[Words]:
    """The words of steps [h, w]."""
    turn = torch.arange(0, 2 * graph.rounds, 2, device=stream.device)
    proposed = torch.cat([bits(stream[..., None], turn), exact[..., None]], dim=-1)
    low, high = limbs(proposed)
    coin = bits(stream[..., None], turn + 1).bitwise_right_shift_(1)
    coin = coin.bitwise_and_((1 << 63) - 1)
    return [Words(*parts) for parts in zip(low, high, coin, strict=True)]


def _rows(graph: SecondOrder, node: Tensor) -> tuple[Tensor, Tensor]:
    """Start and length [w] of the row of each node, none of which is -1."""
    start = take(graph.rowptr, node)
    return start, take(graph.rowptr, node + 1).sub_(start)


def _rows_or_none(graph: SecondOrder, node: Tensor) -> tuple[Tensor, Tensor]:
    """The same of nodes that may be -1, whose rows are empty."""
    gone = node < 0
    start, count = _rows(graph, node.masked_fill(gone, 0))
    return start, count.masked_fill_(gone, 0)


def _arrive(
    graph: SecondOrder, node: Tensor, edge: Tensor, count: Tensor
) -> tuple[Tensor, Tensor]:
    """Edges and nodes [w, 1]; at a dead end a walker stays, without mass it is gone."""
    dead = count == 0
    arrived = take(graph.col, edge.clamp(0, graph.col.numel() - 1)).to(torch.int64)
    if graph.table is not None:
        arrived.masked_fill_(edge < 0, -1)
    arrived = torch.where(dead, node, arrived)
    return edge.masked_fill(dead, -1)[:, None], arrived[:, None]


def _step(
    graph: SecondOrder,
    constants: Constants,
    words: Words,
    start: Tensor,
    count: Tensor,
    last: Tensor,
) -> Tensor:
    """Edges [w] of walkers at rows of `count` > 0 entries."""
    envelope, last, rounds = graph.envelope, last[:, None], graph.rounds
    start, count = start[:, None], count[:, None]
    at = (start + constants.slot).clamp_(max=graph.col.numel() - 1)
    kind = kinds_of(graph, constants, at, count, last)  # [w, longest]
    number = (kind[:, None] == constants.kinds).sum(2)  # [w, 3]
    mass = _masses(constants, number, count)
    whole = mass * number
    ends = whole.cumsum(1)
    # what is proposed in every round, and what the exact draw is made by
    ordinary = count << envelope.unit
    total = ordinary + envelope.extra * envelope.copies
    total = torch.cat([total.expand(-1, rounds), ends[:, 2:]], dim=1)
    target = multiply_high(words.low, words.high, total)
    exact = target[:, rounds:]
    target = target[:, :rounds]
    offset = target >> envelope.unit
    inside = offset.clamp(max=graph.longest - 1)
    accepted = accepted_of(constants, kind, inside, words.coin)
    if envelope.extra:  # beyond the row are second chances of the way back
        second = target >= ordinary
        copy = (target - ordinary) // envelope.extra
        accepted = torch.where(second, copy < number[:, :1], accepted)
    turn = accepted.to(torch.uint8).argmax(1, keepdim=True)  # the first of them
    sure = accepted.gather(1, turn)
    offset = offset.gather(1, turn)
    # those who have to be sought: number `rank` of a kind, in the order of names
    kind_of = (ends[:, :2] <= exact).sum(1, keepdim=True)
    rank = (exact - (ends - whole).gather(1, kind_of)) // mass.gather(1, kind_of)
    direct = sure
    if envelope.extra:
        kind_of = kind_of.masked_fill_(sure, BACK)
        rank = torch.where(sure, copy.gather(1, turn), rank)
        direct = sure > second.gather(1, turn)  # and not
    sought = _sought(constants, kind, kind_of, rank, at, start)
    return torch.where(direct, offset, sought).add_(start).view(-1)


def _masses(constants: Constants, number: Tensor, count: Tensor) -> Tensor:
    """Integer masses [w, 3] of one neighbour of every kind, as in `weight_table`."""
    alpha = constants.alpha[:3]
    top = ((number > 0) * alpha).amax(1, keepdim=True)
    mass = (alpha / top).mul_(units(constants, count)).to(torch.int64)
    return mass.clamp_(min=1)


def _sought(
    constants: Constants,
    kind: Tensor,
    kind_of: Tensor,
    rank: Tensor,
    at: Tensor,
    start: Tensor,
) -> Tensor:
    """Places [w, 1] in their rows of entry number `rank` of a kind, by name."""
    places = constants.places
    if places is not None:
        own = (take(places, at) - start).clamp_(0, kind.shape[1] - 1)
        kind = kind.gather(1, own)
    number = (kind == kind_of).cumsum(1)
    place = torch.searchsorted(number, rank + 1).clamp_(max=kind.shape[1] - 1)
    return place if places is None else own.gather(1, place)


def first_by_mass(
    graph: SecondOrder, stream: Tensor, start: Tensor, count: Tensor
) -> Tensor:
    """Edges [w] of walkers with nothing behind them; -1 where there is no mass."""
    ends = _ends(graph, start, count)
    place = draw_whole_replaced(stream, ends, 1).view(-1)
    return (start + place).masked_fill_(ends[:, -1] == 0, -1)


def step_by_mass(
    graph: SecondOrder,
    constants: Constants,
    words: Words,
    start: Tensor,
    count: Tensor,
    last: Tensor,
) -> Tensor:
    """Edges [w] of walkers, -1 where there is no mass."""
    rounds, most = graph.rounds, graph.longest - 1
    ends = _ends(graph, start, count)
    nothing = ends[:, -1] == 0
    start, count = start[:, None], count[:, None]
    at = (start + constants.slot).clamp_(max=graph.col.numel() - 1)
    kind = kinds_of(graph, constants, at, count, last[:, None])
    masses = _masses_by_weight(graph, constants, kind, at, count).cumsum(1)
    total = torch.cat([ends[:, -1:].expand(-1, rounds), masses[:, -1:]], dim=1)
    target = multiply_high(words.low, words.high, total)
    proposed = target[:, :rounds].contiguous()
    offset = torch.searchsorted(ends, proposed, right=True).clamp_(max=most)
    accepted = accepted_of(constants, kind, offset, words.coin)
    turn = accepted.to(torch.uint8).argmax(1, keepdim=True)  # the first of them
    exact = target[:, rounds:].contiguous()
    exact = torch.searchsorted(masses, exact, right=True).clamp_(max=most)
    place = torch.where(accepted.gather(1, turn), offset.gather(1, turn), exact)
    return place.add_(start).view(-1).masked_fill_(nothing, -1)


def _ends(graph: SecondOrder, start: Tensor, count: Tensor) -> Tensor:
    """The mass [w, longest] up to every entry of rows, and all of it beyond."""
    assert graph.table is not None
    before = torch.zeros_like(start)
    return cumulative_rows(graph.table, start, start + count, before, graph.longest)


def _masses_by_weight(
    graph: SecondOrder, constants: Constants, kind: Tensor, at: Tensor, count: Tensor
) -> Tensor:
    """Integer masses [w, longest] of every entry, by weight and by kind."""
    assert graph.weight is not None
    weight = take(constants.alpha, kind).mul_(take(graph.weight, at))
    top = weight.amax(1, keepdim=True)
    mass = (weight / top).mul_(units(constants, count)).to(torch.int64)
    return mass.clamp_(min=1).masked_fill_(weight <= 0, 0)
