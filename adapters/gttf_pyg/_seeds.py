"""Seeds of loaders: checked, in PyG's form, and with the key of their batch.

Beyond PyG's: seeds of several node types, and nodes as the seeds of a link loader.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from torch import Tensor
from torch_geometric.sampler import EdgeSamplerInput, NegativeSampling, NodeSamplerInput

from gttf_pyg._batch import by_type
from gttf_pyg._check import as_reals, ids, is_integer
from gttf_pyg._compat import ONLY, EdgeType, row_type
from gttf_pyg._rows import Options, can_join
from gttf_pyg._stores import from_data
from gttf_sampler import CompactAdj, random
from gttf_sampler._check import (
    as_dense,
    dense,
    fail,
    integers,
    mistyped,
    one_of,
    shown,
    within,
)
from gttf_sampler._loading.seeded import draw_key

CPU = torch.device("cpu")


class InputError(ValueError, AssertionError):
    """Seeds that PyG refuses by an assertion, with words."""


def key_of(inputs: Any) -> int:
    """The key that seeds carry, or a new one."""
    key: int | None = getattr(inputs, "key", None)
    return draw_key() if key is None else key


def with_key(inputs: Any, key: int | None) -> Any:
    """A copy of seeds that carries `key`, and so does every part of it."""
    if type(inputs) is NodeSamplerInput:
        nodes = inputs.input_id, inputs.node, inputs.time, inputs.input_type
        found: Any = KeyedNodes(*nodes)
    elif type(inputs) is EdgeSamplerInput:
        ends = inputs.input_id, inputs.row, inputs.col
        found = KeyedEdges(*ends, inputs.label, inputs.time, inputs.input_type)
    else:
        found = copy.copy(inputs)
    found.key = key
    return found


class Keyed:
    """Seeds of a loader, which has checked them; those of a batch have its key."""

    key: int | None = None

    def at(self, index: Any, key: int) -> Any:
        """Some of the seeds, with a key."""
        found: Any = super().__getitem__(index)  # type: ignore[misc]
        found.key = key
        return found

    def __getitem__(self, index: Any) -> Any:
        return self.at(index, key_of(self))


class KeyedNodes(Keyed, NodeSamplerInput):
    """Seed nodes of a loader."""


class KeyedEdges(Keyed, EdgeSamplerInput):
    """Seed edges of a loader."""


class TypedNodes(Keyed, NodeSamplerInput):
    """Seeds of several node types; positions run through one type after another."""

    def __init__(self, parts: dict[str, NodeSamplerInput]) -> None:
        every = torch.cat([part.node for part in parts.values()])
        super().__init__(None, every)
        self.parts = parts  # in the order of the data's types

    def at(self, index: Any, key: int) -> TypedNodes:
        """Some of the seeds, with a key."""
        at = torch.as_tensor(index, dtype=torch.int64).view(-1)
        found, first = {}, 0
        for name, part in self.parts.items():
            size = part.node.numel()
            own = at[(at >= first) & (at < first + size)] - first
            found[name] = part[own]
            first += size
        picked = TypedNodes(found)
        picked.key = key
        return picked


def sample_typed(inputs: TypedNodes, sample: Any) -> Any:
    """The output of a sampler for seeds of several types."""
    parts = inputs.parts
    times = {name: part.time for name, part in parts.items()}
    none = any(time is None for time in times.values())
    seeds = {name: part.node for name, part in parts.items()}
    out = sample(seeds, None if none else times)
    out.metadata = {name: (part.input_id, part.time) for name, part in parts.items()}
    return out


class SourceNodes(Keyed, EdgeSamplerInput):
    """Nodes as seed edges: every time it is asked for, a node has one of its edges.

    What has no edge is left out, and `input_id` holds positions among all that were
    given. Edges are drawn uniformly, by the key of the batch.
    """

    def __init__(self, nodes: Tensor, adj: CompactAdj, kind: Any) -> None:
        within("input_nodes", nodes, adj.num_rows)
        number = (adj.row_range(nodes)[1] > 0).nonzero().view(-1)
        if nodes.numel() and not number.numel():
            rule = "must hold a node with an edge"
            fail("input_nodes", rule, f"{nodes.numel()} without")
        super().__init__(number, nodes[number], nodes[number], None, None, kind)
        self.adj = adj

    def placeholder(self) -> Any:
        """As many pairs, which PyG's loader can count."""
        pairs = torch.stack([self.row, self.row])
        return pairs if self.input_type is None else (self.input_type, pairs)

    def at(self, index: Any, key: int) -> EdgeSamplerInput:
        """Some of the seeds, each with an edge drawn by a key."""
        at = torch.as_tensor(index, dtype=torch.int64).view(-1)
        node = self.row[at]
        start, size = self.adj.row_range(node)
        own = random.fold(random.new_key(key, CPU, random.NEGATIVE), -1)
        word = random.bits(random.stream(own, torch.arange(node.numel())), 0)
        drawn = start + random.below_wide(word, size)
        target = self.adj.col[drawn].to(torch.int64)
        number, kind = self.input_id[at], self.input_type
        found = EdgeSamplerInput(number, node, target, input_type=kind)
        picked: EdgeSamplerInput = with_key(found, key)
        return picked


