"""One table of DGL's layers: how each is estimated from a sample, and fused, or not.

DGL's layers add no loops of their own: those of the graph are drawn as other edges. So
means and attention are right as they are, up to the ratio's own bias; layers that read
degrees or add up messages see a view of their graph that answers for the whole.
"""

from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from torch import nn

from gttf_dgl._compat import aggregator_of, norm_of
from gttf_dgl._fuse import SUMS, Fusion
from gttf_dgl._sums import (
    edges_with_relations,
    gat_conv,
    gatv2_conv,
    gin_conv,
    graph_conv,
    graph_terms,
    rel_graph_conv,
    sage_conv,
    sage_terms,
    sage_whole,
)
from gttf_sampler._compat import has_hooks
from gttf_sampler.estimate import (
    EXACT,
    PARTS,
    RATIO,
    WARNED,
    host_class,
    no_estimate,
    row_of,
)


def _no(layer: Any) -> bool:
    return False


def _yes(layer: Any) -> bool:
    return True


def _none(layer: Any) -> str | None:
    return None


class Rule(NamedTuple):
    """The row of one layer.

    Attributes:
        status: of the layer as its arguments usually are.
        words: what is done, or why it cannot be done, for people.
        degrees: whether a layer divides by degrees, or reads them otherwise.
        sums: whether a layer adds up messages.
        after: the parts of a layer behind its sum that are not linear.
        weighted: whether its degrees count edges, so that weights do not change them.
        trouble: of a layer, why there is no estimate with its arguments, or None.
        fusion: how `fused` adds up its messages; None leaves it as it is.
    """

    status: str
    words: str
    degrees: Callable[[Any], bool] = _no
    sums: Callable[[Any], bool] = _no
    after: tuple[str, ...] = ()
    weighted: bool = True
    trouble: Callable[[Any], str | None] = _none
    fusion: Fusion | None = None


def _warned(why: str) -> Rule:
    return Rule(WARNED, why, trouble=lambda layer: why)


def _adds(layer: Any) -> bool:
    """True if a layer's aggregation is a sum."""
    return aggregator_of(layer) == "sum"


def _odd(layer: Any) -> str | None:
    """The reason why there is no estimate of a layer's aggregation, or None."""
    name = aggregator_of(layer)
    return None if name in ("sum", "mean", "gcn") else no_estimate(name)


def _towers(layer: Any) -> str | None:
    """The reason why PNAConv has no estimate beside its degrees."""
    odd = sorted({*layer.towers[0].aggregators} - {"mean", "sum"})
    return no_estimate(odd[0]) if odd else BATCH_SIZE


def _edge_weights(layer: Any) -> str | None:
    """EdgeWeightNorm that divides."""
    return None if norm_of(layer) == "none" else SUMS_OF_WEIGHTS


SUMS_OF_WEIGHTS = (
    "it divides by sums over sampled edges; call it on the whole graph, and give "
    'GraphConv(norm="none") its result as edge weights, with scale="sum"'
)
BATCH_SIZE = "it divides by the number of nodes in the batch; its degrees are cured"
DEGREES = "degrees of the graph, sums times δ/|S|"
SUM = "sums times δ/|S|"
MEAN = "means as they are, sums times δ/|S|"
WEIGHED = "ratio of sums, as it is"
FUSED = "its fused kernel adds up the edges of the block"
STEPS = "it solves for the degrees of the batch in many steps"
DENSE = "it takes a dense matrix, which knows nothing of a sample"

