"""GTTFLoader, GTTFLinkLoader: PyG's loaders on the engine of this package."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import get_worker_info
from torch_geometric import loader as theirs
from torch_geometric.loader.base import DataLoaderIterator
from torch_geometric.sampler import NegativeSampling
from torch_geometric.sampler.base import SubgraphType

from gttf_pyg._annotate import Annotator, BatchIterator
from gttf_pyg._batch import (
    Finish,
    check_sources,
    join,
    set_links,
    set_nodes,
)
from gttf_pyg._features import can_join, has_sources, sized
from gttf_pyg._keys import with_key
from gttf_pyg._options import LoaderOptions
from gttf_pyg._partitioned import as_stores, own_nodes, pairs_for
from gttf_pyg._rows import detached
from gttf_pyg._seeded import (
    COLLATES,
    SeededCollate,
    only_ours,
    settings_of,
    weakly,
)
from gttf_pyg._seeds import edge_label_index_of, input_nodes_of
from gttf_pyg._stores import edge_columns, join_stores
from gttf_pyg._typed_seeds import (
    first_of,
    input_id_of,
    sample_at,
    source_nodes,
    typed_nodes,
)
from gttf_pyg.adjs import NeighborSampler as NeighborSampler  # as in PyG's `loader`
from gttf_pyg.feature_store import FileStore
from gttf_pyg.sampler import GTTFSampler
from gttf_pyg.transforms import GCNWeights
from gttf_sampler import BiasFn
from gttf_sampler._check import fail, finite, mistyped, shown
from gttf_sampler._compat import fetcher_of
from gttf_sampler._loading.prefetch import PrefetchIterator
from gttf_sampler._loading.seeded import SeededLoader
from gttf_sampler._loading.streams import StreamPipeline, pipeline_on


class Batches:
    """The part that both loaders share; it stands in front of PyG's loader."""

    prefetch: int
    uva: bool
    collate_fn: Callable[[Any], Any]
    data: Any
    input_data: Any
    link_sampler: Any
    transform: Any
    key: int | None = None  # of the batch, in the copy that makes it
    _pipeline: StreamPipeline | None = None

    def use_keys(self) -> None:
        """Has every batch drawn with its key; for the end of a constructor."""
        sampler = getattr(self, "node_sampler", None) or self.link_sampler
        self.edge_columns = edge_columns(self.data, sampler)
        # once: PyG copies all seed edges when it makes a new input of them
        self.input_data = with_key(self.input_data, None)
        self.collate_fn = SeededCollate(self)
        check_sources(self.data, sampler, can_join(self.data))
        weights = getattr(self.transform, "weights", None)
        self.annotator = Annotator(self.data, sampler, isinstance(weights, GCNWeights))

    def __iter__(self) -> Any:
        return BatchIterator(super().__iter__(), self.annotator)  # type: ignore[misc]

    def __call__(self, index: Any, time: Any = None) -> Any:
        """The batch of some seeds, by their positions among all seeds.

        Args:
            index: the positions.
            time: of every one of them, to be used instead of the loader's times.
        """
        if time is not None:
            return self.annotator.annotate(sample_at(self, index, time))
        return self.annotator.annotate(super().__call__(index))  # type: ignore[misc]

    def settings(self) -> dict[str, Any]:
        """The options that batches depend on beside indices and keys, by name."""
        return settings_of(self)

    def runs_only_ours(self) -> bool:
        """True if workers would run nothing but code that is safe in a thread."""
        own: Any = type(self).filter_fn
        return own is Batches.filter_fn and only_ours(self)

    def _get_iterator(self) -> Any:
        loader: Any = self
        pipeline = self._pipeline_of_rows()
        if not self.prefetch and not loader.in_thread() and pipeline is None:
            made = super()._get_iterator()  # type: ignore[misc]
            if isinstance(made, DataLoaderIterator):
                made.transform_fn = weakly(self.filter_fn)
            return made
        depth = self.prefetch or loader.num_workers * (loader.prefetch_factor or 1)
        collate: Any = loader.collate_fn
        own: Any = type(self)
        if own.filter_fn is Batches.filter_fn and own.collate_fn in COLLATES:
            if pipeline is not None:
                return PrefetchIterator(
                    *(loader, depth),
                    lambda index: self._join(collate.sampled(index), pipeline),
                    pipeline=pipeline,
                )
            if self._reads_files():
                return PrefetchIterator(loader, depth, collate.sampled, self.filter_fn)
        make = fetcher_of(loader)
        if not loader.filter_per_worker:
            sample = make
            make = lambda index: self.filter_fn(sample(index))  # noqa: E731
        return PrefetchIterator(loader, depth, make, pipeline=pipeline)

    def _pipeline_of_rows(self) -> StreamPipeline | None:
        """The streams on which batches are made, where the rows are on a device."""
        adjs = getattr(self.annotator.sampler, "adjs", None) or {}
        devices = {adj.device for adj in adjs.values()} - {torch.device("cpu")}
        if devices and self._pipeline is None:
            pipeline = self._pipeline = pipeline_on(devices.pop())
            if pipeline is not None:
                for adj in adjs.values():
                    pipeline.reads(adj.arrays().values())
        return self._pipeline

    def _reads_files(self) -> bool:
        """True if features come from a disk, and a thread of their own reads them."""
        store = self.data[0] if isinstance(self.data, tuple) else None
        return isinstance(store, FileStore) or has_sources(self.data)

    def filter_fn(self, out: Any) -> Any:
        """Joins what was sampled with its features."""
        return self._join(out, None)

    def _join(self, out: Any, pipeline: StreamPipeline | None) -> Any:
        """`filter_fn`, on the streams of a pipeline if there is one."""
        mine: Any = self
        sampler = getattr(mine, "node_sampler", None) or mine.link_sampler
        if self.edge_columns and type(sampler).__name__ != "DistNeighborSampler":
            return join_stores(self, out, sampler, self.set_metadata)
        # In processes of their own, PyG gathers into memory that is shared.
        here = get_worker_info() is None or has_sources(mine.data)
        ours = isinstance(sampler, GTTFSampler) and here
        ours = ours or isinstance(out.metadata, dict)  # of which PyG knows nothing
        if not ours or not can_join(mine.data):
            return super().filter_fn(out)  # type: ignore[misc]
        if mine.transform_sampler_output:
            out = mine.transform_sampler_output(out)
        kind = mine.input_data.input_type
        finish = mine.transform if isinstance(mine.transform, Finish) else None
        device = None if finish is None else finish.device
        joined = join(mine.data, out, device, self.uva, pipeline)
        data = self.set_metadata(joined, out.metadata, kind)
        if finish is not None:
            return finish(data, pipeline)
        return data if mine.transform is None else mine.transform(data)

    def set_metadata(self, data: Any, metadata: Any, kind: Any) -> Any:
        """Sets the metadata of the seeds."""
        raise NotImplementedError


