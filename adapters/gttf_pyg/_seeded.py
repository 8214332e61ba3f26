"""SeededLoader, Batches: loaders whose batches have keys, and how they are made."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import get_worker_info
from torch_geometric import loader as theirs
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader.base import DataLoaderIterator
from torch_geometric.sampler import EdgeSamplerInput, NegativeSampling

from gttf_pyg._batch import check_sources, has_sources, join, set_factors, set_seeds
from gttf_pyg._compat import mappings, stores_of
from gttf_pyg._lazy import READERS, LazyColumns
from gttf_pyg._rows import can_join
from gttf_pyg._sampled import CORRECTED, Annotator
from gttf_pyg._seeds import (
    Keyed,
    TypedNodes,
    checked_edges,
    checked_nodes,
    one_per_seed,
    with_key,
)
from gttf_pyg._stores import edge_columns, join_stores
from gttf_pyg.sampler import GTTFSampler
from gttf_pyg.stores import FileStore, partitioned
from gttf_pyg.transforms import Finish, GCNWeights
from gttf_sampler import CompactAdj
from gttf_sampler._check import fail, integer, mistyped, shown
from gttf_sampler._compat import fetcher_of
from gttf_sampler._loading.prefetch import PrefetchIterator, is_thread_safe
from gttf_sampler._loading.seeded import KeyedIndex, draw_key
from gttf_sampler._loading.seeded import SeededLoader as KeyedLoader
from gttf_sampler._loading.state import SPOT, CountedBatches, EpochState, described
from gttf_sampler._loading.streams import StreamPipeline, pipeline_on

COLLATES = (theirs.NodeLoader.collate_fn, theirs.LinkLoader.collate_fn)
DRAWN = (
    *("num_neighbors", "num_samples", "sizes", "depth", "replace", "disjoint"),
    *("subgraph_type", "temporal_strategy", "time_attr", "time_window", "weight_attr"),
    *("bias", "exclude_edges", "max_nodes", "max_edges", "max_neighbors", "layerwise"),
    "labor",
    *("neg_sampling", "node_idx", "adj", "_batch_size", "walk_length", "scheme"),
)


class SeededCollate:
    """A function of the indices of a batch, which draws with the key they carry.

    It stands in front of the `collate_fn` of the loader's class, which gets plain
    indices, as from any loader; the key is on the seeds that it picks from.

    It does not keep the loader alive, which has it as an attribute: workers that
    persist would be left to the garbage collector, which cannot end them in order and
    waits seconds for each. Who takes it from a loader gets along without that loader.
    """

    def __init__(self, loader: Any) -> None:
        self._alive, self._copy = weakref.ref(loader), copy.copy(loader)
        self._copy.collate_fn = None

    def __getstate__(self) -> Any:
        return self.loader

    def __setstate__(self, loader: Any) -> None:
        self._alive, self._copy = weakref.ref(loader), loader

    @property
    def loader(self) -> Any:
        """The loader, or its copy once it has gone."""
        found = self._alive()
        return self._copy if found is None else found

    def __call__(self, index: Any, **changed: Any) -> Any:
        """The batch, made by a loader with `changed` attributes."""
        given, loader = KeyedIndex.of(index), self.loader
        index, key = given.index, given.key
        if key is None:
            key = draw_key(loader.generator)
        elif not hasattr(index, "__len__"):
            index = [int(index)]  # where there are no batches, of one seed
        own = type(loader).collate_fn
        if own in COLLATES and isinstance(loader, Batches):  # nothing of the user's
            inputs = loader.input_data.at(index, key)
            return loader.drawn(inputs, **changed)
        mine = copy.copy(loader)
        mine.key = key
        if hasattr(loader, "input_data"):
            mine.input_data = with_key(loader.input_data, key)
        for name, value in changed.items():
            setattr(mine, name, value)
        return own(mine, index)

    def sampled(self, index: Any) -> Any:
        return self(index, filter_per_worker=False)


def weakly(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of an object that it does not keep alive; somebody else must."""
    found = weakref.WeakMethod(method)

    def call(*args: Any) -> Any:
        alive: Any = found()
        return alive(*args)

    return call