# Every layer of dgl.nn.pytorch.conv, and what they are wrapped into.
TABLE: dict[str, Rule] = {
    "GraphConv": Rule(
        EXACT,
        DEGREES,
        degrees=lambda layer: norm_of(layer) != "none",
        sums=lambda layer: norm_of(layer) == "none",
        fusion=Fusion(graph_conv, terms=graph_terms),
    ),
    "SAGEConv": Rule(
        EXACT,
        "means as they are; gcn: degrees of the graph",
        degrees=lambda layer: aggregator_of(layer) == "gcn",
        trouble=_odd,
        fusion=Fusion(
            sage_conv,
            lambda layer: (
                "the maximum of rows of its 'fc_pool'"
                if aggregator_of(layer) == "pool"
                else SUMS
            ),
            whole=sage_whole,
            terms=sage_terms,
            matrices=("fc_neigh", "fc_self"),
        ),
    ),
    **dict.fromkeys(
        ("SGConv", "TAGConv", "APPNPConv", "GCN2Conv", "ChebConv"),
        Rule(EXACT, DEGREES, degrees=_yes, weighted=False),
    ),
    "GINConv": Rule(
        EXACT,
        MEAN,
        sums=_adds,
        trouble=_odd,
        fusion=Fusion(gin_conv, lambda layer: f"the {aggregator_of(layer)} of rows"),
    ),
    "GINEConv": Rule(EXACT, SUM, sums=_yes),
    **dict.fromkeys(("NNConv", "GMMConv"), Rule(EXACT, MEAN, sums=_adds, trouble=_odd)),
    "RelGraphConv": Rule(
        EXACT,
        SUM,
        sums=_yes,
        fusion=Fusion(
            rel_graph_conv,
            lambda layer: "sums of rows per relation, before their matrices",
            edges_with_relations,
            "norm",
        ),
    ),
    "GatedGraphConv": Rule(EXACT, SUM, sums=_yes, after=("gru",)),
    "AtomicConv": Rule(EXACT, SUM, sums=_yes),
    "CFConv": Rule(EXACT, SUM, sums=_yes, after=("project_out",)),
    "EGNNConv": Rule(EXACT, MEAN, sums=_yes, after=("node_mlp",)),
    "PNAConv": Rule(
        WARNED,
        BATCH_SIZE,
        degrees=_yes,
        after=("mixing_layer",),
        trouble=_towers,
    ),
    "GATConv": Rule(
        *(RATIO, WEIGHED),
        fusion=Fusion(
            gat_conv,
            lambda layer: "attention, before or after its matrix",
            matrices=("fc", "fc_src", "fc_dst"),
        ),
    ),
    "GATv2Conv": Rule(
        *(RATIO, WEIGHED), fusion=Fusion(gatv2_conv, lambda layer: "attention")
    ),
    **dict.fromkeys(
        ("EGATConv", "EdgeGATConv", "DotGatConv", "AGNNConv", "HGTConv"),
        Rule(RATIO, WEIGHED),
    ),
    "GroupRevRes": Rule(PARTS, "as its layer"),
    "HeteroGraphConv": Rule(PARTS, "as its layers"),
    "EdgeWeightNorm": Rule(WARNED, SUMS_OF_WEIGHTS, trouble=_edge_weights),
    "EdgeConv": _warned(no_estimate("max")),
    "DGNConv": _warned("it averages along eigenvectors of the graph"),
    **dict.fromkeys(("TWIRLSConv", "TWIRLSUnfoldingAndAttention"), _warned(STEPS)),
    **dict.fromkeys(
        ("DenseGraphConv", "DenseSAGEConv", "DenseChebConv"), _warned(DENSE)
    ),
    **dict.fromkeys(
        ("CuGraphGATConv", "CuGraphRelGraphConv", "CuGraphSAGEConv"), _warned(FUSED)
    ),
}

# What a module of one's own calls if it passes messages.
PASSES = {
    *("update_all", "multi_update_all", "send_and_recv", "pull", "push"),
    *("in_degrees", "out_degrees", "edge_softmax", "gspmm", "u_mul_e_sum"),
    *("copy_u_sum", "copy_u_mean", "copy_u_max", "copy_e_sum", "copy_e_mean"),
}


def rule_of(layer: Any) -> Rule | None:
    return row_of(TABLE, layer, "dgl")


def trouble_of(layer: Any, scale: str | None) -> str | None:
    """The reason why a module stays biased after `unbiased(scale=scale)`, or None."""
    rule = rule_of(layer)
    own = passes_messages(layer)
    if rule is None:
        return "'unbiased' does not know how it uses its graph" if own else None
    if own:
        return "it passes messages in a way of its own"
    why = rule.trouble(layer)
    if why is None and scale is None and rule.sums(layer):
        why = "it adds up messages; use 'scale=\"sum\"'"
    return why


def fusion_of(layer: Any) -> Fusion | None:
    """The way `fused` computes a layer, or None."""
    rule = rule_of(layer)
    return None if rule is None else rule.fusion


def not_fused(layer: Any) -> str | None:
    """The reason why `fused` leaves a layer as it is, or None."""
    host, fusion = host_class(TABLE, layer, "dgl"), fusion_of(layer)
    if fusion is None:
        return "'fused' does not know this layer"
    if type(layer).forward is not getattr(host, "forward", None):
        return "it has a forward of its own"
    if getattr(type(layer), "message", None) is not getattr(host, "message", None):
        return "it has a message of its own"
    if fusion.sums is sage_conv and aggregator_of(layer) == "lstm":
        return "its aggregator 'lstm' reads neighbours one after the other"
    for name in fusion.matrices:
        matrix = getattr(layer, name, None)
        if matrix is None:
            continue
        if type(matrix) is not nn.Linear or has_hooks(matrix):
            return f"its '{name}' is no Linear without hooks"
        if matrix.bias is not None and name != "fc_self":
            return f"its '{name}' has a bias"
    return None


def passes_messages(layer: Any) -> bool:
    """True if the class of a module, not one of DGL's, passes messages itself."""
    for kind in type(layer).__mro__:
        if kind.__module__.split(".")[0] in ("dgl", "torch", "builtins"):
            return False
        for value in kind.__dict__.values():
            if isinstance(value, FunctionType) and PASSES & _names(value.__code__):
                return True
    return False


def _names(code: CodeType) -> set[str]:
    """The names that a function uses, and the functions within it."""
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def aggregating(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The layers of a model that aggregate, by name."""
    for name, layer in model.named_modules():
        rule = rule_of(layer)
        known = rule is not None and rule.status != PARTS
        if known or (rule is None and passes_messages(layer)):
            yield name, layer
