"""partition: a DGLGraph with its node data, cut into parts on disk."""

import os
from typing import Any

from dgl import DGLGraph

from gttf_dgl import _check
from gttf_dgl.compact import kinds_with, weighted_rows
from gttf_sampler.distributed import partition as cut
from gttf_sampler.distributed.source import key_of

PLAIN = [("_N", "_E", "_N")]  # the edge types of a graph without types


def partition(
    g: DGLGraph,
    path: str | os.PathLike[str],
    parts: int,
    *,
    prob: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Cuts a graph into parts that `PartitionedGraph.open` opens, one per process.

    >>> import dgl, tempfile, torch
    >>> from gttf_dgl import partition
    >>> g = dgl.graph(([0, 1, 2, 3], [1, 2, 3, 0]))
    >>> g.ndata["x"] = torch.eye(4)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     facts = partition(g, folder, parts=2)
    >>> facts["nodes"], facts["features"]
    ([2, 2], ['x'])

    All node data become features, of node types that have edges. Edges keep their ids;
    other data of theirs are left out.

    Args:
        g: the graph, on a CPU.
        path: a directory, which is made.
        parts: how many.
        prob: name of edge data to draw in proportion to, if batches shall be.
        options: those of `gttf_sampler.distributed.partition`.
    """
    _check.graph(g)
    heavy = kinds_with(g, prob, None)
    kinds = g.canonical_etypes
    adjs = {
        kind: weighted_rows(g, kind, "in", prob if kind in heavy else None, None)
        for kind in kinds
    }
    plain = kinds == PLAIN
    ends = {end for kind in kinds for end in kind[::2]}
    features = {
        ("" if plain else name, column): values
        for name in g.ntypes
        if name in ends
        for column, values in g.nodes[name].data.items()
    }
    given = options.pop("features", None) or {}
    features.update({key_of(key): values for key, values in given.items()})
    graph = adjs[PLAIN[0]] if plain else adjs
    return cut(graph, path, parts, features=features, **options)
