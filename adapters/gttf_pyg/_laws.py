"""Laws of a batch: what a sampler draws by, where no function has a say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from gttf_pyg._rows import EdgeType
from gttf_sampler import CompactAdj, EdgeWeightBias, ExcludeBias, TemporalBias
from gttf_sampler.bias import UNIFORM, Law
from gttf_sampler.graph.tables import sorted_time


def lasting(
    adjs: Mapping[EdgeType, CompactAdj], hidden: Mapping[EdgeType, ExcludeBias]
) -> list[Law | None]:
    """Per relation, what holds for all batches; None if a law cannot say it.

    Args:
        adjs: the rows of every relation.
        hidden: what hides edges in all batches, where anything does.
    """
    laws: list[Law | None] = []
    for kind, adj in adjs.items():
        law: Law | None = UNIFORM
        if adj.edge_weight is not None:
            law = EdgeWeightBias().law(adj)
        if adj.edge_time is not None:
            sorted_time(adj)  # refuses rows that are not
        if kind in hidden and law is not None:
            law = law.both(hidden[kind].law(adj))
        laws.append(law)
    return laws


def of_batch(
    laws: Sequence[Law | None],
    adjs: Mapping[EdgeType, CompactAdj],
    timed: TemporalBias | None,
    hidden: Mapping[EdgeType, Tensor],
) -> list[Law | None] | None:
    """The laws of a batch; None if there is a relation that needs a function.

    Args:
        laws: those that hold for all batches.
        adjs: the rows of every relation.
        timed: what admits the times of the batch.
        hidden: the positions of edges that are hidden in this batch.
    """
    found: list[Law | None] = []
    known: dict[Any, Law] = {}  # times of one dtype have the same bounds
    for (kind, adj), law in zip(adjs.items(), laws, strict=True):
        if law is not None and kind in hidden and hidden[kind].numel():
            law = law.both(ExcludeBias(hidden[kind]).law(adj))
        if law is None:
            return None
        time = adj.edge_time
        if timed is not None and time is not None:
            if time.dtype not in known:
                known[time.dtype] = timed.law(adj)
            _, _, _, latest, before, last, _ = known[time.dtype]
            law = law._replace(time=time, latest=latest, before=before, last=last)
        found.append(law)
    return found
