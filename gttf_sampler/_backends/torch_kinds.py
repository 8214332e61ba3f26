"""What the entries of walkers' rows are to the node behind: back to it, near, away."""

from typing import NamedTuple

import torch
from torch import Tensor

from gttf_sampler._backends.torch_ops import take
from gttf_sampler._backends.types import MASS_BITS, SecondOrder

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
