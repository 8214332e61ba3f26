"""Seeds of one batch, which carry its key: nodes, edges, nodes of several types.

Beyond PyG's: seeds of several node types, and nodes as the seeds of a link loader.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric.sampler import EdgeSamplerInput, NegativeSampling, NodeSamplerInput

from gttf_pyg._check import ids
from gttf_pyg._compat import ONLY, EdgeType, row_type
from gttf_sampler import CompactAdj, random
from gttf_sampler._check import dense, fail, mistyped, shown, within
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
    seeds = {name: part.node for name, part in inputs.parts.items()}
    times = {name: part.time for name, part in inputs.parts.items()}
    none = any(time is None for time in times.values())
    out = sample(seeds, None if none else times)
    out.metadata = {
        name: (part.input_id, part.time) for name, part in inputs.parts.items()
    }
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


def keyed_nodes(inputs: Any) -> tuple[NodeSamplerInput, int]:
    """Seeds of a batch and their key; those of a loader have been checked."""
    return inputs if hasattr(inputs, "key") else checked_nodes(inputs), key_of(inputs)


def keyed_edges(inputs: Any, neg_sampling: Any) -> tuple[EdgeSamplerInput, int]:
    """Seed edges of a batch and their key; those of a loader have been checked."""
    if not hasattr(inputs, "key"):
        inputs = checked_edges(inputs, neg_sampling)
    return inputs, key_of(inputs)


def checked_nodes(inputs: Any) -> NodeSamplerInput:
    """`inputs` with ids in int64; what does not name nodes is refused."""
    if not isinstance(inputs, NodeSamplerInput):
        mistyped("inputs", "must be a NodeSamplerInput", shown(inputs))
    node = ids("inputs.node", inputs.node)
    one_per_seed("inputs.time", inputs.time, node.numel())
    return _with(inputs, node=node)


def checked_edges(inputs: Any, neg_sampling: Any) -> EdgeSamplerInput:
    """`inputs` with ids in int64; what does not name pairs is refused."""
    if not isinstance(inputs, EdgeSamplerInput):
        mistyped("inputs", "must be an EdgeSamplerInput", shown(inputs))
    row, col = ids("inputs.row", inputs.row), ids("inputs.col", inputs.col)
    count = row.numel()
    if col.numel() != count:
        rule = f"must have one entry per entry of 'inputs.row', {count} in all"
        fail("inputs.col", rule, col.numel())
    one_per_seed("inputs.label", inputs.label, count)
    one_per_seed("inputs.time", inputs.time, count)
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


def one_per_seed(name: str, value: Any, count: int | None) -> Tensor | None:
    """`value` as a tensor with one entry per seed, or None."""
    if value is None:
        return None
    found = dense(name, value)
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
        given = given if isinstance(given, Mapping) else {"": given}
        return torch.cat([given[name] for name in seeds])
    if node_time is None:
        fail("input_time", "must be given where the edges have times", None)
    own = node_time if isinstance(node_time, Mapping) else {"": node_time}
    for name, nodes in seeds.items():
        if name not in own and nodes.numel():
            rule = "must be given for nodes without times"
            fail("input_time", rule, f"None for {name!r}")
    parts = [_at(own[name], nodes) for name, nodes in seeds.items() if name in own]
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