class SeededLoader(KeyedLoader):
    """A DataLoader whose batches are drawn by keys, the same for any number of workers.

    The class before it gives `collate_fn(index)`, the batch of some positions among its
    seeds, and calls `use_keys` at the end of its constructor.

    Args:
        seed: short for `generator=torch.Generator().manual_seed(seed)`.
    """

    collate_fn: Callable[[Any], Any]
    transform: Any = None
    transform_sampler_output: Any = None
    key: int | None = None  # of the batch, in the copy that makes it

    def __init__(
        self, dataset: Any, *args: Any, seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(dataset, *args, **_seeded(kwargs, seed))

    def use_keys(self) -> None:
        """Has every batch drawn with its key."""
        self.collate_fn = SeededCollate(self)

    def settings(self) -> dict[str, Any]:
        """The options that batches depend on beside indices and keys, by name."""
        sampler, found = sampler_of(self), {}
        for name in DRAWN:
            owner = self if name in vars(self) else sampler
            if hasattr(owner, name):
                found[name] = getattr(owner, name)
        adjs = getattr(sampler, "adjs", None) or {}
        found["graph"] = {k: a for k, a in adjs.items() if isinstance(a, CompactAdj)}
        seeds = vars(self.input_data) if hasattr(self, "input_data") else {}
        told = {n: v for n, v in seeds.items() if isinstance(v, dict | Tensor)}
        found["seeds"] = told
        return {name: described(value, SPOT) for name, value in found.items()}

    def runs_only_ours(self) -> bool:
        given = (self.transform, self.transform_sampler_output, _start_of(self))
        return _is_ours(self) and all(function is None for function in given)


def sampler_of(loader: Any) -> Any:
    """The sampler of a loader of nodes or links, if it has one."""
    return getattr(loader, "node_sampler", getattr(loader, "link_sampler", None))


def _seeded(kwargs: dict[str, Any], seed: Any) -> dict[str, Any]:
    """The arguments of torch's DataLoader, with a generator made from `seed`.

    Without those that Lightning hands back and PyG's loaders make by themselves.
    """
    own = ("dataset", "collate_fn")
    kwargs = {name: value for name, value in kwargs.items() if name not in own}
    generator = kwargs.get("generator")
    if generator is not None and not isinstance(generator, torch.Generator):
        rule = "must be a torch.Generator"
        mistyped("generator", rule, shown(generator), "a number is a 'seed'")
    if seed is None:
        return kwargs
    if generator is not None:
        fail("seed", "must be None beside a 'generator'", shown(seed))
    number = integer("seed", seed)
    if not -(1 << 63) <= number < 1 << 64:
        fail("seed", "must have at most 64 bits", number)
    return {**kwargs, "generator": torch.Generator().manual_seed(number)}


class AnnotatedBatches(CountedBatches):
    """The batches of a loader, annotated in the process that uses them.

    Not in workers: an annotation refers to the whole graph.
    """

    def __next__(self) -> Any:
        return self._loader.annotated(super().__next__())


class Batches:
    """The part that loaders of nodes and of links share, in front of PyG's loader."""

    prefetch: int = 0
    uva: bool = False
    lazy: LazyColumns | None = None
    data: Any
    input_data: Any
    generator: torch.Generator | None
    neg_sampling: NegativeSampling | None = None
    filter_per_worker: bool | None
    transform: Any
    transform_sampler_output: Any
    annotator: Annotator | None = None
    _pipeline: StreamPipeline | None = None

    def use_keys(self) -> None:
        """Has every batch drawn with its key; checks what a loader was given."""
        sampler, self.joins = sampler_of(self), can_join(self.data)
        self.ours = isinstance(sampler, GTTFSampler)
        self.edge_columns = {}
        if type(sampler).__name__ != "DistNeighborSampler":
            self.edge_columns = edge_columns(self.data, sampler)
        refused = None
        if not self.ours or not self.joins:
            refused = type(sampler if self.joins else self.data).__name__
        check_sources(self.data, refused)
        seeds = self.input_data
        if not isinstance(seeds, Keyed):
            if isinstance(seeds, EdgeSamplerInput):
                seeds = checked_edges(seeds, self.neg_sampling)
            else:
                seeds = checked_nodes(seeds)
            # once: PyG copies all seed edges when it makes a new input of them
            self.input_data = with_key(seeds, None)
        super().use_keys()  # type: ignore[misc]
        weights = getattr(self.transform, "weights", None)
        # those of `normalize` have loops among the edges
        if self.ours and not isinstance(weights, GCNWeights):
            self.annotator = Annotator(self.data, sampler)

    def counted(self, batches: Any, epoch: EpochState) -> Any:
        """An iterator that counts the batches, and annotates them."""
        return AnnotatedBatches(batches, epoch, self)

    def annotated(self, batch: Any) -> Any:
        """`batch`, with the draws of its edges if a layer may ask for them."""
        annotator = self.annotator
        if annotator is None or not (CORRECTED or annotator.sampler.layerwise):
            return batch
        return annotator.annotate(batch)

    def __call__(self, index: Any, time: Any = None) -> Any:
        """The batch of some seeds, by their positions among all seeds.

        Args:
            index: the positions.
            time: of every one of them, to be used instead of the loader's times.
        """
        if time is None:
            found = super().__call__(index)  # type: ignore[misc]
        else:
            found = self.filter_fn(self._sampled_at(index, time))
        return self.annotated(found)

    def drawn(self, inputs: Any, filter_per_worker: bool | None = None) -> Any:
        """The sample of some seeds, or their batch where workers make it."""
        sampler = sampler_of(self)
        if hasattr(self, "node_sampler"):
            out = sampler.sample_from_nodes(inputs)
        else:
            out = sampler.sample_from_edges(inputs, neg_sampling=self.neg_sampling)
        whole = self.filter_per_worker if filter_per_worker is None else False
        return self.filter_fn(out) if whole else out

    def _sampled_at(self, index: Any, time: Any) -> Any:
        """The sample of some seeds, as they stand at other times."""
        sampler = sampler_of(self)
        if not getattr(sampler, "is_temporal", False):
            rule = "must be None where there are no times"
            fail("time", rule, "times", "set 'time_attr'")
        inputs = self.input_data.at(index, draw_key(self.generator))
        if isinstance(inputs, TypedNodes):
            fail("time", "must be None where seeds have several types", "times")
        nodes = getattr(inputs, "node", None)
        count = (inputs.row if nodes is None else nodes).numel()
        inputs.time = one_per_seed("time", time, count)
        return self.drawn(inputs, filter_per_worker=False)

    def runs_only_ours(self) -> bool:
        """True if workers would run nothing but code that is safe in a thread.

        What a user has written may count on a process of its own: on its random state,
        on `get_worker_info`, or on nobody else changing what it reads.
        """
        mine: Any = self
        sampler, transform = sampler_of(self), self.transform
        if isinstance(transform, Finish):
            transform = transform.transform
        given = (transform, self.transform_sampler_output, _start_of(self))
        negatives: Any = self.neg_sampling
        return (
            all(function is None for function in given)
            and type(mine).filter_fn is Batches.filter_fn
            and isinstance(mine.collate_fn, SeededCollate)
            and type(mine).collate_fn in COLLATES
            and isinstance(self.data, Data | HeteroData)
            and _is_ours(sampler)
            and is_thread_safe(getattr(sampler, "bias", None))
            and (negatives is None or type(negatives).sample is NegativeSampling.sample)
        )

    def _get_iterator(self) -> Any:
        loader: Any = self
        pipeline = self._pipeline_of_rows()
        if not self.prefetch and not loader.in_thread() and pipeline is None:
            made = super()._get_iterator()  # type: ignore[misc]
            if isinstance(made, DataLoaderIterator):
                made.transform_fn = weakly(self.filter_fn)
            return made
        depth = self.prefetch or loader.ahead()
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
        adjs = getattr(sampler_of(self), "adjs", None) or {}
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
        here = isinstance(store, FileStore) and partitioned(self.data) is None
        return here or has_sources(self.data)

    def filter_fn(self, out: Any) -> Any:
        """Joins what was sampled with its features."""
        return self._join(out, None)

    def _join(self, out: Any, pipeline: StreamPipeline | None) -> Any:
        """`filter_fn`, on the streams of a pipeline if there is one."""
        mine: Any = self
        if self.edge_columns:
            return join_stores(self, out, sampler_of(self))
        # In processes of their own, PyG gathers into memory that is shared.
        here = get_worker_info() is None or has_sources(self.data)
        ours = self.ours and here
        # of which PyG knows nothing
        ours = ours or isinstance(out.metadata, dict) or hasattr(out, "edge_factor")
        if not ours or not self.joins:
            return self._joined_by_host(out)
        if self.transform_sampler_output:
            out = self.transform_sampler_output(out)
        finish = self.transform if isinstance(self.transform, Finish) else None
        device = None if finish is None else finish.device
        lazy = self.lazy if pipeline is None and get_worker_info() is None else None
        if lazy is not None and not (READERS if lazy.asked is None else lazy.asked):
            lazy = None
        joined = join(self.data, out, device, self.uva, pipeline, lazy)
        data = set_seeds(joined, out.metadata, mine.input_data.input_type)
        if finish is not None:
            return finish(data, pipeline)
        return data if self.transform is None else self.transform(data)

    def _joined_by_host(self, out: Any) -> Any:
        """PyG's batch of a sample, with the factors of `labor` before a transform."""
        if not hasattr(out, "edge_factor"):
            return super().filter_fn(out)  # type: ignore[misc]
        plain = copy.copy(self)
        plain.transform = None
        data = super(Batches, plain).filter_fn(out)  # type: ignore[misc]
        set_factors(out, mappings(stores_of(data)))
        return data if self.transform is None else self.transform(data)


def _is_ours(value: Any) -> bool:
    """True if the class of `value` is one of this package."""
    return type(value).__module__.split(".")[0] == __name__.split(".")[0]


def _start_of(loader: Any) -> Any:
    """The user's `worker_init_fn`; PyG leaves a wrapper of nothing behind."""
    start = loader.worker_init_fn
    return getattr(start, "func", start)
