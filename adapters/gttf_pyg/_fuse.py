"""FusedPropagate: a layer's sums over the edges of a batch, in place of `propagate`.

The edges of a batch are sorted by receiver, which is a CSR: `aggregate` reads the rows
of senders where they lie, and nothing of the size of the edges is written. Sums commute
with linear maps, so that a layer that multiplies before it adds up may as well multiply
afterwards, where it has fewer receivers than senders.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge
from torch.nn import functional
from torch_geometric.nn import Linear, aggr

from gttf_pyg._compat import has_message_hooks, plain
from gttf_pyg._lazy import (
    Sums,
    first_rows,
    in_place,
    product,
    reduce_rows,
    side_by_side,
    waits,
)
from gttf_pyg._propagate import PatchedPropagate
from gttf_pyg._sampled import (
    RECEIVED,
    FullGraph,
    Levels,
    Sample,
    SampledEdgeIndex,
)
from gttf_pyg._table import overridden
from gttf_pyg._trim import Run
from gttf_sampler import CompactAdj
from gttf_sampler.aggregate import (
    Receivers,
    aggregate,
    aggregate_and_own,
    attend,
    attend_to_sums,
    receivers_of,
)
from gttf_sampler.dropout import dropout
from gttf_sampler.estimate import share
from gttf_sampler.linear import linear

REDUCTIONS = {
    aggr.SumAggregation: "sum",
    aggr.MeanAggregation: "mean",
    aggr.MaxAggregation: "max",
    aggr.MinAggregation: "min",
}

BLOCK = 1 << 20  # edges at a time, where no gradient is asked for


class Part(NamedTuple):
    """The part of a batch that one call of a layer is computed on.

    Attributes:
        edges: those of the batch, as the layer was given them.
        rows: how many receivers have an output, the first ones.
        num_edges: how many edges lead there, the first ones.
        per_step: receivers of each step, for layers that propagate several times.
        levels: rows and edges of the batch up to each hop, if they are known.
    """

    edges: SampledEdgeIndex
    rows: int
    num_edges: int
    per_step: list[int]
    levels: Levels | None

    def receivers(self, rows: int) -> Receivers:
        """The edges into the first `rows` nodes, grouped; found once per batch."""
        made, count = self.edges.sample.made, self.num_edges
        key = "receivers", rows, count, self.edges.device
        if key not in made:
            sender, receiver = self.edges.plain[:, :count]
            if len(self.per_step) > 1:  # later steps have fewer receivers
                keep = int((receiver < rows).sum())
                sender, receiver = sender[:keep], receiver[:keep]
            made[key] = receivers_of(sender, receiver, rows)
        found: Receivers = made[key]
        return found

    def with_loops(self) -> "Looped":
        """The same without loops of the graph, and with a loop for every receiver."""
        made = self.edges.sample.made
        key = "looped", self.rows, self.num_edges, self.edges.device
        if key not in made:
            found = self.receivers(self.rows)
            receiver = receiver_of(found)
            kept = (found.index != receiver).nonzero().view(-1)
            sender, receiver = found.index[kept], receiver[kept]
            every = torch.arange(self.rows, device=sender.device)
            number = torch.bincount(receiver, minlength=self.rows)
            ptr = torch.cat([number.new_zeros(1), (number + 1).cumsum(0)])
            place = torch.arange(sender.numel(), device=sender.device) + receiver
            index = sender.new_empty(sender.numel() + self.rows)
            index[place], index[ptr[1:] - 1] = sender, every
            kept = kept if found.edge is None else found.edge[kept]
            made[key] = Looped(Receivers(ptr, index), kept, place)
        looped: Looped = made[key]
        return looped


class Looped(NamedTuple):
    """Edges by receiver, each of which has a loop as its last one.

    Attributes:
        receivers: all of them.
        kept: [k], which edges of the batch are among them: those that are no loops.
        place: [k], their places.
    """

    receivers: Receivers
    kept: Tensor
    place: Tensor

    def spread(self, value: Tensor, loop: Tensor | None = None) -> Tensor:
        """[e + r, h]: values [e, h] of edges, and `loop` [r, h], or their mean."""
        ptr, value = self.receivers.ptr, value[self.kept]
        if loop is None:
            before = torch.arange(ptr.numel(), device=ptr.device)
            every = torch.arange(len(value), device=ptr.device)
            loop = aggregate(value, Receivers(ptr - before, every), None, "mean")
        out = value.new_zeros(self.receivers.index.numel(), value.shape[1])
        return out.index_copy(0, self.place, value).index_copy(0, ptr[1:] - 1, loop)


def whole(adj: CompactAdj) -> SampledEdgeIndex:
    """All edges of a graph, in the order of its rows, as if they were a batch."""
    degree, number = adj.degree, adj.num_edges
    receiver = torch.repeat_interleave(degree, output_size=number)
    index = adj.col.long()
    senders = torch.arange(adj.num_cols, device=index.device)
    ends = senders, torch.arange(adj.num_rows, device=index.device)
    full = FullGraph(adj, {}, adj.num_cols == adj.num_rows)
    sample = Sample(full, ends, torch.arange(number, device=index.device))
    key = "receivers", adj.num_rows, number, index.device
    sample.made[key] = Receivers(adj.rowptr, index)
    return SampledEdgeIndex.of(torch.stack([index, receiver]), sample)


def part_of(edges: SampledEdgeIndex, rows: int, hop: int | None, steps: int) -> Part:
    """The part for nodes up to a hop, after some steps; None for all `rows`."""
    levels, count = edges.sample.levels, edges.shape[1]
    per_step = [rows] * steps
    if hop is not None and levels is not None:
        per_step = [min(rows, levels.rows(hop + k)) for k in reversed(range(steps))]
        last = min(hop + steps, len(levels.edges)) - 1
        count = min(count, levels.edges[last])
    return Part(edges, per_step[-1], count, per_step, levels)


class FusedSum(PatchedPropagate):
    """Sums, means or extremes of rows, each times the weight of its edge.

    Attributes:
        edges: how many weights are those of edges; loops of the layer's own follow.
        run: the forward pass of the model, if it is trimmed.
        inputs: nodes of autograd's graph that have made the rows of the layer.
        others: those that have made weights and the like.
        hidden: whether rows have come that gradients do not follow.
        stands: [e], how many edges each stands for; None for 1.
        attr: [e, …], what attention reads of edges.
        by_host: whether the layer has added up by itself in spite of all.
        sums: nodes of autograd's graph that have made its sums.
        pad_to: how many rows the output must have; None for those computed.
    """

    fused = True
    scores = False  # whether edges are weighed by attention
    estimates = True  # whether edges may stand for others, as in an unbiased layer

    def __init__(self, layer: Any, fusion: "Fusion", part: Part) -> None:
        super().__init__(layer)
        self.fusion, self.part, self.step = fusion, part, 0
        self.reduce = REDUCTIONS.get(type(layer.aggr_module), "sum")
        self.edges, self.linear = part.num_edges, None
        self.run: Run | None = None
        self.inputs: list[Any] = []
        self.others: list[Any] = []
        self.hidden = False
        self.sums: list[Any] = []
        self.pad_to: int | None = None
        self.stands: Tensor | None = None
        self.attr: Tensor | None = None
        self.by_host = False

    @staticmethod
    def takes(layer: Any, edge_attr: Tensor | None) -> bool:
        """True if a layer is fused on edges with such attributes."""
        return True

    def estimate(self, scale: str | None) -> None:
        """Has edges stand for those that were not sampled, as `unbiased` asks for."""
        part, sample = self.part, self.part.edges.sample
        receiver = part.edges.plain[1, : part.num_edges]
        total = sample.local(RECEIVED, None, 1, receiver.device)
        if self.reduce == "mean" and sample.per_edge:  # the share of each in the mean
            count = total.clamp(min=1).to(torch.float64)
            stands = sample.stands_for(0, receiver, torch.float64)
            self.stands, self.reduce = stands / count[receiver], "sum"
        elif self.scores or (self.reduce == "sum" and scale == "sum"):
            if sample.per_edge:
                self.stands = sample.stands_for(0, receiver, torch.float64)
            else:
                self.stands = share(total.to(torch.float64), receiver)[receiver]

    def given(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor | None]:
        """The rows that the layer is given: those of senders and of its receivers."""
        return source, first_rows(target, self.part.rows)

    def arrange(self, source: Tensor) -> None:
        """Moves the layer's linear map behind the sum, where that is less work."""
        name = self.fusion.linear
        if name is None:
            return
        linear = getattr(self.layer, name)
        if is_product(linear) and self.sums_first(source, linear):
            self.linear = linear
            self.shadows.put(self.layer, name, _same)

    def sums_first(self, source: Tensor, linear: Any) -> bool:
        """True if fewer rows are multiplied after the sum, or narrower ones summed."""
        size, features = linear.weight.shape
        return bool(self.part.rows < source.size(0) or features <= size)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, edge_index: Any, size: Any = None, **kwargs: Any) -> Tensor:
        out = self.sum(edge_index, kwargs)
        self.sums.append(out.grad_fn)
        return out

    def reduced(self, x: Tensor, receivers: Receivers, weight: Any) -> Tensor:
        """The sums, means or extremes."""
        return reduce_rows(x, receivers, weight, self.reduce)

    def sum(self, edge_index: Any, given: dict[str, Any]) -> Tensor:
        """Returns the result of `propagate` for its arguments."""
        x = given["x"]
        x = x[0] if isinstance(x, tuple) else x
        rows = self.part.per_step[self.step]
        self.step += 1
        receivers = self.part.receivers(rows)
        weight: Any = given.get("edge_weight")
        own = None
        if weight is not None:
            if weight.numel() > self.edges:
                own = weight[self.edges :][:rows]
            weight = weight[: receivers.index.numel()]
        if self.stands is not None:
            stands = self.stands[: receivers.index.numel()].to(x.dtype)
            weight = stands if weight is None else stands * weight
        out = self.reduced(x, receivers, weight)
        if own is not None:
            own = own.unsqueeze(1).to(out.dtype)
            out = torch.addcmul(out, own, first_rows(x, rows))
        if self.linear is not None:
            out = self.linear(out)
        if self.fusion.pads and rows < x.size(0):
            out = functional.pad(out, (0, 0, 0, x.size(0) - rows))
        return out


