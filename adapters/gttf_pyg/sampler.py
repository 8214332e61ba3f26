"""GTTFSampler: PyG's neighbour sampler on the engine of this package."""

import warnings
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from operator import is_, mul
from typing import Any

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

from gttf_pyg import _stores
from gttf_pyg._batch import from_subgraph
from gttf_pyg._check import (
    DIRECTIONS,
    STRATEGIES,
    as_lists,
    check_together,
    check_window,
    checked_bias,
    checked_layerwise,
    checked_limit,
    fanouts_of,
    name_or_none,
    named_edges,
    shares_of,
    weight_names,
)
from gttf_pyg._compat import ONLY, EdgeType, row_type
from gttf_pyg._output import induced, limited, to_bidirectional
from gttf_pyg._rows import Options, copied, detached
from gttf_pyg._seeds import (
    TypedNodes,
    checked_edges,
    checked_nodes,
    key_of,
    sample_typed,
    seed_edges,
    seed_times,
)
from gttf_pyg.labor import Labor, whole_rows, with_factors
from gttf_pyg.negatives import negatives_of
from gttf_pyg.stores import as_stores, check_partitioned, partitioned
from gttf_sampler import (
    BiasFn,
    CompactAdj,
    EdgeWeightBias,
    ExcludeBias,
    FractionBias,
    Subgraph,
    TemporalBias,
    random,
    sample_rooted,
)
from gttf_sampler._check import device_or_none, mistyped, one_of, shown, yes_or_no
from gttf_sampler._loading.seeded import draw_key
from gttf_sampler._swap import host_names
from gttf_sampler.rooted import RootedSampler


class KeyedSampler:
    """The part that our samplers share: seeds are checked, and draws have keys.

    A subclass has `_limited(seed, seed_time, *, key, hidden=None)`, the subgraph around
    some nodes, and the attributes of PyG's `NeighborSampler`.
    """

    adjs: dict[EdgeType, CompactAdj]
    num_nodes: Any
    node_time: Any
    disjoint: bool
    exclude_edges: Any = False
    sample_direction: Any = "forward"
    subgraph_type: Any = SubgraphType.directional
    keep_orig_edges = False
    _limited: Any

    @property
    def edge_permutation(self) -> None:
        """None: edges are named by their positions in the caller's edge_index."""
        return None

    @property
    def _backward(self) -> bool:
        return bool(self.sample_direction == "backward")

    def sample_from_nodes(
        self, inputs: NodeSamplerInput
    ) -> SamplerOutput | HeteroSamplerOutput:
        """The subgraph around some nodes."""
        inputs = checked_nodes(inputs)
        sample = partial(self._limited, key=key_of(inputs))
        if isinstance(inputs, TypedNodes):
            return self._finished(sample_typed(inputs, sample))
        return self._finished(node_sample(inputs, sample))

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
        sample = partial(self._limited, key=key)
        if self.exclude_edges is True:
            hidden = seed_edges(inputs, self.adjs, self._backward)
            sample = partial(sample, hidden=hidden)
        graph = self.num_nodes, self.disjoint, self.node_time
        return self._finished(edge_sample(inputs, sample, *graph, neg_sampling))

    def _finished(self, out: Any) -> Any:
        """`out` with the reverses of its edges, if they are wanted."""
        if self.subgraph_type == SubgraphType.bidirectional:
            return to_bidirectional(out, self.keep_orig_edges)
        return out


