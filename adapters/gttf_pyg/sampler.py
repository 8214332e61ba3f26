"""GTTFSampler: PyG's neighbour sampler on the engine of this package."""

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import get_worker_info
from torch_geometric import sampler
from torch_geometric.sampler import (
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NegativeSampling,
    NodeSamplerInput,
    SamplerOutput,
)
from torch_geometric.sampler.base import DataType, NumNeighbors, SubgraphType
from torch_geometric.sampler.neighbor_sampler import edge_sample, node_sample

from gttf_pyg import _graph, _output
from gttf_pyg._bias import (
    BatchBias,
    as_lists,
    check_together,
    checked_bias,
    fanouts_of,
    named_edges,
    seed_edges,
    shares_of,
)
from gttf_pyg._check import (
    DIRECTIONS,
    STRATEGIES,
    check_window,
    first_used,
    name_or_none,
    weight_names,
)
from gttf_pyg._keys import key_of
from gttf_pyg._limit import checked_limit, limited
from gttf_pyg._partitioned import as_stores, check_partitioned, partitioned
from gttf_pyg._rows import ONLY, EdgeType, Options, copied, detached
from gttf_pyg._seeds import checked_edges, checked_nodes, seed_times
from gttf_pyg._typed_seeds import TypedNodes, sample_typed
from gttf_pyg.negatives import negatives_of
from gttf_sampler import BiasFn, CompactAdj, Subgraph, random, sample_rooted
from gttf_sampler._check import (
    device_or_none,
    fail,
    mistyped,
    one_of,
    shown,
    yes_or_no,
)
from gttf_sampler._loading.seeded import draw_key
from gttf_sampler.distributed import PartitionedAdj
from gttf_sampler.rooted import RootedSampler


class _Engine(NamedTuple):
    """The engine's sampler, and what it was made of."""

    fanouts: dict[EdgeType, list[int]]
    adjs: dict[EdgeType, CompactAdj]
    wanted: tuple[bool, bool]  # replace, disjoint
    rooted: RootedSampler

    def draws(self, fanouts: Any, adjs: Any, wanted: tuple[bool, bool]) -> bool:
        """True if it is still the engine of these."""
        same = self.fanouts is fanouts and self.adjs is adjs
        return same and self.wanted == wanted


