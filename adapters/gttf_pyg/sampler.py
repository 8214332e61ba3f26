"""GTTFSampler: PyG's neighbour sampler on the engine of this package."""

import warnings
from collections.abc import Mapping
from functools import partial
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

from gttf_pyg import _bias, _graph, _laws, _output
from gttf_pyg._attached import copied, detached
from gttf_pyg._bias import named_edges, seed_edges
from gttf_pyg._check import (
    DIRECTIONS,
    STRATEGIES,
    check_window,
    checked_edges,
    checked_nodes,
    name_or_none,
    seed_times,
    weight_names,
)
from gttf_pyg._compat import reverse_edge_type
from gttf_pyg._fanouts import as_lists, fanouts_of, shares_of
from gttf_pyg._keys import key_of
from gttf_pyg._layerwise import sample_layers
from gttf_pyg._limit import checked_limit, limited
from gttf_pyg._mixed import MixedNodes, sample_mixed
from gttf_pyg._output import induced as induced_one
from gttf_pyg._output import induced_types
from gttf_pyg._partitioned import as_stores, check_partitioned, partitioned
from gttf_pyg._planned import negatives_of
from gttf_pyg._rows import ONLY, EdgeType, Options
from gttf_sampler import BiasFn, CompactAdj, TemporalBias
from gttf_sampler._check import device_or_none, length, one_of, shown, yes_or_no
from gttf_sampler._loading.seeded import draw_key
from gttf_sampler.distributed import PartitionedAdj
from gttf_sampler.rooted import RootedSampler, laws_of


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

    _made: Any = (
        None  # (fanouts, rows, how to draw, RootedSampler), from the first batch on
    )

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
        yes_or_no("replace", replace)
        yes_or_no("disjoint", disjoint)
        yes_or_no("is_sorted", is_sorted)
        yes_or_no("share_memory", share_memory)
        name_or_none("time_attr", time_attr)
        weight_names(weight_attr)
        check_window(time_window, time_attr)
        self.data_type = DataType.from_data(data)
        self.sample_direction = sample_direction
        if not isinstance(subgraph_type, str | SubgraphType):
            got = shown(subgraph_type)
            raise TypeError(f"'subgraph_type' must be a word (got {got})")
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
        self.bias = _bias.checked(bias, self)
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
        """Where the neighbours of every node start in `row`; per edge type, if any."""
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
        if isinstance(inputs, MixedNodes):
            return self._finished(sample_mixed(inputs, sample))
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
        self._own_rows()
        key = draw_key() if key is None else key
        # PyG's BidirectionalNeighborSampler comes in here, with empty frontiers of
        # floats; PyG's own sampler casts them, too.
        typed = isinstance(seed, Mapping)
        seeds = dict(seed) if typed else {"": seed}
        seeds = {kind: part.to(torch.int64) for kind, part in seeds.items()}
        time = seed_times(seeds, seed_time, self.node_time, self.edge_time)
        hidden = hidden or {}
        if self.layerwise and self._fanouts[ONLY]:
            return self._sample_layers(seeds[""], hidden, key)
        rooted = self._engine()
        laws = None
        told = self.bias is None and not self.shares
        if told and self.subgraph_type != SubgraphType.induced:
            timed = None if time is None else self._timed(time, seeds)
            laws = _laws.of_batch(self._lasting, self._rows, timed, hidden)
        if laws is None:
            return self._sample_by_functions(rooted, seeds, time, hidden, key)
        batch = rooted.batch(seeds, laws, self.disjoint, key)
        how = self._names, rooted.node_types, self._backward
        return _output.from_rooted(rooted.draw(batch), *how)

    def _sample_layers(
        self, seed: Tensor, hidden: Mapping[EdgeType, Tensor], key: int
    ) -> SamplerOutput:
        """`_sample` where every layer draws anew."""
        adj, fanouts = self.adjs[ONLY], self._fanouts[ONLY]
        bias = _bias.of_batch(self, ONLY, None, hidden.get(ONLY))
        bias = _bias.with_own(self, ONLY, bias)
        found = sample_layers(adj, seed, fanouts, bias, self.replace, key)
        return _output.from_subgraph(found, adj, self._backward)

    def _sample_by_functions(
        self,
        rooted: RootedSampler,
        seeds: dict[str, Tensor],
        time: Tensor | None,
        hidden: Mapping[EdgeType, Tensor],
        key: int,
    ) -> SamplerOutput | HeteroSamplerOutput:
        """`_sample` where a bias of the user, or what is induced, is to be called."""
        given = {
            kind: _bias.of_batch(self, kind, time, hidden.get(kind))
            for kind in self.adjs
        }
        bias = {kind: _bias.with_own(self, kind, part) for kind, part in given.items()}
        bias = {kind: _bias.with_share(self, kind, part) for kind, part in bias.items()}
        induced = self.subgraph_type == SubgraphType.induced
        if not rooted.typed:
            adj = self.adjs[ONLY]
            found: Any = rooted(seeds[""], bias=bias[ONLY], generator=key)
            found = induced_one(found, adj, given[ONLY]) if induced else found
            return _output.from_subgraph(found, adj, self._backward)
        bias = {kind: part for kind, part in bias.items() if part is not None}
        tree: Any = rooted(seeds, bias=bias, generator=key)
        adjs = {**self.adjs, **self._loose}
        tree = induced_types(tree, adjs, given) if induced else tree
        return _output.from_hetero_subgraph(tree, self.adjs, self._backward)

    def _engine(self) -> RootedSampler:
        """The engine's sampler, made anew if fanouts, rows or the law change."""
        fanouts, rows, made = self._fanouts, self.adjs, self._made
        how = self.replace, self.disjoint
        same = made is not None and made[0] is fanouts and made[1] is rows
        if same and made[2] == how:
            found: RootedSampler = made[3]
            return found
        typed, every = self.is_hetero, {**rows, **self._loose}
        rooted = RootedSampler(
            every if typed else rows[ONLY],
            fanouts if typed else fanouts[ONLY],
            replace=self.replace,
            disjoint=self.disjoint,
        )
        self._rows, self._lasting = every, laws_of(every, self.always_hidden)
        self._names = [_named(kind, self._backward) for kind in rows] if typed else None
        self._made = fanouts, rows, how, rooted
        return rooted

    def _timed(self, time: Tensor, seeds: dict[str, Tensor]) -> TemporalBias:
        """What admits the times of a batch."""
        count = sum([part.numel() for part in seeds.values()])
        return TemporalBias(
            length("seed_time", time, count, "seed"),
            strategy=self.temporal_strategy,
            window=self.time_window,
        )

    def _arrays(self, name: str) -> Any:
        """An array of the rows, under the names that PyG's sampler has for them."""
        found = {kind: getattr(adj, name) for kind, adj in self.adjs.items()}
        return found if self.is_hetero else found[ONLY]

    def _own_rows(self) -> None:
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
        """Whether any edges are hidden."""
        return self.exclude_edges is True or bool(self.always_hidden)

    @property
    def _backward(self) -> bool:
        """Whether to sample along the edges."""
        return bool(self.sample_direction == "backward")