def checked_nodes(inputs: Any) -> NodeSamplerInput:
    """`inputs` with ids in int64, and checked unless a loader has done so."""
    if hasattr(inputs, "key"):
        found: NodeSamplerInput = inputs
        return found
    if not isinstance(inputs, NodeSamplerInput):
        mistyped("inputs", "must be a NodeSamplerInput", shown(inputs))
    node = ids("inputs.node", inputs.node)
    one_per_seed("inputs.time", inputs.time, node.numel(), dense)
    return _with(inputs, node=node)


def checked_edges(inputs: Any, neg_sampling: Any) -> EdgeSamplerInput:
    """`inputs` with ids in int64, and checked unless a loader has done so."""
    if hasattr(inputs, "key"):
        found: EdgeSamplerInput = inputs
        return found
    if not isinstance(inputs, EdgeSamplerInput):
        mistyped("inputs", "must be an EdgeSamplerInput", shown(inputs))
    row, col = ids("inputs.row", inputs.row), ids("inputs.col", inputs.col)
    count = row.numel()
    if col.numel() != count:
        rule = f"must have one entry per entry of 'inputs.row', {count} in all"
        fail("inputs.col", rule, col.numel())
    one_per_seed("inputs.label", inputs.label, count, dense)
    one_per_seed("inputs.time", inputs.time, count, dense)
    if neg_sampling is not None and not isinstance(neg_sampling, NegativeSampling):
        mistyped("neg_sampling", "must be a NegativeSampling", shown(neg_sampling))
    triplets = neg_sampling is not None and neg_sampling.is_triplet()
    if triplets and inputs.label is not None:
        fail("inputs.label", "must be None beside triplets", "a tensor")
    return _with(inputs, row=row, col=col)


def _with(inputs: Any, **parts: Tensor) -> Any:
    if all(getattr(inputs, name) is part for name, part in parts.items()):
        return inputs
    inputs = copy.copy(inputs)
    for name, part in parts.items():
        setattr(inputs, name, part)
    return inputs


def one_per_seed(
    name: str, value: Any, count: int | None, check: Callable[..., Tensor] = as_dense
) -> Tensor | None:
    """`value` as a tensor with one entry per seed, or None; times must be numbers.

    Args:
        name: of the argument, for errors.
        value: a tensor, or what `check` makes one of.
        count: how many seeds there are; None if that is not known yet.
        check: `dense` where only tensors are taken.
    """
    if value is None:
        return None
    found = (dense if isinstance(value, Tensor) else check)(name, value)
    if "time" in name:
        found = as_reals(name, found)
    if found.dim() == 0 or count not in (None, found.shape[0]):
        rule = f"must have one entry per seed, {count} in all"
        raise InputError(f"'{name}' {rule} (got shape {list(found.shape)})")
    return found


def seed_times(
    seeds: Mapping[str, Tensor], given: Any, node_time: Any, edge_time: Any
) -> Tensor | None:
    """[b], in the order of `seeds` over all types; None where there are no times.

    Times that were given come first; without them, a seed has the time of its node.
    """
    if node_time is None and edge_time is None:
        return None
    if given is not None:
        given = by_type(given, "")
        return torch.cat([given[name] for name in seeds])
    if node_time is None:
        fail("input_time", "must be given where the edges have times", None)
    own, parts = by_type(node_time, ""), []
    for name, nodes in seeds.items():
        if name in own:
            parts.append(_at(own[name], nodes))
        elif nodes.numel():
            rule = "must be given for nodes without times"
            fail("input_time", rule, f"None for {name!r}")
    return torch.cat(parts)


