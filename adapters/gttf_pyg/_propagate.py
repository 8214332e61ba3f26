"""Patched `propagate`: a layer's messages, weighted to estimate those of all edges."""

from functools import partial
from types import MethodType
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch_geometric.nn import APPNP, aggr
from torch_geometric.utils import scatter, softmax

from gttf_pyg._compat import edge_mask, methods_with, put_edge_mask, with_globals
from gttf_pyg._sampled import LOOPS, RECEIVED, Sample, SampledEdgeIndex
from gttf_pyg._table import REPLACED, DrawnEdges, InBatch, Rule, chebyshev, gcn, leaves
from gttf_sampler._check import fail, shown
from gttf_sampler._compat import Shadows
from gttf_sampler.estimate import share

ALIKE = ("add_self_loops", "improved", "normalization", "diag_lambda")


class PatchedPropagate:
    """Takes the place of a layer's `propagate` for one call of the layer."""

    fused = False  # whether it adds up, below another that says which weights

    def __init__(self, layer: Any) -> None:
        self.layer = layer
        self.propagate = layer.propagate
        self.shadows = Shadows()
        self.shadows.put(layer, "propagate", self)

    def fit_edge_mask(self, first: int, keep: Any, loops: int) -> int:
        """Fits the mask of an explainer, which has an entry per edge of the batch.

        Returns how many attributes were hidden before, for `Shadows.restore`.
        """
        before, mask = len(self.shadows), edge_mask(self.layer)
        if mask is not None:
            mask = mask[first : first + keep.numel()][keep]
            mask = torch.cat([mask, mask.new_ones(loops)])
            put_edge_mask(self.shadows, self.layer, mask)
        return before


class MatrixPropagate(PatchedPropagate):
    """Propagates along the estimate of a normalised matrix.

    Args:
        layer: whose `propagate` it takes the place of.
        rule: the layer's row in the table.
        named: the arguments of the layer.
        size: the number of nodes of the batch, for degrees in the batch; None for those
            in the full graph.
    """

    def __init__(
        self, layer: Any, rule: Rule, named: dict[str, Any], size: int | None = None
    ) -> None:
        super().__init__(layer)
        self.size = size
        self.operator: Any = rule.matrix
        self.weight_name = rule.weight
        self.edges: SampledEdgeIndex = named["edge_index"]
        self.weight: Tensor | None = named.get("edge_weight")
        self.name = name_of(self.weight, self.edges) if size is None else None
        self.how: dict[str, Any] = {}
        if self.operator is chebyshev:
            largest = self.how["lambda_max"] = named.get("lambda_max")
            if isinstance(largest, Tensor) and largest.numel() > 1:
                fail("lambda_max", "must be one number, of one graph", shown(largest))

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, edge_index: Any, size: Any = None, **kwargs: Any) -> Any:
        x = kwargs["x"]
        first, count = self.edges.sample.hop(self.edges.shape[1])
        number = x.size(self.layer.node_dim) if self.size is None else self.size
        index, weight = self._entries(number, x.dtype, first, count)
        if isinstance(self.layer, APPNP) and self.layer.training:
            weight = torch.nn.functional.dropout(weight, p=self.layer.dropout)
        kwargs[self.weight_name] = weight
        before = len(self.shadows)
        if self.layer.explain:
            every = torch.ones(count, dtype=torch.bool, device=index.device)
            before = self.fit_edge_mask(first, every, index.shape[1] - count)
        out = self.propagate(index, size=size, **kwargs)
        self.shadows.restore(before)
        return out

    def _entries(
        self, size: int, dtype: torch.dtype, first: int, count: int
    ) -> tuple[Tensor, Tensor]:
        """The matrix for the next step; layers that want the same one share it."""
        sample, edges, weight = self.edges.sample, self.edges.plain, self.weight
        layer = self.layer
        alike = tuple(getattr(layer, name, None) for name in ALIKE)
        kind = DrawnEdges if self.size is None else InBatch
        asked = kind, self.operator, alike, first, count, size, dtype, edges.device
        simple = weight is None and not self.how.get("lambda_max")
        if simple and asked in sample.made:
            found: tuple[Tensor, Tensor] = sample.made[asked]
            return found
        if weight is not None:
            weight = weight[first : first + count]
            dtype = weight.dtype
        edges = edges[:, first : first + count]
        drawn = kind(edges, sample, first, size, weight, self.name, dtype)
        found = self.operator(layer, drawn, **self.how)
        if simple:
            sample.made[asked] = found
        return found


