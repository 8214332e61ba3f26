"""One table of PyG's layers: how each is estimated from sampled edges, or why not.

A layer adds up, averages or weighs messages over all δ edges into a node. Of a sample S
each drawn edge stands for δ / |S| of them; a loop that the layer adds by itself is not
drawn and stands for itself. The table says which layers are matrices of degrees, which
add loops, which normalise by attention, and of which there is no estimate.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from torch_geometric.nn import MessagePassing, aggr

from gttf_pyg._operators import Operator, chebyshev, cluster, gcn

EXACT = "exact"  # the expectation of a layer is its value on the whole graph
RATIO = "ratio"  # an estimate divided by an estimate: off by O(1 / |S|)
WARNED = "warned"  # no estimate; `unbiased` says so and leaves the layer as it is
REFUSED = "refused"  # no estimate, and `unbiased` does not take the layer
PARTS = "parts"  # the layer is made of others, which have rows of their own

REPLACED, ADDED = "replaced", "added"  # loops: those of the graph go, or they stay


def _never(layer: Any) -> Any:
    return None


def _always(layer: Any) -> bool:
    return True


class Rule(NamedTuple):
    """The row of one layer.

    Attributes:
        status: of the layer as its arguments usually are.
        words: what is done, or why it cannot be done, for people.
        matrix: what it multiplies by, if that is made of degrees.
        weight: the argument of `propagate` that has the entries of the matrix.
        loops: which loops a layer adds to its edges: `REPLACED`, `ADDED` or None.
        normalised: whether a softmax or the like weighs the messages, so that their
            sum is a mean.
        degree: up to which number `forward` counts the edges into a node, or None.
        relations: whether it averages over each relation by itself.
        joined: whether one softmax goes over the edges of several relations.
        output: whether it divides by degrees after it has propagated, so that only its
            output shows it.
        trouble: of a layer, why there is no estimate with its arguments, or None.
    """

    status: str
    words: str
    matrix: Operator | None = None
    weight: str = "edge_weight"
    loops: Callable[[Any], str | None] = _never
    normalised: Callable[[Any], bool | None] = _never
    degree: Callable[[Any], int | None] = _never
    relations: bool = False
    joined: bool = False
    output: bool = False
    trouble: Callable[[Any], str | None] = _never


def _matrix(operator: Operator, words: str, weight: str = "edge_weight") -> Rule:
    return Rule(EXACT, words, operator, weight)


def _messages(words: str = "means as they are, sums times δ/|S|", **how: Any) -> Rule:
    return Rule(EXACT, words, **how)


def _attention(words: str = "ratio of sums", **how: Any) -> Rule:
    return Rule(RATIO, words, **{"normalised": _always, **how})


def _warned(why: str) -> Rule:
    return Rule(WARNED, why, trouble=lambda layer: why)


def _refused(why: str) -> Rule:
    return Rule(REFUSED, why, trouble=lambda layer: why)


def _own(layer: Any) -> str | None:
    """Loops in place of the graph's, where a layer is told to add some."""
    return REPLACED if getattr(layer, "add_self_loops", False) else None


def _root(layer: Any) -> str | None:
    return ADDED if layer.combine_root == "self_loop" else None


def _modified(layer: Any) -> str | None:
    """Forms of RGATConv that count neighbours, or do not normalise over all."""
    if layer.mod is not None:
        return f"mod={layer.mod!r} is no mean over neighbours"
    if layer.attention_mechanism != "across-relation":
        return "a relation that was not drawn counts as empty"
    return None


def _several(layer: Any) -> str | None:
    """Aggregators of EGConv without an estimate."""
    odd = sorted(set(layer.aggregators) - {"sum", "add", "mean", "symnorm"})
    return _no_estimate(odd[0]) if odd else None


def _two_sums(layer: Any) -> str | None:
    """SignedConv that adds up."""
    adds = any(isinstance(part, aggr.SumAggregation) for part in leaves(layer))
    return "it adds up the edges of two tensors" if adds else None


