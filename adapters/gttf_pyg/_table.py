"""One table of PyG's layers: how each is estimated from sampled edges, or why not.

A layer adds up, averages or weighs messages over all δ edges into a node. Of a sample S
each drawn edge stands for δ / |S| of them; a loop that the layer adds by itself is not
drawn and stands for itself. The table says which layers are matrices of degrees, which
add loops, which normalise by attention, and of which there is no estimate.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing, aggr

from gttf_pyg._sampled import KEPT, LOOPS, RECEIVED, SENT, Sample
from gttf_sampler.estimate import (
    EXACT,
    PARTS,
    RATIO,
    REFUSED,
    WARNED,
    no_estimate,
    row_of,
    share,
)

REPLACED, ADDED = "replaced", "added"  # loops: those of the graph go, or they stay

Entries = tuple[Tensor, Tensor]  # edge_index [2, e] and weight [e]
Operator = Callable[..., Entries]  # of a layer and a `DrawnEdges`


class DrawnEdges(NamedTuple):
    """The edges that one step of a layer sees, and how they were drawn.

    A layer that normalises by degree computes Σ c(i, j) w(i, j) x(j) over all edges
    into i. From |S| of δ edges, drawn uniformly, that is estimated by the same sum over
    S times δ / |S|, with c from the degrees of the whole graph; what a node has of
    itself, a loop that the layer adds, is not drawn and keeps its weight. The
    expectation is exact, and with all neighbours so is the value.
    """

    edge_index: Tensor  # [2, e], plain
    sample: Sample
    first: int  # where they start among all edges of the sample
    size: int  # how many nodes the layer was given
    weight: Tensor | None  # [e], the layer's edge weights
    name: str | None  # what the data calls them
    dtype: torch.dtype  # of the result

    def sums(self, kind: str) -> Any:
        """[size]: one of `KINDS` of each node in the full graph; None without loops."""
        side = 0 if kind == SENT else 1
        found = self.sample.local(kind, self.name, side, self.edge_index.device)
        return None if found is None else found[: self.size].to(self.dtype)

    def others(self, kind: str) -> Tensor:
        """[size]: the sums without what a node has from itself."""
        sums, loops = self.sums(kind), self.sums(LOOPS)
        found: Tensor = sums if loops is None else sums - loops
        return found

    def share(self) -> Tensor:
        """[n] or, if edges of one node differ, [e]: what each edge stands for."""
        receiver = self.edge_index[self.sample.receiver]
        if self.sample.per_edge:
            return self.sample.stands_for(self.first, receiver, self.dtype)
        total = self.sample.local(RECEIVED, None, 1, self.edge_index.device)
        return share(total.to(self.dtype), receiver)

    def entries(self, sender: Tensor, receiver: Tensor, loops: bool = True) -> Tensor:
        """[e]: weight times share times one factor [size] for each end.

        Without `loops`, those of the graph among the edges count as zero.
        """
        ends = self.edge_index
        each = self.share()
        if not self.sample.per_edge and self.sample.receiver == 1:
            value = sender[ends[0]] * (each[: self.size] * receiver)[ends[1]]
        else:
            value = sender[ends[0]] * receiver[ends[1]]
            drawer = ends[self.sample.receiver]
            value = value * (each if self.sample.per_edge else each[drawer])
        if self.weight is not None:
            value = value * self.weight
        if not loops and self.sums(LOOPS) is not None:
            ids = self.sample.node[1].to(ends.device)  # of a repeated node, all copies
            value = value.masked_fill(ids[ends[0]] == ids[ends[1]], 0)
        return value

    def with_loops(self, value: Tensor, loop: Tensor) -> Entries:
        """The edges, and behind them a loop for every node."""
        every = torch.arange(self.size, device=self.edge_index.device)
        index = torch.cat([self.edge_index, every.expand(2, -1)], dim=1)
        return index, torch.cat([value, loop])


class InBatch(DrawnEdges):
    """The same edges with the degrees that they have in their batch, as in PyG."""

    __slots__ = ()

    def sums(self, kind: str) -> Any:
        """[size]: one of `KINDS` of each node in the batch; None without loops."""
        sender, receiver = self.edge_index
        weight = self.weight
        if weight is None:
            weight = torch.ones((), dtype=self.dtype, device=sender.device)
            weight = weight.expand(sender.numel())
        found = weight.new_zeros(self.size)
        if kind == RECEIVED:
            return found.index_add(0, receiver, weight)
        place = (sender == receiver).nonzero().view(-1)
        if not place.numel():
            return None
        node, weight = receiver[place], weight[place]
        if kind == LOOPS:
            return found.index_add(0, node, weight)
        return found.fill_(torch.nan).index_put((node,), weight)

    def entries(self, sender: Tensor, receiver: Tensor, loops: bool = True) -> Tensor:
        """[e]: weight times one factor [size] for each end, as of drawn edges."""
        source, target = self.edge_index
        value = sender[source] * receiver[target]
        if self.weight is not None:
            value = value * self.weight
        return value if loops else value.masked_fill(source == target, 0)

    def with_loops(self, value: Tensor, loop: Tensor) -> Entries:
        """The weights of edges, and behind them those of loops; nobody reads these."""
        return self.edge_index, torch.cat([value, loop])


def gcn(layer: Any, drawn: DrawnEdges) -> Entries:
    """D^-½ (A + I) D^-½, or without I where a layer adds no loops."""
    loops = getattr(layer, "add_self_loops", False)
    degree, loop = drawn.sums(RECEIVED), None
    if loops:
        weighted = drawn.weight is not None  # else PyG gives every loop the weight 1
        fill = 2.0 if weighted and getattr(layer, "improved", False) else 1.0
        loop = torch.full_like(degree, fill)
        kept = drawn.sums(KEPT)
        if weighted and kept is not None:
            loop = torch.where(kept.isnan(), loop, kept)
        degree = drawn.others(RECEIVED) + loop
    root = _finite(degree.pow(-0.5))
    value = drawn.entries(root, root, loops=not loops)
    if loop is None:
        return drawn.edge_index, value
    return drawn.with_loops(value, loop * root * root)


def chebyshev(layer: Any, drawn: DrawnEdges, lambda_max: Any = None) -> Entries:
    """2 L / λ - I for the Laplacian L that the layer asks for."""
    degree = drawn.others(SENT)
    own = one = torch.ones_like(degree)
    largest = one.new_ones(())  # of the entries of L, if no weight is negative
    if layer.normalization == "sym":
        root = _finite(degree.pow(-0.5))
        value = drawn.entries(root, root, loops=False)
    elif layer.normalization == "rw":
        value = drawn.entries(_finite(degree.reciprocal()), one, loops=False)
    else:
        value, own = drawn.entries(one, one, loops=False), degree
        largest = drawn.sample.largest(drawn.name, degree.device).to(degree.dtype)
    if lambda_max is None:
        lambda_max = 2 * largest
    scale = _finite(2 / torch.as_tensor(lambda_max, dtype=one.dtype).to(one.device))
    return drawn.with_loops(-value * scale, own * scale - 1)


def cluster(layer: Any, drawn: DrawnEdges) -> Entries:
    """D^-1 (A + I) + λ diag(D^-1 (A + I))."""
    inverse = (drawn.others(RECEIVED) + 1).reciprocal()
    value = drawn.entries(torch.ones_like(inverse), inverse, loops=False)
    return drawn.with_loops(value, inverse * (1 + layer.diag_lambda))


def _finite(factor: Tensor) -> Tensor:
    """`factor` with zeros for infinities, as PyG has for nodes of degree zero."""
    return factor.masked_fill(factor.isinf(), 0)


def _never(layer: Any) -> Any:
    return None


def _always(layer: Any) -> bool:
    return True


class Rule(NamedTuple):
    """The row of one layer."""

    status: str  # of the layer as its arguments usually are
    words: str  # what is done, or why it cannot be done, for people
    matrix: Operator | None = None  # what it multiplies by, if that is made of degrees
    weight: str = "edge_weight"  # the argument of `propagate` with its entries
    loops: Callable[[Any], str | None] = _never  # `REPLACED`, `ADDED` or None
    normalised: Callable[[Any], bool | None] = _never  # by a softmax: its sum is a mean
    degree: Callable[[Any], int | None] = _never  # up to which number `forward` counts
    relations: bool = False  # it averages over each relation by itself
    joined: bool = False  # one softmax goes over the edges of several relations
    output: bool = False  # it divides by degrees after `propagate`: compare its output
    trouble: Callable[[Any], str | None] = _never  # why its arguments have no estimate


def _matrix(operator: Operator, words: str, weight: str = "edge_weight") -> Rule:
    return Rule(EXACT, words, operator, weight)


def _messages(words: str = "means as they are, sums times δ/|S|", **how: Any) -> Rule:
    return Rule(EXACT, words, **how)


def _attention(words: str = "ratio of sums", **how: Any) -> Rule:
    return Rule(RATIO, words, **{"normalised": _always, **how})


def _without(status: str, why: str) -> Rule:
    return Rule(status, why, trouble=lambda layer: why)


def _all(names: str, rule: Rule) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


def _own(layer: Any) -> str | None:
    return REPLACED if getattr(layer, "add_self_loops", False) else None


def _root(layer: Any) -> str | None:
    return ADDED if layer.combine_root == "self_loop" else None


def _modified(layer: Any) -> str | None:
    if layer.mod is not None:
        return f"mod={layer.mod!r} is no mean over neighbours"
    if layer.attention_mechanism != "across-relation":
        return "a relation that was not drawn counts as empty"
    return None


def _several(layer: Any) -> str | None:
    odd = sorted(set(layer.aggregators) - {"sum", "add", "mean", "symnorm"})
    return no_estimate(odd[0]) if odd else None


def _two_sums(layer: Any) -> str | None:
    adds = any(isinstance(part, aggr.SumAggregation) for part in leaves(layer))
    return "it adds up the edges of two tensors" if adds else None


def _learned(layer: Any) -> str | None:
    return UNKNOWN_SUMS if layer.normalize else None


LOOP = "the loop counts once, each drawn edge δ/|S| times"
GCN = "D^-½ (A + I) D^-½ with degrees of the graph"
ONE_WAY = (
    "a loader draws neighbours in one direction only, and the other has no sample; "
    "take one layer and one loader per direction"
)
GLOBAL = "it looks at all nodes of the batch, not at sampled edges only"
UNKNOWN_SUMS = "it divides by sums of weights that it would have to make of all edges"
OTHER = "it makes edges of its own, from the nodes of the batch"

# Every layer of torch_geometric.nn.conv, and those of torch_geometric.nn.models that
# pass messages by themselves.
TABLE: dict[str, Rule] = {
    **_all("GCNConv GCN2Conv SGConv SSGConv TAGConv APPNP ARMAConv", _matrix(gcn, GCN)),
    **_all("MixHopConv LGConv DNAConv FAConv LabelPropagation", _matrix(gcn, GCN)),
    "ChebConv": _matrix(chebyshev, "2 L / λ - I with degrees of the graph", "norm"),
    "ClusterGCNConv": _matrix(cluster, "D^-1 (A + I) with degrees of the graph"),
    **_all("SAGEConv GraphConv GatedGraphConv ResGatedGraphConv GINConv", _messages()),
    **_all("GINEConv NNConv CGConv LEConv EdgeConv GMMConv SplineConv", _messages()),
    "PointGNNConv": _messages(),
    "GeneralConv": _messages(normalised=lambda layer: layer.attention),
    "SimpleConv": _messages(LOOP, loops=_root),
    **_all("FeaStConv PointNetConv PPFConv", _messages(LOOP, loops=_own)),
    "EGConv": _messages(LOOP, loops=_own, trouble=_several),
    "PNAConv": _messages("scalers read the degrees of the graph"),
    "MFConv": _messages(
        "weights by the degree in the graph",
        degree=lambda layer: layer.max_degree,
        output=True,
    ),
    **_all(
        "RGCNConv FastRGCNConv FiLMConv",
        _messages("counts per relation of the graph", relations=True),
    ),
    **_all("GATConv GATv2Conv SuperGATConv AGNNConv", _attention(LOOP, loops=_own)),
    "PointTransformerConv": _attention(LOOP, loops=_own),
    **_all("TransformerConv HEATConv GATEConv", _attention()),
    "HGTConv": _attention("ratio of sums over all relations", joined=True),
    "RGATConv": _attention(trouble=_modified),
    "GENConv": Rule(RATIO, "ratio of sums"),
    "HANConv": _attention("ratio of sums per relation, as it is"),
    "WLConvContinuous": Rule(
        EXACT, "a mean, as it is; with weights a ratio", normalised=_always, output=True
    ),
    "SignedConv": Rule(EXACT, "means, as they are", trouble=_two_sums),
    "HeteroConv": Rule(PARTS, "as its layers"),
    "AntiSymmetricConv": Rule(PARTS, "as its layer"),
    "PDNConv": Rule(REFUSED, UNKNOWN_SUMS, trouble=_learned),
    "DirGNNConv": _without(REFUSED, ONE_WAY),
    "PANConv": _without(
        REFUSED, "it normalises powers of the adjacency matrix of the batch"
    ),
    "HypergraphConv": _without(
        WARNED, "it divides by the degrees of the batch's hyperedges"
    ),
    "GPSConv": _without(WARNED, GLOBAL),
    **_all("GravNetConv DynamicEdgeConv XConv", _without(WARNED, OTHER)),
    "WLConv": _without(WARNED, "colours of nodes depend on all neighbours"),
    "MeshCNNConv": _without(
        WARNED, "it wants the four neighbours of every edge of a mesh"
    ),
    **_all(
        "FusedGATConv CuGraphSAGEConv CuGraphGATConv CuGraphRGCNConv",
        _without(WARNED, "its fused kernel adds up the edges of the batch"),
    ),
}

# Ways to aggregate that have an estimate: those that reduce by sums and means only.
ESTIMATED = (
    aggr.SumAggregation,
    aggr.MeanAggregation,
    aggr.SoftmaxAggregation,
    aggr.PowerMeanAggregation,
    aggr.MultiAggregation,
    aggr.DegreeScalerAggregation,
)
# What a subclass may override so that a row no longer speaks of it.
METHODS = ("forward", "message", "aggregate", "update", "edge_update")


def rule_of(layer: Any) -> Rule | None:
    """The row of a layer; one that normalises nothing multiplies by no matrix."""
    rule = row_of(TABLE, layer, "torch_geometric")
    plain = getattr(layer, "normalize", True) is False
    if rule is not None and rule.matrix is not None and plain:
        return rule._replace(matrix=None, words="sums times δ/|S|")
    return rule


def trouble_of(layer: Any, scale: str | None) -> str | None:
    """The reason why a layer stays biased with this `scale` of `unbiased`, or None."""
    rule = rule_of(layer)
    if rule is None:
        unknown = isinstance(layer, MessagePassing)
        return "'unbiased' does not know how it uses its edges" if unknown else None
    why = rule.trouble(layer)
    if why is not None:
        return why
    own = overridden(layer)
    if own is not None:
        return f"its {own!r} is not that of PyG"
    if rule.matrix is not None or not isinstance(layer, MessagePassing):
        return None
    for part in leaves(layer):
        if not isinstance(part, ESTIMATED):
            return no_estimate(type(part).__name__.removesuffix("Aggregation").lower())
    if scale is None and sums(layer):
        return "it adds up messages; use 'scale=\"sum\"'"
    return None


def sums(layer: Any) -> bool:
    """True if a layer adds up messages that nothing has normalised."""
    rule = rule_of(layer)
    if rule is None or rule.matrix is not None or rule.normalised(layer):
        return False
    if rule.trouble is _several:
        return bool({"sum", "add"} & set(layer.aggregators))
    return any(isinstance(part, aggr.SumAggregation) for part in leaves(layer))


def leaves(layer: Any) -> Iterator[Any]:
    """The aggregations of a layer that are not made of others."""
    module = getattr(layer, "aggr_module", None)
    for part in module.modules() if module is not None else ():
        whole = isinstance(part, aggr.MultiAggregation | aggr.DegreeScalerAggregation)
        fused = type(part).__name__ == "FusedAggregation"
        if isinstance(part, aggr.Aggregation) and not (whole or fused):
            yield part


def overridden(layer: Any) -> str | None:
    """The method that a subclass of a layer has of its own, or None."""
    for kind in type(layer).__mro__:
        if kind.__module__.startswith("torch_geometric."):
            return None
        for name in METHODS:
            if name in kind.__dict__:
                return name
    return None
