"""Rooted sampling with static shapes: nobody asks how many there are.

Arrays are as long as they can ever have to be, walkers stand on -1 where there are
fewer, and counts stay on the device. What is drawn is what `rooted.hops` draws.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler._backends.record import Batch, Law, Padded, Plan, Relation
from gttf_sampler._backends.scratch import relabel
from gttf_sampler.draw import Walkers, draw_by_law


@dataclass
class _Reached:
    """The nodes of one type that have been reached, in order of discovery.

    Attributes:
        node: [N + 2], global ids; -1 in places that nothing has been written to, N
            among them. The last place takes what must not be written.
        root: [N + 2], the number of the tree; None unless trees are apart.
        size: how many nodes of this type the graph has.
        first: the local id of the first node of the last hop.
        known: no more nodes than these have been reached.
        width: no more nodes than these are new in the last hop.
        hops: [] each, how many were new at each hop, seeds first.
    """

    node: Tensor
    root: Tensor | None
    size: int
    first: int | Tensor
    known: int
    width: int
    hops: list[Tensor]

    def frontier(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Local ids [w] of the last hop, the nodes that stand there, and their trees.

        What is beyond the last of them is -1, as nothing has been written there.
        """
        place = torch.arange(self.width, device=self.node.device) + self.first
        place.clamp_(max=self.node.numel() - 2)
        root = None if self.root is None else ops.take(self.root, place)
        return place, ops.take(self.node, place), root

    def identity(self, node: Tensor, root: Tensor | None) -> Tensor:
        """What makes two nodes the same: the id, and the tree if those are disjoint."""
        if root is None:
            return node
        return (root * self.size + node).masked_fill_(node < 0, -1)

    def number(self, node: Tensor, root: Tensor | None, width: int) -> Tensor:
        """Local ids [e] of what a hop has reached; at most `width` of it are new."""
        known = self.node[: self.known]
        trees = None if self.root is None else self.root[: self.known]
        total = self.first + self.hops[-1]
        local, new = relabel(
            self.identity(known, trees), self.identity(node, root), None, total
        )
        place = local.masked_fill(~new, self.node.numel() - 1)
        self.node.scatter_(0, place, node)
        if self.root is not None and root is not None:
            self.root.scatter_(0, place, root)
        self.first, self.width = total, width
        self.known = min(self.known + width, self.node.numel() - 2)
        self.hops.append(new.sum())
        return local


@dataclass
class _Taken:
    """The edges [e] of one relation in one hop; -1 where nothing was drawn.

    Attributes:
        edge: positions in `adj.col`.
        col: local ids of the receivers.
        node, root: the senders, and their trees if those are disjoint.
        row: local ids of the senders, once they are numbered.
    """

    edge: Tensor
    col: Tensor
    node: Tensor
    root: Tensor | None
    row: Tensor | None = None


def sample_padded(plan: Plan, batch: Batch) -> Padded:
    """A batch of static shapes, on any device, without waiting for it."""
    bounds = plan.bounds(batch.seeds, batch.disjoint)
    _check.fits("fanouts", 64 * sum(map(sum, bounds.edges)))
    nodes = [
        _seeds_of(seeds, first if batch.disjoint else None, size, most)
        for seeds, first, size, most in zip(
            batch.seeds, batch.first_root, plan.sizes, bounds.most, strict=True
        )
    ]
    taken: list[list[_Taken]] = [[] for _ in plan.relations]
    for hop, keys in enumerate(plan.keys(batch)):
        frontiers = [some.frontier() for some in nodes]
        for number, own in enumerate(keys):
            drawn = _draw(plan, batch, number, hop, own, nodes, frontiers)
            taken[number].append(drawn)
        for kind, some in enumerate(nodes):
            width = bounds.nodes[kind][hop + 1]
            _number(plan.relations, kind, [each[hop] for each in taken], some, width)
    columns = [
        _compact(
            each,
            relation,
            nodes[relation.src_type],
            nodes[relation.dst_type],
            batch.original_edge_ids,
        )
        for each, relation in zip(taken, plan.relations, strict=True)
    ]
    row, col, edge, num_edges = ([each[i] for each in columns] for i in range(4))
    trees = [some.root[:-1] for some in nodes if some.root is not None]
    return Padded(
        node=[some.node[:-1].clamp(min=0) for some in nodes],
        root=trees if batch.disjoint else None,
        row=row,
        col=col,
        edge=edge,
        num_nodes=[torch.stack(some.hops) for some in nodes],
        num_edges=num_edges,
    )