def _at(time: Any, node: Tensor) -> Tensor:
    """The times of some nodes, on the device of the times, or of other processes."""
    if node.device.type == "cpu" and node.numel():
        low, high = (int(bound) for bound in node.aminmax())
        if low < 0 or high >= time.shape[0]:
            rule = f"must be known for every node, [0, {time.shape[0]}) have one"
            fail("input_time", rule, high if low >= 0 else low)
    found: Tensor = time[node.to(time.device) if isinstance(time, Tensor) else node]
    return found


def seed_edges(
    inputs: EdgeSamplerInput, adjs: Mapping[EdgeType, CompactAdj], backward: bool
) -> dict[EdgeType, Tensor]:
    """Per relation, the positions in `adj.col` of the seed edges and their reverses.

    All parallel copies are found. The reverse of `rel` is `rev_rel`, as everywhere in
    PyG, or the only relation that leads back.
    """
    src, dst = inputs.row, inputs.col
    if backward:  # rows are those of the reversed graph
        src, dst = dst, src
    kind: Any = inputs.input_type
    if kind is None:
        return {ONLY: _both_ways(adjs[ONLY], src, dst)}
    kind = row_type(kind, backward)
    if kind[0] == kind[2]:
        both = [kind, _named_reverse(kind, adjs)]
        return {rel: _both_ways(adjs[rel], src, dst) for rel in both if rel in adjs}
    found = {}
    if kind in adjs:  # else pairs are asked about that the graph does not hold
        found[kind] = adjs[kind].edges_between(dst, src)[1]
    back = reverse_of(kind, adjs)
    if back is not None:
        found[back] = adjs[back].edges_between(src, dst)[1]
    return found


def reverse_of(kind: EdgeType, edge_types: Collection[EdgeType]) -> EdgeType | None:
    """The relation that holds the reverse edges of `kind`; None if there is none."""
    src, rel, dst = kind
    named = _named_reverse(kind, edge_types)
    if named is not None:
        return named
    others = [other for other in edge_types if (other[2], other[0]) == (src, dst)]
    if len(others) > 1:
        rule = f"must know which relation holds the reverse of {kind}"
        fail("exclude_edges", rule, others, f"call it 'rev_{rel}'")
    return others[0] if others else None


def _named_reverse(kind: EdgeType, edge_types: Collection[EdgeType]) -> EdgeType | None:
    src, rel, dst = kind
    for name in (f"rev_{rel}", rel.removeprefix("rev_")):
        if name != rel and (dst, name, src) in edge_types:
            return dst, name, src
    return None


def _both_ways(adj: CompactAdj, src: Tensor, dst: Tensor) -> Tensor:
    """The positions of the edges between the pairs, in either direction."""
    here, there = torch.cat([dst, src]), torch.cat([src, dst])
    return adj.edges_between(here, there)[1]


class Nodes(NamedTuple):
    """Seed nodes as a user has named them.

    Attributes:
        kind: their type; None without types.
        ids: int64 [k]; None for all of a graph whose size the sampler does not know.
        number: what PyG calls them in a batch, their ids, if they were named by a mask;
            None if by their positions.
        time: of each [k], or None.
    """

    kind: str | None
    ids: Tensor | None
    number: Tensor | None
    time: Tensor | None

    @property
    def given(self) -> Any:
        """The `input_nodes` of PyG's loaders."""
        if self.kind is None:
            return self.ids
        return self.kind if self.ids is None else (self.kind, self.ids)


def nodes_of(value: Any, times: Any, sampler: Any, named: str = "input_nodes") -> Nodes:
    """`input_nodes` and `input_time` after checks; arrays and lists will do as well."""
    count: Any = getattr(sampler, "num_nodes", None)
    kind = None
    if getattr(sampler, "is_hetero", False):
        kind, value = _typed(value, sampler)
        count = (count or {}).get(kind)
    found, number = _ids(value, count, named), None
    if found is None and count is not None:
        found = torch.arange(count)
    elif found is not None and found.dtype == torch.bool:
        found = number = found.nonzero().view(-1)
    size = None if found is None else found.numel()
    return Nodes(kind, found, number, one_per_seed("input_time", times, size))


def _typed(value: Any, sampler: Any) -> tuple[str, Any]:
    """The type that seeds are of, and which of its nodes they are."""
    name, nodes = value, None
    if isinstance(value, tuple | list) and len(value) == 2:
        name, nodes = value
    if not isinstance(name, str):
        rule = "must be a node type, or (node type, nodes), in a heterogeneous graph"
        _refuse("input_nodes", rule, value)
    if name not in sampler.node_types:
        rule = f"must name one of the node types {sampler.node_types}"
        _refuse("input_nodes", rule, name)
    return name, nodes