class FusedPair(FusedSum):
    """Sums and the receivers' own rows, each with a product: both go to one place."""

    def given(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor | None]:
        """The rows of senders; those of receivers are kept, if their map is plain."""
        layer, names = self.layer, self.fusion.matrices
        self.matrices: list[Any] = [getattr(layer, name, None) for name in names]
        self.together = self.narrow = False
        known = all(type(part) is Linear and plain(part) for part in self.matrices)
        self.beside = known and self.matrices[1].bias is None and waits(target)
        own = target if self.beside else first_rows(target, self.part.rows)
        if not known or self.matrices[1].bias is not None:
            return source, own
        self.target, projects = own, getattr(layer, "project", False)
        sums = self.reduce in ("sum", "mean")
        self.narrow = sums and not self.sums_first(source, self.matrices[0])
        self.together = not (self.narrow or projects) and _sliced(own, source)
        self.shadows.put(layer, names[0], self.multiply)
        return source, None

    def reduced(self, x: Tensor, receivers: Receivers, weight: Any) -> Tensor:
        """Sums of rows, beside the receivers' own where these are copied anyway."""
        if self.narrow:
            x = linear(x, self.matrices[0].weight)
        if self.together:
            return aggregate_and_own(x, receivers, None, weight, self.reduce)
        if self.beside and not self.narrow and not _tracked(x, weight):
            self.together = True
            sums = Sums(x, receivers, weight, self.reduce)
            return side_by_side([sums], self.target, self.part.rows)
        if self.beside:
            self.target = first_rows(self.target, self.part.rows)
        return super().reduced(x, receivers, weight)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def multiply(self, sums: Tensor) -> Tensor:
        """Both products, added up."""
        near, own = self.matrices
        if self.together:
            both = torch.cat([near.weight, own.weight], 1)
            return linear(sums, both, near.bias)
        if self.narrow:
            return linear(self.target, own.weight, near.bias).add_(sums)
        out: Tensor = near(sums)
        if not out.dtype == self.target.dtype == own.weight.dtype:  # by autocast
            out = out + own(self.target)
        else:
            out += linear(self.target, own.weight)
        return out


