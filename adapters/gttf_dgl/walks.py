"""Random walks with the signatures and results of `dgl.sampling`."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from dgl import DGLGraph
from torch import Tensor

from gttf_dgl import _check
from gttf_dgl._check import EdgeType
from gttf_dgl.compact import kinds_with, weighted_rows
from gttf_sampler import EdgeWeightBias, Node2VecBias, random, traverse
from gttf_sampler._check import shown

FRACTION = 2.0**-53  # of the random words that decide about restarts, 53 bits count


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
    seeds = _check.starts(nodes, g.num_nodes(start), g.device)
    heavy = _heavy(g, prob)
    key = random.new_key(_check.randomness(generator), g.device, random.WALK)
    ends = _ends(restart_prob, seeds.numel(), len(kinds), random.fold(key, 0), g.device)
    key = random.fold(key, 1)
    traces, eids = [seeds], []
    if len(set(kinds)) == 1 and kinds[0][0] == kinds[0][2]:
        # one graph all the way: the engine takes the steps, in one call if it can
        found = _walk(g, kinds[0], seeds, len(kinds), prob, heavy, key)
        traces, eids = list(found[0]), list(found[1])
    else:
        here = seeds
        for step, kind in enumerate(kinds):
            if g.num_nodes(kind[0]):
                at = here.clamp(min=0)
                found = _walk(g, kind, at, 1, prob, heavy, random.fold(key, step))
                (_, here), (edge,) = found
            else:  # nobody can be here, nor go on
                here = edge = torch.full_like(seeds, -1)
            traces.append(here)
            eids.append(edge)
    types = [start, *(kind[2] for kind in kinds)]
    numbers = torch.tensor([g.get_ntype_id(name) for name in types], dtype=g.idtype)
    walks, edges = _padded(g, traces, eids, ends)
    numbers = numbers.to(g.device)
    return (walks, edges, numbers) if return_eids else (walks, numbers)


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
    _check.graph(g)
    _check.yes_or_no("return_eids", return_eids)
    if len(g.ntypes) > 1 or len(g.canonical_etypes) > 1:
        rule = "must have one node type and one edge type"
        _check.fail_like_dgl("g", rule, f"{g.ntypes} and {g.canonical_etypes}")
    seeds = _check.starts(nodes, g.num_nodes(), g.device)
    steps = _check.length("walk_length", walk_length)
    _heavy(g, prob)
    bias = Node2VecBias(p, q, weighted=prob is not None)
    adj = weighted_rows(g, g.canonical_etypes[0], "out", prob, None)
    forest = traverse(
        adj, seeds, [1] * steps, bias, generator=_check.randomness(generator)
    )
    traces = [level.view(-1) for level in forest.nodes]
    eids = [adj.original_edge(level.view(-1)) for level in forest.edges[1:]]
    walks, edges = _padded(g, traces, eids, None)
    return (walks, edges) if return_eids else walks


def _heavy(g: DGLGraph, prob: str | None) -> list[EdgeType]:
    """The edge types to be walked by weight; DGL's walks take a plain column only."""
    kinds = kinds_with(g, prob, None)
    for kind in kinds:
        shape = list(g.edges[kind].data[prob].shape)
        if len(shape) != 1:
            _check.fail_like_dgl("prob", "must name one number per edge", shape)
    return kinds


def _steps(g: DGLGraph, metapath: Any, length: Any) -> list[EdgeType]:
    """The canonical edge type of every step."""
    if metapath is None:
        if length is None:
            _check.fail("length", "must be given, or 'metapath'", None)
        if len(g.ntypes) > 1 or len(g.canonical_etypes) > 1:
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
    heavy: list[EdgeType],
    key: random.Key,
) -> tuple[list[Tensor], list[Tensor]]:
    """Nodes [n] and DGL's edge ids [n] of `steps` steps along one edge type."""
    name = prob if kind in heavy else None
    adj = weighted_rows(g, kind, "out", name, None)
    bias = None if name is None else EdgeWeightBias()
    forest = traverse(adj, seeds, [1] * steps, bias, generator=int(key))
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
    return ((word >> 11) & ((1 << 53) - 1)).double() * FRACTION < chance


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
