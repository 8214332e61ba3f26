"""`gttf bench walks`: uniform and node2vec walks, and training on them."""

from importlib import import_module
from typing import Any

import torch

from gttf_sampler import CompactAdj, Node2VecBias, traverse
from gttf_sampler.bench import peers, walk_training
from gttf_sampler.bench.measure import Peer, Report, Work, compare, draw_seeds, each

P, Q = 0.5, 2.0
SHARE = 4  # of the walks that a batch of training has: each has many pairs


def run(
    graph: str,
    batch: int,
    batches: int,
    rounds: int,
    seed: int,
    length: int,
    report: Report,
) -> dict[str, Any]:
    """The job: walks of `length` steps along the rows of the graph."""
    adj = CompactAdj.open(graph, mmap=False)
    seeds = draw_seeds(adj.num_rows, batches, batch, seed)
    missing = peers.Missing()
    groups = walkers(adj, length, missing).items()
    found = [compare(title, some, seeds, rounds, report) for title, some in groups]
    along = CompactAdj(adj.rowptr, adj.col, adj.num_cols, "out")
    starts = seeds[:, : max(1, seeds.shape[1] // SHARE)]
    laws = length, P, Q
    found += walk_training.groups(along, starts, *laws, rounds, report, missing)
    return {"groups": found, "left_out": missing}


def walkers(
    stored: CompactAdj, length: int, missing: peers.Missing
) -> dict[str, dict[str, Peer]]:
    """Who walks along the rows, uniformly and as node2vec does."""
    adj = CompactAdj(stored.rowptr, stored.col, stored.num_cols, "out")
    steps = [1] * length
    bias = Node2VecBias(P, Q)
    uniform = {"gttf": Peer(each(lambda s: traverse(adj, s, steps)), of_forest)}
    second = {"gttf": Peer(each(lambda s: traverse(adj, s, steps, bias)), of_forest)}
    if missing.needs("dgl", "DGL random_walk"):
        sampling = import_module("dgl.sampling")
        rows = peers.dgl_graph(adj, "csr")
        uniform[peers.label("dgl", "random_walk")] = Peer(
            each(lambda s: sampling.random_walk(rows, s, length=length)[0]), _of_traces
        )
        second[peers.label("dgl", "node2vec_random_walk")] = Peer(
            each(lambda s: sampling.node2vec_random_walk(rows, s, P, Q, length)),
            _of_traces,
        )
    if missing.needs("torch_cluster", "torch-cluster random_walk"):
        walk = torch.ops.torch_cluster.random_walk
        col, name = adj.col.to(torch.int64), peers.label("torch_cluster", "random_walk")

        def steps_of(made: Any) -> Work:
            moved = adj.degree[made[0][:, :-1]] > 0  # it stays where there is no edge
            return Work(int(moved.sum()), len(made[0]))

        def walker(p: float, q: float) -> Any:
            return each(lambda s: walk(adj.rowptr, col, s, length, p, q))

        uniform[name] = Peer(walker(1.0, 1.0), steps_of)
        second[name] = Peer(walker(P, Q), steps_of)
    return {
        f"uniform walks of {length} steps": uniform,
        f"node2vec walks of {length} steps, p = {P:g}, q = {Q:g}": second,
    }


def of_forest(made: Any) -> Work:
    """The steps that were taken, and the walks."""
    taken = sum(int((level >= 0).sum()) for level in made.edges[1:])
    return Work(taken, made.nodes[0].numel())


def _of_traces(made: Any) -> Work:
    """The same of DGL's walks, which are padded with -1."""
    return Work(int((made[:, 1:] >= 0).sum()), made.shape[0])
