"""DGL's `dataloading`: our DataLoader, also of a graph that is cut into parts.

Other names are those of the package, or DGL's own.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from operator import index as as_index
from typing import Any

import dgl
import torch
from dgl import NID, DGLGraph
from dgl import dataloading as theirs
from dgl.heterograph import DGLBlock
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    get_worker_info,
)

from gttf_dgl import _check
from gttf_dgl._blocks import fetch_marked
from gttf_dgl._compat import (
    DATASETS,
    CollateWrapper,
    EdgePredictionSampler,
    WorkerInitWrapper,
    named_seeds,
    seeds_of,
)
from gttf_dgl._source import Choice, Rows, Source, kinds_with, rows
from gttf_dgl.sampler import GTTFSampler, KeyedSampler, fold
from gttf_sampler._check import fail, mistyped, shown, size
from gttf_sampler._loading.prefetch import PrefetchIterator, is_thread_safe
from gttf_sampler._loading.seeded import (
    KeyedDataset,
    KeyedIndex,
    SeededLoader,
    copied,
)
from gttf_sampler._loading.state import SPOT, CountedBatches, EpochState, described
from gttf_sampler._swap import host_names
from gttf_sampler.distributed import PartitionedGraph
from gttf_sampler.distributed import partition as cut
from gttf_sampler.distributed.write import key_of

__all__, __getattr__ = host_names(theirs, __name__)

NOT_DRAWN = {"features", "fused", "output_device", "seed", "thread_workers"}
PLAIN = [("_N", "_E", "_N")]  # the edge types of a graph without types


class SeedPositions(SeededLoader):
    """Stands behind DGL's loader, and has torch draw positions among the seeds.

    DGL streams its seeds to workers, each a run of them; positions have a number in
    their epoch, and torch shuffles them by its own generator.
    """

    def __init__(self, dataset: Any, *, collate_fn: Any, **kwargs: Any) -> None:
        for name in ("sampler", "batch_sampler"):
            if kwargs.get(name) is not None and not isinstance(dataset, Positions):
                _check.fail(name, "must be left to this loader", repr(kwargs[name]))
        if isinstance(dataset, DATASETS):
            ids, names, shuffles = seeds_of(dataset)
            seeds = TensorSeeds(ids, names)
            every = range(len(seeds.ids))
            order: Any = SequentialSampler(every)
            if shuffles and len(every):
                order = RandomSampler(every, generator=kwargs.get("generator"))
            size, drop_last = as_index(dataset.batch_size), bool(dataset.drop_last)
            kwargs["sampler"] = BatchSampler(order, size, drop_last)
            collate_fn = SeededCollate(collate_fn, seeds)
            dataset = Positions(every)
        elif not isinstance(dataset, IterableDataset | Positions):
            collate_fn = SeededCollate(collate_fn, dataset.__getitem__)
            dataset = Positions(dataset)
        super().__init__(dataset, collate_fn=collate_fn, **kwargs)


class Positions(KeyedDataset):
    """Positions among seeds, or batches of a user's dataset, which DGL may shuffle."""

    def shuffle(self) -> None:
        """Shuffles a user's dataset; torch's sampler does it for seeds."""
        if hasattr(self.numbers, "shuffle"):
            self.numbers.shuffle()


class TensorSeeds:
    """The seeds of some positions: ids [k], or ids per type."""

    def __init__(self, ids: Tensor, names: list[str] | None) -> None:
        self.ids, self.names = ids, names

    def __call__(self, positions: Any) -> Any:
        """The seeds at some positions."""
        return named_seeds(self.ids[torch.as_tensor(positions)], self.names)


class SeededCollate(CollateWrapper):
    """Samples the batch of a keyed index, as DGL's `CollateWrapper` does that of ids.

    Args:
        theirs: that of DGL, with a method of the sampler.
        seeds: a function of an index, which gives the ids of the batch.
    """

    def __init__(self, theirs: CollateWrapper, seeds: Callable[[Any], Any]) -> None:
        super().__init__(theirs.sample_func, theirs.g, theirs.use_uva, theirs.device)
        self.seeds = seeds
        # None if a function takes the sampler's place
        self.sampler = getattr(self.sample_func, "__self__", None)

    def __call__(self, index: Any) -> Any:
        """The batch, with the features that are fetched in this process."""
        return self.fetch(self.sampled(index))

    def sampled(self, index: Any) -> Any:
        """The batch without its features."""
        given, draws = KeyedIndex.of(index), drawing(self.sampler)
        sample = self.sample_func
        if given.key is not None and isinstance(draws, KeyedSampler):
            mine = draws.for_batch(given)
            if draws is not self.sampler:
                outer: Any = copy.copy(self.sampler)
                outer.sampler, mine = mine, outer
            sample = mine.sample
        collate = CollateWrapper(sample, self.g, self.use_uva, self.device)
        return collate(self.seeds(given.index))

    def fetch(self, batch: Any) -> Any:
        """Adds the rows of files to a batch, and in this process the graph's data."""
        draws = drawing(self.sampler)
        if not isinstance(draws, KeyedSampler):
            return batch
        if draws.fetches:
            draws.fetch(batch)
        if get_worker_info() is None and torch.device(self.device).type == "cpu":
            # DGL makes a list of a sampler's tuple
            last = batch[-1] if isinstance(batch, list) else batch
            graphs = last if isinstance(last, list) else [last]
            if all(isinstance(graph, DGLGraph) for graph in graphs):
                fetch_marked(self.g, graphs)
        return batch


