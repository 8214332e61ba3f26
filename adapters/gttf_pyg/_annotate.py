"""Annotator: gives the edges of batches the draws that `unbiased` layers ask for."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch_geometric.data import Data, HeteroData

from gttf_pyg._check import NOT_UNIFORM, first_used
from gttf_pyg._compat import row_type
from gttf_pyg._full_graph import FullGraph
from gttf_pyg._rows import ONLY
from gttf_pyg._sampled import CORRECTED, Sample, SampledEdgeIndex
from gttf_pyg.sampler import GTTFSampler


class BatchIterator(Iterator[Any]):
    """The batches of an iterator, annotated in the process that uses them.

    Not in workers: an annotation refers to the whole graph.
    """

    def __init__(self, batches: Any, annotator: "Annotator") -> None:
        self._batches, self._annotator = batches, annotator

    def __iter__(self) -> "BatchIterator":
        return self

    def __next__(self) -> Any:
        return self._annotator.annotate(next(self._batches))

    def __len__(self) -> int:
        return len(self._batches)

    def __getattr__(self, name: str) -> Any:  # of torch's iterator, or PyG's
        if name == "_batches":  # in a copy that is still empty
            raise AttributeError(name)
        return getattr(self._batches, name)


class Annotator:
    """Annotates the batches of one loader with the draws of their edges."""

    def __init__(self, data: Any, sampler: Any, weighted: bool) -> None:
        self.data, self.sampler = data, sampler
        self.weighted = weighted  # by the loader's `normalize`, with loops among edges
        self._full: dict[Any, FullGraph] = {}

    def annotate(self, batch: Any) -> Any:
        """`batch`, whose edges carry their draws if a layer may ask for them."""
        sampler = self.sampler
        wanted = bool(CORRECTED) or getattr(sampler, "layerwise", False)
        if self.weighted or not wanted or not isinstance(sampler, GTTFSampler):
            return batch
        if isinstance(batch, Data):
            self._annotate(batch, batch, batch, ONLY)
        elif isinstance(batch, HeteroData):
            for kind, store in batch.edge_items():
                self._annotate(store, batch[kind[0]], batch[kind[2]], kind)
        return batch

    def _annotate(self, store: Any, source: Any, target: Any, kind: Any) -> None:
        """Gives the edges of one type their sample."""
        edges = store.get("edge_index")
        # which a transform of the user may have taken away
        known = "e_id" in store and "n_id" in source and "n_id" in target
        if type(edges) is not Tensor or not known:
            return
        sampler = self.sampler
        backward = sampler.sample_direction == "backward"
        if kind not in self._full:
            self._full[kind] = self._full_graph(kind, backward)
        hops = None
        if getattr(sampler, "layerwise", False):
            hops = list(store.num_sampled_edges)
        weights = self._full[kind].adj.edge_weight is not None
        name = sampler.weight_attr if weights and not _takes_all(sampler) else None
        name = name.get(kind) if isinstance(name, dict) else name
        ids = source.n_id, target.n_id
        store.edge_index = SampledEdgeIndex.of(
            edges,
            Sample(
                self._full[kind],
                ids[::-1] if backward else ids,
                store.e_id,
                receiver=0 if backward else 1,
                drawn_by=name,
                hops=hops,
                refusal=refusal(sampler),
            ),
        )

    def __getstate__(self) -> dict[str, Any]:
        """Workers have no use for what was made of the graph."""
        return {**self.__dict__, "_full": {}}

    def _full_graph(self, kind: Any, backward: bool) -> FullGraph:
        """The relation of the graph that edges of this type come from."""
        named = row_type(kind, backward)
        adj = self.sampler.adjs[named]
        columns: dict[str, Tensor] = {}
        if isinstance(self.data, Data | HeteroData):
            store = self.data.edge_stores[0] if kind == ONLY else self.data[kind]
            for name, value in store.items():
                fits = isinstance(value, Tensor) and value.shape == (adj.num_edges,)
                if fits and store.is_edge_attr(name):
                    columns[name] = value
        return FullGraph(adj, columns, named[0] == named[2])


def _takes_all(sampler: GTTFSampler) -> bool:
    """True if nothing is drawn, as all neighbours are taken."""
    every = all(f < 0 for hops in sampler._fanouts.values() for f in hops)
    return every and not sampler.shares


def refusal(sampler: GTTFSampler) -> str | None:
    """The reason why batches of a sampler have no unbiased estimate, or None."""
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
