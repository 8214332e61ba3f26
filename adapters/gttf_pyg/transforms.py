"""Transforms: rows that loaders share, other edges, GCN weights, a batch's end."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.transforms import BaseTransform

from gttf_pyg import _stores
from gttf_pyg._check import (
    DIRECTIONS,
    NOT_UNIFORM,
    SCHEMES,
    as_pairs,
    first_used,
    name_or_none,
    one_graph,
)
from gttf_pyg._rows import ATTACHED, Options
from gttf_pyg.sampler import GTTFSampler
from gttf_sampler import CompactAdj, EdgeWeightBias, Subgraph, ppr_neighbors
from gttf_sampler._check import dense, fail, mistyped, one_of, within, yes_or_no
from gttf_sampler._loading.streams import StreamPipeline

FACTOR = "edge_factor"  # of a batch: how many edges each one stands for


class ToCompact(BaseTransform):
    """A transform that stores a graph's sorted rows with it, for loaders to share.

    >>> from torch_geometric.datasets import KarateClub
    >>> data = ToCompact()(KarateClub()[0])
    >>> data.compact_adj
    CompactAdj(34 nodes, 156 edges, direction='in', max_degree=17, 1.5 kB on cpu)

    It is `data.compact_adj`, or `data[edge_type].compact_adj` in heterogeneous data. It
    moves with the data, and is left aside once the edges have changed. Give the loaders
    the same arguments as this.

    Args:
        time_attr: see `GTTFLoader`; so are the others.
        weight_attr: the name of the edges' weights.
        is_sorted: edges are sorted by column, and by time where there are times.
        sample_direction: "forward" for sampling against the edges, "backward" along.
    """

    def __init__(
        self,
        time_attr: str | None = None,
        weight_attr: str | None = None,
        is_sorted: bool = False,
        sample_direction: str = "forward",
    ) -> None:
        one_of("sample_direction", sample_direction, DIRECTIONS)
        name_or_none("time_attr", time_attr)
        name_or_none("weight_attr", weight_attr)
        yes_or_no("is_sorted", is_sorted)
        backward = sample_direction == "backward"
        self.options = Options(time_attr, weight_attr, is_sorted, backward)

    def forward(self, data: Any) -> Any:
        """`data` with its rows; called by `__call__` with a shallow copy."""
        if not isinstance(data, Data | HeteroData):
            mistyped("data", "must be a Data or a HeteroData", type(data).__name__)
        graph = _stores.from_data(data, self.options)
        for store, adj in zip(data.edge_stores, graph.adjs.values(), strict=True):
            store[ATTACHED] = adj
        return data

    def __repr__(self) -> str:
        told = self.options._asdict()
        backward = told.pop("backward")
        parts = [f"{name}={value!r}" for name, value in told.items() if value]
        parts += ["sample_direction='backward'"] if backward else []
        return f"{type(self).__name__}({', '.join(parts)})"


class PPRNeighbors(BaseTransform):
    """A transform that joins every node to the nodes nearest by personalised PageRank.

    >>> from torch_geometric.datasets import KarateClub
    >>> from gttf_pyg import NeighborLoader, PPRNeighbors
    >>> near = PPRNeighbors(k=8, generator=0)(KarateClub()[0])
    >>> near.num_edges, near.edge_weight.shape
    (272, torch.Size([272]))
    >>> loader = NeighborLoader(near, [4, 4], weight_attr="edge_weight", batch_size=8)

    The edges of the data are those to a node from its `k` nearest, the nearest first,
    and `edge_weight` their shares of its walks, which restart at it; other attributes
    of edges go. What takes a graph takes this one: loaders, layers, PyG's own.

    Args:
        k: and all others: see `gttf_sampler.ppr_neighbors`.
        weight_attr: the name of edge weights that walks follow.
    """

    def __init__(
        self,
        k: int,
        *,
        restart: float = 0.15,
        walks: int = 128,
        length: int | None = None,
        weight_attr: str | None = None,
        generator: torch.Generator | int | None = None,
    ) -> None:
        name_or_none("weight_attr", weight_attr)
        self.options = Options(weight_attr=weight_attr)
        self.k = k
        self.how = {"restart": restart, "walks": walks, "length": length}
        self.generator = generator

    def forward(self, data: Any) -> Any:
        """`data` with the new edges; called by `__call__` with a shallow copy."""
        one_graph(data)
        (adj,) = _stores.from_data(data, self.options).adjs.values()
        bias = None if self.options.weight_attr is None else EdgeWeightBias()
        how: Any = self.how
        near = ppr_neighbors(adj, self.k, bias=bias, generator=self.generator, **how)
        nodes = data.num_nodes
        for name in [name for name in data.keys() if data.is_edge_attr(name)]:  # noqa: SIM118
            del data[name]
        every = torch.arange(nodes, device=near.device)
        target = every.repeat_interleave(near.degree, output_size=near.num_edges)
        data.edge_index = torch.stack([near.col.long(), target])
        data.edge_weight, data.num_nodes = near.edge_weight, nodes
        data.pop(ATTACHED, None)
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(k={self.k})"


class GCNWeights:
    """Adds `edge_weight` and self-loops to a batch, for `GCNConv(normalize=False)`.

    The loop of a node stands behind the edges into it, and counts among the edges of
    its hop: `col` still never decreases, and `trim_to_layer` keeps the loops of exactly
    the nodes that are still computed.

    Args:
        adj: the rows of the whole graph.
        scheme: of `Subgraph.gcn_weight`.
        names: the edge-level attributes of the data; loops have zeros for them.
    """

    def __init__(self, adj: CompactAdj, scheme: str, names: list[str]) -> None:
        self.adj, self.scheme, self.names = adj, scheme, names

    def __call__(self, data: Any) -> Any:
        """`data`, changed; loops have the edge id -1."""
        index = data.edge_index
        found = Subgraph(data.n_id, index[0], index[1], data.e_id)
        # of `labor`, unless the data has something of this name
        factor = None if FACTOR in self.names else data.get(FACTOR)
        weight = found.gcn_weight(self.adj, self.scheme, factor)
        loop = torch.arange(data.n_id.numel(), device=index.device)
        col, edge = index[1], torch.arange(index.shape[1], device=index.device)
        behind = torch.searchsorted(col, loop, right=True)
        place = torch.cat([edge + col, behind + loop])  # of edges [e], of loops [n]
        for name in self.present(data):
            value = data[name]
            data[name] = _merged(value, value.new_zeros(loop.numel()), place)
        data.e_id = _merged(data.e_id, torch.full_like(data.n_id, -1), place)
        if factor is not None:
            data[FACTOR] = _merged(factor, factor.new_ones(loop.numel()), place)
        row, col = (_merged(ends, loop, place) for ends in index)
        data.edge_index = torch.stack([row, col])
        data.edge_weight = _merged(*weight, place)
        if "num_sampled_edges" in data:
            counts = [*data.num_sampled_edges]
            for hop in range(len(counts)):
                counts[hop] += data.num_sampled_nodes[hop]
            if counts:  # nodes that were not expanded go with the last hop
                counts[-1] += data.num_sampled_nodes[-1]
            data.num_sampled_edges = counts
        return data

    def present(self, data: Any) -> list[str]:
        """The attributes that the edges of this batch have as well."""
        count = data.edge_index.shape[1]
        return [name for name in self.names if _is_column(data.get(name), count)]


def edge_attributes(data: Any) -> list[str]:
    """The edge-level attributes of the data that are tensors, beside its edges."""
    count = data.num_edges
    names = [name for name in data.keys() if _is_column(data[name], count)]  # noqa: SIM118
    return [name for name in names if name != "edge_index" and data.is_edge_attr(name)]


def _is_column(value: Any, count: int) -> bool:
    """True if `value` is a plain tensor with one row per edge."""
    if not isinstance(value, Tensor) or value.is_nested or value.is_quantized:
        return False
    dense = value.layout is torch.strided and value.dim() > 0
    return dense and value.shape[0] == count


def _merged(edge: Tensor, loop: Tensor, place: Tensor) -> Tensor:
    """The values of edges and of loops, every one in its place."""
    place = place.to(edge.device)
    loop = loop.to(edge.device).view(-1, *[1] * (edge.dim() - 1))
    both = torch.cat([edge, loop.expand(-1, *edge.shape[1:])])
    return torch.empty_like(both).index_copy_(0, place, both)


class GTTFNorm(BaseTransform):
    """Adds self-loops and the `edge_weight` of a GCN to every batch of a loader.

    >>> from torch_geometric.datasets import KarateClub
    >>> from gttf_pyg import GTTFLoader, GTTFNorm
    >>> data = KarateClub()[0]
    >>> norm = GTTFNorm(data)
    >>> loader = GTTFLoader(data, [3, 3], batch_size=4, transform=norm)
    >>> batch = next(iter(loader))
    >>> len(batch.edge_weight) == batch.num_edges
    True
    >>> whole = norm(data)  # the same matrix in full, to test with

    For `GCNConv(normalize=False)`. The degrees are those of the whole graph, which is
    what makes the estimate unbiased; neighbours must have been drawn uniformly, or by
    `labor`. Loops have the edge id -1, and zeros for other attributes of edges. A loop
    that the graph already has counts as a neighbour: remove it if `GCNConv` itself is
    the standard.

    `GTTFLoader(normalize=...)` does the same; this is for other loaders, for a pipeline
    of transforms and for the graph itself.

    Args:
        data: the graph that batches come from.
        scheme: "unbiased" or "paper"; see `Subgraph.gcn_weight`.
    """

    def __init__(self, data: Data, scheme: str = "unbiased") -> None:
        one_of("scheme", scheme, SCHEMES)
        one_graph(data)
        options = Options()
        (adj,) = _stores.from_data(data, options).adjs.values()
        self.weights = GCNWeights(adj, scheme, edge_attributes(data))

    def forward(self, data: Any) -> Any:
        """`data` with loops and weights; called by `__call__` with a shallow copy."""
        one_graph(data)
        if "edge_weight" in data:
            fail("data", "must have no 'edge_weight' yet", "one", "rename it")
        name = "data.edge_index"
        edges = as_pairs(name, dense(name, data.edge_index))
        device = within(name, edges, data.num_nodes).device
        if self.weights.adj.device != device:
            self.weights.adj = self.weights.adj.to(device)
        whole = "n_id" not in data
        if whole:
            data.n_id = torch.arange(data.num_nodes, device=device)
            data.e_id = torch.arange(data.num_edges, device=device)
        self._sort(data)
        data = self.weights(data)
        if whole:
            del data.n_id, data.e_id
        return data

    def _sort(self, data: Data) -> None:
        """Sorts the edges by target, which those of a sampled batch already are."""
        target = data.edge_index[1]
        if bool((target[1:] >= target[:-1]).all()):
            return
        order = target.argsort(stable=True)
        data.edge_index = data.edge_index[:, order]
        for name in {"e_id", FACTOR, *self.weights.present(data)} & {*data.keys()}:
            data[name] = data[name][order.to(data[name].device)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(scheme={self.weights.scheme!r})"


class Finish:
    """The device, then GCN weights, the dtype of edges, the user's own transform."""

    def __init__(
        self,
        weights: GCNWeights | None,
        device: torch.device | str | None,
        transform: Callable[[Any], Any] | None,
        index_dtype: torch.dtype | None = None,
    ) -> None:
        self.index_dtype = index_dtype
        self.weights, self.transform = weights, transform
        self.device = None if device is None else torch.device(device)

    def __call__(self, data: Any, pipeline: StreamPipeline | None = None) -> Any:
        """The finished batch, on the streams of a pipeline if there is one."""
        if self.device is not None:
            data = data.to(self.device, non_blocking=True)
        if pipeline is not None and (self.weights or self.transform) is not None:
            pipeline.settle(data)
        if self.weights is not None:
            data = self.weights(data)
        if self.index_dtype is not None:
            for store in data.edge_stores:
                if "edge_index" in store:
                    store.edge_index = store.edge_index.to(self.index_dtype)
        return data if self.transform is None else self.transform(data)


def gcn_weights(data: Any, sampler: Any, scheme: str) -> GCNWeights:
    """The weights of `normalize`, if they mean something for this sampler."""
    one_of("normalize", scheme, SCHEMES)
    if not isinstance(data, Data) or "edge_index" not in data:
        rule = "must be None unless the data is a 'Data' with an edge_index"
        fail("normalize", rule, type(data).__name__, "normalise in the model")
    if not isinstance(sampler, GTTFSampler):
        rule = "must be None unless the 'neighbor_sampler' is a GTTFSampler"
        fail("normalize", rule, type(sampler).__name__)
    (adj,) = sampler.adjs.values()
    own = ["edge_weight", "n_id", "e_id", *([FACTOR] if sampler.labor else [])]
    taken = [name for name in own if name in data]
    if taken:
        rule = f"must be None where the data has a {taken[0]!r} of its own"
        fail("normalize", rule, repr(scheme))
    names = ("subgraph_type", "sample_direction", *NOT_UNIFORM, "layerwise")
    if used := first_used(sampler, *names):
        rule = "must be None unless neighbours are drawn uniformly"
        fail("normalize", rule, f"{scheme!r} with {used!r}")
    return GCNWeights(adj, scheme, edge_attributes(data))
