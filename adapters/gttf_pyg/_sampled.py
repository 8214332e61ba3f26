"""SampledEdgeIndex: the edges of a batch with how they were drawn, for `unbiased`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple
from weakref import WeakSet

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from gttf_pyg._check import NOT_UNIFORM, first_used
from gttf_pyg._compat import (
    in_backward,
    row_type,
    version_of,
    without_torch_function,
)
from gttf_pyg._rows import ONLY, row_chunks
from gttf_pyg.sampler import GTTFSampler
from gttf_sampler import CompactAdj
from gttf_sampler.estimate import share

CPU = torch.device("cpu")
CHANGED = (
    "'transform' must leave edges, 'n_id', 'e_id' and 'edge_factor' as they were drawn "
    "where a model was made unbiased (got others); change the data, not its batches"
)
TYPE = "edge_type"  # the name that PyG's users give to types of edges
# Sums per node, of the edge weights of some name; the name None counts edges.
RECEIVED = "received"  # the sum over the edges that arrive, loops among them
SENT = "sent"  # the sum over the edges that leave, loops among them
LOOPS = "loops"  # the sum over the loops
KEPT = "kept"  # of the loops, the one that PyG's `add_remaining_self_loops` keeps
KINDS = (RECEIVED, SENT, LOOPS, KEPT)

# The layers of `unbiased` and `fused` models, as long as they live: while there is one,
# loaders annotate their batches. A loader knows no model, and no model its loader. To
# annotate every batch would do without, and is not free: it takes a seventh of the time
# of a small one, and whatever is done to its edge_index then takes five times as long.
CORRECTED: WeakSet[Any] = WeakSet()


class FullGraph:
    """Degrees, loops and edge types of one relation of the full graph.

    A pass over all edges is made when its sums are asked for, and they are kept.

    Args:
        adj: its rows: for every node, the edges that it may draw.
        columns: the edge attributes [m] of the data by name, in its order of edges.
        one_type: whether both ends of an edge are of the same node type.
    """

    def __init__(
        self, adj: CompactAdj, columns: Mapping[str, Tensor], one_type: bool
    ) -> None:
        self.adj, self.columns, self.one_type = adj, columns, one_type
        self.weights = [name for name, x in columns.items() if x.is_floating_point()]
        self.types = [name for name in columns if name not in self.weights]
        self._made: dict[Any, Any] = {}

    def of(self, kind: str, name: str | None, node: Tensor) -> Any:
        """[k], one of `KINDS` for some nodes; None if there are no loops at all."""
        node = node.to(self.adj.device)
        if kind == RECEIVED and name is None:
            return self.adj.row_range(node)[1]
        if kind == SENT:
            return self._once(self._sent, name)[node]
        received, loops, kept = self._once(self._rows, name)
        table = {RECEIVED: received, LOOPS: loops, KEPT: kept}[kind]
        return None if table is None else table[node]

    def largest(self, name: str | None) -> Tensor:
        """The largest sum over the edges that leave a node, loops left out."""
        found: Tensor = self._once(self._largest, name)
        return found

    def all_positive(self, name: str) -> bool:
        return bool(self._once(self._positive, name))

    def of_types(self, name: str, node: Tensor) -> Tensor:
        """[k, types]: how many edges of each type arrive at some nodes."""
        keys, number, width = self._once(self._typed, name)
        types = torch.arange(width, device=self.adj.device)
        asked = node.to(self.adj.device)[:, None] * width + types
        if not keys.numel():
            return torch.zeros_like(asked)
        place = torch.searchsorted(keys, asked).clamp(max=keys.numel() - 1)
        found: Tensor = number[place] * (keys[place] == asked)
        return found

    def _once(self, make: Any, name: str | None) -> Any:
        key = make.__name__, name
        if key not in self._made:
            self._made[key] = make(name)
        return self._made[key]

    def _positive(self, name: str) -> Tensor:
        return (self.columns[name] > 0).all()

    def _largest(self, name: str | None) -> Tensor:
        every = torch.arange(self.adj.num_cols, device=self.adj.device)
        sent, loops = self.of(SENT, name, every), self.of(LOOPS, name, every)
        return torch.max(sent if loops is None else sent - loops)

    def _typed(self, name: str) -> tuple[Tensor, Tensor, int]:
        """The (row, type) pairs that there are, sorted; the edges of each; types."""
        adj, column = self.adj, self.columns[name]
        width = int(column.max()) + 1 if column.numel() else 1
        found = [adj.rowptr.new_zeros(0, dtype=torch.int64)]
        for part, row in row_chunks(adj):
            found.append(row * width + self._at(name, part).to(adj.device, torch.int64))
        keys, number = torch.unique(torch.cat(found), return_counts=True)
        return keys, number, width

    def _rows(self, name: str | None) -> tuple[Tensor | None, ...]:
        """(received, loops, kept), each [n]; the last two None without loops."""
        adj, size = self.adj, self.adj.num_rows
        received = loops = kept = None
        if name is not None:
            received = torch.zeros(size, dtype=torch.float64, device=adj.device)
        for part, row in row_chunks(adj):
            weight = self._weights(name, part)
            if received is not None:
                received.index_add_(0, row, weight.expand(row.numel()))
            place = (adj.col[part] == row).nonzero().view(-1) if self.one_type else ()
            if not len(place):
                continue
            if loops is None or kept is None:
                loops = torch.zeros(size, dtype=torch.float64, device=adj.device)
                kept = torch.full_like(loops, torch.nan)  # no loop to keep
            weight = weight.expand(row.numel())[place]
            loops.index_add_(0, row[place], weight)
            kept[row[place]] = weight
        return received, loops, kept

    def _sent(self, name: str | None) -> Tensor:
        adj = self.adj
        sent = torch.zeros(adj.num_cols, dtype=torch.float64, device=adj.device)
        for part, row in row_chunks(adj):
            weight = self._weights(name, part).expand(row.numel())
            sent.index_add_(0, adj.col[part].long(), weight)
        return sent

    def _weights(self, name: str | None, part: slice) -> Tensor:
        """float64: the weights of some positions in `adj.col`, or a one for all."""
        if name is None:
            return torch.ones((), dtype=torch.float64, device=self.adj.device)
        return self._at(name, part).to(self.adj.device, torch.float64)

    def _at(self, name: str, part: slice) -> Tensor:
        column, ids = self.columns[name], self.adj.edge_id
        return column[part if ids is None else ids[part].long().to(column.device)]


class Levels(NamedTuple):
    """Rows and edges of a batch up to each hop, as which it can be cut shorter.

    Attributes:
        senders: nodes up to hop 0, 1, … of the type that edges come from.
        receivers: nodes up to hop 0, 1, … of the type that they lead to.
        edges: edges into nodes up to hop 0, 1, ….
    """

    senders: list[int]
    receivers: list[int]
    edges: list[int]

    @staticmethod
    def of(store: Any, source: Any, target: Any) -> Levels | None:
        """Those of the edges in a store; None if the batch does not tell its hops."""
        told = ("n_id", "num_sampled_nodes")
        if any(name not in nodes for nodes in (source, target) for name in told):
            return None
        if "num_sampled_edges" not in store:
            return None
        given = source.num_sampled_nodes, target.num_sampled_nodes
        levels = Levels(
            *(
                list(accumulate(map(int, number)))
                for number in (*given, store.num_sampled_edges)
            )
        )
        ends = source.n_id.numel(), target.n_id.numel(), store.edge_index.shape[1]
        fits = all(
            number and number[-1] == end
            for number, end in zip(levels, ends, strict=True)
        )
        return levels if fits else None

    def rows(self, hop: int) -> int:
        """The number of receivers up to a hop."""
        return self.receivers[min(hop, len(self.receivers) - 1)]


@dataclass(eq=False, repr=False)
class Sample:
    """The draws behind the edges of a batch, with degrees of the full graph.

    It stays where the sampler has made it. What a layer asks for goes to the layer's
    device, and is kept for the next layer.
    """

    full: FullGraph | None  # a sample that was pickled has left it behind
    node: tuple[Tensor, Tensor]  # global ids of the (sources, targets) of the batch
    edge: Tensor  # ids [e] of its edges in the data
    receiver: int = 1  # the row of edge_index whose nodes have drawn: 1, or 0 backward
    drawn_by: str | None = None  # the weights, if edges were drawn by some
    hops: list[int] | None = None  # edges per hop if every layer has its own sample
    refusal: str | None = None  # why there is no estimate from such draws, if so
    factor: Tensor | None = None  # [e], how many edges each stands for, if it is known
    levels: Levels | None = None  # where the batch can be cut, for `fused`, if known
    run: Any = None  # the forward pass that is under way, of a model that cuts it
    step: int = 0  # of the forward pass that is under way, if there are `hops`
    made: dict[Any, Any] = field(default_factory=dict)  # operators, by their layers
    _local: dict[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        full = self.full
        self.names, self.types = (
            ([], []) if full is None else (full.weights, full.types)
        )

    def local(
        self, kind: str, name: str | None, side: int, device: torch.device
    ) -> Any:
        """[n], one of `KINDS` for the nodes on one side of the edges, or None."""
        return self._kept(("of", kind, name, side), device)

    def column(self, name: str, device: torch.device) -> Tensor:
        """[e], the weights or types of the edges that the data has under this name."""
        found: Tensor = self._kept(("column", name), device)
        return found

    def largest(self, name: str | None, device: torch.device) -> Tensor:
        found: Tensor = self._kept(("largest", name), device)
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
                found: Tensor = self._kept(("of_types", name), device)
                more = count - found.shape[1]
                return torch.nn.functional.pad(found, (0, more)) if more > 0 else found
        return None

    def takes_zero(self, name: str) -> bool:
        """True if a weight of zero has kept an edge from being drawn."""
        asked = "all_positive", name
        if asked not in self._local:
            self._local[asked] = self._make(*asked)
        return not self._local[asked]

    @property
    def per_edge(self) -> bool:
        """True if edges of one receiver may stand for different numbers of edges."""
        return self.drawn_by is not None or self.factor is not None

    def stands_for(self, first: int, receiver: Tensor, dtype: torch.dtype) -> Tensor:
        """[e]: how many edges each one from `first` on stands for, where they differ.

        By the chance with which it was drawn if that is known, else by its weight.
        """
        device, part = receiver.device, slice(first, first + receiver.numel())
        if self.factor is not None:
            return self.factor[part].to(device, dtype)
        name: Any = self.drawn_by
        total = self.local(RECEIVED, name, 1, device).to(dtype)
        likely = self.column(name, device)[part]
        return share(total, receiver)[receiver] / likely.to(dtype)

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

    def _kept(self, asked: Any, device: torch.device) -> Any:
        """The result of `_make`, on the device; None stays None."""
        here = (*asked, device)
        if here not in self._local:
            if asked not in self._local:
                self._local[asked] = self._make(*asked)
            found = self._local[asked]
            if found is not None:
                found = found.to(device, non_blocking=True)
            self._local[here] = found
        return self._local[here]

    def _make(self, what: str, *asked: Any) -> Any:
        """Asks the full graph for the result of a method, or for a column of edges."""
        full = self.full
        if full is None:
            raise RuntimeError("a sample must be asked before it is pickled (got None)")
        if what == "column":
            column = full.columns[asked[0]]
            return column[self.edge.to(column.device)]
        if what == "of":
            kind, name, side = asked
            return full.of(kind, name, self.node[side])
        more = (self.node[1],) if what == "of_types" else ()
        return getattr(full, what)(*asked, *more)

    def __getstate__(self) -> dict[str, Any]:
        """The sums that a layer may ask for, instead of the graph."""
        if self.full is not None and self.refusal is None:
            one_type = self.full.one_type
            kinds = [(kind, side) for kind in KINDS for side in (0, 1)]
            for name in [None, *self.names]:
                for kind, side in kinds if one_type else [(RECEIVED, 1)]:
                    self.local(kind, name, side, CPU)
                if one_type:
                    self.largest(name, CPU)
                if name is not None:
                    self.column(name, CPU)
                    self.takes_zero(name)
            if TYPE in self.types:  # other integers may be times, and too many
                self.column(TYPE, CPU)
                self._kept(("of_types", TYPE), CPU)
        return {**self.__dict__, "full": None, "made": {}, "run": None}


# Operations that give the same edges, in other memory or on another device.
SAME = {
    *(Tensor.to, Tensor.cpu, Tensor.cuda, Tensor.clone, Tensor.detach),
    *(Tensor.contiguous, Tensor.pin_memory, Tensor.long, Tensor.int),
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
    if func is Tensor.narrow:
        named = dict(zip(("dim", "start"), args[1:], strict=False)) | kwargs
        return named["dim"] in (1, -1) and named["start"] == 0
    return func in SAME


class Annotator:
    """Annotates the batches of one loader with the draws of their edges."""

    def __init__(self, data: Any, sampler: GTTFSampler) -> None:
        self.data, self.sampler = data, sampler
        self._full: dict[Any, FullGraph] = {}
        self._draws: Any = None, None, None  # as they are with some options

    def annotate(self, batch: Any) -> Any:
        """`batch`, whose edges carry their draws from now on."""
        sampler = self.sampler
        made_of = sampler._fanouts, sampler.replace, sampler.bias
        if self._draws[0] != made_of:
            weights = None if _takes_all(sampler) else sampler.weight_attr
            self._draws = made_of, weights, refusal(sampler)
        if isinstance(batch, Data):
            self._annotate(batch, batch, batch, ONLY)
        elif isinstance(batch, HeteroData):
            for kind, store in batch.edge_items():
                self._annotate(store, batch[kind[0]], batch[kind[2]], kind)
        return batch

    def _annotate(self, store: Any, source: Any, target: Any, kind: Any) -> None:
        edges, sampler = store.get("edge_index"), self.sampler
        backward = sampler.sample_direction == "backward"
        if type(edges) is not Tensor or row_type(kind, backward) not in sampler.adjs:
            return
        if kind not in self._full:
            self._full[kind] = self._full_graph(kind, backward)
        full = self._full[kind]
        _, name, refused = self._draws
        name = name if full.adj.edge_weight is not None else None
        factor = None if sampler.labor is None else store.get("edge_factor")
        # a transform of the user may have changed some of it, or taken it away
        known = "n_id" in source and "n_id" in target
        known = known and (sampler.labor is None or factor is not None)
        edge = store.get("e_id", edges.new_empty(0))
        count = edges.shape[1]
        known = known and sum(store.get("num_sampled_edges", [count])) == count
        if not known or edge.numel() != count:
            refused = refused or CHANGED
        ids = tuple(
            nodes.get("n_id", torch.arange(nodes.num_nodes))
            for nodes in (source, target)
        )
        sample = Sample(
            full,
            ids[::-1] if backward else ids,
            edge,
            receiver=0 if backward else 1,
            drawn_by=name.get(kind) if isinstance(name, dict) else name,
            hops=list(store.num_sampled_edges) if sampler.layerwise else None,
            refusal=refused,
            factor=factor,
            levels=None if backward else Levels.of(store, source, target),
        )
        store.edge_index = SampledEdgeIndex.of(edges, sample)

    def __getstate__(self) -> dict[str, Any]:
        """Workers have no use for what was made of the graph."""
        return {**vars(self), "_full": {}, "_draws": (None, None, None)}

    def _full_graph(self, kind: Any, backward: bool) -> FullGraph:
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
    labor = sampler.labor is not None  # whose chances are known
    if (
        weighted
        and not labor
        and not _takes_all(sampler)
        and (mixed or not sampler.replace)
    ):
        return (
            "'weight_attr' must come with replace=True and without -1 where a model "
            "was made unbiased (got other draws); their chances have no simple form"
        )
    return None
