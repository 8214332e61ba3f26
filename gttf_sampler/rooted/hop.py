"""The draws of one relation in one hop of rooted sampling."""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler._backends.record import Law
from gttf_sampler._backends.torch.rows import positions
from gttf_sampler.bias.base import Bias
from gttf_sampler.draw import Walkers, all_edges, draw_by_law, draw_edges
from gttf_sampler.graph.compact import CompactAdj


class Frontier(Protocol):
    """Protocol of a draw's walkers: a `NodeSet`, or some from elsewhere."""

    @property
    def path(self) -> Tensor:
        """[w, k], how they came."""

    def frontier(self) -> tuple[int | Tensor, Tensor, Tensor]:
        """Local ids or the first of them, the rows [w] of walkers, and their roots."""

    def identity(self, node: Tensor, root: Tensor) -> Tensor:
        """[w], what the random stream of each depends on."""


class Draw(NamedTuple):
    """The edges that one relation drew in one hop.

    Attributes:
        walkers: one per node of the frontier.
        edge: [e], positions in `adj.col`; -1 where there was nothing to draw.
        to: [e], positions in the frontier.
        node: [e], the nodes at the other end.
    """

    walkers: Walkers
    edge: Tensor
    to: Tensor
    node: Tensor


def draw_relation(
    adj: CompactAdj,
    bias: Bias | None,
    here: Frontier,
    fanout: int,
    replace: bool,
    key: random.Key,
    total: int,
    static: Law | None = None,
) -> Draw:
    """Draws for every node of the frontier of one relation.

    Args:
        adj: the rows.
        bias: of the draws; None if all neighbours are equally likely.
        here: the frontier.
        fanout: how many neighbours each takes; -1 for all.
        replace: whether one can be drawn twice.
        key: from which the streams of the walkers are made.
        total: how many edges there are in front, where all are taken.
        static: a law to draw by instead of the bias, where shapes must not depend on
            what is drawn.
    """
    _, node, root = here.frontier()
    stream = random.stream(key, here.identity(node, root))
    walkers = Walkers(adj, here.path, node, root, stream, key)
    if fanout < 0:
        edge, to = all_edges(walkers, bias, total)
    elif fanout == 0 or node.numel() == 0:
        edge = to = node.new_empty(0)
    elif static is None and not replace and _takes_whole_rows(node, bias):
        edge, to = _draw_ragged(walkers, bias, fanout)
    else:
        _check.fits("fanouts", 32 * node.numel() * fanout)
        if static is None:
            edge = draw_edges(walkers, bias, fanout, replace).view(-1)
        else:
            edge = draw_by_law(walkers, static, fanout, replace).view(-1)
        to = torch.arange(node.numel(), device=node.device)
        to = to[:, None].expand(-1, fanout).reshape(-1)
    return Draw(walkers, edge, to, ops.take_or_none(adj.col, edge))


def _takes_whole_rows(node: Tensor, bias: Bias | None) -> bool:
    """True if a row that is no longer than the fanout is taken as it stands.

    On the CPU, where one can ask which are.
    """
    return node.device.type == "cpu" and (bias is None or bias.takes_whole_rows)


def _draw_ragged(
    walkers: Walkers, bias: Bias | None, fanout: int
) -> tuple[Tensor, Tensor]:
    """Edges [e] drawn without replacement, and whose they are [e].

    Rows that are no longer than the fanout are taken whole, so that the cost follows
    what there is to draw and not the fanout. It waits for sizes: for the CPU only.
    """
    start, count = walkers.adj.row_range(walkers.node)
    size = count.clamp(max=fanout)
    last = size.cumsum(0)
    total = int(last[-1])
    _check.fits("fanouts", 32 * total)
    long = count > fanout
    some = positions(long)
    if not some.numel() and bias is not None:
        return all_edges(walkers, bias, total)
    to, edge = ops.expand(start, size, total)  # right for all rows that are taken whole
    if bias is not None:
        rest = walkers.select(positions(~long))
        whole = all_edges(rest, bias, total - some.numel() * fanout)[0]
        edge.masked_scatter_(~ops.take(long, to), whole)
    if some.numel():
        slot = torch.arange(fanout, device=count.device)
        first = ops.take(last, some)[:, None] - fanout
        edge[first + slot] = draw_edges(walkers.select(some), bias, fanout, False)
    return edge, to
