"""DGL's `sampling`: our walks, and the nodes that walks visit most.

Other names are those of the package, or DGL's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import dgl
import torch
from dgl import DGLGraph
from dgl import sampling as theirs
from torch import Tensor

from gttf_dgl import _check
from gttf_dgl._check import EdgeType
from gttf_dgl._source import kinds_with, rows
from gttf_sampler import (
    EdgeWeightBias,
    Node2VecBias,
    ppr_neighbors,
    random,
    traverse,
)
from gttf_sampler._check import shown
from gttf_sampler._swap import host_names

__all__, __getattr__ = host_names(theirs, __name__)


def random_walk(
    g: DGLGraph,
    nodes: Any,
    *,
    metapath: Sequence[str | EdgeType] | None = None,
    length: int | None = None,
    prob: str | None = None,
    restart_prob: float | Tensor | None = None,
    return_eids: bool = False,
    generator: torch.Generator | int | None = None,
) -> tuple[Tensor, ...]:
    """Random walks along the edges, as `dgl.sampling.random_walk` draws them.

    >>> import dgl
    >>> from gttf_dgl import random_walk
    >>> g = dgl.graph(([0, 1, 2], [1, 2, 3]))
    >>> traces, types = random_walk(g, [0, 2], length=3)
    >>> traces.tolist()
    [[0, 1, 2, 3], [2, 3, -1, -1]]

    Follows `torch.manual_seed`, on the CPU and on the graph's device alike.

    Args:
        g: the graph.
        nodes: [n], where to start, nodes of the first type of the metapath.
        metapath: the edge type of every step.
        length: instead of it, the number of steps, if there is one edge type.
        prob: name of edge data to draw in proportion to; a node whose edges all have
            zero ends the walk.
        restart_prob: how likely a walk ends before each step, or before every one.
        return_eids: whether the ids of the edges are wanted, too.
        generator: a torch.Generator, an integer, or None for torch's default generator.

    Returns:
        traces [n, steps + 1], -1 after the end of a walk; if asked for, edge ids
        [n, steps]; and the node types [steps + 1].
    """
    _check.graph(g)
    _check.yes_or_no("return_eids", return_eids)
    kinds = _steps(g, metapath, length)
    start = kinds[0][0] if kinds else g.ntypes[0]
    seeds = _starts(g, nodes, start)
    _check_prob(g, prob)
    key = random.new_key(_check.randomness(generator), g.device, random.WALK)
    ends = _ends(restart_prob, seeds.numel(), len(kinds), random.fold(key, 0), g.device)
    key = random.fold(key, 1)
    traces, eids = [seeds], list[Tensor]()
    if len(set(kinds)) == 1 and kinds[0][0] == kinds[0][2]:
        # one graph all the way: the engine takes the steps, in one call if it can
        traces, eids = _walk(g, kinds[0], seeds, len(kinds), prob, int(key))
    else:
        here = seeds
        for step, kind in enumerate(kinds):
            if g.num_nodes(kind[0]):
                at, own = here.clamp(min=0), int(random.fold(key, step))
                (_, here), (edge,) = _walk(g, kind, at, 1, prob, own)
            else:  # nobody can be here, nor go on
                here = edge = torch.full_like(seeds, -1)
            traces.append(here)
            eids.append(edge)
    types = [start, *(kind[2] for kind in kinds)]
    numbers = torch.tensor([g.get_ntype_id(name) for name in types], dtype=g.idtype)
    walks, edges = _padded(g, traces, eids, ends)
    numbers = numbers.to(g.device)
    return (walks, edges, numbers) if return_eids else (walks, numbers)


def ppr_graph(
    g: DGLGraph,
    k: int,
    *,
    restart: float = 0.15,
    walks: int = 128,
    length: int | None = None,
    prob: str | None = None,
    generator: torch.Generator | int | None = None,
) -> DGLGraph:
    """A graph with edges from the `k` nodes nearest by personalised PageRank.

    >>> import dgl
    >>> from gttf_dgl import ppr_graph
    >>> near = ppr_graph(dgl.graph(([0, 1, 2, 3], [1, 2, 3, 0])), k=1)
    >>> near.edges()[0].tolist(), near.edges()[1].tolist()
    ([3, 0, 1, 2], [0, 1, 2, 3])

    Its nodes and their data are those of `g`; `edata["weight"]` are shares of walks
    that go against the edges and restart. Any sampler takes it, by `prob="weight"` too.

    Args:
        g: the graph, with one node type and one edge type.
        k: neighbours per node, at most.
        restart: how likely a walk returns before each step.
        walks: from every node; the error falls with their square root.
        length: of a walk, at most; by default so that one in twenty would be longer.
        prob: name of edge data that walks follow.
        generator: a torch.Generator, an integer, or None for torch's default generator.
    """
    _check.homogeneous(g)
    _check_prob(g, prob)
    adj = rows(g, g.canonical_etypes[0], "in", prob)
    bias = None if prob is None else EdgeWeightBias()
    how: Any = {"restart": restart, "walks": walks, "length": length}
    near = ppr_neighbors(adj, k, bias=bias, generator=generator, **how)
    target = g.nodes().to(torch.int64).repeat_interleave(near.degree)
    ends = near.col.to(g.idtype), target.to(g.idtype)
    found: DGLGraph = dgl.graph(ends, num_nodes=g.num_nodes())
    found.edata["weight"] = near.edge_weight
    for name, value in g.ndata.items():
        found.ndata[name] = value
    return found


def node2vec_random_walk(
    g: DGLGraph,
    nodes: Any,
    p: float,
    q: float,
    walk_length: int,
    prob: str | None = None,
    return_eids: bool = False,
    *,
    generator: torch.Generator | int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """node2vec walks, as `dgl.sampling.node2vec_random_walk` draws them.

    A step back weighs 1/p, one to a node with an edge to the last node 1, others 1/q.

    Args:
        g: the graph, with one node type and one edge type, on any device.
        nodes: [n], where to start.
        p: return parameter, > 0.
        q: in-out parameter, > 0.
        walk_length: the number of steps.
        prob: name of edge data that multiply those weights.
        return_eids: whether the ids of the edges are wanted, too.
        generator: a torch.Generator, an integer, or None for torch's default generator.

    Returns:
        traces [n, walk_length + 1], -1 after the end of a walk; if asked for, a tuple
        of these and the edge ids [n, walk_length].
    """
    _check.homogeneous(g)
    _check.yes_or_no("return_eids", return_eids)
    seeds = _starts(g, nodes, g.ntypes[0])
    steps = _check.length("walk_length", walk_length)
    _check_prob(g, prob)
    bias = Node2VecBias(p, q, weighted=prob is not None)
    key = _check.randomness(generator)
    traces, eids = _walk(g, g.canonical_etypes[0], seeds, steps, prob, key, bias)
    walks, edges = _padded(g, traces, eids, None)
    return (walks, edges) if return_eids else walks


def _check_prob(g: DGLGraph, prob: str | None) -> None:
    """Refuses data that DGL's walks do not take: they want a plain column."""
    for kind in kinds_with(g, prob, None):
        shape = list(g.edges[kind].data[prob].shape)
        if len(shape) != 1:
            _check.fail_like_dgl("prob", "must name one number per edge", shape)


