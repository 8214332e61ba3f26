"""DGL's `dataloading`: loaders, also of a graph that is cut into parts.

Other names are those of the package, or DGL's own.
"""

import os
from collections.abc import Mapping
from typing import Any

import dgl
import torch
from dgl import NID, DGLGraph
from dgl import dataloading as theirs
from dgl.heterograph import DGLBlock

from gttf_dgl import _check
from gttf_dgl._source import Choice, Rows, Source, kinds_with, rows
from gttf_dgl.loader import DataLoader
from gttf_dgl.sampler import GTTFSampler
from gttf_sampler._check import fail, mistyped, shown, size
from gttf_sampler._swap import host_names
from gttf_sampler.distributed import PartitionedGraph
from gttf_sampler.distributed import partition as cut
from gttf_sampler.distributed.write import key_of

__all__, __getattr__ = host_names(theirs, __name__)

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
    kinds_with(g, prob, None)  # refuses what none has
    kinds = g.canonical_etypes
    adjs = {kind: rows(g, kind, "in", prob) for kind in kinds}
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


class PartitionedLoader(DataLoader):
    """Batches of a graph in parts: those of a `DataLoader` with a `GTTFSampler`.

    >>> import tempfile
    >>> from gttf_sampler import CompactAdj
    >>> from gttf_sampler.distributed import PartitionedGraph, partition
    >>> ring = CompactAdj.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     facts = partition(ring, folder, parts=1, features={"x": torch.eye(4)})
    ...     graph = PartitionedGraph.open(folder)
    >>> loader = PartitionedLoader(graph, [2, 2], batch_size=2)
    >>> input_nodes, output_nodes, blocks = next(iter(loader))
    >>> input_nodes.tolist(), output_nodes.tolist(), blocks[0].srcdata["x"].shape
    ([0, 1, 3, 2], [0, 1], torch.Size([4, 4]))

    With the same nodes and `torch.manual_seed` they are bit for bit those of one
    machine with the whole graph, whatever is made ahead. The nodes that
    the first block reads, and those that the last one writes, have all features of the
    graph as their data. `state_dict` and `load_state_dict` are those of `DataLoader`.

    Args:
        graph: with types or without.
        fanouts: neighbours per layer, as one number or one per edge type; -1 takes all.
        nodes: [k], the seeds, per node type if there are types; a node type alone means
            the process's own nodes of it, as does None where there are no types.
        prob: any name has neighbours drawn by the weights that the graph was cut with;
            edge types without them are uniform.
        replace: whether a neighbour may be drawn twice.
        rooted: draw once for all layers, see `GTTFSampler`.
        seed: an integer to draw by, instead of torch's generator.
        prefetch: how many batches a thread in the background makes ahead.
        kwargs: of DGL's `DataLoader`: `batch_size`, `shuffle`, `drop_last`, `use_ddp`.
    """

    def __init__(
        self,
        graph: PartitionedGraph,
        fanouts: Any,
        nodes: Any = None,
        *,
        prob: str | None = None,
        replace: bool = False,
        rooted: bool = False,
        seed: int | None = None,
        prefetch: int = 0,
        **kwargs: Any,
    ) -> None:
        if not isinstance(graph, PartitionedGraph):
            mistyped("graph", "must be a PartitionedGraph", shown(graph))
        self.prefetch = size("prefetch", prefetch)
        if kwargs.get("num_workers", 0):
            rule = "must be 0 where the graph is partitioned"
            fail("num_workers", rule, kwargs["num_workers"], "use 'prefetch'")
        sampler = _Sampler(
            graph, fanouts, prob=prob, replace=replace, rooted=rooted, seed=seed
        )
        seeds = _seeds(graph, sampler.types, nodes)
        super().__init__(sampler.types, seeds, sampler, **kwargs)

    def in_thread(self) -> bool:
        """True if a thread makes the batches."""
        return self.prefetch > 0

    def ahead(self) -> int:
        """The number of batches that a thread makes ahead."""
        return self.prefetch


class _Sampler(GTTFSampler):
    """A `GTTFSampler` that asks the processes which have the rows.

    Attributes:
        types: a graph with the types and numbers of nodes, and no edges; DGL's loader
            takes it for the graph.
    """

    def __init__(self, graph: PartitionedGraph, fanouts: Any, **options: Any) -> None:
        super().__init__(fanouts, **options)
        self.parts, self.types = graph, _types(graph)
        kinds, weighted = self.types.canonical_etypes, self.prob is not None
        adjs: Any = graph.adjs.values()
        if weighted and all(adj.edge_weight is None for adj in adjs):
            rule = "must be None unless the graph was cut with weights"
            fail("prob", rule, repr(self.prob))
        seen = [adj.seen_with(weights=weighted, times=False) for adj in adjs]
        choice = Choice("in", self.prob, replace=self.replace)
        adjs = Rows(zip(kinds, seen, strict=True))
        self._source = Source(self.types, choice, adjs, {}, torch.device("cpu"))

    def sample_blocks(
        self, g: DGLGraph, seed_nodes: Any, exclude_eids: Any = None
    ) -> tuple[Any, Any, list[DGLBlock]]:
        """(input_nodes, output_nodes, blocks), the block of the seeds last."""
        found = self._sample_from(self._source, seed_nodes)
        _, _, blocks = found
        for (kind, name), values in self.parts.features.items():
            kind = kind or self.types.ntypes[0]
            for nodes in (blocks[0].srcnodes[kind], blocks[-1].dstnodes[kind]):
                nodes.data[name] = values.rows(nodes.data[NID])
        return found


def _types(graph: PartitionedGraph) -> DGLGraph:
    """The types and numbers of nodes of a graph, without its edges."""
    none = torch.empty(0, dtype=torch.int64)
    sizes = {kind: book.num_nodes for kind, book in graph.part.books.items()}
    kinds: Any = list(graph.adjs)
    if list(sizes) == [""]:
        return dgl.graph((none, none), num_nodes=sizes[""])
    return dgl.heterograph(dict.fromkeys(kinds, (none, none)), sizes)


def _seeds(graph: PartitionedGraph, types: DGLGraph, nodes: Any) -> Any:
    """The seeds as DGL's loader takes them: ids, or ids per node type."""
    if types.canonical_etypes == PLAIN:
        own = graph.own_nodes() if nodes is None else nodes
        return _check.seeds(types, own, "nodes")[types.ntypes[0]]
    if nodes is None:
        rule, cure = "must name the seeds of a graph with types", "pass a node type"
        fail("nodes", rule, None, cure)
    if isinstance(nodes, str):
        nodes = {nodes: graph.own_nodes(nodes) if nodes in types.ntypes else []}
    found = _check.seeds(types, nodes, "nodes")
    if not isinstance(nodes, Mapping):
        return found[types.ntypes[0]]
    return {name: found[name] for name in nodes}