class GTTFLoader(Batches, theirs.NeighborLoader, SeededLoader):
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
    """

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
        input_id: Any = None,
        max_nodes: int | None = None,
        max_edges: int | None = None,
        **kwargs: Any,
    ) -> None:
        data = sized(as_stores(data))
        options = LoaderOptions(
            num_neighbors=num_neighbors,
            replace=replace,
            subgraph_type=subgraph_type,
            disjoint=disjoint,
            temporal_strategy=temporal_strategy,
            time_attr=time_attr,
            weight_attr=weight_attr,
            is_sorted=is_sorted,
            directed=directed,
            exclude_edges=exclude_edges,
            bias=bias,
            time_window=time_window,
            layerwise=layerwise,
            max_nodes=max_nodes,
            max_edges=max_edges,
            neighbor_sampler=neighbor_sampler,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            seed=seed,
            device=device,
            prefetch=prefetch,
            uva=uva,
            index_dtype=index_dtype,
            thread_workers=thread_workers,
            normalize=normalize,
            rest=kwargs,
        )
        if exclude_edges is True:
            rule, cure = "must name edges", "a GTTFLinkLoader knows its seed edges"
            fail("exclude_edges", f"{rule} where seeds are nodes", True, cure)
        self.prefetch, self.uva = prefetch, uva
        sampler = options.sampler(data)
        input_nodes = own_nodes(data, input_nodes)
        typed = typed_nodes(input_nodes, input_time, data, sampler, input_id)
        if typed is not None:
            input_nodes, input_time = first_of(typed), None
        nodes, time = input_nodes_of(input_nodes, input_time, data, sampler)
        super().__init__(
            detached(data),
            num_neighbors,
            nodes,
            time,
            input_id=input_id_of(input_id, nodes),
            **options.of_host(data, sampler),
        )
        if typed is not None:
            self.input_data = typed
        self.use_keys()

    def set_metadata(self, data: Any, metadata: Any, kind: Any) -> Any:
        """Sets the metadata of the seeds."""
        if not isinstance(metadata, dict):
            return set_nodes(data, metadata, kind)
        for each, part in metadata.items():
            set_nodes(data, part, each)
        return data


class GTTFLinkLoader(Batches, theirs.LinkNeighborLoader, SeededLoader):
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
        input_nodes: Any = None,
        max_nodes: int | None = None,
        max_edges: int | None = None,
        **kwargs: Any,
    ) -> None:
        data = sized(as_stores(data))
        options = LoaderOptions(
            num_neighbors=num_neighbors,
            replace=replace,
            subgraph_type=subgraph_type,
            disjoint=disjoint,
            temporal_strategy=temporal_strategy,
            time_attr=time_attr,
            weight_attr=weight_attr,
            is_sorted=is_sorted,
            directed=directed,
            exclude_edges=exclude_edges,
            bias=bias,
            time_window=time_window,
            layerwise=layerwise,
            max_nodes=max_nodes,
            max_edges=max_edges,
            neighbor_sampler=neighbor_sampler,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            seed=seed,
            device=device,
            prefetch=prefetch,
            uva=uva,
            index_dtype=index_dtype,
            thread_workers=thread_workers,
            normalize=normalize,
            rest=kwargs,
        )
        self.prefetch, self.uva = prefetch, uva
        sampler = options.sampler(data)
        sources = None
        if input_nodes is not None:
            sources = source_nodes(
                input_nodes,
                edge_label_index,
                data,
                sampler,
                edge_label=edge_label,
                edge_label_time=edge_label_time,
            )
            edge_label_index = sources.placeholder()
        empty = isinstance(neg_sampling, dict | tuple) and not neg_sampling
        kinds = str | NegativeSampling | dict | tuple | None
        if empty or not isinstance(neg_sampling, kinds):
            rule = "must be a NegativeSampling"
            mistyped("neg_sampling", rule, shown(neg_sampling))
        if neg_sampling_ratio is not None:
            finite("neg_sampling_ratio", neg_sampling_ratio)
        seeds = edge_label_index_of(
            edge_label_index, edge_label, edge_label_time, sampler
        )
        seeds = pairs_for(data, seeds)
        super().__init__(
            detached(data),
            num_neighbors,
            *seeds,
            neg_sampling=neg_sampling,
            neg_sampling_ratio=neg_sampling_ratio,
            **options.of_host(data, sampler),
        )
        if sources is not None:
            self.input_data = sources
        self.use_keys()

    def set_metadata(self, data: Any, metadata: Any, kind: Any) -> Any:
        """Sets the metadata of the seed edges."""
        negatives = self.neg_sampling
        triplets = negatives is not None and negatives.is_triplet()
        return set_links(data, metadata, kind, triplets)


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
