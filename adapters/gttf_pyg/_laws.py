"""Laws of a batch: what a sampler draws by, where no function has a say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from gttf_pyg._rows import EdgeType
from gttf_sampler import CompactAdj, ExcludeBias, TemporalBias
from gttf_sampler.bias import Law


def of_batch(
    laws: list[Law] | None,
    adjs: Mapping[EdgeType, CompactAdj],
    timed: TemporalBias | None,
    hidden: Mapping[EdgeType, Tensor],
) -> list[Law] | None:
    """The laws of a batch; None if there is a relation that needs a function.

    Args:
        laws: those that hold for all batches.
        adjs: the rows of every relation.
        timed: what admits the times of the batch.
        hidden: the positions of edges that are hidden in this batch.
    """
    if laws is None or (timed is None and not hidden):
        return laws
    found = []
    known: dict[Any, Law] = {}  # times of one dtype have the same bounds
    for (kind, adj), law in zip(adjs.items(), laws, strict=True):
        if kind in hidden and hidden[kind].numel():
            both = law.both(ExcludeBias(hidden[kind]).law(adj))
            if both is None:
                return None
            law = both
        time = adj.edge_time
        if timed is not None and time is not None:
            if time.dtype not in known:
                known[time.dtype] = timed.law(adj)
            _, _, _, latest, before, last, _ = known[time.dtype]
            law = law._replace(
                time=time, time_max=latest, time_min=before, most_recent=last
            )
        found.append(law)
    return found