class GTTFSampler(sampler.NeighborSampler):
    """PyG's `NeighborSampler` without pyg-lib, torch-sparse or any compiler.

    >>> import torch
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.sampler import NodeSamplerInput
    >>> data = Data(edge_index=torch.tensor([[1, 2, 3], [0, 0, 2]]), num_nodes=4)
    >>> sampler = GTTFSampler(data, num_neighbors=[-1, -1])
    >>> out = sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([0])))
    >>> out.node.tolist(), out.num_sampled_nodes
    ([0, 1, 2, 3], [1, 2, 1])

    For PyG's `NodeLoader`, `LinkLoader` and `LightningNodeData`; `GTTFLoader` makes one
    by itself. It is a `NeighborSampler`, as other code asks for one, and shares nothing
    with it but what does not sample: that class copies the graph to the CPU and raises
    without pyg-lib.

    Args:
        data: a `Data`, a `HeteroData`, a (FeatureStore, GraphStore) pair or a
            `PartitionedGraph`.
        num_neighbors: neighbours per hop: a list, or one per edge type; -1 takes all, a
            float in (0, 1) that share of every node's neighbours, rounded up.
        subgraph_type: "directional", "bidirectional" or "induced".
        replace: whether to draw with replacement.
        disjoint: whether every seed gets a subgraph of its own.
        temporal_strategy: "uniform" or "last".
        time_attr: the name of the nodes' or edges' times, integer or float.
        weight_attr: the name of the edges' weights, or one per edge type; weight zero
            is never drawn.
        is_sorted: edges are sorted by column, and by time where there are times.
        share_memory: move the rows to shared memory.
        directed: deprecated by PyG; False means `subgraph_type="induced"`.
        sample_direction: "forward" samples against the edges, "backward" along them.
        bias: any BiasFn of `gttf_sampler`, or one per edge type.
        time_window: only admit neighbours at most this much older than the seed.
        exclude_edges: True hides seed edges and their reverses before anything is
            drawn, so that no label leaks and every node still gets its full fanout. Ids
            or a mask of edges, one per edge type if there are types, hide those always.
        device: where to sample; by default where the edges are.
        layerwise: draw anew for every layer, all nodes that it needs; see `GTTFLoader`.
        max_nodes: of a batch, of all types together; what was found last is left out.
        max_edges: the same for edges.
    """

    _made: "_Engine | None" = None  # from the first batch on

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        subgraph_type: SubgraphType | str = "directional",
        replace: bool = False,
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | dict[Any, str] | None = None,
        is_sorted: bool = False,
        share_memory: bool = False,
        directed: bool = True,
        sample_direction: str = "forward",
        *,
        bias: BiasFn | dict[Any, BiasFn] | None = None,
        time_window: float | None = None,
        exclude_edges: Any = False,
        device: torch.device | str | None = None,
        layerwise: bool = False,
        max_nodes: int | None = None,
        max_edges: int | None = None,
    ) -> None:
        if not directed:
            subgraph_type = SubgraphType.induced
            warnings.warn(
                f"'directed' is deprecated in '{type(self).__name__}'; use "
                f"subgraph_type='induced' instead",
                stacklevel=2,
            )
        data = as_stores(data)
        one_of("temporal_strategy", temporal_strategy, STRATEGIES)
        one_of("sample_direction", sample_direction, DIRECTIONS)
        if sample_direction == "backward" and time_attr is not None:
            raise NotImplementedError(
                "'time_attr' must be None when sampling backward (got "
                f"{time_attr!r}); sample forward"
            )
        flags = {"replace": replace, "disjoint": disjoint}
        flags |= {"is_sorted": is_sorted, "share_memory": share_memory}
        for name, flag in flags.items():
            yes_or_no(name, flag)
        name_or_none("time_attr", time_attr)
        weight_names(weight_attr)
        check_window(time_window, time_attr)
        self.data_type = DataType.from_data(data)
        self.sample_direction = sample_direction
        if not isinstance(subgraph_type, str | SubgraphType):
            mistyped("subgraph_type", "must be a word", shown(subgraph_type))
        self.subgraph_type = SubgraphType(subgraph_type)
        options = Options(time_attr, weight_attr, is_sorted, self._backward)
        graph = _graph.from_data(data, options)
        self.num_nodes = graph.num_nodes
        self.node_types, self.edge_types = graph.node_types, graph.edge_types
        self.node_time, self.edge_time = graph.node_time, graph.edge_time
        device = device_or_none("device", device)
        share_memory = share_memory and partitioned(data) is None
        self.adjs = {kind: _placed(adj, device) for kind, adj in graph.adjs.items()}
        self._loose = {kind: _placed(adj, device) for kind, adj in graph.loose.items()}
        if share_memory:
            for adj in self.adjs.values():
                adj.share_memory_()
        self.rows_travel = detached(data) is not data
        self.num_neighbors = num_neighbors
        self.replace, self.disjoint = replace, disjoint
        self.weight_attr, self.time_attr = weight_attr, time_attr
        self.temporal_strategy, self.time_window = temporal_strategy, time_window
        self.exclude_edges = exclude_edges
        self.always_hidden = named_edges(exclude_edges, self.adjs, self._backward)
        self.bias = checked_bias(bias, self)
        check_together(self)
        self.max_nodes = checked_limit("max_nodes", max_nodes)
        self.max_edges = checked_limit("max_edges", max_edges)
        self.layerwise = _checked_layerwise(layerwise, self)
        check_partitioned(data, self)
        self.keep_orig_edges = False

    @property
    def num_neighbors(self) -> NumNeighbors:
        """Neighbours per hop, as given; it can be set."""
        return self._num_neighbors

    @num_neighbors.setter
    def num_neighbors(self, num_neighbors: Any) -> None:
        if not isinstance(num_neighbors, NumNeighbors):
            num_neighbors = NumNeighbors(as_lists(num_neighbors))
        self._num_neighbors = num_neighbors
        edge_types = self.edge_types if self.is_hetero else None
        fanouts = fanouts_of(num_neighbors, edge_types, self._backward)
        self._fanouts, self.shares = shares_of(fanouts)
        hops = [0] * num_neighbors.num_hops
        self._fanouts.update(dict.fromkeys(self._loose, hops))

    @property
    def edge_permutation(self) -> None:
        """None: edges are named by their positions in the caller's edge_index."""
        return None

    @property
    def colptr(self) -> Any:
        """The start of every node's neighbours in `row`; per edge type, if any."""
        return self._arrays("rowptr")

    @property
    def row(self) -> Any:
        """The neighbours of all nodes end to end; per edge type, if any."""
        return self._arrays("col")

    @property
    def perm(self) -> Any:
        """The position of every entry of `row` in the edges; None if it is its own."""
        return self._arrays("edge_id")

    @property
    def edge_weight(self) -> Any:
        """The weights of `row`, if it is drawn by weight; per edge type, if any."""
        return self._arrays("edge_weight")

    def sample_from_nodes(
        self, inputs: NodeSamplerInput
    ) -> SamplerOutput | HeteroSamplerOutput:
        """The subgraph around some nodes."""
        sample = partial(self._limited, key=key_of(inputs))
        if isinstance(inputs, TypedNodes):
            return self._finished(sample_typed(inputs, sample))
        return self._finished(node_sample(checked_nodes(inputs), sample))

    def sample_from_edges(
        self,
        inputs: EdgeSamplerInput,
        neg_sampling: NegativeSampling | None = None,
    ) -> SamplerOutput | HeteroSamplerOutput:
        """The subgraph around both ends of some edges and of their negatives."""
        inputs = checked_edges(inputs, neg_sampling)
        key = key_of(inputs)
        if neg_sampling is not None:
            neg_sampling = negatives_of(neg_sampling, inputs, self, key)
        hidden = {}
        if self.exclude_edges is True:
            hidden = seed_edges(inputs, self.adjs, self._backward)
        out = edge_sample(
            inputs,
            partial(self._limited, hidden=hidden, key=key),
            self.num_nodes,
            self.disjoint,
            self.node_time,
            neg_sampling,
        )
        return self._finished(out)

    def prepare(self) -> None:
        """Makes the tables of the graph that the first batch would make.

        Worker processes then share them instead of making one each.
        """
        none = torch.empty(0, dtype=torch.int64)
        if self.exclude_edges is True:
            for adj in self.adjs.values():
                adj.edges_between(none, none)
        seed = {self.node_types[0]: none} if self.is_hetero else none
        self._sample(seed, seed if self.is_temporal else None, key=0)

    def _limited(self, seed: Any, seed_time: Any = None, **how: Any) -> Any:
        """The subgraph around `seed`, no larger than it may be."""
        out = self._sample(seed, seed_time, **how)
        if self.max_nodes is None and self.max_edges is None:
            return out
        seeds = seed if isinstance(seed, Mapping) else {"": seed}
        counts = {name: ids.numel() for name, ids in seeds.items()}
        edges = self.max_edges
        if edges is not None and self.subgraph_type == SubgraphType.bidirectional:
            edges //= 2  # their reverses are still to come
        return limited(out, counts, self.max_nodes, edges)

    def _sample(
        self,
        seed: Any,
        seed_time: Any = None,
        *,
        hidden: Mapping[EdgeType, Tensor] | None = None,
        key: int | None = None,
    ) -> SamplerOutput | HeteroSamplerOutput:
        """The subgraph around `seed`, a tensor or one per node type."""
        self._copy_attached_rows()
        key = draw_key() if key is None else key
        # PyG's BidirectionalNeighborSampler comes in here, with empty frontiers of
        # floats; PyG's own sampler casts them, too.
        typed = isinstance(seed, Mapping)
        seeds = dict(seed) if typed else {"": seed}
        seeds = {kind: part.to(torch.int64) for kind, part in seeds.items()}
        time = seed_times(seeds, seed_time, self.node_time, self.edge_time)
        batch = BatchBias(self, time, hidden or {})
        given = {kind: batch.all_of(kind) for kind in self.adjs}
        bias = {kind: part for kind, part in given.items() if part is not None}
        if self.layerwise and self._fanouts[ONLY]:
            adj, fanouts = self.adjs[ONLY], self._fanouts[ONLY]
            own = bias.get(ONLY)
            found = sample_layers(adj, seeds[""], fanouts, own, self.replace, key)
            return _output.from_subgraph(found, self.adjs, self._backward)
        rooted = self._engine()
        if self.subgraph_type == SubgraphType.induced:
            start = seeds if rooted.typed else seeds[""]
            by = bias if rooted.typed else bias.get(ONLY)
            drawn: Any = rooted(start, bias=by, generator=key)
            admitted = {kind: batch.of_options(kind) for kind in self.adjs}
            graph = self.adjs, self._loose
            return _output.induced(drawn, *graph, admitted, self._backward)
        drawn = rooted.sample(seeds, bias, key)
        return _output.from_subgraph(drawn, self.adjs, self._backward, original=True)

    def _engine(self) -> RootedSampler:
        """The engine's sampler, made anew if fanouts, rows or draws change."""
        wanted = (self.replace, self.disjoint)
        made = self._made
        if made is not None and made.draws(self._fanouts, self.adjs, wanted):
            return made.rooted
        typed, every = self.is_hetero, {**self.adjs, **self._loose}
        rooted = RootedSampler(
            every if typed else self.adjs[ONLY],
            self._fanouts if typed else self._fanouts[ONLY],
            replace=self.replace,
            disjoint=self.disjoint,
        )
        self._made = _Engine(self._fanouts, self.adjs, wanted, rooted)
        return rooted

    def _arrays(self, name: str) -> Any:
        """An array of the rows, under the names that PyG's sampler has for them."""
        found = {kind: getattr(adj, name) for kind, adj in self.adjs.items()}
        return found if self.is_hetero else found[ONLY]

    def _copy_attached_rows(self) -> None:
        """In a worker of PyG's own loaders, takes a copy of rows that batches carry.

        Such a loader hands on what `ToCompact` has attached, and a thread of the worker
        moves it to shared memory, in place, while the next batch is drawn from it.
        """
        if self.rows_travel and get_worker_info() is not None:
            self.adjs = {kind: copied(adj) for kind, adj in self.adjs.items()}
            self.rows_travel = False

    def _finished(self, out: Any) -> SamplerOutput | HeteroSamplerOutput:
        """`out` with the reverses of its edges, if they are wanted."""
        if self.subgraph_type == SubgraphType.bidirectional:
            return _output.to_bidirectional(out, self.keep_orig_edges)
        return out

    @property
    def excludes(self) -> bool:
        """True if any edges are hidden."""
        return self.exclude_edges is True or bool(self.always_hidden)

    @property
    def _backward(self) -> bool:
        """True if sampling goes along the edges."""
        return bool(self.sample_direction == "backward")