def _learned(layer: Any) -> str | None:
    """PDNConv that normalises."""
    return UNKNOWN_SUMS if layer.normalize else None


def _no_estimate(name: str) -> str:
    return f"a sample says nothing of the {name!r} of all neighbours"


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
    "GCNConv": _matrix(gcn, GCN),
    "GCN2Conv": _matrix(gcn, GCN),
    "SGConv": _matrix(gcn, GCN),
    "SSGConv": _matrix(gcn, GCN),
    "TAGConv": _matrix(gcn, GCN),
    "APPNP": _matrix(gcn, GCN),
    "ARMAConv": _matrix(gcn, GCN),
    "MixHopConv": _matrix(gcn, GCN),
    "LGConv": _matrix(gcn, GCN),
    "DNAConv": _matrix(gcn, GCN),
    "FAConv": _matrix(gcn, GCN),
    "LabelPropagation": _matrix(gcn, GCN),
    "ChebConv": _matrix(chebyshev, "2 L / λ - I with degrees of the graph", "norm"),
    "ClusterGCNConv": _matrix(cluster, "D^-1 (A + I) with degrees of the graph"),
    "SAGEConv": _messages(),
    "GraphConv": _messages(),
    "GatedGraphConv": _messages(),
    "ResGatedGraphConv": _messages(),
    "GINConv": _messages(),
    "GINEConv": _messages(),
    "NNConv": _messages(),
    "CGConv": _messages(),
    "LEConv": _messages(),
    "EdgeConv": _messages(),
    "GMMConv": _messages(),
    "SplineConv": _messages(),
    "PointGNNConv": _messages(),
    "GeneralConv": _messages(normalised=lambda layer: layer.attention),
    "SimpleConv": _messages(LOOP, loops=_root),
    "FeaStConv": _messages(LOOP, loops=_own),
    "PointNetConv": _messages(LOOP, loops=_own),
    "PPFConv": _messages(LOOP, loops=_own),
    "EGConv": _messages(LOOP, loops=_own, trouble=_several),
    "PNAConv": _messages("scalers read the degrees of the graph"),
    "MFConv": _messages(
        "weights by the degree in the graph",
        degree=lambda layer: layer.max_degree,
        output=True,
    ),
    "RGCNConv": _messages("counts per relation of the graph", relations=True),
    "FastRGCNConv": _messages("counts per relation of the graph", relations=True),
    "FiLMConv": _messages("counts per relation of the graph", relations=True),
    "GATConv": _attention(LOOP, loops=_own),
    "GATv2Conv": _attention(LOOP, loops=_own),
    "SuperGATConv": _attention(LOOP, loops=_own),
    "AGNNConv": _attention(LOOP, loops=_own),
    "PointTransformerConv": _attention(LOOP, loops=_own),
    "TransformerConv": _attention(),
    "HEATConv": _attention(),
    "HGTConv": _attention("ratio of sums over all relations", joined=True),
    "RGATConv": _attention(trouble=_modified),
    "GATEConv": _attention(),
    "GENConv": Rule(RATIO, "ratio of sums"),
    "HANConv": _attention("ratio of sums per relation, as it is"),
    "WLConvContinuous": Rule(
        EXACT, "a mean, as it is; with weights a ratio", normalised=_always, output=True
    ),
    "SignedConv": Rule(EXACT, "means, as they are", trouble=_two_sums),
    "HeteroConv": Rule(PARTS, "as its layers"),
    "AntiSymmetricConv": Rule(PARTS, "as its layer"),
    "PDNConv": Rule(REFUSED, UNKNOWN_SUMS, trouble=_learned),
    "DirGNNConv": _refused(ONE_WAY),
    "PANConv": _refused("it normalises powers of the adjacency matrix of the batch"),
    "HypergraphConv": _warned("it divides by the degrees of the batch's hyperedges"),
    "GPSConv": _warned(GLOBAL),
    "GravNetConv": _warned(OTHER),
    "DynamicEdgeConv": _warned(OTHER),
    "XConv": _warned(OTHER),
    "WLConv": _warned("colours of nodes depend on all neighbours"),
    "MeshCNNConv": _warned("it wants the four neighbours of every edge of a mesh"),
    "FusedGATConv": _warned("its fused kernel adds up the edges of the batch"),
    "CuGraphSAGEConv": _warned("its fused kernel adds up the edges of the batch"),
    "CuGraphGATConv": _warned("its fused kernel adds up the edges of the batch"),
    "CuGraphRGCNConv": _warned("its fused kernel adds up the edges of the batch"),
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
    """The row of a layer, by the first class of PyG's among its bases; or None."""
    for kind in type(layer).__mro__:
        if kind.__module__.startswith("torch_geometric.") and kind.__name__ in TABLE:
            rule = TABLE[kind.__name__]
            plain = getattr(layer, "normalize", True) is False
            if rule.matrix is not None and plain:
                return rule._replace(matrix=None, words="sums times δ/|S|")
            return rule
    return None


