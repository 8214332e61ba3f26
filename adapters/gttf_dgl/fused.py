"""fused(): DGL's layers on the kernels of `gttf_sampler.aggregate`.

A layer runs with a stand-in for its graph, which has what passing messages would give:
that was found before, in one pass over the rows of neighbours. Sums commute with the
layer's matrix, which then multiplies the receivers of a block, not all their senders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple, TypeVar

import dgl
import torch
from dgl import DGLGraph
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge
from torch.nn import functional

from gttf_dgl import _check
from gttf_dgl._layers import aggregating, rule_of
from gttf_dgl.unbiased import Estimated
from gttf_sampler.aggregate import (
    Receivers,
    aggregate,
    aggregate_and_own,
    attend,
    attend_to_sums,
    receivers_of,
)
from gttf_sampler.estimate import PARTS, arguments, share

Model = TypeVar("Model", bound=nn.Module)

# Linear maps whose weights are read, rather than called.
READ_MATRICES = {
    "SAGEConv": ("fc_neigh", "fc_self"),
    "GATConv": ("fc", "fc_src", "fc_dst"),
}
READ_COST = 20  # multiply-adds that take as long as to read one number of an edge's row


def fused(model: Model) -> Model:
    """`model`, whose layers now add up their neighbours in one pass over their rows.

    >>> import dgl, torch
    >>> from gttf_dgl import NeighborSampler, fused
    >>> g, x = dgl.rand_graph(100, 1000), torch.randn(100, 8)
    >>> conv = dgl.nn.SAGEConv(8, 4, "mean")
    >>> _, seeds, (block,) = NeighborSampler([5]).sample(g, torch.arange(10))
    >>> own = x[block.srcdata[dgl.NID]]
    >>> expected = conv(block, own)
    >>> torch.allclose(fused(conv)(block, own), expected, atol=1e-5)
    True

    GraphConv, SAGEConv (but "lstm"), GINConv, GATConv, GATv2Conv and RelGraphConv are
    fused, and HeteroGraphConv through its layers, on blocks and graphs on the CPU;
    `fused_layers` says which and why. All else runs as before, as do edge weights of
    many dimensions and calls that ask for attention.

    The model is changed in place, by hooks on its layers as in `unbiased`, with which
    it can be combined in any order: parameters, `state_dict` and class stay.

    Args:
        model: a layer of DGL, or any module that contains some.
    """
    _check.model(model)
    for layer in model.modules():
        if _is_known(layer) and _why_not(layer) is None and not _is_fused(layer):
            hooks = FusedLayer()
            layer.register_forward_pre_hook(hooks.before, with_kwargs=True)
            layer.register_forward_hook(hooks.after, always_call=True)
    return model


@dataclass(frozen=True)
class FusedLayers:
    """The layers of a model that aggregate, and what `fused` does with each.

    Attributes:
        layers: (name, class, verdict) of each: "fused" and how, or why not.
    """

    layers: tuple[tuple[str, str, str], ...]

    def __str__(self) -> str:
        """A line per layer."""
        if not self.layers:
            return "no layer aggregates"
        sizes = [max(len(row[column]) for row in self.layers) for column in (0, 1)]
        return "\n".join(
            f"{name:{sizes[0]}}  {kind:{sizes[1]}}  {verdict}".rstrip()
            for name, kind, verdict in self.layers
        )


def fused_layers(model: nn.Module) -> FusedLayers:
    """The layers of a model that aggregate: fused and how, or left as they are and why.

    >>> import dgl
    >>> from gttf_dgl import fused, fused_layers
    >>> layers = [dgl.nn.SAGEConv(8, 8, "mean"), dgl.nn.DotGatConv(8, 8, 2)]
    >>> print(fused_layers(fused(torch.nn.Sequential(*layers))))
    0  SAGEConv    fused: sums of rows, before or after its matrix
    1  DotGatConv  left as it is: 'fused' does not know this layer
    """
    _check.model(model)
    rows = []
    for name, layer in aggregating(model):
        why = _why_not(layer)
        if why is None and not _is_fused(layer):
            why = "call 'fused' first"
        verdict = f"left as it is: {why}"
        if why is None:
            verdict = f"fused: {FUSIONS[_host_class(layer).__name__].words(layer)}"
        rows.append((name or "(model)", type(layer).__name__, verdict))
    return FusedLayers(tuple(rows))


def _is_fused(layer: nn.Module) -> bool:
    hooks = layer._forward_pre_hooks.values()
    owners = (getattr(hook, "__self__", None) for hook in hooks)
    return any(isinstance(owner, FusedLayer) for owner in owners)


def _is_known(layer: nn.Module) -> bool:
    rule = rule_of(layer)
    return rule is not None and rule.status != PARTS


def _host_class(layer: nn.Module) -> Any:
    """The first class of DGL's that a layer is an instance of."""
    kinds = type(layer).__mro__
    return next((k for k in kinds if k.__module__.startswith("dgl.")), nn.Module)