def sample_layers(
    adj: CompactAdj,
    seeds: Tensor,
    fanouts: Sequence[int],
    bias: BiasFn | None,
    replace: bool,
    key: int,
) -> Subgraph:
    """The samples of all layers, that of the last layer first, in one subgraph.

    Hop h has edges into all nodes that the hops before it have reached, where a sample
    that layers share has edges into new nodes only. The draws of two layers are
    independent, so that products of their matrices keep their expectation.
    """
    root = random.new_key(key, adj.device, random.BATCH)
    node, parts = seeds.to(adj.device), []
    nodes, edges = [node.numel()], []
    for layer, fanout in enumerate(fanouts):
        drawn = sample_rooted(
            adj,
            node,
            [fanout],
            bias=bias,
            replace=replace,
            generator=int(random.fold(root, layer)),
        )
        node = drawn.node
        parts.append((drawn.row, drawn.col, drawn.edge))
        nodes.append(node.numel() - sum(nodes))
        edges.append(drawn.num_edges)
    row, col, edge = map(torch.cat, zip(*parts, strict=True))
    return Subgraph(
        node, row, col, edge, num_sampled_nodes=nodes, num_sampled_edges=edges
    )


def _checked_layerwise(layerwise: bool, sampler: GTTFSampler) -> bool:
    """`layerwise`, which asks for one tree that all layers see parts of."""
    yes_or_no("layerwise", layerwise)
    names = ("disjoint", "time_attr", "subgraph_type", "max_nodes", "max_edges")
    used = first_used(sampler, *names)
    other = None if used is None else f"{used!r}"
    if sampler.is_hetero or sampler.shares:
        other = "heterogeneous data" if sampler.is_hetero else "fractions of the degree"
    if layerwise and other is not None:
        rule = f"must be False together with {other}"
        fail("layerwise", rule, True, "draw once for all layers")
    return bool(layerwise)


def _placed(adj: CompactAdj, device: torch.device | None) -> CompactAdj:
    """`adj` on the device where it is to be sampled."""
    if device is None or isinstance(adj, PartitionedAdj):
        return adj
    return adj.to(device)


class NeighborSampler(GTTFSampler):
    """PyG's `NeighborSampler` on the engine of this package: `GTTFSampler`."""