class FusedMessages(FusedSum):
    """Sums of messages that the layer makes for every edge."""

    def sum(self, edge_index: Any, given: dict[str, Any]) -> Tensor:
        """Returns the result of `propagate` for its arguments."""
        x, attr = given["x"][0], given["edge_attr"]
        found, begin = [], 0
        for _, receivers in blocks(self.part.receivers(self.part.rows)):
            number = receivers.index.numel()
            every = torch.arange(number, device=x.device)
            at = every + begin if receivers.edge is None else receivers.edge
            x_j = x.index_select(0, receivers.index)
            message = self.layer.message(x_j, edge_attr=attr.index_select(0, at))
            stands = None if self.stands is None else self.stands[at].to(message.dtype)
            edges = Receivers(receivers.ptr, every)
            found.append(aggregate(message, edges, stands, self.reduce))
            begin += number
        return found[0] if len(found) == 1 else torch.cat(found)


class FusedRelations(FusedSum):
    """Sums or means over the edges of one relation after the other."""

    estimates = False

    def sum(self, edge_index: Any, given: dict[str, Any]) -> Tensor:
        """Returns the result of `propagate` for its arguments."""
        if given.get("edge_type_ptr") is not None:  # pyg-lib takes them all at once
            self.by_host = True
            size = given["x"].size(0), self.part.rows
            found: Tensor = self.propagate(edge_index, size=size, **given)
            return found
        receivers = receivers_of(edge_index[0], edge_index[1], self.part.rows)
        return reduce_rows(given["x"], receivers, None, self.reduce)