class GTTFSampler(KeyedSampler, sampler.NeighborSampler):
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
        labor: True or a `Labor` has the nodes of a batch share their neighbours, for
            fewer nodes at the same variance; see `Labor`.
    """

    _made: tuple[Any, RootedSampler] | None = None  # from the first batch on

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
        labor: Labor | bool = False,
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
        self._rules: dict[Any, TemporalBias] = {}
        self.data_type = DataType.from_data(data)
        self.sample_direction = sample_direction
        if not isinstance(subgraph_type, str | SubgraphType):
            mistyped("subgraph_type", "must be a word", shown(subgraph_type))
        self.subgraph_type = SubgraphType(subgraph_type)
        options = Options(time_attr, weight_attr, is_sorted, self._backward)
        graph = _stores.from_data(data, options)
        self.num_nodes = graph.num_nodes
        self.node_types, self.edge_types = graph.node_types, graph.edge_types
        self.node_time, self.edge_time = graph.node_time, graph.edge_time
        device = device_or_none("device", device)
        share_memory = share_memory and partitioned(data) is None
        self.adjs, self._loose = graph.adjs, graph.loose
        if device is not None and partitioned(data) is None:
            self.adjs = {kind: adj.to(device) for kind, adj in graph.adjs.items()}
            self._loose = {kind: adj.to(device) for kind, adj in graph.loose.items()}
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
        self.layerwise = checked_layerwise(layerwise, self)
        self.labor = Labor.checked(labor, self)
        check_partitioned(data, self)

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
        out = self._sample(seed, seed_time, **how)
        if self.max_nodes is None and self.max_edges is None:
            return out
        edges = self.max_edges
        if edges is not None and self.subgraph_type == SubgraphType.bidirectional:
            edges //= 2  # their reverses are still to come
        return limited(out, seed, self.max_nodes, edges)

    def _sample(
        self,
        seed: Any,
        seed_time: Any = None,
        *,
        hidden: Mapping[EdgeType, Tensor] | None = None,
        key: int | None = None,
    ) -> SamplerOutput | HeteroSamplerOutput:
        """The subgraph around `seed`, a tensor or one per node type."""
        if self.rows_travel and get_worker_info() is not None:
            # PyG's own loaders hand on rows that `ToCompact` has attached, and a thread
            # of the worker moves them to shared memory while the next batch is drawn
            self.adjs = {kind: copied(adj) for kind, adj in self.adjs.items()}
            self.rows_travel = False
        key = draw_key() if key is None else key
        # PyG's BidirectionalNeighborSampler comes in here, with empty frontiers of
        # floats; PyG's own sampler casts them, too.
        typed = isinstance(seed, Mapping)
        seeds = dict(seed) if typed else {"": seed}
        seeds = {kind: part.to(torch.int64) for kind, part in seeds.items()}
        time = None
        if self.is_temporal:
            time = seed_times(seeds, seed_time, self.node_time, self.edge_time)
        admitted = self._admitted(time, hidden or {})
        bias = self._biases(admitted)
        layers = self.layerwise and bool(self._fanouts[ONLY])
        if layers:
            fanouts: Any = self._fanouts[ONLY]
            by: dict[EdgeType, Any] = {ONLY: [bias.get(ONLY)] * len(fanouts)}
            if self.labor is not None:
                by = {ONLY: self.labor.by_layer(bias.get(ONLY), fanouts, key)}
                fanouts = whole_rows(fanouts)
            given = self.adjs[ONLY], seeds[""], fanouts, by[ONLY]
            found: Any = sample_layers(*given, self.replace, key)
        else:
            rooted = self._engine()
            if self.subgraph_type == SubgraphType.induced:
                start = seeds if typed else seeds[""]
                by_bias = bias if typed else bias.get(ONLY)
                found = rooted(start, bias=by_bias, generator=key)
                return induced(found, self.adjs, self._loose, admitted, self._backward)
            if self.labor is not None:
                bias = self.labor.by_relation(bias, self._fanouts, rooted.number, key)
                by = {kind: [bias[kind]] for kind in self.adjs}
            found = rooted.sample(seeds, bias, key)
        out = from_subgraph(found, self.adjs, self._backward, original=not layers)
        return out if self.labor is None else with_factors(out, by, self._backward)

    def _admitted(
        self, time: Tensor | None, hidden: Mapping[EdgeType, Tensor]
    ) -> dict[EdgeType, Any]:
        """The biases by times [b] of the seeds, weights and hidden edges, if any.

        Those that are hidden from one batch are positions in `adj.col`.
        """
        found: dict[EdgeType, Any] = {}
        timed: dict[bool, TemporalBias] = {}  # made once for all relations
        for kind, adj in self.adjs.items():
            weighted, parts = adj.edge_weight is not None, list[Any]()
            if time is not None and adj.edge_time is not None:
                if weighted not in timed:
                    timed[weighted] = self._temporal(weighted).at(time)
                parts.append(timed[weighted])
            elif weighted:
                parts.append(EdgeWeightBias())
            if kind in hidden and hidden[kind].numel():
                parts.append(ExcludeBias(hidden[kind]))
            if kind in self.always_hidden:
                parts.append(self.always_hidden[kind])
            if parts:
                found[kind] = reduce(mul, parts)
        return found

    def _temporal(self, weighted: bool) -> TemporalBias:
        """The rule of times, whose options are checked once for all batches."""
        key = self.temporal_strategy, self.time_window, weighted
        if key not in self._rules:
            strategy, window, _ = key
            how: Any = {"strategy": strategy, "window": window, "weighted": weighted}
            self._rules[key] = TemporalBias([], **how)
        return self._rules[key]

    def _biases(self, admitted: Mapping[EdgeType, Any]) -> dict[EdgeType, Any]:
        """These, times the user's biases; none where draws are uniform."""
        found = dict(admitted)
        for kind in self.adjs:
            own = self.bias
            if isinstance(own, Mapping):
                own = own.get(row_type(kind, self._backward))
            if own is not None:
                found[kind] = found[kind] * own if kind in found else own
            if kind in self.shares:
                share, bias = self.shares[kind], found.get(kind)
                found[kind] = FractionBias(share, bias, disjoint=self.disjoint)
        return found

    def _engine(self) -> RootedSampler:
        """The engine's sampler, made anew if fanouts, rows or draws change."""
        made_of = self._fanouts, self.adjs, self.replace, self.disjoint
        if self._made is not None and all(map(is_, self._made[0], made_of)):
            return self._made[1]
        typed, every = self.is_hetero, {**self.adjs, **self._loose}
        fanouts = self._fanouts
        if self.labor is not None:
            fanouts = {kind: whole_rows(hops) for kind, hops in fanouts.items()}
        rooted = RootedSampler(
            every if typed else self.adjs[ONLY],
            fanouts if typed else fanouts[ONLY],
            replace=self.replace,
            disjoint=self.disjoint,
        )
        self._made = made_of, rooted
        return rooted

    def _arrays(self, name: str) -> Any:
        """An array of the rows, under the names that PyG's sampler has for them."""
        found = {kind: getattr(adj, name) for kind, adj in self.adjs.items()}
        return found if self.is_hetero else found[ONLY]

    @property
    def excludes(self) -> bool:
        """True if any edges are hidden."""
        return self.exclude_edges is True or bool(self.always_hidden)


def sample_layers(
    adj: CompactAdj,
    seeds: Tensor,
    fanouts: Sequence[int],
    biases: Sequence[BiasFn | None],
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
    for layer, (fanout, bias) in enumerate(zip(fanouts, biases, strict=True)):
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


class NeighborSampler(GTTFSampler):
    """PyG's `NeighborSampler` on the engine of this package: `GTTFSampler`."""


__all__, __getattr__ = host_names(sampler, __name__)
__all__ += ["GTTFSampler"]