class DataLoader(theirs.DataLoader, SeedPositions):
    """DGL's `DataLoader`: the same arguments and batches, the same for any workers.

    >>> import dgl, torch
    >>> from gttf_dgl import DataLoader, GTTFSampler
    >>> g, ids = dgl.rand_graph(100, 1000), torch.arange(100)
    >>> loader = DataLoader(g, ids, GTTFSampler([5]), batch_size=20, num_workers=2)
    >>> len(loader)
    5

    With a sampler of `gttf_dgl`, also inside `as_edge_prediction_sampler`, batches and
    their order follow `torch.manual_seed`, or `generator`, and are the same for any
    number of workers; `state_dict` says where an epoch is and `load_state_dict` goes on
    there, with as many workers as you like. Other samplers draw as they always do.
    `shuffle=True` follows `torch.manual_seed`, too, with every sampler.

    With `num_workers` a thread of this process makes the batches ahead; it starts at
    once and copies nothing. Processes are used where workers would run code of yours: a
    `worker_init_fn` (also that of `enable_cpu_affinity`), a function as `bias`, a
    negative sampler, a sampler or a dataset of your own.

    Args:
        args: and `kwargs`: see DGL's `DataLoader`.
        thread_workers: False for processes and True for a thread whatever workers would
            run; None does as the sampler says.
    """

    shuffle: bool
    graph_sampler: Any
    graph: Any
    collate_fn: Any
    cpu_affinity_enabled = False  # of a loader that was made again, which DGL forgets

    def __init__(
        self, *args: Any, thread_workers: bool | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        if thread_workers is not None:
            _check.yes_or_no("thread_workers", thread_workers)
        else:
            thread_workers = getattr(self._draws, "thread_workers", None)
        self.thread_workers = thread_workers

    @property
    def _draws(self) -> Any:
        return drawing(self.graph_sampler)

    def __iter__(self) -> Any:
        batches: Any = super().__iter__()
        under_way: Any = self._epoch.under_way
        return CountedBatches(batches, under_way, self)

    def counted(self, batches: Any, epoch: EpochState) -> Any:
        """The batches as they are: DGL may fetch ahead, and they are counted later."""
        return batches

    def epoch_key(self, epoch: int) -> int:
        """The key of an epoch: by the sampler's seed, or torch's next number."""
        draws, key = self._draws, None
        if isinstance(draws, KeyedSampler):
            key = draws.epoch_key(epoch)
        if key is None:
            base = torch.empty((), dtype=torch.int64, device="cpu")
            key = fold(int(base.random_(generator=copied(self.generator))), 0)
        return key

    def runs_only_ours(self) -> bool:
        """True if workers would run nothing but code that is safe in a thread."""
        sampler, start, draws = self.graph_sampler, self.worker_init_fn, self._draws
        if type(sampler) is EdgePredictionSampler and (
            sampler.negative_sampler is not None or callable(sampler.exclude)
        ):
            return False
        return (
            isinstance(draws, KeyedSampler)
            and type(draws).__module__.split(".")[0] == "gttf_dgl"
            and is_thread_safe(draws.bias)
            and isinstance(start, WorkerInitWrapper)
            and start.func is None
            and self._has_tensor_seeds()
            and isinstance(self.graph, DGLGraph)
        )

    def threaded(self) -> PrefetchIterator:
        """Batches that a thread makes ahead; another one reads files."""
        collate, draws = self.collate_fn, self._draws
        keyed = isinstance(collate, SeededCollate) and isinstance(draws, KeyedSampler)
        stages = (collate.sampled, collate.fetch) if keyed and draws.fetches else ()
        return PrefetchIterator(self, self.ahead(), *stages)

    def settings(self) -> dict[str, Any]:
        """Settings that batches depend on beside indices and keys, by name."""
        draws, g = self._draws, self.graph
        if not isinstance(draws, KeyedSampler):
            rule = "must be one of gttf_dgl where a loader says or is told its state"
            cure = "no other one can draw again what it has drawn"
            _check.fail("graph_sampler", rule, type(draws).__name__, cure)
        if not self._has_tensor_seeds():
            rule = "must be a tensor, or a dict of them, where a loader has a state"
            _check.fail("indices", rule, type(self.indices).__name__)
        found = {
            name: described(value, SPOT)
            for name, value in vars(draws).items()
            if not name.startswith("_") and name not in NOT_DRAWN
        }
        counts = [getattr(g, name, None) for name in ("num_nodes", "num_edges")]
        batches: Any = self.sampler
        return {
            "batch_size": batches.batch_size,
            "drop_last": batches.drop_last,
            "seed": draws.seed,
            **found,
            "graph": [count() for count in counts if callable(count)],
            "seeds": described(self.collate_fn.seeds.ids, SPOT),
        }

    def _has_tensor_seeds(self) -> bool:
        """True if the seeds are ids, and no dataset of a user gives them."""
        return isinstance(getattr(self.collate_fn, "seeds", None), TensorSeeds)


def drawing(sampler: Any) -> Any:
    """The sampler that draws; the inner one of an edge prediction sampler."""
    return sampler.sampler if type(sampler) is EdgePredictionSampler else sampler


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
