"""What the relations of a graph draw in one hop of rooted sampling."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler._backends.scratch import NodeTable
from gttf_sampler._backends.torch.rows import positions
from gttf_sampler.bias.base import Bias
from gttf_sampler.draw import Walkers, all_edges, draw_edges
from gttf_sampler.graph.compact import CompactAdj


@dataclass
class NodeSet:
    """The nodes of one type that have been reached, in order of discovery.

    Attributes:
        node: [n], global ids; the position is the local id.
        root: [n], the number of the seed a node was reached from first.
        path: [frontier, hop], how the nodes of the last hop were reached.
        size: how many nodes of this type the graph has.
        biased: whether anything asks for `root` and `path`; else they stay blank.
        table: scratch for relabelling; None if the trees are disjoint.
        hops: how many nodes were new at each hop, seeds first.
    """

    node: Tensor
    root: Tensor
    path: Tensor
    size: int
    biased: bool
    table: NodeTable | None
    hops: list[int]

    @classmethod
    def of(
        cls,
        seeds: Tensor,
        first_root: int,
        size: int,
        biased: bool,
        table: NodeTable | None,
    ) -> "NodeSet":
        """The seeds alone; their trees are numbered from `first_root` on."""
        stop = first_root + seeds.numel()
        root = torch.arange(first_root, stop, device=seeds.device)
        path = seeds.new_empty(seeds.numel(), 0)
        return cls(seeds, root, path, size, biased, table, [seeds.numel()])

    def identity(self, node: Tensor, root: Tensor) -> Tensor:
        """What makes two nodes the same: the id, and the tree if those are disjoint."""
        if self.table is not None:
            return node
        return (root * self.size + node).masked_fill_(node < 0, -1)

    def frontier(self) -> tuple[int, Tensor, Tensor]:
        """The first local id of the last hop's new nodes, their ids and their roots."""
        start = self.node.numel() - self.hops[-1]
        return start, self.node[start:], self.root[start:]


class Frontier(Protocol):
    """What a draw asks of a `NodeSet`, or of walkers that came from elsewhere."""

    @property
    def path(self) -> Tensor:
        """[w, k], how they came."""

    def frontier(self) -> tuple[int, Tensor, Tensor]:
        """The first local id, the rows [w] that walkers stand on, and their roots."""

    def identity(self, node: Tensor, root: Tensor) -> Tensor:
        """[w], what the random stream of each depends on."""


class Draw(NamedTuple):
    """What one relation drew in one hop.

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
) -> Draw:
    """Draws for every node of the frontier of one relation."""
    _, node, root = here.frontier()
    stream = random.stream(key, here.identity(node, root))
    walkers = Walkers(adj, here.path, node, root, stream, key)
    if fanout < 0:
        edge, to = all_edges(walkers, bias, total)
    elif fanout == 0 or node.numel() == 0:
        edge = to = node.new_empty(0)
    elif not replace and node.device.type == "cpu" and _takes_whole_rows(bias):
        edge, to = _draw_ragged(walkers, bias, fanout)
    else:
        _check.fits("fanouts", 32 * node.numel() * fanout)
        edge = draw_edges(walkers, bias, fanout, replace).view(-1)
        to = torch.arange(node.numel(), device=node.device).repeat_interleave(fanout)
    return Draw(walkers, edge, to, ops.take_or_none(adj.col, edge))


def _takes_whole_rows(bias: Bias | None) -> bool:
    """Whether a row that is no longer than the fanout is taken as it stands."""
    return bias is None or bias.takes_whole_rows


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