class WeightedPropagate(PatchedPropagate):
    """Propagates with messages that stand for as many as were not drawn.

    While the layer runs, `softmax`, `scatter` and `degree` in its methods, and the sums
    and means of its aggregations, are those of all neighbours, estimated.
    """

    def __init__(
        self, layer: Any, rule: Rule, edges: SampledEdgeIndex, first: int, part: Tensor
    ) -> None:
        super().__init__(layer)
        self.rule, self.first, self.part = rule, first, part
        self.sample, self.loops = edges.sample, rule.loops(layer)
        self.keep = torch.ones(part.shape[1], dtype=torch.bool, device=part.device)
        if self.loops == REPLACED:
            self.keep = part[0] != part[1]
        self.kept = int(self.keep.sum())
        self.per_type: Tensor | None = None  # [n, types], if means are over types
        self.step = 0

    def enter(self, scale: str | None) -> None:
        """Puts the estimates where the layer will look for them."""
        layer = self.layer
        names = {"softmax": self.softmax, "degree": self.degree}
        self.scales = scale == "sum" and not self.rule.normalised(layer)
        if "symnorm" in getattr(layer, "aggregators", ()):
            self.scales = True
        for name in methods_with(type(layer), "softmax", "scatter"):
            known = names | {"scatter": self.scatter} if name == "aggregate" else names
            method = with_globals(getattr(type(layer), name), known)
            self.shadows.put(layer, name, MethodType(method, layer))
        if self.rule.relations and "aggregate" in type(layer).__dict__:
            self.shadows.put(layer, "aggregate", self.aggregate_by_type)
        for part in layer.aggr_module.modules():
            if isinstance(part, aggr.MultiAggregation):
                self.shadows.put(part, "fused_aggr", None)
            elif isinstance(
                part, aggr.SoftmaxAggregation | aggr.DegreeScalerAggregation
            ):
                method = with_globals(type(part).forward, names)
                self.shadows.put(part, "forward", MethodType(method, part))
        for part in leaves(layer):
            if not isinstance(part, aggr.SoftmaxAggregation):
                self.shadows.put(part, "reduce", partial(self.reduce, part.reduce))
        if hasattr(type(layer), "edge_update"):
            inner = torch.compiler.disable(layer.edge_updater)
            self.shadows.put(layer, "edge_updater", inner)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, edge_index: Any, size: Any = None, **kwargs: Any) -> Any:
        if self.rule.degree(self.layer) is not None:
            edge_index = self.part  # the layer was given others, to count
        if kwargs.get("symnorm_weight") is not None:
            kwargs["symnorm_weight"] = self._symmetric(edge_index, kwargs["x"])
        if kwargs.get("edge_type_ptr") is not None:
            self.per_type = None  # of all types at once
        before, count = len(self.shadows), edge_index.shape[1]
        if count >= self.kept:
            before = self.fit_edge_mask(self.first, self.keep, count - self.kept)
        out = self.propagate(edge_index, size=size, **kwargs)
        self.shadows.restore(before)
        self.step += 1
        return out

    def of(self, index: Tensor, dtype: torch.dtype) -> Tensor:
        """[e]: how many messages each message into `index` stands for."""
        sample, receiver = self.sample, self.part[self.sample.receiver]
        if not sample.per_edge:
            total = sample.local(RECEIVED, None, 1, index.device)
            found = share(total.to(dtype), receiver)[index]
            if self.loops is not None:
                found[self.kept :] = 1
            return found
        found = sample.stands_for(self.first, receiver, dtype)[self.keep]
        if index.numel() < found.numel():
            refuse_weights(self.layer, sample, "its edges by type")
        return torch.cat([found, found.new_ones(index.numel() - found.numel())])

    def count(self, size: int, dtype: torch.dtype) -> Tensor:
        """[size]: how many messages arrive in the whole graph."""
        if self.per_type is not None:
            return self.per_type[:size, self.step % self.layer.num_relations].to(dtype)
        every = self.sample.local(RECEIVED, None, 1, self.part.device)
        found: Tensor = every[:size].to(dtype)
        if self.loops is None:
            return found
        lost = self.sample.local(LOOPS, None, 1, self.part.device)
        if self.loops == REPLACED and lost is not None:
            found = found - lost[:size].to(dtype)
        return found + 1

    def scatter(
        self,
        src: Tensor,
        index: Tensor,
        dim: int = 0,
        dim_size: int | None = None,
        reduce: str = "sum",
    ) -> Tensor:
        """PyG's `scatter`, of all messages."""
        size = int(index.max()) + 1 if dim_size is None else dim_size
        how = {"sum": "sum", "add": "sum", "mean": "mean"}.get(reduce)
        if how is None or (how == "sum" and not self.scales):
            found: Tensor = scatter(src, index, dim, size, reduce)
            return found
        src = src * _along(self.of(index, src.dtype), src, dim)
        found = scatter(src, index, dim, size, "sum")
        if how == "mean":
            count = self.count(size, src.dtype).clamp(min=1)
            found = found / _along(count, found, dim)
        return found

    def reduce(
        self,
        own: Any,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        reduce: str = "sum",
    ) -> Any:
        """PyG's `Aggregation.reduce`, of which `own` is left to what is no sum."""
        if reduce not in ("sum", "add", "mean") or index is None:
            return own(x, index, ptr, dim_size, dim, reduce)
        return self.scatter(x, index, dim % x.dim(), dim_size, reduce)

    def softmax(
        self,
        src: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        num_nodes: int | None = None,
        dim: int = 0,
    ) -> Tensor:
        """PyG's `softmax`, in whose denominator all neighbours are."""
        if index is None:
            raise NotImplementedError("'softmax' needs 'index' in a sampled batch")
        weight = self.of(index, src.dtype).log()
        found: Tensor = softmax(
            src + _along(weight, src, dim), index, None, num_nodes, dim
        )
        return found

    def degree(self, index: Tensor, num_nodes: Any = None, dtype: Any = None) -> Tensor:
        size = int(index.max()) + 1 if num_nodes is None else num_nodes
        return self.count(size, dtype or index.dtype)

    def aggregate_by_type(
        self, inputs: Tensor, edge_type: Tensor, index: Tensor, dim_size: int
    ) -> Tensor:
        """Sums, or means over each type of edges, of FastRGCNConv."""
        layer = self.layer
        if self.scales or self.per_type is not None:
            inputs = inputs * _along(self.of(index, inputs.dtype), inputs, 0)
        if self.per_type is not None:
            number = self.per_type[index, edge_type].to(inputs.dtype)
            inputs = inputs / _along(number.clamp(min=1), inputs, 0)
        found: Tensor = scatter(inputs, index, layer.node_dim, dim_size)
        return found

    def _symmetric(self, edge_index: Tensor, x: Tensor) -> Tensor:
        """[e]: the weights of a GCN in the whole graph, without what `of` will add."""
        size = x.size(self.layer.node_dim)
        drawn = DrawnEdges(
            self.part, self.sample, self.first, size, None, None, x.dtype
        )
        weight = gcn(self.layer, drawn)[1]
        number = self.part.shape[1]
        weight = torch.cat([weight[:number][self.keep], weight[number:]])
        return weight / self.of(edge_index[1], x.dtype)


