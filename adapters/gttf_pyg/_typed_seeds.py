"""Seeds beyond PyG's: of several node types, at other times, nodes of link loaders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric.sampler import EdgeSamplerInput, NodeSamplerInput

from gttf_pyg._check import as_reals
from gttf_pyg._compat import row_type
from gttf_pyg._features import can_join
from gttf_pyg._graph import from_data
from gttf_pyg._keys import CPU, key_of, with_key
from gttf_pyg._rows import ONLY, Options
from gttf_pyg._seeds import input_nodes_of, one_per_seed
from gttf_sampler import CompactAdj, random
from gttf_sampler._check import as_dense, fail, mistyped, one_of, shown, within
from gttf_sampler._loading.seeded import draw_key


class TypedNodes(NodeSamplerInput):
    """Seeds of several node types; positions run through one type after another.

    Attributes:
        parts: the seeds of every type, in the order of the data's types.
    """

    def __init__(self, parts: dict[str, NodeSamplerInput]) -> None:
        every = torch.cat([part.node for part in parts.values()])
        super().__init__(None, every)
        self.parts = parts

    def __getitem__(self, index: Any) -> TypedNodes:
        """Some of them, by their positions."""
        at = torch.as_tensor(index, dtype=torch.int64).view(-1)
        found, first = {}, 0
        for name, part in self.parts.items():
            size = part.node.numel()
            own = at[(at >= first) & (at < first + size)] - first
            found[name] = part[own]
            first += size
        picked: TypedNodes = with_key(TypedNodes(found), key_of(self))
        return picked


def sample_typed(inputs: TypedNodes, sample: Any) -> Any:
    """The output of a sampler for seeds of several types."""
    seeds = {name: part.node for name, part in inputs.parts.items()}
    times = {name: part.time for name, part in inputs.parts.items()}
    none = any(time is None for time in times.values())
    out = sample(seeds, None if none else times)
    out.metadata = {
        name: (part.input_id, part.time) for name, part in inputs.parts.items()
    }
    return out


def typed_nodes(
    value: Any, times: Any, data: Any, sampler: Any, input_id: Any
) -> TypedNodes | None:
    """Seeds of several types, from what a loader was given; None if they are of one."""
    if not isinstance(value, Mapping):
        return None
    if not getattr(sampler, "is_hetero", False) or not can_join(data):
        rule = "must be of one node type unless the data is a HeteroData"
        fail("input_nodes", rule, shown(value))
    for name in value:
        if name not in sampler.node_types:
            rule = f"must name some of the node types {sampler.node_types}"
            fail("input_nodes", rule, repr(name))
    if not value:
        fail("input_nodes", "must name a node type", "{}")
    if times is not None and (not isinstance(times, Mapping) or {*times} != {*value}):
        rule = "must have the node types of 'input_nodes'"
        mistyped("input_time", rule, shown(times))
    if input_id is not None and not isinstance(input_id, str):
        rule = "must be 'node' or None for seeds of several types"
        fail("input_id", rule, shown(input_id))
    parts = {}
    for name in sampler.node_types:
        if name in value:
            own = None if times is None else times[name]
            given = input_nodes_of((name, value[name]), own, data, sampler)
            parts[name] = _inputs(name, *given, sampler, input_id)
    return TypedNodes(parts)


def _inputs(
    name: str, nodes: Any, time: Any, sampler: Any, input_id: Any
) -> NodeSamplerInput:
    """The seeds of one type."""
    ids = (
        nodes[1] if isinstance(nodes, tuple) else torch.arange(sampler.num_nodes[name])
    )
    number = None
    if ids.dtype == torch.bool:
        ids = number = ids.nonzero().view(-1)
    elif input_id is not None:
        number = input_id_of(input_id, ids)
    return NodeSamplerInput(number, ids, time, name)


def first_of(typed: TypedNodes) -> tuple[str, Tensor]:
    """As many seeds of one type, which PyG's loader can count."""
    return next(iter(typed.parts)), torch.arange(typed.node.numel())


def input_id_of(value: Any, seeds: Any) -> Any:
    """`input_id` as PyG takes it; "node" names seeds by their ids, masks or not."""
    if not isinstance(value, str):
        return value
    one_of("input_id", value, ("node",))
    nodes = seeds[1] if isinstance(seeds, tuple) else seeds
    if not isinstance(nodes, Tensor):
        return None  # all nodes: their positions are their ids
    return nodes.nonzero().view(-1) if nodes.dtype == torch.bool else nodes


