"""GraphBolt's graphs: nodes of all types numbered through, edges of all types in one.

What is drawn there is drawn by these numbers, and told by type.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from dgl.graphbolt import ORIGINAL_EDGE_ID, CSCFormatBase, SampledSubgraphImpl
from dgl.graphbolt import etype_str_to_tuple as ends_of
from torch import Tensor

from gttf_dgl import _check
from gttf_dgl._source import Rows
from gttf_sampler import CompactAdj
from gttf_sampler.graph.weak_cache import kept_of


class Layer(NamedTuple):
    """One hop, by the numbers of all types.

    Attributes:
        size: of the receivers.
        node: int64 [n], receivers first.
        row: int64 [e], places in `node` where messages come from.
        col: int64 [e], places where they go, in order within each edge type.
        edge: int64 [e], positions in the graph's `indices`.
    """

    size: int
    node: Tensor
    row: Tensor
    col: Tensor
    edge: Tensor


def fanouts(graph: Any, value: Any) -> list[tuple[int, ...]]:
    """Per layer one number for all edges, or one per edge type."""
    if not isinstance(value, Sequence | Tensor) or isinstance(value, str | bytes):
        rule = "must be a list with one entry per layer"
        _check.mistyped("fanouts", rule, type(value).__name__)
    layers = []
    for entry in value:
        several = isinstance(entry, Tensor) and entry.dim() == 1 and len(entry) != 1
        numbers = _check.fanouts([*entry] if several else [entry])
        types = len(graph.edge_type_to_id or [0])
        if several and len(numbers) != types:
            rule = f"must hold one number per layer, or one for each of {types} types"
            _check.fail("fanouts", rule, f"{len(numbers)} numbers")
        layers.append(tuple(int(number) for number in numbers))
    if not layers:
        _check.fail("fanouts", "must have one entry per layer", "none")
    return layers


def joined(graph: Any, seeds: Any) -> Tensor:
    """The seeds of all types, by the numbers that they have in the graph."""
    device = graph.csc_indptr.device
    if graph.node_type_offset is None:
        return _check.ids("seeds", seeds, graph.total_num_nodes, device)
    if not isinstance(seeds, Mapping):
        rule = "must hold ids per node type, as the graph has types"
        _check.mistyped("seeds", rule, type(seeds).__name__)
    starts, parts = graph.node_type_offset.tolist(), []
    for name, ids in seeds.items():
        number = graph.node_type_to_id.get(name)
        if number is None:
            _check.fail("seeds", "must name node types of the graph", repr(name))
        first, last = starts[number], starts[number + 1]
        parts.append(_check.ids("seeds", ids, last - first, device) + first)
    none = torch.empty(0, dtype=torch.int64, device=device)
    return torch.cat([none, *parts])


def rows(graph: Any, prob: str | None, apart: bool) -> Rows:
    """The edges of all types, or of each apart; kept as long as the graph."""
    made_of = [graph.csc_indptr, graph.indices]
    if prob is not None:
        made_of.append(graph.edge_attributes[prob])
    if apart:
        made_of.append(graph.type_per_edge)

    def make() -> Rows:
        weight = None
        if prob is not None:
            weight = _check.weights("prob_name", prob, made_of[2], boolean=False)
        whole = _whole(graph, weight)
        if not apart:
            return Rows({("", "", ""): whole})
        numbers = graph.edge_type_to_id
        return Rows(
            {
                ("", name, ""): _some(whole, graph.type_per_edge == numbers[name])
                for name in sorted(numbers, key=numbers.get)  # as fanouts are
            }
        )

    return kept_of(graph).get(("rows", prob, apart), make, *made_of)


def _whole(graph: Any, weight: Tensor | None) -> CompactAdj:
    """GraphBolt's arrays as they are; it does not check them."""
    indptr, size = graph.csc_indptr.long(), graph.total_num_nodes
    adj = CompactAdj(indptr, graph.indices, size, "in", None, weight)
    adj.ensure_sound()
    return adj


def _some(whole: CompactAdj, kept: Tensor) -> CompactAdj:
    """Some of the edges, which keep their positions as ids."""
    before = torch.cat([kept.new_zeros(1, dtype=torch.int64), kept.cumsum(0)])
    edge, weight = kept.nonzero().view(-1), whole.edge_weight
    weight = None if weight is None else weight[edge]
    rowptr, col = before[whole.rowptr], whole.col[edge]
    return CompactAdj(rowptr, col, whole.num_cols, "in", edge, weight).trusted()


def subgraph(graph: Any, layer: Layer) -> SampledSubgraphImpl:
    """A layer in GraphBolt's words."""
    named, eids = graph.edge_attributes or {}, None
    if ORIGINAL_EDGE_ID in named:
        eids = named[ORIGINAL_EDGE_ID].index_select(0, layer.edge)
    node = layer.node.to(graph.indices.dtype)
    if graph.node_type_offset is None:
        csc = _csc(layer.row, layer.col, layer.size)
        return SampledSubgraphImpl(csc, node[: layer.size], node, eids)
    starts = graph.node_type_offset.to(node.device)
    kind = torch.searchsorted(starts, layer.node, right=True) - 1
    place, ids, receivers = torch.empty_like(layer.node), {}, {}
    for name, number in graph.node_type_to_id.items():
        here = (kind == number).nonzero().view(-1)
        place[here] = torch.arange(len(here), device=here.device)
        ids[name] = node[here] - starts[number].to(node.dtype)
        receivers[name] = ids[name][: int((here < layer.size).sum())]
    relation, csc, by_type = graph.type_per_edge.index_select(0, layer.edge), {}, {}
    for name, number in graph.edge_type_to_id.items():
        here = (relation == number).nonzero().view(-1)
        ends = place[layer.row[here]], place[layer.col[here]]
        csc[name] = _csc(*ends, len(receivers[ends_of(name)[2]]))
        by_type[name] = None if eids is None else eids[here]
    return SampledSubgraphImpl(csc, receivers, ids, None if eids is None else by_type)


def _csc(row: Tensor, col: Tensor, size: int) -> CSCFormatBase:
    """Edges whose receivers are in order."""
    counts = torch.bincount(col, minlength=size)
    return CSCFormatBase(torch.cat([counts.new_zeros(1), counts.cumsum(0)]), row)