class JoinedPropagate(PatchedPropagate):
    """Propagates along the edges of several relations, each with its own share."""

    def __init__(self, layer: Any, relations: list[SampledEdgeIndex]) -> None:
        super().__init__(layer)
        self.relations = relations
        method = with_globals(type(layer).message, {"softmax": self.softmax})
        self.shadows.put(layer, "message", MethodType(method, layer))

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.propagate(*args, **kwargs)

    def softmax(self, src: Tensor, index: Tensor, *args: Any) -> Tensor:
        parts = [torch.zeros(0, device=src.device)]
        for edges in self.relations:
            sample, receiver = edges.sample, edges.plain[edges.sample.receiver]
            if sample.per_edge:
                parts.append(sample.stands_for(0, receiver, src.dtype))
                continue
            total = sample.local(RECEIVED, None, 1, src.device)
            parts.append(share(total.to(src.dtype), receiver)[receiver])
        weight = torch.cat(parts).to(src.dtype).log()
        found: Tensor = softmax(src + _along(weight, src, 0), index, *args)
        return found


def counted(edges: SampledEdgeIndex, most: int) -> Tensor:
    """Edges [2, k] into every node, as many as in the whole graph, up to `most`."""
    received = edges.sample.local(RECEIVED, None, 1, edges.device)
    node = torch.arange(received.numel(), device=edges.device)
    return node.repeat_interleave(received.long().clamp(max=most)).expand(2, -1)


def name_of(weight: Tensor | None, edges: SampledEdgeIndex) -> str | None:
    """The name of these edge weights in the data; an error if it has none like them.

    By value, because a batch may have been moved and cast since the weights were read.
    """
    sample = edges.sample
    named = None
    if weight is not None:
        for name in sample.names:
            there = sample.column(name, weight.device)[: weight.numel()]
            if torch.equal(there.to(weight.dtype), weight.detach()):
                named = name
                break
        else:
            rule = "must be an attribute of the loader's data, which knows it for all"
            got = f"other weights; there are {sample.names}"
            fail("edge_weight", f"{rule} edges", got)
    check_drawn_by(edges, named)
    return named


def check_drawn_by(edges: SampledEdgeIndex, named: str | None = None) -> None:
    """Refuses draws by weights that keep some edges from being drawn at all."""
    sample = edges.sample
    if sample.drawn_by not in (None, named) and sample.takes_zero(sample.drawn_by):
        rule = "must name weights above zero, or the layer's own"
        got = f"{sample.drawn_by!r}, which is zero for some edges"
        fail("weight_attr", rule, got, "they are never drawn")


def refuse_weights(layer: Any, sample: Sample, takes: str) -> NoReturn:
    """Says that a layer needs edges that were drawn uniformly."""
    rule = f"must be None for {type(layer).__name__}, which takes {takes}"
    labor = sample.factor is not None
    got = "a Labor" if labor else repr(sample.drawn_by)
    fail("labor" if labor else "weight_attr", rule, got, "draw uniformly")


def _along(value: Tensor, like: Tensor, dim: int) -> Tensor:
    shape = [1] * like.dim()
    shape[dim] = -1
    return value.view(shape)