def _why_not(layer: Any) -> str | None:
    """Why a layer stays as it is, or None."""
    host = _host_class(layer)
    if host.__name__ not in FUSIONS:
        return "'fused' does not know this layer"
    for name in ("forward", "message"):
        if getattr(type(layer), name, None) is not getattr(host, name, None):
            return f"it has a {name} of its own"
    if host.__name__ == "SAGEConv" and layer._aggre_type == "lstm":
        return "its aggregator 'lstm' reads neighbours one after the other"
    for name in READ_MATRICES.get(host.__name__, ()):
        matrix = getattr(layer, name, None)
        if matrix is None:
            continue
        if type(matrix) is not nn.Linear or _is_watched(matrix):
            return f"its '{name}' is no Linear without hooks"
        if matrix.bias is not None and name != "fc_self":
            return f"its '{name}' has a bias"
    return None


def _is_watched(part: Any) -> bool:
    """True if hooks are called with a module, or with its gradients."""
    forward = part._forward_pre_hooks or part._forward_hooks
    return bool(forward or part._backward_pre_hooks or part._backward_hooks)


class FusedLayer:
    """The forward hooks of one layer.

    `unbiased` puts its own before these, so that degrees and the share of edges that
    were sampled are those that its view of the graph answers.
    """

    def __init__(self) -> None:
        # done ahead of the layer:
        self.dropout: nn.Module | None = None
        self.out: Tensor | None = None

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def before(self, layer: Any, args: Any, kwargs: Any) -> Any:
        """The arguments of the layer with a stand-in, or None; a forward pre-hook."""
        if self.dropout is not None:  # by an interrupt, after which torch calls no hook
            self.dropout.train(layer.training)
        self.dropout = self.out = None
        if _why_not(layer) is not None:  # any more
            return None
        named = arguments(layer, args, kwargs)
        place = "graph" if "graph" in named else "g"
        graph, feat = named.get(place), named.get("feat")
        fusion = FUSIONS[_host_class(layer).__name__]
        if not isinstance(graph, DGLGraph) or not fusion.takes(layer, graph, named):
            return None
        rows = feat if isinstance(feat, tuple) else (feat, feat)
        weight = named.pop(fusion.weight, None)
        if not all(_are_rows(x) for x in rows) or not _weighs_edges(weight, graph):
            return None
        if len(rows[0]) != graph.num_src_nodes():
            return None
        drop = getattr(layer, "feat_drop", None)
        if drop is not None and drop.training and drop.p > 0:
            rows = tuple(map(drop, rows)) if isinstance(feat, tuple) else (drop(feat),)
            self.dropout = drop.eval()
        source, own = rows[0], rows[-1]
        if not isinstance(feat, tuple) and graph.is_block:
            own = own[: graph.num_dst_nodes()]
        weight = None if weight is None else weight.view(-1).to(source.dtype)
        call = Call(graph, source, own, weight, named)
        self.out = None if fusion.whole is None else fusion.whole(layer, call)
        sums = fusion.sums(layer, call) if self.out is None else None
        own = own if self.out is None else own[:0]
        named[place] = StandIn(graph, sums)
        if "etypes" in named:  # of RelGraphConv, which takes the senders' rows alone
            return (), {**named, "feat": own, "etypes": named["etypes"][:0]}
        if getattr(layer, "res_fc", own) is None:
            own = own[:0]  # attention needs it for nothing else
        return (), {**named, "feat": (source[:0], own)}

    def after(self, layer: Any, args: Any, out: Any) -> Any:
        """Gives the layer its dropout back; a forward hook, also after errors."""
        if self.dropout is not None:
            self.dropout.train()
            self.dropout = None
        whole, self.out = self.out, None
        return whole


