"""Degrees of the whole graph, which batches carry as node data if a model asks."""

from typing import Any

import torch
from dgl import DGLGraph
from torch import Tensor

from gttf_dgl._source import Source
from gttf_sampler import CompactAdj

# Columns of node data: the edges that arrive, those of them that could be drawn, and
# the edges that leave; one of each per edge type.
ARRIVE, DRAWABLE, LEAVE = "_gttf_arrive", "_gttf_drawable", "_gttf_leave"
BIASED = "_gttf_biased"  # instead of these, where edges were not drawn uniformly


class Wanted:
    """Whether a model of this process asks for degrees.

    A sampler keeps one: pickled with it, the answer reaches workers that are spawned,
    as it reaches those that are forked by itself.
    """

    answer = False  # of the process, not of one object

    def __getstate__(self) -> dict[str, bool]:
        return {"answer": Wanted.answer}

    def __setstate__(self, state: dict[str, bool]) -> None:
        Wanted.answer = Wanted.answer or state["answer"]


def column(name: str, kind: tuple[str, str, str]) -> str:
    """The name of a column for one edge type, as a slice of the graph knows it."""
    return f"{name}:{kind[1]}"


def store_degrees(
    batch: DGLGraph,
    source: Source,
    senders: dict[str, Tensor],
    receivers: dict[str, Tensor],
) -> None:
    """Puts the degrees into the node data of a batch, if they are asked for.

    Of a graph in parts nobody knows them all: an unbiased model will say so.
    """
    if not Wanted.answer or source.remote:
        return
    for kind, adj in source.adjs.items():
        arrived, sent = batch.dstnodes[kind[2]].data, batch.srcnodes[kind[0]].data
        nodes = receivers[kind[2]]
        degree, admitted = degrees_of(adj, source.excluded.get(kind), nodes)
        if not source.choice.uniform:
            arrived[column(BIASED, kind)] = degree
            continue
        arrived[column(ARRIVE, kind)] = degree
        arrived[column(DRAWABLE, kind)] = admitted
        leave = out_degree(adj).index_select(0, senders[kind[0]])
        sent[column(LEAVE, kind)] = leave


def degrees_of(
    adj: CompactAdj, excluded: Tensor | None, receivers: Tensor
) -> tuple[Tensor, Tensor]:
    """How many edges arrive at each node, and how many of them are not excluded."""
    start, degree = adj.row_range(receivers)
    if excluded is None:
        return degree, degree
    ordered = excluded.unique()
    low, high = (torch.searchsorted(ordered, x) for x in (start, start + degree))
    return degree, degree - (high - low)


def out_degree(adj: CompactAdj) -> Tensor:
    """How many rows name each node, [num_cols]."""
    found: Tensor = adj.cached(
        "out_degree", lambda: torch.bincount(adj.col, minlength=adj.num_cols)
    )
    return found


def carries(graph: Any, name: str) -> bool:
    """Whether the graph that a layer was given has a column."""
    kinds = graph.canonical_etypes
    return len(kinds) == 1 and column(name, kinds[0]) in graph.dstdata