def _seeds_of(seeds: Tensor, first: int | None, size: int, most: int) -> _Reached:
    """The seeds alone; `first` is the number of their first tree, if trees matter."""
    count, device = seeds.numel(), seeds.device
    node = seeds.new_full((most + 2,), -1)
    node[:count] = seeds
    root = None
    if first is not None:
        root = seeds.new_zeros(most + 2)
        root[:count] = torch.arange(first, first + count, device=device)
    total = torch.full((), count, device=device)
    return _Reached(node, root, size, 0, count, count, [total])


def _draw(
    plan: Plan,
    batch: Batch,
    number: int,
    hop: int,
    key: random.Key,
    nodes: list[_Reached],
    frontiers: list[tuple[Tensor, Tensor, Tensor | None]],
) -> _Taken:
    """Draws for every node of the frontier of one relation."""
    relation = plan.relations[number]
    adj, to = relation.adj, relation.dst_type
    place, node, root = frontiers[to]
    fanout, width = relation.fanouts[hop], node.numel()
    if fanout * width == 0:
        none = node.new_empty(0)
        return _Taken(none, none, none, None if root is None else none)
    stream = random.stream(key, nodes[to].identity(node, root))
    path, tree = node.new_empty(width, 0), node if root is None else root
    walkers = Walkers(adj, path, node, tree, stream, key)
    law = batch.laws[number] or Law()
    edge = draw_by_law(walkers, law, fanout, plan.replace).view(-1)
    return _Taken(
        edge,
        _each(place, fanout),
        ops.take_or_none(adj.col, edge),
        None if root is None else _each(root, fanout),
    )


def _each(values: Tensor, times: int) -> Tensor:
    """Every value [w], so many times in a row."""
    return values[:, None].expand(-1, times).reshape(-1)


def _number(
    relations: tuple[Relation, ...],
    kind: int,
    drawn: list[_Taken],
    nodes: _Reached,
    width: int,
) -> None:
    """Gives local ids to all that a hop has reached of one type."""
    pairs = zip(relations, drawn, strict=True)
    some = [each for relation, each in pairs if relation.src_type == kind]
    if not some:
        none = nodes.node.new_empty(0)
        nodes.number(none, None if nodes.root is None else none, width)
        return
    trees = [each.root for each in some if each.root is not None]
    root = torch.cat(trees) if nodes.root is not None else None
    local = nodes.number(torch.cat([each.node for each in some]), root, width)
    for each, row in zip(
        some, local.split([e.edge.numel() for e in some]), strict=True
    ):
        each.row = row


def _compact(
    hops: list[_Taken],
    relation: Relation,
    sender: _Reached,
    receiver: _Reached,
    original: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """row, col and edge [E] of one relation, padding last; and how many per hop."""
    none = receiver.node.new_empty(0)
    edge = torch.cat([none, *(hop.edge for hop in hops)])
    row = torch.cat([none, *(hop.row for hop in hops if hop.row is not None)])
    col = torch.cat([none, *(hop.col for hop in hops)])
    there = edge >= 0
    parts = there.split([hop.edge.numel() for hop in hops])
    count = torch.stack([part.sum() for part in parts]) if parts else none
    size = edge.numel()
    place = there.cumsum(0).sub_(1).masked_fill_(~there, size)
    ids = relation.adj.edge_id
    if original and ids is not None:
        edge = ops.take_or_none(ids, edge)
    dummies = sender.node.numel() - 2, receiver.node.numel() - 2, 0
    row, col, edge = (
        column.new_full((size + 1,), dummy).scatter_(0, place, column)[:size]
        for column, dummy in zip((row, col, edge), dummies, strict=True)
    )
    return row, col, edge, count
