"""Uniform rooted sampling as torch operations, for CPUs without a faster backend.

The loop in `rooted.hops` draws the same, with any bias, on any device and without
waiting for it. Here numbers can be looked at as soon as they are there, so that what
was not drawn never takes part, and the table that numbers the nodes is written in
place.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.memory import IDS
from gttf_sampler._backends.plan import UNIFORM, Batch, Plan, Rooted, named_edges
from gttf_sampler._backends.torch_ops import (
    draw_uniform,
    expand,
    positions,
    row_range,
    take,
)
from gttf_sampler.random import Key, fold, stream


def rooted(plan: Plan, batch: Batch) -> Rooted | None:
    """A whole batch in one call.

    None where a backend has no such call for what is asked; the loop in `rooted.hops`
    draws the same.
    """
    one = len(plan.relations) == len(plan.sizes) == 1
    plain = one and batch.laws[0] == UNIFORM and not batch.apart
    if not plain or plan.device.type != "cpu":
        return None
    plan.ensure_nodes(batch)
    (relation,), (seeds,) = plan.relations, batch.seeds
    rowptr, col = relation.adj.rowptr, relation.adj.col
    nodes, rows, cols, edges = [seeds], [], [], []
    begin, known = 0, seeds.numel()
    with plan.borrow_tables() as (table,):
        for hop, fanout in enumerate(relation.fanouts):
            hop_key = fold(fold(batch.key, hop), 0)
            edge, to = _draw(rowptr, nodes[-1], begin, fanout, plan.replace, hop_key)
            reached = take(col, edge).to(torch.int64)
            floor = table.reserve(known + edge.numel())
            local, new = _number(table.cell, floor, nodes, reached)
            rows.append(local)
            cols.append(to)
            edges.append(edge)
            nodes.append(new)
            begin, known = known, known + new.numel()
    node, row, to, edge = map(_joined, (nodes, rows, cols, edges))
    hops = [[part.numel() for part in parts] for parts in (nodes, edges)]
    named = named_edges(plan, batch, [edge])
    return Rooted([node], None, [row], [to], named, [hops[0]], [hops[1]])


def _draw(
    rowptr: Tensor, node: Tensor, begin: int, fanout: int, replace: bool, key: Key
) -> tuple[Tensor, Tensor]:
    """Edges [e] of all nodes, and their local ids [e], which start at `begin`."""
    start, count = row_range(rowptr, node)
    if fanout < 0:
        to, edge = expand(start, count, int(count.sum()))
        return edge, to.add_(begin)
    if fanout == 0 or node.numel() == 0:
        return node.new_empty(0), node.new_empty(0)
    if replace:
        return _draw_again(start, count, node, begin, fanout, key)
    size = count.clamp(max=fanout)
    total = int(size.sum())
    _check.fits("fanouts", 32 * total)
    to, edge = expand(start, size, total)  # right for all rows that are taken whole
    long = positions(count > fanout)
    if long.numel():
        words = stream(key, take(node, long))
        offset = draw_uniform(words, take(count, long), fanout, False)
        first = take(size.cumsum(0).sub_(size), long)[:, None]
        slot = torch.arange(fanout, device=node.device)
        edge[first + slot] = offset.add_(take(start, long)[:, None])
    return edge, to.add_(begin)


def _draw_again(
    start: Tensor, count: Tensor, node: Tensor, begin: int, fanout: int, key: Key
) -> tuple[Tensor, Tensor]:
    """Draws with replacement: every node that has an edge gives `fanout`."""
    _check.fits("fanouts", 32 * node.numel() * fanout)
    edge = draw_uniform(stream(key, node), count, fanout, True)
    edge = edge.add_(start[:, None])
    to = torch.arange(begin, begin + node.numel(), device=node.device)
    if int(count.min()) == 0:
        some = positions(count > 0)
        edge, to = edge.index_select(0, some), take(to, some)
    return edge.view(-1), to[:, None].expand(-1, fanout).reshape(-1)


def _number(
    cell: Tensor, floor: int, nodes: Sequence[Tensor], reached: Tensor
) -> tuple[Tensor, Tensor]:
    """Local ids [e] of the nodes reached, and those that are new, in their order.

    A cell is won by the smallest position among `nodes` and `reached` end to end; then
    the new ones get the numbers that follow those of `nodes`.
    """
    first = floor
    for known in (*nodes, reached):
        last = first + known.numel()
        position = torch.arange(first, last, dtype=cell.dtype, device=cell.device)
        cell.scatter_reduce_(0, known, position, "amin")
        first = last
    taken = first - reached.numel()
    introduces = cell.index_select(0, reached) == position
    new = take(reached, positions(introduces))
    stop = taken + new.numel()
    number = torch.arange(taken, stop, dtype=cell.dtype, device=cell.device)
    cell.scatter_(0, new, number)
    return cell.index_select(0, reached).to(torch.int64).sub_(floor), new


def _joined(parts: list[Tensor]) -> Tensor:
    """The tensors of all hops end to end, in memory that was used before."""
    size = sum(part.numel() for part in parts)
    whole = IDS.make(size)
    return torch.cat(parts, out=whole) if parts else whole