class Trouble(NamedTuple):
    """A layer that stays biased: `WARNED` or `REFUSED`, and the reason for people."""

    status: str
    why: str


def trouble_of(layer: Any, scale: str | None) -> Trouble | None:
    """The reason why a layer stays biased, or None.

    Args:
        layer: any module.
        scale: of `unbiased`.
    """
    rule = rule_of(layer)
    if rule is None:
        if not isinstance(layer, MessagePassing):
            return None
        return Trouble(WARNED, "'unbiased' does not know how it uses its edges")
    why = rule.trouble(layer)
    if why is not None:
        return Trouble(REFUSED if rule.status == REFUSED else WARNED, why)
    own = _overridden(layer)
    if own is not None:
        return Trouble(WARNED, f"its {own!r} is not that of PyG")
    if rule.matrix is not None or not isinstance(layer, MessagePassing):
        return None
    for part in leaves(layer):
        if not isinstance(part, ESTIMATED):
            name = type(part).__name__.removesuffix("Aggregation").lower()
            return Trouble(WARNED, _no_estimate(name))
    if scale is None and sums(layer):
        return Trouble(WARNED, "it adds up messages; use 'scale=\"sum\"'")
    return None


def sums(layer: Any) -> bool:
    """True if a layer adds up messages that nothing has normalised."""
    rule = rule_of(layer)
    if rule is None or rule.matrix is not None or rule.normalised(layer):
        return False
    if rule.trouble is _several:
        return bool({"sum", "add"} & set(layer.aggregators))
    return any(isinstance(part, aggr.SumAggregation) for part in leaves(layer))


def judged_by_output(layer: Any) -> bool:
    """True if the output of a layer is compared, beside what it propagates."""
    rule = rule_of(layer)
    return rule is None or rule.output


def judged_by_messages(layer: Any) -> bool:
    """True if what a layer propagates is compared."""
    rule = rule_of(layer)
    return rule is None or not rule.output


def leaves(layer: Any) -> Iterator[Any]:
    """The aggregations of a layer that are not made of others."""
    module = getattr(layer, "aggr_module", None)
    for part in module.modules() if module is not None else ():
        whole = isinstance(part, aggr.MultiAggregation | aggr.DegreeScalerAggregation)
        fused = type(part).__name__ == "FusedAggregation"
        if isinstance(part, aggr.Aggregation) and not (whole or fused):
            yield part


def _overridden(layer: Any) -> str | None:
    """The method that a subclass of a layer has of its own, or None."""
    for kind in type(layer).__mro__:
        if kind.__module__.startswith("torch_geometric."):
            return None
        for name in METHODS:
            if name in kind.__dict__:
                return name
    return None