def sample_at(loader: Any, index: Any, time: Any) -> Any:
    """The batch of some seeds of a loader, as they stand at other times."""
    nodes = getattr(loader, "node_sampler", None)
    sampler = nodes or loader.link_sampler
    if not getattr(sampler, "is_temporal", False):
        fail(
            "time", "must be None where there are no times", "times", "set 'time_attr'"
        )
    inputs = with_key(loader.input_data, draw_key(loader.generator))[index]
    if isinstance(inputs, TypedNodes):
        fail("time", "must be None where seeds have several types", "times")
    count = (inputs.node if nodes else inputs.row).numel()
    when = as_reals("time", as_dense("time", time))
    inputs.time = one_per_seed("time", when, count)
    if nodes:
        out = sampler.sample_from_nodes(inputs)
    else:
        out = sampler.sample_from_edges(inputs, neg_sampling=loader.neg_sampling)
    return loader.filter_fn(out)


class SourceNodes(EdgeSamplerInput):
    """Nodes as seed edges: every time it is asked for, a node has one of its edges.

    What has no edge is left out, and `input_id` holds positions among all that were
    given. Edges are drawn uniformly, by the key of the batch.
    """

    def __init__(self, nodes: Tensor, adj: CompactAdj, kind: Any) -> None:
        within("input_nodes", nodes, adj.num_rows)
        number = (adj.row_range(nodes)[1] > 0).nonzero().view(-1)
        if nodes.numel() and not number.numel():
            fail(
                "input_nodes",
                "must hold a node with an edge",
                f"{nodes.numel()} without",
            )
        super().__init__(number, nodes[number], nodes[number], None, None, kind)
        self.adj = adj

    def placeholder(self) -> Any:
        """As many pairs, which PyG's loader can count."""
        pairs = torch.stack([self.row, self.row])
        return pairs if self.input_type is None else (self.input_type, pairs)

    def __getitem__(self, index: Any) -> EdgeSamplerInput:
        """Some of them, with an edge each."""
        at = torch.as_tensor(index, dtype=torch.int64).view(-1)
        node = self.row[at]
        start, size = self.adj.row_range(node)
        batch = key_of(self)
        key = random.fold(random.new_key(batch, CPU, random.NEGATIVE), -1)
        word = random.bits(random.stream(key, torch.arange(node.numel())), 0)
        drawn = start + random.below_wide(word, size)
        target = self.adj.col[drawn].to(torch.int64)
        number, kind = self.input_id[at], self.input_type
        found = EdgeSamplerInput(number, node, target, input_type=kind)
        picked: EdgeSamplerInput = with_key(found, batch)
        return picked


def source_nodes(
    nodes: Any, pairs: Any, data: Any, sampler: Any, **given: Any
) -> SourceNodes:
    """The seeds of a link loader with `input_nodes`.

    Args:
        nodes: `input_nodes`.
        pairs: `edge_label_index`, which may only name an edge type.
        data: the graph.
        sampler: of the loader.
        **given: what must be None beside nodes, by name.
    """
    for name, value in given.items():
        if value is not None:
            fail(name, "must be None beside 'input_nodes'", shown(value))
    if getattr(sampler, "is_temporal", False):
        rule = "must be None beside 'input_nodes', whose edges are drawn at no time"
        fail("time_attr", rule, repr(sampler.time_attr))
    kind: Any = None
    if sampler.is_hetero:
        if not isinstance(pairs, tuple | list) or len(pairs) != 3:
            rule = "must be the edge type that positives are drawn from"
            fail("edge_label_index", rule, shown(pairs))
        kind = tuple(pairs)
        nodes = (kind[0], nodes)
    elif pairs is not None:
        fail("edge_label_index", "must be None beside 'input_nodes'", shown(pairs))
    found, _ = input_nodes_of(nodes, None, data, sampler)
    ids = found[1] if isinstance(found, tuple) else found
    ids = ids.nonzero().view(-1) if ids.dtype == torch.bool else ids
    rows = from_data(data, Options(backward=True)).adjs
    named = ONLY if kind is None else row_type(kind)
    if named not in rows:
        fail("edge_label_index", f"must be one of {sampler.edge_types}", kind)
    return SourceNodes(ids.cpu(), rows[named].to("cpu"), kind)
