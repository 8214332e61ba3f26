"""GTTFLoader, GTTFLinkLoader: PyG's loaders on the engine of this package."""

import functools
import inspect
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch_geometric import loader as theirs
from torch_geometric.loader import LinkNeighborLoader as _LinkLoader  # see `install`
from torch_geometric.loader import NeighborLoader as _NodeLoader
from torch_geometric.sampler import NegativeSampling
from torch_geometric.sampler.base import SubgraphType

from gttf_pyg._batch import sized
from gttf_pyg._lazy import LazyColumns
from gttf_pyg._rows import detached
from gttf_pyg._seeded import Batches, SeededLoader
from gttf_pyg._seeds import (
    edge_label_index_of,
    input_id_of,
    nodes_of,
    source_nodes,
    typed_nodes,
)
from gttf_pyg.labor import Labor
from gttf_pyg.loaders import NeighborSampler as NeighborSampler  # as in PyG's
from gttf_pyg.sampler import GTTFSampler
from gttf_pyg.stores import as_stores, one_process, own_nodes, pairs_for
from gttf_pyg.transforms import Finish, gcn_weights
from gttf_sampler import BiasFn
from gttf_sampler._check import (
    INTEGERS,
    device_or_none,
    fail,
    finite,
    mistyped,
    shown,
    size,
    yes_or_no,
)
from gttf_sampler._swap import host_names

# The arguments of a sampler beside its data, by name.
SAMPLING = {
    name: parameter
    for name, parameter in inspect.signature(GTTFSampler).parameters.items()
    if name != "data"
}
# Those of PyG's own constructors that are handed on as they are.
HANDED_ON = (
    "time_attr",
    "transform_sampler_output",
    "filter_per_worker",
    "thread_workers",
)


def takes_options(declared: Any) -> Any:
    """Makes a constructor of a declared one: `set_up` gets its arguments as a record.

    What is declared is what `help` and editors show, and is written nowhere else.
    """
    signature = inspect.signature(declared)

    @functools.wraps(declared)
    def constructor(self: Any, *args: Any, **kwargs: Any) -> None:
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        named = dict(given.arguments)
        named.pop("self")
        self.set_up(LoaderOptions(rest=named.pop("kwargs"), **named))

    return constructor


class LoaderOptions(SimpleNamespace):
    """All arguments of a loader by name; `rest` are those of torch's `DataLoader`."""

    data: Any
    rest: dict[str, Any]

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        prefetch = size("prefetch", self.prefetch)
        if prefetch and self.num_workers:
            rule = "must be 0 beside workers, which work ahead by themselves"
            fail("prefetch", rule, prefetch, "set 'prefetch_factor'")
        device = device_or_none("device", self.device)
        if yes_or_no("uva", self.uva) and (device is None or device.type != "cuda"):
            rule = "must be False unless 'device' is a CUDA device"
            fail("uva", rule, f"True with {self.device!r}")
        if self.lazy is not None:
            yes_or_no("lazy", self.lazy)

    @property
    def num_workers(self) -> Any:
        return self.rest.get("num_workers", 0)

    def sampler(self, data: Any) -> Any:
        """The sampler that was given, or a new one.

        What PyG's samplers do not know cannot be had from one that was given.
        """
        given = {name: x for name, x in vars(self).items() if name in SAMPLING}
        if self.neighbor_sampler is None:
            return GTTFSampler(data, **given)
        for name, value in given.items():
            ours = SAMPLING[name].kind is inspect.Parameter.KEYWORD_ONLY
            if ours and value is not None and value is not False:
                rule = "must be told to the 'neighbor_sampler' that is given"
                fail(name, rule, repr(value))
        return self.neighbor_sampler

    def of_host(self, data: Any, sampler: Any) -> dict[str, Any]:
        """The arguments of PyG's constructor of a loader beside data and seeds."""
        if self.index_dtype is not None and self.index_dtype not in INTEGERS:
            rule = "must be torch.int32, torch.int64 or None"
            fail("index_dtype", rule, shown(self.index_dtype))
        if self.num_workers != 0 and isinstance(sampler, GTTFSampler):
            self._share_rows(sampler)
        transform, weights = self.transform, None
        if self.normalize is not None:
            weights = gcn_weights(data, sampler, self.normalize)
        if any(x is not None for x in (weights, self.device, self.index_dtype)):
            transform = Finish(weights, self.device, transform, self.index_dtype)
        return {
            **{name: getattr(self, name) for name in HANDED_ON},
            "transform": transform,
            "neighbor_sampler": sampler,
            "seed": self.seed,
            **self.rest,
        }

    def _share_rows(self, sampler: GTTFSampler) -> None:
        """Makes what workers can share; refuses them where rows are on a device."""
        one_process(sampler, self.num_workers)
        devices = {adj.device for adj in sampler.adjs.values()} - {torch.device("cpu")}
        if devices:
            rule = f"must be 0 where the graph is on {devices.pop()}"
            fail("num_workers", rule, self.num_workers, "use 'prefetch'")
        sampler.rows_travel = False  # our loaders leave them out of batches
        sampler.prepare()


