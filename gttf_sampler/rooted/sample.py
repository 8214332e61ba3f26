"""sample_rooted(): the fused path from seeds to a Subgraph."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, overload

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler._backends.scratch import NodeTable
from gttf_sampler.bias.base import Bias, as_bias
from gttf_sampler.draw import BiasFn
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.rooted.hop import NodeSet, Relation
from gttf_sampler.rooted.hops import sample_hops
from gttf_sampler.subgraph import EdgeType, HeteroSubgraph, Subgraph


@overload
def sample_rooted(
    adj: CompactAdj,
    seeds: Any,
    fanouts: Sequence[int],
    *,
    replace: bool = ...,
    bias: BiasFn | None = ...,
    disjoint: bool = ...,
    generator: random.Randomness = ...,
) -> Subgraph: ...


@overload
def sample_rooted(
    adj: Mapping[EdgeType, CompactAdj],
    seeds: Mapping[str, Any],
    fanouts: Sequence[int] | Mapping[EdgeType, Sequence[int]],
    *,
    replace: bool = ...,
    bias: BiasFn | Mapping[EdgeType, BiasFn] | None = ...,
    disjoint: bool = ...,
    generator: random.Randomness = ...,
) -> HeteroSubgraph: ...


def sample_rooted(
    adj: Any,
    seeds: Any,
    fanouts: Any,
    *,
    replace: bool = False,
    bias: Any = None,
    disjoint: bool = False,
    generator: random.Randomness = None,
) -> Subgraph | HeteroSubgraph:
    """Samples the rooted adjacency of a batch: RootedAdjAcc under NoRevisitBias.

    >>> from gttf_sampler import CompactAdj, sample_rooted
    >>> star = CompactAdj.from_edge_index([[1, 2, 3, 4], [0, 0, 0, 2]])
    >>> sample_rooted(star, seeds=[0], fanouts=[-1, -1])
    Subgraph(5 nodes, hops 1 + 3 + 1, 4 edges on cpu)

    A node is expanded once, when it is first reached. What it draws depends on the key,
    the hop and its id alone, so copies of a repeated seed draw the same neighbours; if
    trees are disjoint, it also depends on the tree, and copies draw independently.

    Args:
        adj: the graph, or a mapping from edge types (source, relation, target) to the
            graph of each; rows are then the nodes of the target type.
        seeds: int [b], may repeat; per node type if there are types.
        fanouts: neighbours per hop: -1 takes all, 0 none; `[]` gives the seeds. With
            types, one list for all or one per edge type.
        replace: draw `fanout` neighbours independently instead of min(fanout, degree)
            different ones.
        bias: weights of the neighbours, one for all edge types or per edge type; a
            neighbour of weight zero is never taken.
        disjoint: give every seed a tree of its own, whose nodes no other tree shares.
            Implied by a bias that treats seeds differently, like `TemporalBias`.
        generator: a torch.Generator, an integer, or None for torch's default generator.
    """
    replace = _check.yes_or_no("replace", replace)
    disjoint = _check.yes_or_no("disjoint", disjoint)
    if isinstance(adj, Mapping):
        return _sample_types(adj, seeds, fanouts, replace, bias, disjoint, generator)
    _check.of_type("adj", adj, CompactAdj)
    adj.ensure_sound()
    start = _check.seeds(seeds, adj.num_rows, adj.device)
    hops = _useful(_check.fanouts(fanouts, allow_all=True), adj, replace)
    if hops:
        _check.one_node_set("adj", adj.num_rows, adj.num_cols)
    steered = _simplest(bias)
    randomness = _check.randomness(generator)
    if steered is not None:
        disjoint = disjoint or steered.separates_trees
        steered.begin(adj, start)
    key = random.new_key(randomness, adj.device, random.ROOTED)
    with ExitStack() as stack:
        table = None
        if not disjoint:
            table = stack.enter_context(adj.borrow_table(adj.num_rows))
            mass = None if steered is None else steered.edge_mass(adj)
            if steered is None or mass is not None:
                fused = _sample_fused(adj, mass, start, hops, replace, key, table)
                if fused is not None:
                    return fused
        nodes = NodeSet.of(start, 0, adj.num_rows, steered is not None, table)
        relation = Relation(adj, "", "", hops, steered)
        (taken,) = sample_hops([relation], {"": nodes}, len(hops), replace, key)
    return Subgraph(
        nodes.node,
        _joined(taken.row, start),
        _joined(taken.col, start),
        _joined(taken.edge, start),
        nodes.root if disjoint else None,
        nodes.hops,
        [hop.numel() for hop in taken.edge],
    )


def _sample_fused(
    adj: CompactAdj,
    mass: Tensor | None,
    seeds: Tensor,
    fanouts: list[int],
    replace: bool,
    key: random.Key,
    table: NodeTable,
) -> Subgraph | None:
    """The most common cases in one call, where the backend has it."""
    found = ops.rooted(
        *(adj.rowptr, adj.col, mass, seeds, fanouts, replace, key),
        *(table.cell, table.reserve),
    )
    if found is None:
        return None
    arrays = found.node, found.row, found.col, found.edge
    return Subgraph(*arrays, None, found.num_nodes, found.num_edges)


def _sample_types(
    adjs: Mapping[EdgeType, CompactAdj],
    seeds: Any,
    fanouts: Any,
    replace: bool,
    bias: Any,
    disjoint: bool,
    generator: random.Randomness,
) -> HeteroSubgraph:
    """Rooted sampling of a heterogeneous graph."""
    sizes = _check.node_types(adjs)
    device = next(iter(adjs.values())).device
    hops = _check.typed_fanouts(fanouts, list(adjs))
    biases = bias if isinstance(bias, Mapping) else dict.fromkeys(adjs, bias)
    _check.known_types("bias", biases, list(adjs), "edge types")
    biases = {kind: _simplest(part) for kind, part in biases.items()}
    parts = {kind: part for kind, part in biases.items() if part is not None}
    if len(sizes) > 1 and any(part.looks_back for part in parts.values()):
        rule = "must not ask for the last node where there are several node types"
        _check.fail("bias", rule, bias)
    randomness = _check.randomness(generator)
    starts = _typed_seeds(seeds, sizes, device)
    every = torch.cat(list(starts.values()))
    for kind, part in parts.items():
        disjoint = disjoint or part.separates_trees
        part.begin(adjs[kind], every)
    relations = [
        Relation(
            adj, target, source, _useful(hops[kind], adj, replace), parts.get(kind)
        )
        for kind, adj in adjs.items()
        for source, _, target in [kind]
    ]
    nodes: dict[str, NodeSet] = {}
    with ExitStack() as stack:
        root = 0
        for name, start in starts.items():
            table, size = None, sizes[name]
            if not disjoint:
                owner = next(r.adj for r in relations if name in (r.to, r.by))
                table = stack.enter_context(owner.borrow_table(size))
            nodes[name] = NodeSet.of(start, root, size, bool(parts), table)
            root += start.numel()
        depth = len(next(iter(hops.values())))
        key = random.new_key(randomness, device, random.ROOTED)
        taken = sample_hops(relations, nodes, depth, replace, key)
    edges = dict(zip(adjs, taken, strict=True))
    return HeteroSubgraph(
        {name: nodes[name].node for name in sizes},
        {kind: _joined(some.row, every) for kind, some in edges.items()},
        {kind: _joined(some.col, every) for kind, some in edges.items()},
        {kind: _joined(some.edge, every) for kind, some in edges.items()},
        {name: nodes[name].root for name in sizes} if disjoint else None,
        {name: nodes[name].hops for name in sizes},
        {kind: [hop.numel() for hop in some.edge] for kind, some in edges.items()},
    )


def _typed_seeds(
    seeds: Any, sizes: dict[str, int], device: torch.device
) -> dict[str, Tensor]:
    """The seeds of every node type, trees numbered in the order of `seeds`."""
    if not isinstance(seeds, Mapping):
        rule = "must map node types to ids, as there are several types"
        _check.mistyped("seeds", rule, type(seeds).__name__)
    _check.known_types("seeds", seeds, list(sizes), "node types")
    named = {
        name: _check.seeds(ids, sizes[name], device, f"seeds[{name}]")
        for name, ids in seeds.items()
    }
    for name in sizes:
        named.setdefault(name, torch.empty(0, dtype=torch.int64, device=device))
    return named


def _useful(fanouts: list[int], adj: CompactAdj, replace: bool) -> list[int]:
    """The fanouts, none larger than the longest row if nothing is drawn twice."""
    if replace:
        if max(fanouts, default=0) > _check.MAX_DEGREE:
            rule = f"must not exceed {_check.MAX_DEGREE} with replacement"
            _check.fail("fanouts", rule, max(fanouts))
        return fanouts
    return [min(fanout, adj.max_degree) for fanout in fanouts]


def _simplest(bias: Any) -> Bias | None:
    """A checked bias, without what happens here in any case."""
    found = as_bias(bias)
    return None if found is None else found.in_rooted_sampling()


def _joined(parts: list[Tensor], like: Tensor) -> Tensor:
    """The tensors of all hops end to end."""
    return torch.cat(parts) if parts else like.new_empty(0)
