"""`gttf bench kernels`: everything the engine draws or builds, one table each."""

from collections.abc import Iterator
from importlib import import_module
from itertools import accumulate
from operator import mul
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import CompactAdj, traverse
from gttf_sampler.bench import peers, task_build, task_sampling, task_walks
from gttf_sampler.bench.measure import (
    Peer,
    Report,
    Work,
    beside_torch,
    compare,
    draw_seeds,
    each,
)

Peers = dict[str, Peer]
WALKS = 4  # walks per seed of the other tasks: they are short of work otherwise


def run(
    graph: str,
    fanouts: list[int],
    batch: int,
    batches: int,
    rounds: int,
    seed: int,
    length: int,
    report: Report,
) -> dict[str, Any]:
    """The job: the kernels on both backends, against the compiled ones of others."""
    adj = CompactAdj.open(graph, mmap=False, verify=False)
    seeds = draw_seeds(adj.num_rows, batches, batch, seed)
    starts = draw_seeds(adj.num_rows, batches, WALKS * batch, seed)
    missing = peers.Missing()
    found = [
        compare(title, everyone, seeds, rounds, report)
        for title, everyone in sampled(adj, fanouts, seeds, seed, missing)
    ]
    for title, walking in task_walks.walkers(adj, length, missing).items():
        walking = beside_torch(walking, missing)
        found.append(compare(title, walking, starts, rounds, report))
    edge_index, nodes = task_build.shuffled(adj, seed)
    building = task_build.builders(edge_index, nodes, missing)
    title = f"{adj.num_edges:,} unsorted edges to rows"
    building = beside_torch(building, missing)
    found.append(compare(title, building, task_build.ONCE, rounds, report))
    return {"groups": found, "left_out": missing}


def sampled(
    adj: CompactAdj, fanouts: list[int], seeds: Tensor, seed: int, missing: Any
) -> Iterator[tuple[str, Peers]]:
    """The groups that draw neighbours, one after the other: each has its own graphs."""
    for replace, how in task_sampling.HOW.items():
        found = task_sampling.our_rooted(adj, fanouts, replace, seeds, missing)
        found |= compiled(adj, fanouts, replace, missing)
        yield f"one rooted sample, {how}", found
    for replace, how in task_sampling.HOW.items():
        found = task_sampling.layered(adj, fanouts, replace, missing)
        yield f"one sample per layer, {how}", found
    if min(fanouts) > 0:
        yield "a walk forest, with replacement", forest(adj, fanouts, seeds, missing)
    yield (
        "by edge weight, per layer, without replacement",
        task_sampling.weighted(adj, fanouts, seed, missing),
    )


def compiled(
    adj: CompactAdj, fanouts: list[int], replace: bool, missing: peers.Missing
) -> Peers:
    """What PyG samples with, called directly.

    Versions of pyg-lib differ in the arguments between the fanouts and `csc`, so that
    these go by name; those of torch-sparse have no names.
    """
    found: Peers = {}
    rows = adj.rowptr, adj.col.to(torch.int64)
    what = "neighbor_sample"
    if missing.needs("pyg_lib", f"pyg-lib {what}"):
        theirs = torch.ops.pyg.neighbor_sample
        named = {"csc": True, "replace": replace}
        found[peers.label("pyg_lib", what)] = Peer(
            each(lambda s: theirs(*rows, s, fanouts, **named)),
            lambda made: Work(made[0].numel(), made[2].numel()),  # row, col, node, …
        )
    if missing.needs("torch_sparse", f"torch-sparse {what}"):
        other = torch.ops.torch_sparse.neighbor_sample
        found[peers.label("torch_sparse", what)] = Peer(
            each(lambda s: other(*rows, s, fanouts, replace, True)),  # True: directed
            lambda made: Work(made[1].numel(), made[0].numel()),  # node, row, col, edge
        )
    return found


def forest(
    adj: CompactAdj, fanouts: list[int], seeds: Tensor, missing: peers.Missing
) -> Peers:
    """Algorithm 1, which draws as often in a graph of any size."""
    call = each(lambda s: traverse(adj, s, fanouts))
    found = beside_torch({"gttf": Peer(call, task_walks.of_forest)}, missing)
    draws = sum(accumulate(fanouts, mul)) * seeds.shape[1]
    found["reading as many edges"] = task_sampling.reading(adj, draws)
    if missing.needs("dgl", "DGL sample_neighbors"):
        sample = import_module("dgl.sampling").sample_neighbors
        graph = peers.dgl_graph(adj)
        plain = {"replace": True, "copy_ndata": False, "copy_edata": False}

        def levels(nodes: Tensor) -> list[Any]:
            made = []
            for fanout in fanouts:
                made.append(sample(graph, nodes, fanout, **plain))
                nodes = made[-1].edges()[0]
            return made

        found[peers.label("dgl", "sample_neighbors")] = Peer(
            each(levels), lambda made: Work(sum(level.num_edges() for level in made))
        )
    return found