class Call:
    """A call of a layer.

    Args:
        graph: what was passed, or the view of it that `unbiased` has made.
        source: [n, f], the rows of the senders.
        own: [r, f], those of the receivers.
        weight: [e], of the edges; None for 1.
        named: all arguments.
    """

    def __init__(
        self,
        graph: Any,
        source: Tensor,
        own: Tensor,
        weight: Tensor | None,
        named: dict[str, Any],
    ) -> None:
        self.graph, self.source, self.own = graph, source, own
        self.weight, self.named = weight, named

    @cached_property
    def ends(self) -> tuple[Tensor, Tensor]:
        """The sender and the receiver [e] of each edge."""
        sender, receiver = self.graph.edges()
        return sender.long(), receiver.long()

    @cached_property
    def edges(self) -> Receivers:
        """The edges by receiver, in DGL's own memory where it keeps a CSR."""
        if self.graph.is_block:
            return receivers_of(*self.ends, self.graph.num_dst_nodes())
        ptr, index, edge = self.graph.adj_tensors("csc")
        return Receivers(ptr.long(), index.long(), edge.long() if len(edge) else None)

    @property
    def leads(self) -> bool:
        """True if receivers' rows are the first senders', and so is their gradient."""
        own, source = self.own, self.source
        if own is source:
            return True
        alike = own.data_ptr() == source.data_ptr() and own.stride() == source.stride()
        if not alike or own.shape[1] != source.shape[1] or len(own) > len(source):
            return False
        if not (own.requires_grad and source.requires_grad):
            tracked = own.requires_grad or source.requires_grad
            return not (tracked and torch.is_grad_enabled())
        if own.grad_fn is None or own.grad_fn.name() != "SliceBackward0":
            return False
        return own.grad_fn.next_functions[0] == get_gradient_edge(source)[:2]

    def sums(
        self, reduce: str, linear: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:
        """Sums per receiver, through a linear map before or after the sum."""
        x, size = self.source, self.source.shape[1]
        first = linear is not None and not self.sums_first(size, linear(x[:0]).shape[1])
        if linear is not None and first:
            x = linear(x)
        found = self.estimated(aggregate(x, self.edges, self.weight, reduce), reduce)
        return found if linear is None or first else linear(found)

    def sums_first(self, size: int, out: int) -> bool:
        """True if sums, then products, take less time than products, then sums."""
        graph = self.graph
        fewer = graph.num_src_nodes() - graph.num_dst_nodes()
        return bool(fewer * size * out > READ_COST * graph.num_edges() * (size - out))

    def estimated(self, summed: Tensor, reduce: str = "sum") -> Tensor:
        """Sums, as an unbiased layer wants them: times the share that was sampled."""
        if reduce != "sum" or not isinstance(self.graph, Estimated):
            return summed
        drawable = self.graph.whole.drawable.to(summed.dtype)
        return summed * share(drawable, self.ends[1]).view(-1, 1)


class StandIn:
    """A graph as DGL's layers see it, whose messages have been passed already.

    Args:
        graph: whose degrees to answer.
        sums: what its receivers got; None where nobody asks for the output.
    """

    is_block = True

    def __init__(self, graph: Any, sums: Tensor | None) -> None:
        self._of, self._sums = graph, sums
        self.srcdata: dict[str, Tensor] = {}
        self.dstdata: dict[str, Tensor] = {}
        self.edata: dict[str, Tensor] = {}

    @contextmanager
    def local_scope(self) -> Iterator[None]:
        """Nothing: this graph lives for one call."""
        yield

    def num_edges(self) -> int:
        """The number of edges of the graph."""
        return int(self._of.num_edges())

    def num_dst_nodes(self) -> int:
        """The number of receivers."""
        return int(self._of.num_dst_nodes())

    number_of_dst_nodes = num_dst_nodes

    def in_degrees(self) -> Tensor:
        """The in-degrees of the graph, or of the whole graph where it says so."""
        found: Tensor = self._of.in_degrees()
        return found

    def out_degrees(self) -> Tensor:
        """None, of no senders."""
        return torch.empty(0, dtype=torch.int64)

    def apply_edges(self, message: Any) -> None:
        """The data of no edges."""
        self.edata[message.out_field] = self.srcdata[message.lhs_field][:0]

    def update_all(self, message: Any, reduce: Any) -> None:
        """The sums."""
        sums = self.srcdata[message.in_field] if self._sums is None else self._sums
        self.dstdata[reduce.out_field] = sums

    @property
    def _graph(self) -> Any:
        """For `edge_softmax`, which asks for the index of a graph."""
        return _no_edges()


@cache
def _no_edges() -> Any:
    return dgl.create_block(([], []), 0, 0)._graph


def _are_rows(x: Any) -> bool:
    """True for float32 or float64 [n, f] on the CPU."""
    known = type(x) in (Tensor, nn.Parameter) and x.device.type == "cpu"
    return known and x.dim() == 2 and x.dtype in (torch.float32, torch.float64)


def _weighs_edges(weight: Any, graph: Any) -> bool:
    """True for no weight, or one number per edge."""
    if weight is None:
        return True
    edges = graph.num_edges()
    return isinstance(weight, Tensor) and weight.numel() == len(weight) == edges


def _plain(layer: Any, graph: Any, named: dict[str, Any]) -> bool:
    """True if a layer's sums over a graph are `aggregate`'s."""
    if graph.device.type != "cpu" or len(graph.canonical_etypes) != 1:
        return False
    return int(graph.num_edges()) > 0 and not named.get("get_attention")


def _plain_relations(layer: Any, graph: Any, named: dict[str, Any]) -> bool:
    """The same for RelGraphConv, whose edges must have one known relation each."""
    feat, kind = named.get("feat"), named.get("etypes")
    if isinstance(feat, tuple) or not _plain(layer, graph, named):
        return False
    if not isinstance(kind, Tensor) or kind.shape != (graph.num_edges(),):
        return False
    low, high = kind.aminmax()
    return bool(low >= 0 and high < layer.linear_r.num_types)


def _graph_conv(layer: Any, call: Call) -> Tensor:
    if layer._norm in ("left", "both"):
        degree = call.graph.out_degrees().to(call.source.dtype).clamp(min=1)
        by = degree.pow(-0.5) if layer._norm == "both" else degree.reciprocal()
        sent = by.index_select(0, call.ends[0])
        call.weight = sent if call.weight is None else call.weight * sent
    weight = call.named.get("weight")
    weight = layer.weight if weight is None else weight
    if weight is None or layer._in_feats <= layer._out_feats:
        return call.sums("sum")  # the layer multiplies afterwards
    return call.sums("sum", lambda x: x @ weight)


def _sage_conv(layer: Any, call: Call) -> Tensor:
    if layer._aggre_type != "pool":
        reduce = "mean" if layer._aggre_type == "mean" else "sum"
        first = layer._in_src_feats > layer._out_feats
        return call.sums(reduce, layer.fc_neigh if first else None)
    return _pooled(layer, call)


def _pooled(layer: Any, call: Call) -> Tensor:
    rows = layer.fc_pool(call.source)
    if call.weight is not None:
        return aggregate(rows.relu(), call.edges, call.weight, "max")
    return aggregate(rows, call.edges, None, "max").relu()  # commutes with the maximum


def _sage_whole(layer: Any, call: Call) -> Tensor | None:
    """The layer's output, whose two products are added up in one place."""
    weight, own = layer.fc_neigh.weight, getattr(layer, "fc_self", None)
    if layer.norm is not None or own is None:
        return None
    mean, size = layer._aggre_type == "mean", call.source.shape[1]
    if mean and size > len(weight) and not call.sums_first(size, len(weight)):
        out = own(call.own) + call.sums("mean", layer.fc_neigh)
    elif mean and call.source.requires_grad and call.leads:  # one gradient of the rows
        rows = aggregate_and_own(call.source, call.edges, None, call.weight, "mean")
        both = torch.cat([weight, own.weight], 1)
        out = functional.linear(rows, both, own.bias)
    else:
        sums, out = call.sums("mean") if mean else _pooled(layer, call), own(call.own)
        if out.dtype != sums.dtype:  # by autocast
            out = out + layer.fc_neigh(sums)
        else:
            out = out.addmm_(sums, weight.t())
    found: Tensor = out if layer.activation is None else layer.activation(out)
    return found


def _gin_conv(layer: Any, call: Call) -> Tensor:
    return call.sums(layer._aggregator_type)


def _gat_conv(layer: Any, call: Call) -> Tensor:
    """Scores are linear in the rows; so are sums, that raw rows can be summed."""
    pair, heads = hasattr(layer, "fc_src"), layer._num_heads
    of_source, of_own = (
        (layer.fc_src if pair else layer.fc).weight,
        (layer.fc_dst if pair else layer.fc).weight,
    )
    by, to = (x.view(heads, layer._out_feats, -1) for x in (of_source, of_own))
    raw = call.sums_first(by.shape[2], of_source.shape[0])
    if raw:
        rows = call.source
        score = rows @ (by * layer.attn_l[0].unsqueeze(-1)).sum(1).t()
    else:
        rows = functional.linear(call.source, of_source).unflatten(1, by.shape[:2])
        score = (rows * layer.attn_l).sum(-1)
    query = call.own @ (to * layer.attn_r[0].unsqueeze(-1)).sum(1).t()
    sender, receiver = call.ends
    score = layer.leaky_relu(score[sender] + query[receiver])
    mask = _mask(layer, score, call.weight)
    found = attend(rows, call.edges, score, mask)
    if not raw:
        return found
    return torch.bmm(found.transpose(0, 1), by.transpose(1, 2)).transpose(0, 1)


def _gatv2_conv(layer: Any, call: Call) -> Tensor:
    shape = layer._num_heads, layer._out_feats
    rows = layer.fc_src(call.source).unflatten(1, shape)
    own = call.own
    if layer.share_weights and call.leads:
        query = rows[: len(own)]
    else:
        query = layer.fc_dst(own).unflatten(1, shape)
    mask = _mask(layer, rows.new_ones(call.graph.num_edges(), shape[0]), None)
    slope = layer.leaky_relu.negative_slope
    return attend_to_sums(rows, query, call.edges, layer.attn[0], slope, mask)


def _mask(layer: Any, score: Tensor, weight: Tensor | None) -> Tensor | None:
    """Factors of attention [e, heads]: dropout, and weights of edges."""
    drop, mask = layer.attn_drop, None
    if drop.training and drop.p > 0:
        mask = drop(torch.ones_like(score))
    if weight is None:
        return mask
    spread = weight.view(-1, 1).expand_as(score)
    return spread if mask is None else mask * spread


def _rel_graph_conv(layer: Any, call: Call) -> Tensor:
    """Rows are summed per receiver and relation, and then multiplied."""
    edges, kinds = call.edges, layer.linear_r.num_types
    number, count = edges.num_receivers, len(edges.index)
    kind, every = call.named["etypes"].long(), torch.arange(count)
    place = every if edges.edge is None else edges.edge
    receiver = torch.repeat_interleave(edges.ptr.diff(), output_size=count)
    kind = kind.index_select(0, place)
    order = receivers_of(every, kind, kinds).index  # by relation, then by receiver
    pair, size = torch.unique_consecutive(
        kind[order] * number + receiver[order], return_counts=True
    )
    ptr = torch.cat([size.new_zeros(1), size.cumsum(0)])
    apart = Receivers(ptr, edges.index[order], place[order])
    summed = aggregate(call.source, apart, call.weight)
    made = layer.linear_r(summed, pair // number, True)
    together = receivers_of(torch.arange(len(pair)), pair % number, number)
    return call.estimated(aggregate(made, together))


def _sums(layer: Any) -> str:
    return "sums of rows, before or after its matrix"


class Fusion(NamedTuple):
    """The way a layer is fused.

    Attributes:
        sums: of a layer and a call, what its receivers get.
        words: of a layer, the same for people.
        takes: whether a call can be fused.
        weight: the argument that has the weights of edges.
        whole: of a layer and a call, its output, or None where the layer finds that
            by `sums`.
    """

    sums: Callable[[Any, Call], Tensor]
    words: Callable[[Any], str] = _sums
    takes: Callable[[Any, Any, dict[str, Any]], bool] = _plain
    weight: str = "edge_weight"
    whole: Callable[[Any, Call], Tensor | None] | None = None


FUSIONS = {
    "GraphConv": Fusion(_graph_conv),
    "SAGEConv": Fusion(
        _sage_conv,
        lambda layer: (
            "the maximum of rows of its 'fc_pool'"
            if layer._aggre_type == "pool"
            else _sums(layer)
        ),
        whole=_sage_whole,
    ),
    "GINConv": Fusion(_gin_conv, lambda layer: f"the {layer._aggregator_type} of rows"),
    "GATConv": Fusion(_gat_conv, lambda layer: "attention, before or after its matrix"),
    "GATv2Conv": Fusion(_gatv2_conv, lambda layer: "attention"),
    "RelGraphConv": Fusion(
        _rel_graph_conv,
        lambda layer: "sums of rows per relation, before their matrices",
        _plain_relations,
        "norm",
    ),
}