class GTTFLoader(Batches, _NodeLoader, SeededLoader):
    """PyG's `NeighborLoader`: the same arguments, the same batches, nothing to compile.

    >>> import torch
    >>> from torch_geometric.datasets import KarateClub
    >>> loader = GTTFLoader(KarateClub()[0], num_neighbors=[5, 5], batch_size=4)
    >>> batch = next(iter(loader))
    >>> batch.batch_size, batch.n_id[:4].tolist()
    (4, [0, 1, 2, 3])
    >>> torch.equal(batch.n_id[batch.edge_index], loader.data.edge_index[:, batch.e_id])
    True

    Under `torch.manual_seed`, batches are the same bit by bit for any number of workers
    and threads. Weights, times and both together need no pyg-lib; a weight of zero is
    never drawn; times may be floats; "induced" may be disjoint.

    Args:
        data: and everything up to `directed`: see PyG's `NeighborLoader`; of a
            `PartitionedGraph`, own nodes are the default `input_nodes`, which may be of
            several types, {type: nodes}, with an `input_time` of each. A float among
            `num_neighbors` is a share of the degree; `weight_attr` may be a name per
            edge type. `**kwargs` go to `NodeLoader` and to torch's `DataLoader`, whose
            `generator` also governs the sampling.
        bias: any BiasFn of `gttf_sampler`, or one per edge type.
        exclude_edges: ids or a mask of edges that are as if they were not there, one
            per edge type if there are types.
        input_id: "node" has `batch.input_id` hold the ids of the seeds, whether they
            were given by a mask or by ids; PyG's are positions in the latter case.
        max_nodes: of a batch, of all types together; what was found last is left out.
        max_edges: the same for edges.
        labor: True or a `Labor` has the nodes of a batch share their neighbours: fewer
            nodes for the same variance, and `batch.edge_factor` with the weights that
            make sums unbiased.
        seed: short for `generator=torch.Generator().manual_seed(seed)`.
        time_window: only admit neighbours at most this much older than the seed.
        device: where to sample, and where all of the batch arrives, whether or not the
            features are there. Features of the host are gathered into pinned memory and
            copied on a stream of their own, see "On a GPU" in docs/pyg.md.
        prefetch: how many batches a thread in the background makes ahead. A random
            `transform` then shares torch's generator with whatever runs meanwhile.
        uva: whether a CUDA `device` reads features of the host where they are, row by
            row, instead of having them gathered and copied.
        index_dtype: of `edge_index`; torch.int32 takes half the memory.
        thread_workers: whether a thread stands in for the `num_workers`. By default it
            does unless they would run code of yours, see "In workers" in docs/pyg.md;
            False asks for processes.
        normalize: "unbiased" or "paper" adds `edge_weight` and self-loops, so that
            `GCNConv(normalize=False)` computes that estimator of the GCN.
            `gttf_pyg.unbiased(model)` does without both.
        layerwise: draw anew for every layer, as DGL does: hop h of a batch has edges
            into all nodes of the hops before it, and a model that `unbiased` was given
            uses one hop per layer. Estimates of linear models are unbiased then at any
            depth; of a sample that layers share, up to two layers.
        lazy: whether features of nodes stay where they are until somebody looks at
            `batch.x`. By default they do while a model that `fused` was given reads
            them there. They must not be changed in place before; see docs/step.md.
    """

    @takes_options
    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        input_nodes: Any = None,
        input_time: Tensor | None = None,
        replace: bool = False,
        subgraph_type: SubgraphType | str = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | dict[Any, str] | None = None,
        transform: Any = None,
        transform_sampler_output: Any = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: Any = None,
        directed: bool = True,
        *,
        exclude_edges: Any = False,
        bias: BiasFn | dict[Any, BiasFn] | None = None,
        seed: int | None = None,
        time_window: float | None = None,
        device: torch.device | str | None = None,
        prefetch: int = 0,
        uva: bool = False,
        index_dtype: torch.dtype | None = None,
        thread_workers: bool | None = None,
        normalize: str | None = None,
        layerwise: bool = False,
        lazy: bool | None = None,
        input_id: Any = None,
        max_nodes: int | None = None,
        max_edges: int | None = None,
        labor: Labor | bool = False,
        **kwargs: Any,
    ) -> None:
        """See the class."""

    def set_up(self, options: LoaderOptions) -> None:
        """The constructor, with its arguments as a record."""
        data = sized(as_stores(options.data))
        if options.exclude_edges is True:
            rule, cure = "must name edges", "a GTTFLinkLoader knows its seed edges"
            fail("exclude_edges", f"{rule} where seeds are nodes", True, cure)
        self.prefetch, self.uva = options.prefetch, options.uva
        self.lazy = LazyColumns(options.lazy)
        sampler = options.sampler(data)
        named, time = own_nodes(data, options.input_nodes), options.input_time
        typed = typed_nodes(named, time, data, sampler, options.input_id)
        if typed is not None:  # as many of one type, which PyG's loader can count
            named, time = (next(iter(typed.parts)), range(typed.node.numel())), None
        nodes = nodes_of(named, time, sampler)
        _NodeLoader.__init__(
            self,
            detached(data),
            options.num_neighbors,
            nodes.given,
            nodes.time,
            input_id=input_id_of(options.input_id, nodes),
            **options.of_host(data, sampler),
        )
        if typed is not None:
            self.input_data = typed
        self.use_keys()


