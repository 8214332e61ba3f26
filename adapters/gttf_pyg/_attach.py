"""Batches on their way to the user: the edges learn how they were drawn."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch_geometric.data import Data, HeteroData

from gttf_pyg._check import NOT_UNIFORM, first_used
from gttf_pyg._layers import CURES
from gttf_pyg._rows import ONLY
from gttf_pyg._sample import Sample
from gttf_pyg._sampled import SampledEdgeIndex
from gttf_pyg._warn import watch
from gttf_pyg._whole import Whole
from gttf_pyg.sampler import GTTFSampler
from gttf_sampler._loading.watch import Watch


class Handed(Iterator[Any]):
    """The batches of an iterator, made ready where they are used.

    It is not done in workers: what a batch refers to is the whole graph.
    """

    def __init__(self, batches: Any, origin: "Origin") -> None:
        self._batches, self._origin = batches, origin

    def __iter__(self) -> "Handed":
        return self

    def __next__(self) -> Any:
        return self._origin.mark(next(self._batches))

    def __len__(self) -> int:
        return len(self._batches)

    def __getattr__(self, name: str) -> Any:  # of torch's iterator, or PyG's
        if name == "_batches":  # in a copy that is still empty
            raise AttributeError(name)
        return getattr(self._batches, name)


class Origin:
    """What the batches of one loader come from."""

    def __init__(self, data: Any, sampler: Any, weighted: bool) -> None:
        self.data, self.sampler = data, sampler
        self.weighted = weighted  # by the loader's `normalize`, with loops among edges
        self._whole: dict[Any, Whole] = {}
        self._watched = False

    def mark(self, batch: Any) -> Any:
        """`batch`, whose edges carry their samples if anybody wants them.

        The first batch of a loader is watched: if it goes into a layer that divides by
        the degrees of the sample, its user is told so.
        """
        if self.weighted:
            return batch
        if not self._watched and isinstance(batch, Data | HeteroData):
            self._watched = True
            # where all neighbours are taken, the user may have added a hop for degrees
            if not isinstance(self.sampler, GTTFSampler) or not _takes_all(
                self.sampler
            ):
                watch(batch)
        else:
            Watch.end()
        wanted = bool(CURES) or getattr(self.sampler, "layerwise", False)
        if wanted and isinstance(self.sampler, GTTFSampler):
            if isinstance(batch, Data):
                self._mark(batch, batch, batch, batch, ONLY)
            elif isinstance(batch, HeteroData):
                for kind, store in batch.edge_items():
                    self._mark(store, batch[kind[0]], batch[kind[2]], batch, kind)
        return batch

    def _mark(
        self, store: Any, source: Any, target: Any, batch: Any, kind: Any
    ) -> None:
        """Gives the edges of one type their sample."""
        edges = store.get("edge_index")
        known = all(name in part for name, part in _needed(store, source, target))
        if type(edges) is not Tensor or not known:
            return
        sampler = self.sampler
        backward = sampler.sample_direction == "backward"
        if kind not in self._whole:
            self._whole[kind] = self._make_whole(kind, backward)
        hops = None
        if getattr(sampler, "layerwise", False):
            hops = list(store.num_sampled_edges)
        weights = self._whole[kind].adj.edge_weight is not None
        law = sampler.weight_attr if weights and not _takes_all(sampler) else None
        law = law.get(kind) if isinstance(law, dict) else law
        ids = source.n_id, target.n_id
        store.edge_index = SampledEdgeIndex.of(
            edges,
            Sample(
                self._whole[kind],
                ids[::-1] if backward else ids,
                store.e_id,
                receiver=0 if backward else 1,
                law=law,
                hops=hops,
                refusal=refusal(sampler),
            ),
        )

    def __getstate__(self) -> dict[str, Any]:
        """Workers have no use for what was made of the graph."""
        return {**self.__dict__, "_whole": {}}

    def _make_whole(self, kind: Any, backward: bool) -> Whole:
        """The relation of the graph that edges of this type come from."""
        named = kind[::-1] if backward and kind != ONLY else kind
        adj = self.sampler.adjs[named]
        columns: dict[str, Tensor] = {}
        types: dict[str, Tensor] = {}
        if isinstance(self.data, Data | HeteroData):
            store = self.data.edge_stores[0] if kind == ONLY else self.data[kind]
            for name, value in store.items():
                fits = isinstance(value, Tensor) and value.shape == (adj.num_edges,)
                if fits and store.is_edge_attr(name):
                    real = value.is_floating_point()
                    (columns if real else types)[name] = value
        return Whole(adj, columns, named[0] == named[2], types)


def _needed(store: Any, source: Any, target: Any) -> list[tuple[str, Any]]:
    """What a batch must still have after the user's transform."""
    return [("e_id", store), ("n_id", source), ("n_id", target)]


def _takes_all(sampler: GTTFSampler) -> bool:
    """Whether nothing is drawn, as all neighbours are taken."""
    every = all(f < 0 for hops in sampler._fanouts.values() for f in hops)
    return every and not sampler.shares


def refusal(sampler: GTTFSampler) -> str | None:
    """Why no unbiased estimate can be made from the batches of a sampler, or None."""
    names = [name for name in NOT_UNIFORM if name != "weight_attr"]
    if used := first_used(sampler, "subgraph_type", *names):
        return (
            "'model' must get uniform draws of all neighbours where it was made "
            f"unbiased (got a batch of a loader with {used!r}); leave that out"
        )
    weighted = any(adj.edge_weight is not None for adj in sampler.adjs.values())
    mixed = any(f < 0 for hops in sampler._fanouts.values() for f in hops)
    if weighted and not _takes_all(sampler) and (mixed or not sampler.replace):
        return (
            "'weight_attr' must come with replace=True and without -1 where a model "
            "was made unbiased (got other draws); their chances have no simple form"
        )
    return None
