"""SampledEdgeIndex: the edges of a batch together with how they were drawn."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor

from gttf_pyg._compat import in_backward, version_of, without_torch_function
from gttf_pyg._full_graph import KINDS, FullGraph

TYPE = "edge_type"  # the name that PyG's users give to types of edges

# The layers that `unbiased` has corrected, as long as they live: while there is one,
# loaders annotate their batches. A loader knows no model, and no model its loader.
CORRECTED: WeakSet[Any] = WeakSet()


class Sample:
    """The draws behind the edges of a batch, with degrees of the full graph.

    It stays where the sampler has made it. What a layer asks for goes to the layer's
    device, and is kept for the next layer.

    Attributes:
        node: global ids of the (sources, targets) of the batch.
        edge: ids [e] of its edges in the data.
        receiver: the row of edge_index whose nodes have drawn: 1, or 0 backward.
        drawn_by: the name of the weights that edges were drawn by, with replacement;
            None if they were drawn uniformly, or all of them taken.
        hops: numbers of edges per hop if every layer has a sample of its own.
        refusal: why there is no estimate from such draws; None if there is one.
    """

    def __init__(
        self,
        full: FullGraph,
        node: tuple[Tensor, Tensor],
        edge: Tensor,
        receiver: int = 1,
        drawn_by: str | None = None,
        hops: list[int] | None = None,
        refusal: str | None = None,
    ) -> None:
        self.full: FullGraph | None = full
        self.names, self.types = full.weights, full.types
        self.node, self.edge, self.receiver = node, edge, receiver
        self.drawn_by, self.hops, self.refusal = drawn_by, hops, refusal
        self.step = 0  # of the forward pass that is under way, if there are `hops`
        self.made: dict[Any, Any] = {}  # operators, by the layers that want them
        self._local: dict[Any, Any] = {}

    def local(
        self, kind: str, name: str | None, side: int, device: torch.device
    ) -> Any:
        """[n], one of `KINDS` for the nodes on one side of the edges, or None."""
        return self._kept(("node", kind, name, side), device, self._of_nodes)

    def column(self, name: str, device: torch.device) -> Tensor:
        """[e], the weights or types of the edges that the data has under this name."""
        found: Tensor = self._kept(("edge", name), device, self._of_edges)
        return found

    def largest(self, name: str | None, device: torch.device) -> Tensor:
        """See `FullGraph.largest`."""
        found: Tensor = self._kept(("most", name), device, self._of_graph)
        return found

    def of_types(self, edge_type: Tensor, first: int, count: int) -> Tensor | None:
        """[n, count]: edges of each type into a node, or None if the data has no types.

        By value, because a batch may have been moved since they were read.
        """
        device = edge_type.device
        if edge_type.numel() and int(edge_type.max()) >= count:
            return None
        for name in self.types:
            there = self.column(name, device)[first : first + edge_type.numel()]
            if torch.equal(there.to(edge_type.dtype), edge_type):
                found: Tensor = self._kept(("typed", name), device, self._typed)
                more = count - found.shape[1]
                return torch.nn.functional.pad(found, (0, more)) if more > 0 else found
        return None

    def takes_zero(self, name: str) -> bool:
        """True if a weight of zero has kept an edge from being drawn."""
        asked = "positive", name
        if asked not in self._local:
            self._local[asked] = not self._graph.all_positive(name)
        return bool(self._local[asked])

    def hop(self, num_edges: int) -> tuple[int, int]:
        """The edges of the next layer: (first, number).

        The layers of a forward pass see the hops from the last one to the first.
        Layers with `num_edges` edges have had those of later hops cut off.
        """
        if self.hops is None:
            return 0, num_edges
        if in_backward():
            raise RuntimeError(
                "'layerwise' must be False where layers are computed again, as with "
                "torch.utils.checkpoint (got True); whose turn it is is not known then"
            )
        ends = torch.tensor(self.hops).cumsum(0).tolist()
        there = sum(end <= num_edges for end in ends)
        wanted = min(len(ends) - 1 - self.step % len(ends), max(there, 1) - 1)
        self.step += 1
        return ends[wanted] - self.hops[wanted], self.hops[wanted]

    def _kept(self, asked: Any, device: torch.device, make: Any) -> Any:
        """The result of `make`, on the device; None stays None."""
        here = (*asked, device)
        if here not in self._local:
            if asked not in self._local:
                self._local[asked] = make(*asked[1:])
            found = self._local[asked]
            if found is not None:
                found = found.to(device, non_blocking=True)
            self._local[here] = found
        return self._local[here]

    def _of_nodes(self, kind: str, name: str | None, side: int) -> Any:
        return self._graph.of(kind, name, self.node[side])

    def _of_edges(self, name: str) -> Tensor:
        column = self._graph.columns[name]
        return column[self.edge.to(column.device)]

    def _typed(self, name: str) -> Tensor:
        return self._graph.of_types(name, self.node[1])

    def _of_graph(self, name: str | None) -> Tensor:
        return self._graph.largest(name)

    @property
    def _graph(self) -> FullGraph:
        """The whole graph, which a sample that was pickled has left behind."""
        if self.full is None:
            raise RuntimeError("a sample must be asked before it is pickled (got None)")
        return self.full

    def __getstate__(self) -> dict[str, Any]:
        """The sums that a layer may ask for, instead of the graph."""
        if self.full is not None and self.refusal is None:
            for name in [None, *self.names]:
                kinds = [(kind, side) for kind in KINDS for side in (0, 1)]
                for kind, side in kinds if self.full.one_type else [("received", 1)]:
                    self.local(kind, name, side, torch.device("cpu"))
                if name is not None:
                    self.column(name, torch.device("cpu"))
                    self.takes_zero(name)
            for name in self.types:
                if name == TYPE:  # other integers may be times, and too many
                    self.column(name, torch.device("cpu"))
                    self._kept(("typed", name), torch.device("cpu"), self._typed)
            if self.full.one_type:
                for name in [None, *self.names]:
                    self.largest(name, torch.device("cpu"))
        return {**self.__dict__, "full": None, "made": {}}


# Operations that give the same edges, in other memory or on another device.
SAME = {
    Tensor.to,
    Tensor.cpu,
    Tensor.cuda,
    Tensor.clone,
    Tensor.detach,
    Tensor.contiguous,
    Tensor.pin_memory,
    Tensor.long,
    Tensor.int,
}


class SampledEdgeIndex(Tensor):
    """A tensor [2, e] whose `sample` says how its edges were drawn.

    Moving and copying keep the sample, and so does leaving out the last hops, as
    `trim_to_layer` does. Every other operation gives a plain tensor.
    """

    sample: Sample
    version: int | None

    @staticmethod
    def of(edge_index: Tensor, sample: Sample) -> SampledEdgeIndex:
        """These edges with their sample."""
        found = edge_index.as_subclass(SampledEdgeIndex)
        found.sample = sample
        found.version = version_of(found)
        return found

    @property
    def as_drawn(self) -> bool:
        """True if nobody has changed the edges in place, where torch counts that."""
        return self.version is None or self.version == version_of(self)

    @property
    def plain(self) -> Tensor:
        """The same memory as an ordinary tensor."""
        with without_torch_function():
            return self.as_subclass(Tensor)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        with without_torch_function():
            found = func(*args, **(kwargs or {}))
        kind = type(found)
        if kind is Tensor or kind is SampledEdgeIndex:
            if not hasattr(found, "sample") and _keeps(func, args, kwargs or {}):
                return SampledEdgeIndex.of(found, args[0].sample)
            if kind is SampledEdgeIndex and not hasattr(found, "sample"):
                return found.plain
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> SampledEdgeIndex:
        if id(self) not in memo:
            memo[id(self)] = self.clone()
        found: SampledEdgeIndex = memo[id(self)]
        return found

    def __reduce_ex__(self, protocol: Any) -> Any:
        return SampledEdgeIndex.of, (self.plain, self.sample)


def _keeps(func: Any, args: Any, kwargs: Any) -> bool:
    """True if the result of `func` is still the edges that were drawn."""
    if not isinstance(args[0], SampledEdgeIndex):
        return False
    if func in SAME:
        return True
    if func is Tensor.narrow:
        named = dict(zip(("dim", "start"), args[1:], strict=False)) | kwargs
        return named["dim"] in (1, -1) and named["start"] == 0
    return False
