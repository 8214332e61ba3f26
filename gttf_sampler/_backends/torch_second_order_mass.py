"""Steps of weighted node2vec walks, as whole-matrix operations: proposals by mass.

The exact draw of a walker whose proposals were all refused is made along with them, as
in `torch_second_order`; the masses that it is made by are those of `weight_table`.
"""

import torch
from torch import Tensor

from gttf_sampler._backends.torch_kinds import (
    Constants,
    Words,
    accepted_of,
    kinds_of,
    units,
)
from gttf_sampler._backends.torch_ops import take
from gttf_sampler._backends.torch_rows import cumulative_rows, draw_replaced
from gttf_sampler._backends.types import SecondOrder
from gttf_sampler.random import multiply_high


def first_by_mass(
    graph: SecondOrder, stream: Tensor, start: Tensor, count: Tensor
) -> Tensor:
    """Edges [w] of walkers with nothing behind them; -1 where there is no mass."""
    ends = _ends(graph, start, count)
    place = draw_replaced(stream, ends, 1).view(-1)
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
    masses = _masses(graph, constants, kind, at, count).cumsum(1)
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


def _masses(
    graph: SecondOrder, constants: Constants, kind: Tensor, at: Tensor, count: Tensor
) -> Tensor:
    """Integer masses [w, longest] of every entry, by weight and by kind."""
    assert graph.weight is not None
    weight = take(constants.alpha, kind).mul_(take(graph.weight, at))
    top = weight.amax(1, keepdim=True)
    mass = (weight / top).mul_(units(constants, count)).to(torch.int64)
    return mass.clamp_(min=1).masked_fill_(weight <= 0, 0)
