"""The tables that kernels of rooted sampling read: a hop as numbers.

Every row of `relations` holds the addresses of one relation's arrays and what is to be
done with them, every row of `nodes` those of one node type, and every row of `segments`
a part of the walkers: the frontier of one relation. Where a row or an edge leads out of
the graph, CHANGED of its relation is set, and the batch goes on with node 0 until
somebody looks.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.memory import Array
from gttf_sampler._backends.record import (
    UNIFORM,
    Batch,
    Law,
    Plan,
    RelationRow,
    relation_rows,
)

# columns of `relations`, behind those of `record.RelationRow`
_OWN = len(RelationRow._fields)
ROWS, EDGES, COLS, CHANGED, RELATION_COLUMNS = range(_OWN, _OWN + 5)
# columns of `nodes`
IDS, ROOTS, CELL, WIDE_CELL, SIZE, FLOOR, LIMIT, NODE_COLUMNS = range(8)
# columns of `segments`
RELATION, FIRST, STOP, BEGIN, FANOUT, SEGMENT_COLUMNS = range(6)


def relation_table(plan: Plan, batch: Batch) -> tuple[Array, list[Tensor]] | None:
    """The table that kernels read, and tensors that must outlive it.

    None if there is a relation that they cannot read.
    """
    found = relation_rows(plan, batch)
    if found is None:
        return None
    rows, held = found
    guarded = []
    for row, relation, law in zip(rows, plan.relations, batch.laws, strict=True):
        adj = relation.adj
        edges = adj.col.numel()
        names = adj.edge_id if batch.original_edge_ids else None
        if names is not None or law is not UNIFORM:
            edges = _shortest(edges, names, law)
        guarded.append((*row, adj.rowptr.numel() - 1, edges, adj.num_cols, 0))
    shape = (len(rows), RELATION_COLUMNS)
    return np.array(guarded, np.int64).reshape(shape), held.tensors


def _shortest(edges: int, names: Tensor | None, law: Law | None) -> int:
    """Edges that all arrays have; those that somebody edited may be shorter."""
    more = [names] if law is None else [names, law.cumulative_weight, law.time]
    return min([edges, *(array.numel() for array in more if array is not None)])


def check_relations(relations: Array) -> None:
    """Refuses a batch of a graph that was edited to lead out of itself."""
    if relations[:, CHANGED].any():
        _check.changed()
