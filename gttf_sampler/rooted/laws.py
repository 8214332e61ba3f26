"""What holds for all batches of a graph, as laws: its weights, and hidden edges."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

from gttf_sampler._backends.record import UNIFORM, Law
from gttf_sampler.bias.simple import EdgeWeightBias, ExcludeBias
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.graph.tables import sorted_time

Kind = TypeVar("Kind", bound=Hashable)


def laws_of(
    adjs: Mapping[Kind, CompactAdj], hidden: Mapping[Kind, ExcludeBias]
) -> list[Law] | None:
    """The law of every relation; None if one of them takes more than a law.

    Edges are drawn by weight where they have weights. Times must be in order, though
    it is for a batch to say which of them are admitted.

    Args:
        adjs: the rows of every relation.
        hidden: what hides edges, where anything does.
    """
    laws = []
    for kind, adj in adjs.items():
        law: Law | None = UNIFORM
        if adj.edge_weight is not None:
            law = EdgeWeightBias().law(adj)
        if adj.edge_time is not None:
            sorted_time(adj)  # refuses rows that are not
        if law is not None and kind in hidden:
            law = law.both(hidden[kind].law(adj))
        if law is None:
            return None
        laws.append(law)
    return laws
