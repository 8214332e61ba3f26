"""SeededLoader: the base of our loaders for PyG, whose batches have keys."""

import copy
import weakref
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch_geometric import loader as theirs
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import NegativeSampling

from gttf_pyg._batch import Finish
from gttf_pyg._keys import with_key
from gttf_pyg.sampler import GTTFSampler, NeighborSampler
from gttf_sampler import CompactAdj
from gttf_sampler._loading.prefetch import is_thread_safe
from gttf_sampler._loading.seeded import KeyedIndex, draw_key
from gttf_sampler._loading.seeded import SeededLoader as KeyedLoader
from gttf_sampler._loading.state import SPOT, described

SAMPLERS = (GTTFSampler, NeighborSampler)
COLLATES = (theirs.NodeLoader.collate_fn, theirs.LinkLoader.collate_fn)
DRAWN = (
    *("num_neighbors", "num_samples", "sizes", "depth", "replace", "disjoint"),
    *("subgraph_type", "temporal_strategy", "time_attr", "time_window", "weight_attr"),
    *("bias", "exclude_edges", "max_nodes", "max_edges", "max_neighbors", "layerwise"),
    *("neg_sampling", "node_idx", "adj"),
)


class SeededCollate:
    """A function of the indices of a batch, which draws with the key they carry.

    It stands in front of the `collate_fn` of the loader's class, so that one of a
    user's class gets plain indices, as from any loader; the key is on the seeds that
    it picks from.

    It does not keep the loader alive, which has it as an attribute: workers that
    persist would be left to the garbage collector, which cannot end them in order and
    waits seconds for each. Who takes it from a loader gets along without that loader.
    """

    def __init__(self, loader: Any) -> None:
        self._alive, self._copy = weakref.ref(loader), copy.copy(loader)
        self._copy.collate_fn = None

    def __getstate__(self) -> Any:
        """The loader: another process has no other."""
        return self.loader

    def __setstate__(self, loader: Any) -> None:
        """Keeps the loader, as nobody else there may do so."""
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
        mine = copy.copy(loader)
        mine.key = key
        if hasattr(loader, "input_data"):
            mine.input_data = with_key(loader.input_data, key)
        for name, value in changed.items():
            setattr(mine, name, value)
        return type(loader).collate_fn(mine, index)

    def sampled(self, index: Any) -> Any:
        """The sample of the batch, without its features."""
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

    Attributes:
        key: of the batch that is being made, in the copy that makes it.
    """

    collate_fn: Callable[[Any], Any]
    transform: Any = None
    transform_sampler_output: Any = None
    key: int | None = None

    def use_keys(self) -> None:
        """Has every batch drawn with its key."""
        self.collate_fn = SeededCollate(self)

    def settings(self) -> dict[str, Any]:
        """Settings that batches depend on beside indices and keys, by name."""
        return settings_of(self)

    def runs_only_ours(self) -> bool:
        """True if workers would run nothing but code that is safe in a thread."""
        given = (self.transform, self.transform_sampler_output, _start_of(self))
        own = type(self).__module__.split(".")[0] == __name__.split(".")[0]
        return own and all(function is None for function in given)


def settings_of(loader: Any) -> dict[str, Any]:
    """All that the batches of a loader depend on beside their keys, by name."""
    sampler = getattr(loader, "node_sampler", getattr(loader, "link_sampler", None))
    found: dict[str, Any] = {}
    for name in DRAWN:
        owner = loader if name in vars(loader) else sampler
        if hasattr(owner, name):
            found[name] = getattr(owner, name)
    adjs = getattr(sampler, "adjs", None) or {}
    found["graph"] = {k: a for k, a in adjs.items() if isinstance(a, CompactAdj)}
    seeds = vars(loader.input_data) if hasattr(loader, "input_data") else {}
    found["seeds"] = {n: v for n, v in seeds.items() if isinstance(v, dict | Tensor)}
    return {name: described(value, SPOT) for name, value in found.items()}


def only_ours(loader: Any) -> bool:
    """True if workers of a neighbour loader would run only what is safe in a thread.

    What a user has written may count on a process of its own: on its random state, on
    `get_worker_info`, or on nobody else changing what it reads.
    """
    sampler = getattr(loader, "node_sampler", None)
    if sampler is None:
        sampler = loader.link_sampler
    transform = loader.transform
    if isinstance(transform, Finish):
        transform = transform.transform
    given = (transform, loader.transform_sampler_output, _start_of(loader))
    negatives: NegativeSampling | None = getattr(loader, "neg_sampling", None)
    return (
        all(function is None for function in given)
        and isinstance(loader.collate_fn, SeededCollate)
        and type(loader).collate_fn in COLLATES
        and isinstance(loader.data, Data | HeteroData)
        and type(sampler) in SAMPLERS
        and is_thread_safe(sampler.bias)
        and (negatives is None or type(negatives).sample is NegativeSampling.sample)
    )


def _start_of(loader: Any) -> Any:
    """The user's `worker_init_fn`; PyG leaves a wrapper of nothing behind."""
    start = loader.worker_init_fn
    return getattr(start, "func", start)