def edge_label_index_of(
    value: Any, labels: Any, times: Any, sampler: Any
) -> tuple[Any, Any, Any]:
    """`edge_label_index`, `edge_label` and `edge_label_time`, after checks."""
    kind, edges = None, value
    if getattr(sampler, "is_hetero", False):
        kind, edges = _edge_type(value)
    elif isinstance(value, tuple) and len(value) == 2 and value[0] is None:
        edges = value[1]  # as PyG has them for stores
    if isinstance(edges, Tensor | np.ndarray | list):
        edges = as_dense("edge_label_index", edges)
    if isinstance(edges, Tensor) and (is_integer(edges) or edges.numel() == 0):
        edges = edges.to(torch.int64)  # as PyG casts its seeds
    rows = getattr(sampler, "adjs", {}).get(ONLY if kind is None else kind)
    count = None if rows is None else rows.num_edges
    if edges is not None:
        if not isinstance(edges, Tensor) or edges.dim() != 2 or edges.shape[0] != 2:
            _refuse("edge_label_index", "must be a tensor [2, k] of pairs", edges)
        count = edges.shape[1]
    labels = one_per_seed("edge_label", labels, count)
    if getattr(sampler, "is_temporal", True):  # else PyG refuses them
        times = one_per_seed("edge_label_time", times, count)
    if kind is not None:
        edges = kind if edges is None else (kind, edges)
    return edges, labels, times


def _edge_type(value: Any) -> tuple[Any, Any]:
    parts = value if isinstance(value, tuple | list) else ()
    if len(parts) == 2 and isinstance(parts[0], tuple | list):
        kind, edges = parts
    else:
        kind, edges = parts, None
    if not 2 <= len(kind) <= 3 or not all(isinstance(word, str) for word in kind):
        rule = "must be an edge type, or (edge type, edges), in a heterogeneous graph"
        _refuse("edge_label_index", rule, value)
    return tuple(kind), edges


def _ids(value: Any, count: int | None, named: str) -> Tensor | None:
    """Arrays, and lists of booleans, as tensors; a mask must be of all nodes."""
    masked = isinstance(value, list) and value and isinstance(value[0], bool | np.bool_)
    if isinstance(value, Tensor):
        value = dense(named, value)
    elif isinstance(value, np.ndarray | range) or masked:
        value = as_dense(named, value)
    if isinstance(value, list | tuple):
        value = integers(named, value, rank=None)
    if value is None:
        return None
    if not isinstance(value, Tensor):
        _refuse(named, "must be ids [k] or a mask", value)
    masked = value.dtype == torch.bool
    if value.dim() != 1 or (masked and count not in (None, value.numel())):
        what = f"a mask [{count}] or ids" if masked else "ids [k] or a mask"
        _refuse(named, f"must be {what}", value)
    return value if masked else ids(named, value)


def _refuse(name: str, rule: str, value: Any) -> NoReturn:
    got = shown(value)
    if isinstance(value, Tensor):
        got = f"{str(value.dtype)[6:]} {list(value.shape)}"
    raise InputError(f"'{name}' {rule} (got {got})")


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
            found = nodes_of((name, value[name]), own, sampler)
            number = input_id_of(input_id, found)
            parts[name] = NodeSamplerInput(number, found.ids, found.time, name)
    return TypedNodes(parts)


def input_id_of(value: Any, seeds: Nodes) -> Any:
    """`input_id` as PyG takes it; "node" names seeds by their ids, masks or not."""
    if value is None:
        return seeds.number
    if not isinstance(value, str):
        return value
    one_of("input_id", value, ("node",))
    return seeds.ids


def source_nodes(
    nodes: Any, pairs: Any, data: Any, sampler: Any, **given: Any
) -> SourceNodes:
    """The seeds of a link loader with `input_nodes`.

    Its `edge_label_index`, `pairs`, may only name an edge type, and what is `given`
    beside must be None.
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
    found: Any = nodes_of(nodes, None, sampler).ids
    rows = from_data(data, Options(backward=True)).adjs
    named = ONLY if kind is None else row_type(kind)
    if named not in rows:
        fail("edge_label_index", f"must be one of {sampler.edge_types}", kind)
    return SourceNodes(found.cpu(), rows[named].to("cpu"), kind)
