"""Call: a call of one of DGL's layers, whose messages `aggregate` can add up.

Sums commute with a layer's matrix, which then multiplies the receivers of a block, not
all their senders.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import torch
from dgl import DGLError, DGLGraph
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge
from torch.nn import functional

from gttf_sampler.aggregate import (
    FLOATS,
    Receivers,
    aggregate,
    receivers_of,
)
from gttf_sampler.estimate import share

READ_COST = 20  # multiply-adds that take as long as to read one number of an edge's row


class Term(NamedTuple):
    """A part of a layer's output: rows times a matrix.

    Attributes:
        rows: [r, f].
        weight: [out, f]; None where the rows have been multiplied.
    """

    rows: Tensor
    weight: Tensor | None


class Sum(NamedTuple):
    """The output of a layer as a sum: some terms, and a bias."""

    terms: list[Term]
    bias: Tensor | None


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

    @classmethod
    def of(cls, layer: Any, fusion: Fusion, graph: Any, named: Any) -> Call | None:
        """The call, which takes weights out of `named`; None if it cannot be fused."""
        feat, weight = named.get("feat"), named.get(fusion.weight)
        if not isinstance(graph, DGLGraph) or not fusion.takes(layer, graph, named):
            return None
        rows = feat if isinstance(feat, tuple) else (feat, feat)
        if not all(map(_are_rows, rows)) or not _weighs_edges(weight, graph):
            return None
        if len(rows[0]) != graph.num_src_nodes():
            return None
        if drops_inputs(layer):
            dropped = [layer.feat_drop(x) for x in rows[: 1 + isinstance(feat, tuple)]]
            rows = dropped[0], dropped[-1]
        source, own = rows
        if not isinstance(feat, tuple) and graph.is_block:
            own = own[: graph.num_dst_nodes()]
        weight = None if weight is None else weight.view(-1).to(source.dtype)
        named.pop(fusion.weight, None)
        return cls(graph, source, own, weight, named)

    @cached_property
    def ends(self) -> tuple[Tensor, Tensor]:
        """The sender and the receiver [e] of each edge."""
        sender, receiver = self.graph.edges()
        return sender.long(), receiver.long()

    @cached_property
    def edges(self) -> Receivers:
        """The edges by receiver, in DGL's own memory where it may keep a CSC."""
        try:
            ptr, index, edge = self.graph.adj_tensors("csc")
        except DGLError:  # of a graph that is kept to other formats
            return receivers_of(*self.ends, self.graph.num_dst_nodes())
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

    def sums(self, reduce: str = "sum") -> Tensor:
        """Sums per receiver [r, f]."""
        x, rows = self.source, self.graph.num_dst_nodes()
        if not rows:
            return x[:0]
        if not self.graph.num_edges() and not x.requires_grad:
            return x.new_zeros(rows, x.shape[1])
        return self.estimated(aggregate(x, self.edges, self.weight, reduce), reduce)

    def products(
        self, linear: Callable[[Tensor], Tensor], outs: int, reduce: str = "sum"
    ) -> Tensor:
        """Sums per receiver times a matrix [r, outs], of which the cheaper is first."""
        if self.sums_first(outs):
            return linear(self.sums(reduce))
        rows = aggregate(linear(self.source), self.edges, self.weight, reduce)
        return self.estimated(rows, reduce)

    def sums_first(self, outs: int) -> bool:
        """True if sums, then products, take less time than products, then sums."""
        graph, ins = self.graph, self.source.shape[1]
        if not graph.num_edges():
            return True
        fewer = graph.num_src_nodes() - graph.num_dst_nodes()
        return bool(fewer * ins * outs > READ_COST * graph.num_edges() * (ins - outs))

    def estimated(self, summed: Tensor, reduce: str = "sum") -> Tensor:
        """Sums, as an unbiased layer wants them: times the share that was sampled."""
        whole = getattr(self.graph, "whole", None)  # of a view that `unbiased` made
        if reduce != "sum" or whole is None:
            return summed
        drawable = whole.drawable.to(summed.dtype)
        return summed * share(drawable, self.ends[1]).view(-1, 1)


def _are_rows(x: Any) -> bool:
    """True for floats [n, f] on the CPU."""
    known = type(x) in (Tensor, nn.Parameter) and x.device.type == "cpu"
    return known and x.dim() == 2 and x.dtype in FLOATS


def _weighs_edges(weight: Any, graph: Any) -> bool:
    """True for no weight, or one number per edge."""
    if weight is None:
        return True
    edges = graph.num_edges()
    return isinstance(weight, Tensor) and weight.numel() == len(weight) == edges


def plain_edges(layer: Any, graph: Any, named: dict[str, Any]) -> bool:
    """True if a layer's sums over a graph are `aggregate`'s."""
    if graph.device.type != "cpu" or len(graph.canonical_etypes) != 1:
        return False
    return not named.get("get_attention")


SUMS = "sums of rows, before or after its matrix"


class Fusion(NamedTuple):
    """The way a layer is fused.

    Attributes:
        sums: of a layer and a call, what its receivers get.
        words: of a layer, the same for people.
        takes: whether a call can be fused.
        weight: the argument that has the weights of edges.
        whole: of a layer and a call, its output, or None where the layer finds that
            by `sums`.
        terms: of a layer and a call, the sum that its output is before an activation;
            None where it is no such sum.
        matrices: linear maps whose weights are read, rather than called.
    """

    sums: Callable[[Any, Call], Tensor]
    words: Callable[[Any], str] = lambda layer: SUMS
    takes: Callable[[Any, Any, dict[str, Any]], bool] = plain_edges
    weight: str = "edge_weight"
    whole: Callable[[Any, Call], Tensor | None] | None = None
    terms: Callable[[Any, Call], Sum | None] | None = None
    matrices: tuple[str, ...] = ()


def joined(parts: list[Sum]) -> Tensor:
    """The sum of some sums, by one product of all rows side by side."""
    terms = [term for part in parts for term in part.terms]
    biases = [part.bias for part in parts if part.bias is not None]
    rows, weights = dict[int, Tensor](), dict[int, Tensor]()
    for term in terms:
        if term.weight is not None:  # rows of several terms are multiplied by the sum
            place = id(term.rows)
            rows[place], known = term.rows, weights.get(place)
            weights[place] = term.weight if known is None else known + term.weight
    added = [term.rows for term in terms if term.weight is None]
    if rows:
        beside = torch.cat([*rows.values()], 1), torch.cat([*weights.values()], 1)
        bias: Any = sum(biases) if biases else None
        added.append(functional.linear(*beside, bias))
        biases = []
    found: Any = sum([*added, *biases])
    return found  # type: ignore[no-any-return]


def drops_inputs(layer: Any) -> bool:
    """True if a layer drops out its inputs."""
    drop = getattr(layer, "feat_drop", None)
    return drop is not None and bool(drop.training and drop.p > 0)