def _starts(g: DGLGraph, value: Any, kind: str) -> Tensor:
    """The nodes where walks start: a number, or several."""
    try:
        return _check.ids("nodes", _check.several(value), g.num_nodes(kind), g.device)
    except ValueError as error:
        raise _check.GraphError(str(error)) from None


def _steps(g: DGLGraph, metapath: Any, length: Any) -> list[EdgeType]:
    """The canonical edge type of every step."""
    if metapath is None:
        if length is None:
            _check.fail("length", "must be given, or 'metapath'", None)
        if not _check.one_type(g):
            rule = "must be given for a graph with several types"
            _check.fail_like_dgl("metapath", rule, None)
        return [tuple(g.canonical_etypes[0])] * _check.length("length", length)
    if isinstance(metapath, str) or not isinstance(metapath, Sequence):
        _check.mistyped("metapath", "must be a list of edge types", shown(metapath))
    kinds = [_check.edge_type("metapath", g, kind) for kind in metapath]
    for before, after in pairwise(kinds):
        if before[2] != after[0]:
            rule = "must go on from the node type where the last step ended"
            _check.fail_like_dgl("metapath", rule, f"{after} after {before}")
    return kinds


def _walk(
    g: DGLGraph,
    kind: EdgeType,
    seeds: Tensor,
    steps: int,
    prob: str | None,
    key: random.Randomness,
    bias: Any = None,
) -> tuple[list[Tensor], list[Tensor]]:
    """Nodes [n] and DGL's edge ids [n] of `steps` steps along one edge type."""
    adj = rows(g, kind, "out", prob)
    if bias is None and adj.edge_weight is not None:
        bias = EdgeWeightBias()
    forest = traverse(adj, seeds, [1] * steps, bias, generator=key)
    nodes = [level.view(-1) for level in forest.nodes]
    return nodes, [adj.original_edge(level.view(-1)) for level in forest.edges[1:]]


