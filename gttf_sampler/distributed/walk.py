"""Forests on a partitioned graph: whoever has a row takes the walkers' steps there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler.bias import EdgeWeightBias
from gttf_sampler.distributed.hops import Route
from gttf_sampler.distributed.messages import narrow, need, need_ids
from gttf_sampler.distributed.part import Part
from gttf_sampler.draw import Walkers, draw_edges
from gttf_sampler.random import WORD, Key

if TYPE_CHECKING:
    from gttf_sampler.distributed.adj import PartitionedAdj

FACTS = 6  # how many numbers a message begins with
MOST = 1 << 46  # walkers, and edges of one


def walk(
    adj: PartitionedAdj,
    seeds: Tensor,
    fanouts: Sequence[int],
    weighted: bool,
    replace: bool,
    key: Key,
    stays: bool,
) -> list[tuple[Tensor, Tensor]]:
    """(edges, nodes) [w, f] of every depth, as a machine with all rows draws them."""
    graph, levels, node = adj.graph, [], seeds
    number = graph.number(adj)
    kind = list(graph.part.books).index(adj.edge_type[2])
    for depth, fanout in enumerate(fanouts):
        word = int(random.fold(key, depth)) & WORD
        signed = word - (1 << 64) if word >> 63 else word
        facts = torch.tensor([number, signed, fanout, replace, stays, weighted])
        walker = (node >= 0).nonzero().view(-1)  # the others have stopped
        here = node.index_select(0, walker)
        route = Route.of(graph.owner(kind, here), graph.exchange.size)
        ids, slots = (route.split(x) for x in (here, walker))
        messages = {
            rank: [facts, narrow(ids[rank], adj.num_rows), narrow(slots[rank], 1)]
            for rank, count in enumerate(route.counts)
            if count
        }
        found = graph.ask_steps(messages, weighted)
        edge, reached = (node.new_full((node.numel(), fanout), -1) for _ in range(2))
        for rank, (edges, nodes) in found.items():
            place = slots[rank]
            edge[place] = edges.to(torch.int64).view(-1, fanout)
            reached[place] = nodes.to(torch.int64).view(-1, fanout)
        levels.append((edge, reached))
        node = reached.view(-1)
    return levels


def steps_of(
    arrays: list[Tensor], message: list[Tensor], adjs: Sequence[PartitionedAdj]
) -> list[Tensor]:
    """The answer of another process to a message, checked."""
    number, _, fanout, *_ = _facts(message[0])
    size, adj = message[1].numel() * fanout, adjs[number]
    edge, node = need(arrays, 2)
    edge = need_ids("edges", edge, -1, adj.num_edges, size)
    return [edge, need_ids("nodes", node, -1, adj.num_cols, size)]


def _facts(array: Tensor) -> list[int]:
    """The numbers in front of a message."""
    if array.dtype != torch.int64 or array.numel() != FACTS:
        raise ValueError(f"a message must begin with {FACTS} numbers")
    numbers: list[int] = array.tolist()
    return numbers


def answer_walk(part: Part, arrays: list[Tensor]) -> list[Tensor]:
    """The steps [w · f] of walkers on rows of this part, and where they lead."""
    facts, node, slot = need(arrays, 3)
    number, signed, fanout, replace, stays, weighted = _facts(facts)
    here = part.relation(number)
    if not 0 < fanout < MOST:
        raise ValueError(f"a fanout must be above 0 (got {fanout})")
    _check.fits("fanout", 16 * fanout * node.numel())
    row, node = here.rows.find(node), node.to(torch.int64)
    slot = need_ids("walkers", slot, 0, MOST, row.numel())
    key = signed & WORD
    stream = random.stream(key, slot)
    walkers = Walkers(here.adj, row.new_empty(row.numel(), 0), row, row, stream, key)
    bias = EdgeWeightBias() if weighted else None
    edge = draw_edges(walkers, bias, fanout, bool(replace))
    degree = here.adj.row_range(row)[1]
    how = bool(replace), bool(stays)
    reached = ops.arrive(here.adj.col, node, degree, edge, *how)
    count = torch.full_like(row, fanout)
    whole = here.whole_positions(row, count, edge.view(-1))
    whole = whole.masked_fill_(edge.view(-1) < 0, -1)
    every = part.header["relations"][number]["num_edges"]
    return [narrow(whole, every), narrow(reached.view(-1), here.adj.num_cols)]