class GTTFLinkLoader(Batches, _LinkLoader, SeededLoader):
    """PyG's `LinkNeighborLoader`: the same arguments and batches, nothing to compile.

    >>> from torch_geometric.datasets import KarateClub
    >>> loader = GTTFLinkLoader(
    ...     KarateClub()[0], [5, 5], neg_sampling="binary", batch_size=8,
    ...     exclude_edges=True,
    ... )
    >>> next(iter(loader)).edge_label.tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]

    Under `torch.manual_seed`, batches and their negatives are the same bit by bit for
    any number of workers and threads.

    Args:
        data: and everything up to `directed`: see PyG's `LinkNeighborLoader`;
            `**kwargs` go to `LinkLoader` and to torch's `DataLoader`, whose `generator`
            also governs the sampling.
        exclude_edges: True hides the seed edges of a batch and their reverses, all
            parallel copies, before anything is drawn: no label leaks, and every node
            still gets its full fanout. Edges that are named: see `GTTFLoader`.
        input_nodes: nodes as seeds: every epoch draws one edge for each, which is its
            positive, and nodes without any are left out. With types,
            `edge_label_index` is the edge type that it is drawn from.
        bias: and all others: see `GTTFLoader`.
    """

    @takes_options
    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        edge_label_index: Any = None,
        edge_label: Tensor | None = None,
        edge_label_time: Tensor | None = None,
        replace: bool = False,
        subgraph_type: SubgraphType | str = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        neg_sampling: NegativeSampling | str | None = None,
        neg_sampling_ratio: float | None = None,
        time_attr: str | None = None,
        weight_attr: str | dict[Any, str] | None = None,
        transform: Any = None,
        transform_sampler_output: Any = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: Any = None,
        directed: bool = True,
        *,
        exclude_edges: Any = False,
        bias: BiasFn | dict[Any, BiasFn] | None = None,
        seed: int | None = None,
        time_window: float | None = None,
        device: torch.device | str | None = None,
        prefetch: int = 0,
        uva: bool = False,
        index_dtype: torch.dtype | None = None,
        thread_workers: bool | None = None,
        normalize: str | None = None,
        layerwise: bool = False,
        lazy: bool | None = None,
        input_nodes: Any = None,
        max_nodes: int | None = None,
        max_edges: int | None = None,
        labor: Labor | bool = False,
        **kwargs: Any,
    ) -> None:
        """See the class."""

    def set_up(self, options: LoaderOptions) -> None:
        """The constructor, with its arguments as a record."""
        data = sized(as_stores(options.data))
        self.prefetch, self.uva = options.prefetch, options.uva
        self.lazy = LazyColumns(options.lazy)
        sampler, sources = options.sampler(data), None
        pairs, negatives = options.edge_label_index, options.neg_sampling
        label, time = options.edge_label, options.edge_label_time
        if options.input_nodes is not None:
            beside = {"edge_label": label, "edge_label_time": time}
            sources = source_nodes(options.input_nodes, pairs, data, sampler, **beside)
            pairs = sources.placeholder()
        empty = isinstance(negatives, dict | tuple) and not negatives
        kinds = str | NegativeSampling | dict | tuple | None
        if empty or not isinstance(negatives, kinds):
            mistyped("neg_sampling", "must be a NegativeSampling", shown(negatives))
        if options.neg_sampling_ratio is not None:
            finite("neg_sampling_ratio", options.neg_sampling_ratio)
        seeds = edge_label_index_of(pairs, label, time, sampler)
        _LinkLoader.__init__(
            self,
            detached(data),
            options.num_neighbors,
            *pairs_for(data, seeds),
            neg_sampling=negatives,
            neg_sampling_ratio=options.neg_sampling_ratio,
            **options.of_host(data, sampler),
        )
        if sources is not None:
            self.input_data = sources
        self.use_keys()


class NeighborLoader(GTTFLoader):
    """PyG's `NeighborLoader` on the engine of this package: `GTTFLoader`.

    >>> from torch_geometric.datasets import KarateClub
    >>> NeighborLoader(KarateClub()[0], num_neighbors=[5])
    NeighborLoader()
    """


class LinkNeighborLoader(GTTFLinkLoader):
    """PyG's `LinkNeighborLoader` on the engine of this package: `GTTFLinkLoader`.

    >>> from torch_geometric.datasets import KarateClub
    >>> LinkNeighborLoader(KarateClub()[0], num_neighbors=[5])
    LinkNeighborLoader()
    """


__all__, __getattr__ = host_names(theirs, __name__)
__all__ += ["GTTFLinkLoader", "GTTFLoader"]
