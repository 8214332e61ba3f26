"""PyG's samplers beside NeighborSampler: of both directions, and by budgets."""

from collections.abc import Mapping
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch_geometric import loader as theirs
from torch_geometric import sampler as their_samplers
from torch_geometric.data import Data
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput
from torch_geometric.sampler.base import SubgraphType

from gttf_pyg._batch import from_subgraph
from gttf_pyg._compat import BOTH_WAYS
from gttf_pyg._rows import ONLY, Options, detached
from gttf_pyg._seeded import Batches, SeededLoader
from gttf_pyg._seeds import nodes_of
from gttf_pyg._stores import from_data
from gttf_pyg.sampler import GTTFSampler, KeyedSampler
from gttf_sampler import EdgeWeightBias, HeteroSubgraph, Subgraph
from gttf_sampler._check import size, yes_or_no
from gttf_sampler.rooted import BudgetSampler, RootedSampler

AGAINST, ALONG = ("", "against", ""), ("", "along", "")


class BidirectionalNeighborSampler(KeyedSampler, BOTH_WAYS):
    """PyG's `BidirectionalNeighborSampler` without pyg-lib or torch-sparse.

    >>> import torch
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.sampler import NodeSamplerInput
    >>> data = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4)
    >>> sampler = BidirectionalNeighborSampler(data, num_neighbors=[1])
    >>> out = sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([1])))
    >>> out.node.tolist(), out.edge.tolist()
    ([1, 0, 2], [0, 1])

    In every hop each new node draws among the edges that lead to it, and then among
    those that leave it, independently; an edge that both find is in the sample once.
    Triplets and pairs may have negatives, which PyG refuses.

    Args:
        data: and all others: see PyG's class of this name. Types and times are refused,
            as PyG does.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        subgraph_type: SubgraphType | str = "directional",
        replace: bool = False,
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        is_sorted: bool = False,
        share_memory: bool = False,
        directed: bool = True,
    ) -> None:
        per_type = isinstance(getattr(num_neighbors, "values", None), dict)
        if per_type or isinstance(num_neighbors, Mapping):
            raise RuntimeError(
                "'num_neighbors' must be one list, not one per edge type, where "
                "sampling goes both ways (got a dict)"
            )
        if time_attr is not None:
            raise NotImplementedError(
                "'time_attr' must be None where sampling goes both ways (got "
                f"{time_attr!r})"
            )
        given = num_neighbors, subgraph_type, replace, disjoint, temporal_strategy
        rest = time_attr, weight_attr, is_sorted, share_memory, directed
        self.forward_sampler, self.backward_sampler = (
            GTTFSampler(data, *given, *rest, sample_direction=way)
            for way in ("forward", "backward")
        )
        if self.forward_sampler.is_hetero:
            raise NotImplementedError(
                "'data' must have one type of nodes where sampling goes both ways (got "
                f"{self.forward_sampler.node_types})"
            )
        self.data_type = self.forward_sampler.data_type
        self.num_nodes = self.forward_sampler.num_nodes
        self.node_time = self.edge_time = None
        self.replace = self.forward_sampler.replace
        self.adjs = self.forward_sampler.adjs
        self.subgraph_type = self.forward_sampler.subgraph_type

    @property
    def num_neighbors(self) -> Any:
        """Neighbours per hop and way, as given; it can be set."""
        return self.forward_sampler.num_neighbors

    @num_neighbors.setter
    def num_neighbors(self, num_neighbors: Any) -> None:
        self.forward_sampler.num_neighbors = num_neighbors
        self.backward_sampler.num_neighbors = num_neighbors

    def _limited(
        self, seed: Tensor, seed_time: Any = None, *, key: int
    ) -> SamplerOutput:
        """The subgraph around `seed`: two relations among the nodes of one type."""
        into = self.forward_sampler.adjs[ONLY]
        adjs = {AGAINST: into, ALONG: self.backward_sampler.adjs[ONLY]}
        rooted = RootedSampler(
            adjs,
            self.forward_sampler._fanouts[ONLY],
            replace=self.replace,
            disjoint=self.disjoint,
        )
        seeds = {"": seed.to(torch.int64)}
        bias = EdgeWeightBias() if into.edge_weight is not None else None
        found: Any = rooted(seeds, bias=bias, generator=key)
        node, tree = found.node[""], found.batch and found.batch[""]
        if self.subgraph_type == SubgraphType.induced:
            none = node.new_empty(0)
            every = Subgraph(node, none, none, none, tree).induced(into)
            one: Any = from_subgraph(every, {ONLY: into}, backward=False)
            return one
        names = {k: adj.original_edge(found.edge[k]).long() for k, adj in adjs.items()}
        return _merged(found, names, node, tree)


def _merged(
    found: HeteroSubgraph,
    names: Mapping[Any, Tensor],
    node: Tensor,
    tree: Tensor | None,
) -> SamplerOutput:
    """Both relations as one list of edges, hop by hop, each edge where it came first.

    Counts are those of PyG, whose hop is two samples: seeds and what is new, with no
    seeds but those of the first.
    """
    hops: Any = found.num_sampled_edges
    ends = {
        AGAINST: (found.row[AGAINST], found.col[AGAINST]),
        ALONG: (found.col[ALONG], found.row[ALONG]),  # walkers stand where edges begin
    }
    split = {
        kind: torch.stack([*ends[kind], names[kind]]).split(hops[kind], dim=1)
        for kind in ends
    }
    order = [*chain(*zip(split[AGAINST], split[ALONG], strict=True))]
    row, col, edge = torch.cat([node.new_empty(3, 0), *order], dim=1)
    sizes = torch.tensor([part.shape[1] for part in order], dtype=torch.int64)
    sample = torch.arange(len(order)).repeat_interleave(sizes).to(node.device)
    first = _first(edge, None if tree is None else tree[col])
    taken = torch.bincount(sample[first], minlength=len(order)).tolist()
    return SamplerOutput(
        node=node,
        row=row[first],
        col=col[first],
        edge=edge[first],
        batch=tree,
        num_sampled_nodes=_new_nodes(found, split),
        num_sampled_edges=taken,
    )


def _first(edge: Tensor, tree: Tensor | None) -> Tensor:
    """Positions, ascending, at which an edge of a tree occurs for the first time.

    With replacement, an edge that one draw has found twice counts once, too.
    """
    code = edge
    if tree is not None and edge.numel():
        code = tree * (int(edge.max()) + 1) + edge
    place, size = code.unique(return_inverse=True)[1], edge.numel()
    first = torch.full((size,), size, device=edge.device)
    every = torch.arange(size, device=edge.device)
    first.scatter_reduce_(0, place, every, "amin")
    return first[first < size].sort().values


def _new_nodes(found: HeteroSubgraph, split: Mapping[Any, Any]) -> list[int]:
    """Per hop: seeds and what was new against the edges, and the same along them."""
    counts: Any = found.num_sampled_nodes
    known = counts[""][0]
    pairs = []
    for hop, new in enumerate(counts[""][1:]):
        reached = split[AGAINST][hop][0]
        top = int(reached.max()) + 1 if reached.numel() else 0
        against = max(0, top - known)
        pairs.append([counts[""][0] if hop == 0 else 0, against, 0, new - against])
        known += new
    return list(chain(*pairs)) or [known]


class HGTSampler(KeyedSampler, their_samplers.HGTSampler):
    """PyG's `HGTSampler` on the engine of this package, without torch-sparse.

    Differs from PyG, where a node with more than 50 neighbours gets edges from a random
    50 of them: here all edges between sampled nodes are in the batch.

    Args:
        data: a `HeteroData`, or a (FeatureStore, GraphStore) pair with types.
        num_samples: nodes to draw in every step, per node type or for all.
        is_sorted: edges are sorted by column.
        share_memory: move the rows to shared memory.
        max_neighbors: how many neighbours of a node share its budget, drawn at random
            where there are more; None for all.
    """

    def __init__(
        self,
        data: Any,
        num_samples: Any,
        is_sorted: bool = False,
        share_memory: bool = False,
        *,
        max_neighbors: int | None = 50,
    ) -> None:
        if isinstance(data, Data):
            raise NotImplementedError(
                "'data' must have types of nodes (got a Data); use NeighborLoader"
            )
        yes_or_no("is_sorted", is_sorted)
        yes_or_no("share_memory", share_memory)
        graph = from_data(data, Options(is_sorted=is_sorted))
        self.node_types, self.edge_types = graph.node_types, graph.edge_types
        self.adjs, self.num_nodes = graph.adjs, graph.num_nodes
        self.node_time, self.disjoint = None, False
        if share_memory:
            for adj in self.adjs.values():
                adj.share_memory_()
        every = {**graph.adjs, **graph.loose}
        self._draw = BudgetSampler(every, num_samples, max_neighbors)
        self.num_samples, self.num_hops = self._draw.num_samples, self._draw.steps

    def _limited(
        self, seed: Mapping[str, Tensor], seed_time: Any = None, *, key: int
    ) -> HeteroSamplerOutput:
        """The subgraph around `seed`, ids per node type; times are only handed on."""
        seeds = {kind: ids.to(torch.int64) for kind, ids in seed.items()}
        found = self._draw(seeds, key)
        out: Any = from_subgraph(found, self.adjs, backward=False)
        out.num_sampled_nodes = None  # PyG's sampler tells nobody
        return out


class HGTLoader(Batches, theirs.HGTLoader, SeededLoader):
    """PyG's `HGTLoader`: the same arguments, the same draws, nothing to compile.

    >>> from torch_geometric.datasets import FakeHeteroDataset
    >>> data = FakeHeteroDataset(num_graphs=1)[0]
    >>> loader = HGTLoader(data, [4, 4], input_nodes="v0", batch_size=8)
    >>> batch = next(iter(loader))
    >>> batch["v0"].batch_size, batch["v0"].num_nodes <= 8 + 4 + 4
    (8, True)

    Under `torch.manual_seed`, batches are the same bit by bit for any number of
    workers, and `state_dict` lets another loader continue in the middle of an epoch.

    Args:
        data: and everything up to `filter_per_worker`: see PyG's `HGTLoader`.
        max_neighbors: see `HGTSampler`.
        seed: short for `generator=torch.Generator().manual_seed(seed)`.
    """

    def __init__(
        self,
        data: Any,
        num_samples: Any,
        input_nodes: Any,
        is_sorted: bool = False,
        transform: Any = None,
        transform_sampler_output: Any = None,
        filter_per_worker: bool | None = None,
        *,
        max_neighbors: int | None = 50,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        workers = size("num_workers", kwargs.get("num_workers", 0)) > 0
        sampler = HGTSampler(
            data, num_samples, is_sorted, workers, max_neighbors=max_neighbors
        )
        sampler.is_hetero = True
        nodes = nodes_of(input_nodes, None, sampler)
        theirs.NodeLoader.__init__(  # PyG's own constructor makes PyG's own sampler
            self,
            detached(data),
            sampler,
            nodes.given,
            input_id=nodes.number,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            seed=seed,
            **kwargs,
        )
        self.use_keys()
