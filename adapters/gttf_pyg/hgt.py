"""HGTLoader, HGTSampler: so many nodes of every type, by budgets."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch_geometric import loader as theirs
from torch_geometric import sampler as their_samplers
from torch_geometric.data import Data
from torch_geometric.sampler import (
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NegativeSampling,
    NodeSamplerInput,
)
from torch_geometric.sampler.neighbor_sampler import edge_sample, node_sample

from gttf_pyg import _graph, _output
from gttf_pyg._batch import set_nodes
from gttf_pyg._keys import key_of
from gttf_pyg._options import seeded
from gttf_pyg._rows import Options, detached
from gttf_pyg._seeded import SeededLoader
from gttf_pyg._seeds import checked_edges, checked_nodes, input_nodes_of
from gttf_pyg._stores import edge_columns, join_stores
from gttf_pyg.negatives import negatives_of
from gttf_sampler._check import size, yes_or_no
from gttf_sampler.rooted import BudgetSampler


class HGTSampler(their_samplers.HGTSampler):
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
        graph = _graph.from_data(data, Options(is_sorted=is_sorted))
        self.node_types, self.edge_types = graph.node_types, graph.edge_types
        self.adjs, self.num_nodes = graph.adjs, graph.num_nodes
        self.node_time, self.disjoint, self.sample_direction = None, False, "forward"
        if share_memory:
            for adj in self.adjs.values():
                adj.share_memory_()
        every = {**graph.adjs, **graph.loose}
        self._draw = BudgetSampler(every, num_samples, max_neighbors)
        self.num_samples, self.num_hops = self._draw.num_samples, self._draw.steps

    def sample_from_nodes(self, inputs: NodeSamplerInput) -> HeteroSamplerOutput:
        """The subgraph around some nodes."""
        sample = partial(self._sample, key=key_of(inputs))
        return node_sample(checked_nodes(inputs), sample)

    def sample_from_edges(
        self,
        inputs: EdgeSamplerInput,
        neg_sampling: NegativeSampling | None = None,
    ) -> HeteroSamplerOutput:
        """The subgraph around both ends of some edges and of their negatives."""
        inputs, key = checked_edges(inputs, neg_sampling), key_of(inputs)
        if neg_sampling is not None:
            neg_sampling = negatives_of(neg_sampling, inputs, self, key)
        how = self.num_nodes, False, None, neg_sampling
        return edge_sample(inputs, partial(self._sample, key=key), *how)

    @property
    def edge_permutation(self) -> None:
        """None: edges are named by their positions in the caller's edge_index."""
        return None

    def _sample(
        self, seed: Mapping[str, Tensor], seed_time: Any = None, *, key: int
    ) -> HeteroSamplerOutput:
        """The subgraph around `seed`, ids per node type; times are only handed on."""
        found = self._draw(
            {kind: ids.to(torch.int64) for kind, ids in seed.items()}, key
        )
        out: Any = _output.from_subgraph(found, self.adjs, backward=False)
        out.num_sampled_nodes = None  # PyG's sampler tells nobody
        return out


class HGTLoader(theirs.HGTLoader, SeededLoader):
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
        nodes, _ = input_nodes_of(input_nodes, None, data, sampler)
        theirs.NodeLoader.__init__(  # PyG's own constructor makes PyG's own sampler
            self,
            detached(data),
            sampler,
            nodes,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            **seeded(kwargs, seed),
        )
        self.edge_columns = edge_columns(self.data, sampler)
        self.use_keys()

    def filter_fn(self, out: Any) -> Any:
        """Joins what was sampled with its features."""
        if not self.edge_columns:
            return super().filter_fn(out)
        return join_stores(self, out, self.node_sampler, set_nodes)