def _checked_layerwise(layerwise: bool, sampler: GTTFSampler) -> bool:
    """`layerwise`, which asks for one tree that all layers see parts of."""
    yes_or_no("layerwise", layerwise)
    odd = {
        "heterogeneous data": sampler.is_hetero,
        "'disjoint'": sampler.disjoint,
        "'time_attr'": sampler.is_temporal,
        "'subgraph_type'": sampler.subgraph_type != SubgraphType.directional,
        "fractions of the degree": bool(sampler.shares),
        "'max_nodes'": sampler.max_nodes is not None,
        "'max_edges'": sampler.max_edges is not None,
    }
    used = [name for name, is_used in odd.items() if is_used]
    if layerwise and used:
        raise ValueError(
            f"'layerwise' must be False together with {used[0]} (got True); draw once "
            "for all layers"
        )
    return bool(layerwise)


def _named(kind: EdgeType, backward: bool) -> EdgeType:
    """A relation as the data has it."""
    found: EdgeType = reverse_edge_type(kind) if backward else kind
    return found


def _placed(adj: CompactAdj, device: torch.device | None) -> CompactAdj:
    """`adj` on the device where it is to be sampled."""
    if device is None or isinstance(adj, PartitionedAdj):
        return adj
    return adj.to(device)


class NeighborSampler(GTTFSampler):
    """PyG's `NeighborSampler` on the engine of this package: `GTTFSampler`."""