class FusedAttention(FusedSum):
    """Attention by scores of nodes: raw rows are summed per head, then multiplied.

    The layer itself sees no rows, so that its own products cost nothing.
    """

    scores = True

    @staticmethod
    def takes(layer: Any, edge_attr: Tensor | None) -> bool:
        """True without attributes, or if their scores are a product with them."""
        if edge_attr is None or layer.lin_edge is None:
            return True
        mean = not layer.add_self_loops or layer.fill_value == "mean"
        return mean and is_product(layer.lin_edge)

    def given(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """No rows; they are kept for later."""
        self.source, target = source, first_rows(target, self.part.rows)
        self.target = target
        layer, res = self.layer, getattr(self.layer, "res", None)
        if res is not None:
            self.shadows.put(layer, "res", lambda _: res(target))
        return source[:0], target[:0]

    def sum(self, edge_index: Any, given: dict[str, Any]) -> Tensor:
        """Returns the result of `propagate` for its arguments."""
        layer, part = self.layer, self.part
        receivers = _looped(layer, part)
        beside, log = self.per_edge(receivers)
        shared = getattr(layer, "lin", None)
        by, to = (
            _maps(layer, getattr(layer, name) if shared is None else shared)
            for name in ("lin_src", "lin_dst")
        )
        first = self.target.size(0) >= self.source.size(0)  # as many rows either way
        if first:
            rows = linear(self.source, by.flatten(0, 1)).unflatten(1, by.shape[:2])
            score = (rows * layer.att_src).sum(dim=-1)
        else:
            rows = self.source
            score = product(rows, (by * layer.att_src[0].unsqueeze(-1)).sum(1).t())
        into = (to * layer.att_dst[0].unsqueeze(-1)).sum(1).t()
        query = product(self.target, into)
        score = score.index_select(0, receivers.index)
        score = score + query.index_select(0, receiver_of(receivers))
        score = score if beside is None else score + beside
        score = functional.leaky_relu(score, layer.negative_slope)
        score = score if log is None else score + log.to(score.dtype)
        mask = _dropped(layer, score)
        found = attend(*in_place(rows, receivers), score, mask)
        if first:
            return found
        found = torch.bmm(found.transpose(0, 1), by.transpose(1, 2))
        return found.transpose(0, 1).contiguous()

    def per_edge(self, receivers: Receivers) -> tuple[Tensor | None, Tensor | None]:
        """Scores of attributes [e, heads]; the log [e, 1] of what edges stand for."""
        layer, part, beside, log = self.layer, self.part, None, None
        if self.attr is not None and layer.lin_edge is not None:
            attr = self.attr[: part.num_edges].view(part.num_edges, -1)
            by = _maps(layer, layer.lin_edge) * layer.att_edge[0].unsqueeze(-1)
            beside = attr @ by.sum(1).t()
        if self.stands is not None:
            log = self.stands.log().unsqueeze(1)
        if layer.add_self_loops:
            looped = part.with_loops()
            none = torch.zeros(
                part.rows, 1, dtype=torch.float64, device=part.edges.device
            )
            beside = None if beside is None else looped.spread(beside)
            log = None if log is None else looped.spread(log, none)
        elif receivers.edge is not None:
            beside = None if beside is None else beside[receivers.edge]
            log = None if log is None else log[receivers.edge]
        return beside, log


class FusedAttentionV2(FusedSum):
    """Attention by scores of edges; rows and scores are those of the layer."""

    scores, estimates = True, False

    @staticmethod
    def takes(layer: Any, edge_attr: Tensor | None) -> bool:
        """True without attributes."""
        return edge_attr is None

    def __init__(self, layer: Any, fusion: "Fusion", part: Part) -> None:
        super().__init__(layer, fusion, part)
        self.shadows.put(layer, "edge_updater", lambda *args, **kwargs: None)

    def sum(self, edge_index: Any, given: dict[str, Any]) -> Tensor:
        """Returns the result of `propagate` for its arguments."""
        layer, (source, target) = self.layer, given["x"]
        found = []
        for first, receivers in blocks(_looped(layer, self.part)):
            rows = target[first : first + receivers.num_receivers]
            like = source.new_ones(receivers.index.numel(), layer.heads)
            how = layer.att[0], layer.negative_slope, _dropped(layer, like)
            found.append(attend_to_sums(source, rows, receivers, *how))
        return found[0] if len(found) == 1 else torch.cat(found)


def blocks(receivers: Receivers) -> Iterator[tuple[int, Receivers]]:
    """(first receiver, edges) of parts with about a million edges, without gradients.

    What a layer makes of every edge is then no larger than that.
    """
    number, edges = receivers.num_receivers, receivers.index.numel()
    if torch.is_grad_enabled() or edges <= BLOCK:
        yield 0, receivers
        return
    wanted = torch.arange(0, edges, BLOCK, device=receivers.ptr.device)
    cuts = torch.searchsorted(receivers.ptr, wanted, right=True) - 1
    for first, last in pairwise(sorted({0, number, *cuts.tolist()})):
        begin, end = int(receivers.ptr[first]), int(receivers.ptr[last])
        ptr = receivers.ptr[first : last + 1] - begin
        edge = None if receivers.edge is None else receivers.edge[begin:end]
        yield first, Receivers(ptr, receivers.index[begin:end], edge)


def receiver_of(receivers: Receivers) -> Tensor:
    """[e], the receiver of each edge."""
    number = receivers.index.numel()
    return torch.repeat_interleave(receivers.ptr.diff(), output_size=number)


def _tracked(*values: Tensor | None) -> bool:
    """True if autograd follows some of these tensors."""
    followed = any(value is not None and value.requires_grad for value in values)
    return followed and torch.is_grad_enabled()


def _sliced(rows: Tensor, x: Tensor) -> bool:
    """True if some rows are the first of `x`, and have their gradient by it."""
    if not (x.requires_grad and rows.requires_grad) or rows.shape[1] != x.shape[1]:
        return False
    if rows.data_ptr() != x.data_ptr() or rows.grad_fn is None:
        return False
    return rows.grad_fn.next_functions[0][0] is get_gradient_edge(x).node


def _looped(layer: Any, part: Part) -> Receivers:
    if layer.add_self_loops:
        return part.with_loops().receivers
    return part.receivers(part.rows)


def _maps(layer: Any, linear: Any) -> Tensor:
    """[heads, channels, features], the linear map of each head."""
    found: Tensor = linear.weight.view(layer.heads, layer.out_channels, -1)
    return found


def _dropped(layer: Any, score: Tensor) -> Tensor | None:
    """[e, heads], the dropout of attention as factors; None where nothing drops."""
    if not layer.training or not layer.dropout:
        return None
    return dropout(torch.ones_like(score), layer.dropout)


def _same(x: Any) -> Any:
    return x


def _no(layer: Any) -> str | None:
    return None


class Fusion(NamedTuple):
    """The way a layer is computed on the edges of a batch.

    Attributes:
        kind: what takes the place of its `propagate`.
        pair: whether it takes (senders, receivers), so that these may be fewer.
        linear: the linear map before the sum that may as well come behind it.
        matrices: the linear maps of sums and of the receivers' own rows.
        steps: how often it propagates.
        pads: whether all its steps must have as many rows.
        trouble: of a layer, why it cannot be fused with its arguments, or None.
    """

    kind: type[FusedSum] = FusedSum
    pair: bool = False
    linear: str | None = None
    matrices: tuple[str, str] = ("", "")
    steps: Callable[[Any], int] = lambda layer: 1
    pads: bool = False
    trouble: Callable[[Any], str | None] = _no


def _powers(layer: Any) -> int:
    return len(layer.lins) - 1


def _steps(layer: Any) -> int:
    return int(layer.K)


def is_product(part: Any) -> bool:
    """True for a matrix without a bias, whose calls nobody watches."""
    return type(part) is Linear and plain(part) and part.bias is None


def _has_other_maps(layer: Any) -> str | None:
    """Attention reads the matrices of its maps itself."""
    maps = [getattr(layer, name, None) for name in ("lin", "lin_src", "lin_dst")]
    if all(part is None or is_product(part) for part in maps):
        return None
    return "its linear maps are watched, or not PyG's"


FUSIONS = {
    "SAGEConv": Fusion(FusedPair, pair=True, matrices=("lin_l", "lin_r")),
    "GraphConv": Fusion(FusedPair, pair=True, matrices=("lin_rel", "lin_root")),
    "GINConv": Fusion(pair=True),
    "GINEConv": Fusion(FusedMessages, pair=True),
    "GATConv": Fusion(FusedAttention, pair=True, trouble=_has_other_maps),
    "GATv2Conv": Fusion(FusedAttentionV2, pair=True),
    "RGCNConv": Fusion(FusedRelations, pair=True),
    "GCNConv": Fusion(linear="lin"),
    "LGConv": Fusion(),
    "GCN2Conv": Fusion(),
    "SGConv": Fusion(steps=_steps),
    "SSGConv": Fusion(steps=_steps, pads=True),
    "TAGConv": Fusion(steps=_powers, pads=True),
    "APPNP": Fusion(steps=_steps, pads=True),
    "MixHopConv": Fusion(steps=_powers, pads=True),
}


def fusion_of(layer: Any) -> Fusion | None:
    """The row of a layer's class, or of the first of PyG's that it inherits from."""
    for kind in type(layer).__mro__:
        if kind.__module__.startswith("torch_geometric."):
            return FUSIONS.get(kind.__name__)
    return None


def why_not(layer: Any) -> str | None:
    """The reason why a layer is not fused, or None."""
    fusion = fusion_of(layer)
    if fusion is None:
        return "no fused form is known"
    own = overridden(layer)
    if own is not None:
        return f"its {own!r} is not that of PyG"
    if type(layer.aggr_module) not in REDUCTIONS:
        return f"its aggregation is {layer.aggr_module}"
    sums = isinstance(layer.aggr_module, aggr.SumAggregation)
    if not sums and (fusion.kind.scores or not fusion.pair):  # with loops of their own
        return f"its aggregation is {layer.aggr_module}"
    if layer.node_dim not in (-2, 0) or layer.flow != "source_to_target":
        return "it has another 'node_dim' or 'flow'"
    if getattr(layer, "cached", False):
        return "it caches its edges"
    if layer.explain or layer.decomposed_layers > 1 or has_message_hooks(layer):
        return "its messages are looked at"
    return fusion.trouble(layer)