def _ends(
    restart_prob: Any, walks: int, steps: int, key: random.Key, device: torch.device
) -> Tensor | None:
    """The steps before which walks end, bool [walks, steps]; None: never."""
    if restart_prob is None:
        return None
    if isinstance(restart_prob, Tensor):
        _check.real("restart_prob", restart_prob)
        if restart_prob.dim() != 1 or restart_prob.numel() != steps:
            rule = f"must have one entry per step, {steps} in all"
            _check.fail("restart_prob", rule, f"shape {list(restart_prob.shape)}")
        chance = restart_prob.to(device=device, dtype=torch.float64)
    elif isinstance(restart_prob, float):
        chance = torch.full((steps,), restart_prob, dtype=torch.float64, device=device)
    else:
        kind = type(restart_prob).__name__
        _check.mistyped("restart_prob", "must be a float or a tensor", kind)
    if not bool(((chance >= 0) & (chance <= 1)).all()):
        rule = "must hold probabilities from 0 to 1"
        _check.fail("restart_prob", rule, chance.tolist())
    stream = random.stream(key, torch.arange(walks, device=device))[:, None]
    word = random.bits(stream, torch.arange(steps, device=device))
    return random.fraction(word) < chance


def _padded(
    g: DGLGraph, traces: list[Tensor], eids: list[Tensor], ends: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Traces and edge ids as matrices, -1 from where a walk has ended."""
    walks = torch.stack(traces, dim=1)
    if not eids:
        return walks.to(g.idtype), walks.new_empty(walks.shape[0], 0).to(g.idtype)
    edges = torch.stack(eids, dim=1)
    stopped = edges < 0  # no edge was taken: the engine's walker stayed, or vanished
    if ends is not None:
        stopped |= ends
    stopped = stopped.cumsum(1) > 0
    walks[:, 1:].masked_fill_(stopped, -1)
    return walks.to(g.idtype), edges.masked_fill_(stopped, -1).to(g.idtype)


class RandomWalkNeighborSampler(theirs.RandomWalkNeighborSampler):
    """For every given node, a graph of the nodes that walks from it visit most.

    >>> import dgl
    >>> from gttf_dgl import RandomWalkNeighborSampler
    >>> g = dgl.graph(([0, 1, 2], [1, 2, 0]))
    >>> sampler = RandomWalkNeighborSampler(g, 2, 0.0, 5, 1)
    >>> near = sampler([0])  # each of five walks is at 1, then at 2
    >>> near.edata["weights"].tolist(), near.in_degrees().tolist()
    ([5], [1, 0, 0])

    Takes the arguments of `dgl.sampling.RandomWalkNeighborSampler` and gives what that
    gives. Follows `torch.manual_seed`; of nodes that were visited equally often, chance
    decides.

    Args:
        G: the graph.
        num_traversals: how often a walk follows the metapath at most.
        termination_prob: how likely it ends before each time but the first.
        num_random_walks: walks per node.
        num_neighbors: how many of the nodes visited most are kept.
        metapath: edge types, from one node type back to it; not needed if there is one.
        weight_column: name of the edge data with the numbers of visits.
        generator: a torch.Generator, an integer, or None for torch's default generator.
    """

    def __init__(
        self,
        G: DGLGraph,
        num_traversals: int,
        termination_prob: float,
        num_random_walks: int,
        num_neighbors: int,
        metapath: Any = None,
        weight_column: str = "weights",
        *,
        generator: random.Randomness = None,
    ) -> None:
        self.G = _check.graph(G)
        kinds = _steps(G, metapath, 1)
        if not kinds or kinds[0][0] != kinds[-1][2]:
            rule = "must start and end at the same node type"
            _check.fail_like_dgl("metapath", rule, kinds)
        self.ntype, self.metapath = kinds[0][0], kinds
        self.num_traversals = _check.length("num_traversals", num_traversals)
        self.num_random_walks = _check.length("num_random_walks", num_random_walks)
        self.num_neighbors = _check.length("num_neighbors", num_neighbors)
        if not isinstance(weight_column, str):
            rule, got = "must be a name", type(weight_column).__name__
            _check.mistyped("weight_column", rule, got)
        self.weight_column = weight_column
        self.generator = _check.randomness(generator)
        ends = torch.zeros(self.num_traversals, len(kinds))
        rule = "must be a number from 0 to 1"
        if isinstance(termination_prob, bool) or not isinstance(
            termination_prob, int | float
        ):
            _check.mistyped("termination_prob", rule, shown(termination_prob))
        if not 0 <= termination_prob <= 1:
            _check.fail("termination_prob", rule, termination_prob)
        ends[1:, 0] = float(termination_prob)
        self.restart_prob = ends.view(-1)

    def __call__(self, seed_nodes: Any) -> DGLGraph:
        """The graph, with all nodes of the type; edges lead to the given nodes."""
        g, size = self.G, self.G.num_nodes(self.ntype)
        seeds = _check.ids("seed_nodes", _check.several(seed_nodes), size, g.device)
        key = random.new_key(self.generator, g.device, random.WALK)
        start = seeds.repeat_interleave(self.num_random_walks)
        path = self.metapath * self.num_traversals
        traces = random_walk(
            g, start, metapath=path, restart_prob=self.restart_prob, generator=int(key)
        )[0]
        visited = traces[:, len(self.metapath) :: len(self.metapath)].long()
        owner = torch.arange(len(seeds), device=g.device)
        owner = owner.repeat_interleave(self.num_random_walks)[:, None]
        there = visited >= 0
        source, target, count = _most_visited(
            owner.expand_as(visited)[there], visited[there], self.num_neighbors, key
        )
        ends = source.to(g.idtype), seeds[target].to(g.idtype)
        kind = (self.ntype, "_E", self.ntype)
        near = dgl.heterograph({kind: ends}, {self.ntype: size}, g.idtype, g.device)
        near.edata[self.weight_column] = count
        return near


class PinSAGESampler(RandomWalkNeighborSampler, theirs.PinSAGESampler):
    """PinSAGE's neighbours (Ying et al., 2018), on a graph of two node types.

    >>> import dgl
    >>> from gttf_dgl import PinSAGESampler
    >>> bought = {("item", "by", "user"): ([0, 1], [0, 0])}
    >>> bought["user", "bought", "item"] = ([0, 0], [0, 1])
    >>> sampler = PinSAGESampler(dgl.heterograph(bought), "item", "user", 1, 0.5, 9, 2)
    >>> sampler([0]).edata["weights"].sum().item()
    9

    Args:
        G: the graph, with one edge type from `ntype` to `other_type`, and one back.
        ntype: the node type whose nodes become neighbours.
        other_type: the node type that walks lead through.
        num_traversals: see `RandomWalkNeighborSampler`, like the others.
    """

    def __init__(
        self,
        G: DGLGraph,
        ntype: str,
        other_type: str,
        num_traversals: int,
        termination_prob: float,
        num_random_walks: int,
        num_neighbors: int,
        weight_column: str = "weights",
        *,
        generator: random.Randomness = None,
    ) -> None:
        kinds = _check.graph(G).canonical_etypes
        metapath = []
        for ends in ((ntype, other_type), (other_type, ntype)):
            found = [kind for kind in kinds if (kind[0], kind[2]) == ends]
            if not found:
                rule = "must have edges from 'ntype' to 'other_type' and back"
                _check.fail_like_dgl("G", rule, f"none {ends[0]!r} → {ends[1]!r}")
            metapath.append(found[0])
        counts = num_traversals, termination_prob, num_random_walks, num_neighbors
        super().__init__(G, *counts, metapath, weight_column, generator=generator)


def _most_visited(
    owner: Tensor, visited: Tensor, most: int, key: random.Key
) -> tuple[Tensor, Tensor, Tensor]:
    """(node, owner, visits) of the `most` nodes with the most visits of each owner."""
    pairs, count = torch.stack([owner, visited]).unique(dim=1, return_counts=True)
    lot = random.bits(random.stream(random.fold(key, 2), pairs[1]), pairs[0])
    place = torch.arange(len(count), device=count.device)
    for order in (lot, -count, pairs[0]):  # the last one counts most
        place = place[order[place].argsort(stable=True)]
    pairs, count = pairs[:, place].contiguous(), count[place]
    first = torch.searchsorted(pairs[0], pairs[0])
    kept = torch.arange(len(count), device=count.device) - first < most
    return pairs[1, kept], pairs[0, kept], count[kept]
