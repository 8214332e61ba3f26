"""The random key of every batch, wherever it is drawn, and negatives drawn by it."""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch_geometric.sampler import NegativeSampling

from gttf_pyg._check import as_reals
from gttf_sampler import CompactAdj, EdgeWeightBias, random, traverse
from gttf_sampler._check import dense, fail, fits
from gttf_sampler._loading.keyed import KeyedIndex, draw_key
from gttf_sampler.graph.weak_cache import kept_of

_current: ContextVar[int | None] = ContextVar("gttf_batch_key", default=None)


class KeyedCollate:
    """A function of the indices of a batch, which draws with the key they carry.

    It stands in front of the `collate_fn` of the loader's class, so that one of a
    user's class gets plain indices, as from any loader.

    It does not keep the loader alive, which has it as an attribute: workers that
    persist would be left to the garbage collector, which cannot end them in order and
    waits seconds for each. Who takes it from a loader gets along without that loader.
    """

    def __init__(self, loader: Any) -> None:
        self._alive = weakref.ref(loader)
        self._like = object.__new__(type(loader))
        self._like.__dict__.update(loader.__dict__, collate_fn=None)

    def __getstate__(self) -> Any:
        """The loader: another process has no other."""
        return self.loader

    def __setstate__(self, loader: Any) -> None:
        """Keeps the loader, as nobody else there may do so."""
        self._alive, self._like = weakref.ref(loader), loader

    @property
    def loader(self) -> Any:
        """The loader, or what is like it once it has gone."""
        found = self._alive()
        return self._like if found is None else found

    def __call__(self, index: Any) -> Any:
        """The batch."""
        index, key = KeyedIndex.of(index)
        if key is not None and not hasattr(index, "__len__"):
            index = [int(index)]  # where there are no batches, of one seed
        loader = self.loader
        with use_key(draw_key(loader.generator) if key is None else key):
            return type(loader).collate_fn(loader, index)


def weakly(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of an object that it does not keep alive; somebody else must."""
    found = weakref.WeakMethod(method)

    def call(*args: Any) -> Any:
        alive: Any = found()
        return alive(*args)

    return call


@contextmanager
def use_key(key: int) -> Iterator[None]:
    """Every batch that this thread samples inside is drawn with `key`."""
    token = _current.set(key)
    try:
        yield
    finally:
        _current.reset(token)


def batch_key() -> int:
    """The key that was set for the batch, or a new one."""
    key = _current.get()
    return draw_key() if key is None else key


CPU = torch.device("cpu")


def keyed(negatives: NegativeSampling, key: int) -> NegativeSampling:
    """Negatives drawn from `key`, unless a class of the user draws them."""
    if type(negatives).sample is not NegativeSampling.sample:
        return negatives
    return KeyedNegatives(negatives, key)


class KeyedNegatives(NegativeSampling):
    """A `NegativeSampling` that draws from the key of the batch.

    PyG's draws from torch's default generator, which is another one in every worker.
    """

    def __init__(self, negatives: NegativeSampling, key: int) -> None:
        self.__dict__.update(negatives.__dict__)
        self.given = negatives
        self.key = random.new_key(key, CPU, random.NEGATIVE)
        self.calls = 0

    def sample(
        self, num_samples: int, endpoint: str, num_nodes: int | None = None
    ) -> Tensor:
        """Nodes [num_samples], by weight where there are weights."""
        if num_samples == 0:
            return torch.empty(0, dtype=torch.int64)
        self.calls += 1
        key = random.fold(self.key, self.calls)
        weight = self.src_weight if endpoint == "src" else self.dst_weight
        if weight is None:
            if num_nodes is None:
                fail("num_nodes", "must be given without weights", None)
            return uniform_nodes(key, num_samples, num_nodes)
        as_reals(f"{endpoint}_weight", dense(f"{endpoint}_weight", weight))
        if num_nodes is not None and weight.numel() != num_nodes:
            rule = f"must have one entry per node, {num_nodes} in all"
            fail(f"{endpoint}_weight", rule, weight.numel())
        row = _row(self.given, endpoint, weight)
        drawn = traverse(row, [0], [num_samples], EdgeWeightBias(), generator=int(key))
        nodes: Tensor = drawn.nodes[1].view(-1)
        if num_samples and int(nodes[0]) < 0:
            fail(f"{endpoint}_weight", "must have a positive entry", "zeros only")
        return nodes


def uniform_nodes(key: random.Key, count: int, num_nodes: int) -> Tensor:
    """int64 [count]: nodes drawn uniformly, with replacement."""
    fits("neg_sampling", 24 * count)
    word = random.stream(key, torch.arange(count))
    return random.below_wide(word, torch.full_like(word, num_nodes))


def _row(given: NegativeSampling, endpoint: str, weight: Tensor) -> CompactAdj:
    """All nodes as the neighbours of one, by weight; made once per weights."""
    size = weight.numel()

    def make() -> CompactAdj:
        nodes, mass = torch.arange(size), weight.detach().cpu()
        return CompactAdj.from_csr([0, size], nodes, size, edge_weight=mass)

    return kept_of(given).get(endpoint, make, weight)
