"""FusedLayer and FusedHetero: forward hooks that pass messages ahead of a layer.

A layer runs on a graph that has what passing messages would give: that was found
before, in one pass over the rows of neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from dgl import DGLGraph
from torch import Tensor, nn

from gttf_dgl._compat import (
    activation_of,
    layer_of,
    no_edges,
    reduction_of,
    structure_of,
)
from gttf_dgl._fuse import Call, Sum, Term, drops_inputs, joined
from gttf_dgl._layers import fusion_of, not_fused
from gttf_sampler._compat import has_hooks, hook_of
from gttf_sampler.estimate import arguments

Rows = dict[str, Tensor]  # by node type


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
        """The arguments of the layer, with sums; None leaves it. A forward pre-hook."""
        if self.dropout is not None:  # by an interrupt, after which torch calls no hook
            self.dropout.train(layer.training)
        self.dropout = self.out = None
        fusion, named = fusion_of(layer), arguments(layer, args, kwargs)
        place = "graph" if "graph" in named else "g"
        if fusion is None or not_fused(layer) is not None:  # any more
            return None
        if not getattr(named.get(place), "num_edges", int)():
            return None
        call = Call.of(layer, fusion, named.pop(place), named)
        if call is None:
            return None
        if drops_inputs(layer):
            self.dropout = layer.feat_drop.eval()
        self.out = None if fusion.whole is None else fusion.whole(layer, call)
        sums = fusion.sums(layer, call) if self.out is None else None
        named[place] = AggregatedGraph(call.graph, sums)
        own = call.own if self.out is None else call.own[:0]
        if "etypes" in named:  # of RelGraphConv, which takes the senders' rows alone
            return (), {**named, "feat": own, "etypes": named["etypes"][:0]}
        if getattr(layer, "res_fc", own) is None:
            own = own[:0]  # attention needs it for nothing else
        return (), {**named, "feat": (call.source[:0], own)}

    def after(self, layer: Any, args: Any, out: Any) -> Any:
        """Gives the layer its dropout back; a forward hook, also after errors."""
        if self.dropout is not None:
            self.dropout.train()
            self.dropout = None
        whole, self.out = self.out, None
        return whole


class FusedHetero:
    """The forward hooks of a HeteroGraphConv, with one product per type of receivers.

    Where relations are added up, Σᵣ (Aᵣ Wᵣ + x Vᵣ) is one product: all sums side by
    side, [A₁ | A₂ | … | x], times the matrices one below the other, the last of which
    is Σᵣ Vᵣ. Layers whose output is no such sum are called as ever, and added. The
    HeteroGraphConv itself gets no inputs, so that it calls none.
    """

    def __init__(self) -> None:
        self.found: Rows | None = None  # ahead of the layer

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def before(self, layer: Any, args: Any, kwargs: Any) -> Any:
        """Computes the layer, and leaves it nothing to do; a forward pre-hook."""
        self.found = None  # of a call that was interrupted
        named, reduce = arguments(layer, args, kwargs), reduction_of(layer)
        graph: Any = named.get("g")
        ends = _ends(graph, named.get("inputs"))
        if not reduce or ends is None or named.get("mod_args"):
            return None
        senders, receivers = ends
        every = graph.canonical_etypes
        kinds = [k for k in every if k[0] in senders and k[2] in receivers]
        layers = {kind: layer_of(layer, kind) for kind in kinds}
        added = {kind for kind in kinds if _is_sum(layers[kind])}
        if len(added) == len({kind[2] for kind in added}):  # each has a type of its own
            return None
        more, sums = named.get("mod_kwargs") or {}, dict[str, list[Sum]]()
        none = {name: x[:0] for name, x in senders.items()}
        for kind in kinds:
            source, target = senders[kind[0]], receivers[kind[2]]
            if kind in added and not len(target):  # as so often in the last block
                source, there = none[kind[0]], no_edges()
            else:
                there = graph[kind]
            given = {"feat": (source, target), **more.get(kind[1], {})}
            found = _outcome(layers[kind], kind in added, there, given)
            sums.setdefault(kind[2], []).append(found)
        self.found = {
            kind: joined(sums[kind]) / (len(sums[kind]) if reduce == "mean" else 1)
            for kind in graph.dsttypes
            if kind in sums
        }
        return (no_edges(), {}), {}

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def after(self, layer: Any, args: Any, out: Any) -> Any:
        """Returns what was computed; a forward hook, called after errors as well."""
        found, self.found = self.found, None
        return found


def _ends(graph: Any, inputs: Any) -> tuple[Rows, Rows] | None:
    """The rows of senders and receivers in a call of HeteroGraphConv, or None.

    As there, those of a block are the first rows of the senders.
    """
    if not isinstance(graph, DGLGraph):
        return None
    ends = inputs if isinstance(inputs, tuple) else (inputs, inputs)
    for rows in ends:
        if not isinstance(rows, dict):
            return None
        if not all(isinstance(x, Tensor) for x in rows.values()):
            return None
    if ends[0] is ends[1] and graph.is_block:
        first = {name: x[: graph.num_dst_nodes(name)] for name, x in inputs.items()}
        return inputs, first
    return ends[0], ends[1]


def _is_sum(layer: Any) -> bool:
    """True if a layer's output is a sum of terms, and nobody watches how it is made."""
    fusion, hooks = fusion_of(layer), hook_of(layer, FusedLayer)
    if fusion is None or fusion.terms is None or hooks is None:
        return False
    if has_hooks(layer, hooks) or not_fused(layer) is not None:
        return False
    return activation_of(layer) is None and not drops_inputs(layer)


def _outcome(layer: Any, is_sum: bool, graph: Any, given: dict[str, Any]) -> Sum:
    """The output of the layer of one relation, as terms if it is their sum."""
    fusion: Any = fusion_of(layer)
    if is_sum:
        named = dict(given)
        call = Call.of(layer, fusion, graph, named)
        found: Sum | None = None if call is None else fusion.terms(layer, call)
        if found is not None:
            return found
    return Sum([Term(layer(graph, **given), None)], None)


class AggregatedGraph:
    """A graph as DGL's layers see it, whose messages have been passed already.

    Args:
        graph: whose degrees to answer.
        sums: what its receivers got; None where nobody asks for the output.
    """

    is_block = True

    def __init__(self, graph: Any, sums: Tensor | None) -> None:
        self._of, self._sums = graph, sums
        self._graph = structure_of(no_edges())  # which `edge_softmax` asks for
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

    @torch.compiler.disable  # type: ignore[untyped-decorator]
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
