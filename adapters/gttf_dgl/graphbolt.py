"""A stage for GraphBolt's pipelines: `datapipe.sample_gttf(graph, fanouts)`.

import gttf_dgl.graphbolt  # makes the stage known
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import dgl
import torch
from torch import Tensor
from torch.utils.data import functional_datapipe

try:
    from dgl.graphbolt import (
        ORIGINAL_EDGE_ID,
        CSCFormatBase,
        FusedCSCSamplingGraph,
        SampledSubgraphImpl,
        SubgraphSampler,
    )
    from dgl.graphbolt import etype_str_to_tuple as ends_of
except (ImportError, OSError) as err:
    raise ImportError(
        "'gttf_dgl.graphbolt' needs dgl 2.1.0 with torch 2.2.0 or 2.2.1 "
        f"(got dgl {dgl.__version__}, torch {torch.__version__}); "
        "install them from a checkout with: pip install '.[graphbolt]'"
    ) from err

from gttf_dgl import _check
from gttf_dgl._source import Rows
from gttf_dgl.sampler import KeyedSampler
from gttf_sampler import BiasFn, CompactAdj, EdgeWeightBias, random
from gttf_sampler.graph.tables import kept_of


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


@functional_datapipe("sample_gttf")
class GTTFNeighborSampler(SubgraphSampler):
    """Samples subgraphs in a GraphBolt pipeline, in place of `sample_neighbor`.

    Takes the arguments of `dgl.graphbolt.NeighborSampler` and gives what that gives, a
    fresh sample for every layer. Batches follow `torch.manual_seed` and the seed of
    the worker, counted by calls, and are the same for any number of threads. Seeds with
    timestamps are refused, as the draws do not look at times.

    Args:
        datapipe: the stage before.
        graph: a FusedCSCSamplingGraph.
        fanouts: per layer, farthest first, the edges of a node, of all edge types
            together; or a tensor with a number per edge type. -1 takes all.
        replace: draw `fanout` edges independently.
        prob_name: an edge attribute to draw in proportion to; booleans are a mask.
        deduplicate: True; the nodes of a layer are distinct.
        bias: a BiasFn, on the ids that nodes have in `graph`.
        seed: an integer instead of torch's default generator.
    """

    def __init__(
        self,
        datapipe: Any,
        graph: FusedCSCSamplingGraph,
        fanouts: Any,
        replace: bool = False,
        prob_name: str | None = None,
        deduplicate: bool = True,
        *,
        bias: BiasFn | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(datapipe)
        if not isinstance(graph, FusedCSCSamplingGraph):
            rule = "must be a FusedCSCSamplingGraph"
            _check.mistyped("graph", rule, type(graph).__name__)
        if prob_name is not None and prob_name not in (graph.edge_attributes or {}):
            rule = "must name an edge attribute of the graph"
            _check.fail("prob_name", rule, repr(prob_name))
        if not deduplicate:
            rule = "must be True, as nodes of a layer are always distinct"
            _check.fail("deduplicate", rule, deduplicate)
        self.graph, self.prob_name = graph, prob_name
        self.replace = _check.yes_or_no("replace", replace)
        self.fanouts = _fanouts(graph, fanouts)
        self.bias = _check.bias(bias, False, prob_name)
        self._keys = KeyedSampler()
        self._keys.use_keys(seed=seed)

    def sample_subgraphs(
        self, seeds: Any, seeds_timestamp: Any = None
    ) -> tuple[Any, list[Any]]:
        """(input nodes, subgraphs), the subgraph of the seeds last."""
        if seeds_timestamp is not None:
            rule = "must be absent, as the draws do not look at times"
            _check.fail("timestamp", rule, "timestamps of the seeds")
        frontier = _joined(self.graph, seeds)
        key = self._keys.next_key()
        root = random.new_key(key, frontier.device, random.BATCH)
        subgraphs: list[Any] = []
        for hop, fanouts in enumerate(reversed(self.fanouts)):
            layer = self._draw(frontier, fanouts, int(random.fold(root, hop)))
            subgraphs.insert(0, _subgraph(self.graph, layer))
            frontier = layer.node
        return subgraphs[0].original_row_node_ids, subgraphs

    def _draw(self, frontier: Tensor, fanouts: tuple[int, ...], key: int) -> Layer:
        """One hop from some nodes."""
        rows = _rows(self.graph, self.prob_name, apart=len(fanouts) > 1)
        bias: Any = self.bias
        if self.prob_name is not None:
            bias = EdgeWeightBias() if bias is None else EdgeWeightBias() * bias
        biases = {} if bias is None else dict.fromkeys(rows, bias)
        rooted = rows.sampler([fanouts], self.replace)
        found: Any = rooted.sample({"": frontier}, biases, key)
        parts = found.row, found.col, found.edge
        whole = (torch.cat([*part.values()]) for part in parts)
        return Layer(len(frontier), found.node[""], *whole)


def _fanouts(graph: Any, value: Any) -> list[tuple[int, ...]]:
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
        layers.append(tuple(numbers))
    if not layers:
        _check.fail("fanouts", "must have one entry per layer", "none")
    return layers


def _joined(graph: Any, seeds: Any) -> Tensor:
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


def _rows(graph: Any, prob: str | None, apart: bool) -> Rows:
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
    """The rows of some edges, whose ids are their positions in the whole."""
    before = torch.cat([kept.new_zeros(1, dtype=torch.int64), kept.cumsum(0)])
    edge, weight = kept.nonzero().view(-1), whole.edge_weight
    weight = None if weight is None else weight[edge]
    rowptr, col = before[whole.rowptr], whole.col[edge]
    return CompactAdj(rowptr, col, whole.num_cols, "in", edge, weight).trusted()


def _subgraph(graph: Any, layer: Layer) -> SampledSubgraphImpl:
    """A layer as GraphBolt's SampledSubgraph."""
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
    """GraphBolt's CSC of edges whose receivers are in order."""
    counts = torch.bincount(col, minlength=size)
    return CSCFormatBase(torch.cat([counts.new_zeros(1), counts.cumsum(0)]), row)
