"""The sums of each of DGL's layers that `fused` knows, named by the table of layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from gttf_dgl._compat import (
    aggregator_of,
    heads_of,
    norm_of,
    sizes_of,
    takes_zero_in_degree,
)
from gttf_dgl._fuse import Call, Sum, Term, plain_edges
from gttf_sampler.aggregate import (
    Receivers,
    aggregate,
    aggregate_and_own,
    attend,
    attend_to_sums,
    receivers_of,
)


def graph_conv(layer: Any, call: Call) -> Tensor:
    """Sums of GraphConv, times its matrix where it multiplies first."""
    norm, (ins, outs) = norm_of(layer), sizes_of(layer)
    if norm in ("left", "both"):
        degree = call.graph.out_degrees().to(call.source.dtype).clamp(min=1)
        by = degree.pow(-0.5) if norm == "both" else degree.reciprocal()
        sent = by.index_select(0, call.ends[0])
        call.weight = sent if call.weight is None else call.weight * sent
    weight = call.named.get("weight")
    weight = layer.weight if weight is None else weight
    if weight is None or ins <= outs:
        return call.sums()  # the layer multiplies afterwards
    return call.products(lambda x: x @ weight, outs)


def graph_terms(layer: Any, call: Call) -> Sum | None:
    """Neighbours of GraphConv, divided by the degrees of receivers."""
    if call.named.get("weight") is not None or not takes_zero_in_degree(layer):
        return None
    norm, (ins, outs) = norm_of(layer), sizes_of(layer)
    rows = graph_conv(layer, call)
    if norm in ("right", "both"):
        degree = call.graph.in_degrees().to(rows.dtype).clamp(min=1).view(-1, 1)
        rows = rows * (degree.pow(-0.5) if norm == "both" else degree.reciprocal())
    multiplied = layer.weight is None or ins > outs
    return Sum([Term(rows, None if multiplied else layer.weight.t())], layer.bias)


def sage_conv(layer: Any, call: Call) -> Tensor:
    """Sums, means or maxima of SAGEConv, times its matrix where it multiplies first."""
    name, (ins, outs) = aggregator_of(layer), sizes_of(layer)
    if name == "pool":
        return _pooled(layer, call)
    reduce = "mean" if name == "mean" else "sum"
    if ins <= outs:
        return call.sums(reduce)
    return call.products(layer.fc_neigh, outs, reduce)


def _adds_first(layer: Any, call: Call) -> bool:
    """True if a mean is taken before its product."""
    outs, ins = layer.fc_neigh.weight.shape
    return ins <= outs or call.sums_first(outs)


def _pooled(layer: Any, call: Call) -> Tensor:
    rows = layer.fc_pool(call.source)
    if call.weight is not None:
        return aggregate(rows.relu(), call.edges, call.weight, "max")
    return aggregate(rows, call.edges, None, "max").relu()  # commutes with the maximum


def sage_terms(layer: Any, call: Call) -> Sum | None:
    """Neighbours and the node itself, each times a matrix; None before a norm."""
    own = getattr(layer, "fc_self", None)  # which "gcn" has not
    if layer.norm is not None or own is None:
        return None
    weight = layer.fc_neigh.weight
    if aggregator_of(layer) == "pool":
        near = Term(_pooled(layer, call), weight)
    elif _adds_first(layer, call):
        near = Term(call.sums("mean"), weight)
    else:
        near = Term(call.products(layer.fc_neigh, len(weight), "mean"), None)
    return Sum([near, Term(call.own, own.weight)], own.bias)


def sage_whole(layer: Any, call: Call) -> Tensor | None:
    """The output of SAGEConv, whose two products are added up in one place."""
    own: Any = getattr(layer, "fc_self", None)
    weight = layer.fc_neigh.weight
    if (
        aggregator_of(layer) == "mean"
        and layer.norm is None
        and call.source.requires_grad
        and call.leads
        and _adds_first(layer, call)
    ):  # neighbours and the node itself have one gradient of the rows
        rows = aggregate_and_own(call.source, call.edges, None, call.weight, "mean")
        both = torch.cat([weight, own.weight], 1)
        return _active(layer, functional.linear(rows, both, own.bias))
    found = sage_terms(layer, call)
    if found is None:
        return None
    near, out = found.terms[0], own(call.own)
    if near.weight is None:
        out = out + near.rows
    elif not out.dtype == near.rows.dtype == weight.dtype:  # by autocast
        out = out + layer.fc_neigh(near.rows)
    else:
        out = out.addmm_(near.rows, weight.t())
    return _active(layer, out)


def _active(layer: Any, out: Tensor) -> Tensor:
    found: Tensor = out if layer.activation is None else layer.activation(out)
    return found


def gin_conv(layer: Any, call: Call) -> Tensor:
    """Sums, means or maxima of GINConv."""
    return call.sums(aggregator_of(layer))


def gat_conv(layer: Any, call: Call) -> Tensor:
    """Sums of GATConv, weighted by attention, times its matrix.

    Scores are linear in the rows, and so are sums: raw rows may be summed first.
    """
    pair, (heads, size) = hasattr(layer, "fc_src"), heads_of(layer)
    of_source, of_own = (
        (layer.fc_src if pair else layer.fc).weight,
        (layer.fc_dst if pair else layer.fc).weight,
    )
    by, to = (x.view(heads, size, -1) for x in (of_source, of_own))
    raw = call.sums_first(heads * size)
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


def gatv2_conv(layer: Any, call: Call) -> Tensor:
    """Sums of GATv2Conv, weighted by attention."""
    shape = heads_of(layer)
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


def rel_graph_conv(layer: Any, call: Call) -> Tensor:
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


def edges_with_relations(layer: Any, graph: Any, named: dict[str, Any]) -> bool:
    """The same for RelGraphConv, whose edges must have one known relation each."""
    feat, kind = named.get("feat"), named.get("etypes")
    if isinstance(feat, tuple) or not plain_edges(layer, graph, named):
        return False
    if not isinstance(kind, Tensor) or kind.shape != (graph.num_edges(),):
        return False
    low, high = kind.aminmax()
    return bool(low >= 0 and high < layer.linear_r.num_types)
