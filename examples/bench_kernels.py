"""Times the kernels against DGL and, where importable, other samplers, in one run.

    make bench-kernels                 # both graphs, about 10 minutes
    make bench-kernels ARGS="--graphs reddit-like --rounds 5 --json kernels.json"

All peers get the same graph, seeds and fanouts, take turns in every round, and are
judged by their best round; a ratio says how many times as long the peer takes. "raw
gather" reads as many random edges as a batch has and does nothing else: the bound.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # spinning threads hurt each other

import torch
from tqdm import tqdm

from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    Node2VecBias,
    backend_info,
    sample_rooted,
    traverse,
    use_backend,
)

GRAPHS = {
    "reddit-like": (240_000, 23_000_000, [25, 10]),
    "products-like": (2_400_000, 120_000_000, [15, 10]),
    "tiny": (2_000, 40_000, [5, 5]),
}
BATCH, WALKERS, LENGTH, P, Q = 1024, 4096, 20, 0.5, 2.0

Task = dict[str, Callable[[torch.Tensor], object]]


def make_edges(nodes: int, edges: int) -> torch.Tensor:
    """Random edges whose targets are skewed: the popular tenth gets a third of them."""
    generator = torch.Generator().manual_seed(0)
    index = torch.empty(2, edges, dtype=torch.int64)
    index[0].random_(0, nodes, generator=generator)
    share = torch.rand(edges, generator=generator, dtype=torch.float64)
    index[1] = share.square_().mul_(nodes).long()
    return index


def make_tasks(index: torch.Tensor, nodes: int, fanouts: list[int]) -> dict[str, Task]:
    """What is compared: per task, a function of the seeds for every peer."""
    weight = torch.rand(index.shape[1], generator=torch.Generator().manual_seed(1))
    weight += 0.1
    into = CompactAdj.from_edge_index(index, nodes, edge_weight=weight)
    onward = CompactAdj.from_edge_index(index, nodes, direction="out")
    tasks: dict[str, Task] = {}
    for replace in (False, True):
        how = "with" if replace else "without"
        drawn = sample_rooted(into, torch.arange(BATCH), fanouts, replace=replace)
        where = torch.randint(into.num_edges, (drawn.num_edges,))
        tasks[f"rooted, {how} replacement"] = {
            "gttf": lambda s, r=replace: sample_rooted(into, s, fanouts, replace=r),
            "gttf (torch)": lambda s, r=replace: on_torch(into, s, fanouts, r),
            "raw gather": lambda s, w=where: into.col.index_select(0, w),
        }
        if not backend_info().startswith("numba"):
            del tasks[f"rooted, {how} replacement"]["gttf (torch)"]  # the same code
    tasks["forest, with replacement"] = {
        "gttf": lambda s: traverse(into, s, fanouts),
        "raw gather": lambda s, w=where: into.col.index_select(0, w),
    }
    tasks["weighted, without replacement"] = {
        "gttf": lambda s: sample_rooted(into, s, fanouts, bias=EdgeWeightBias())
    }
    steps = [1] * LENGTH
    tasks["uniform walks"] = {"gttf": lambda s: traverse(onward, s, steps)}
    tasks["node2vec walks"] = {
        "gttf": lambda s: traverse(onward, s, steps, Node2VecBias(P, Q))
    }
    add_dgl(tasks, index, nodes, fanouts, weight)
    add_build(tasks, index, nodes)
    add_walk_peers(tasks, onward)
    add_pyg_peers(tasks, into, fanouts)
    return tasks


def on_torch(adj: CompactAdj, seeds: torch.Tensor, fanouts: list[int], replace: bool):
    with use_backend("torch"):
        return sample_rooted(adj, seeds, fanouts, replace=replace)


def load(package: str):
    """A package that may be missing, or made for another torch: then None."""
    try:
        return import_module(package)
    except (ImportError, OSError, RuntimeError):
        return None


def add_dgl(tasks, index, nodes, fanouts, weight) -> None:
    """DGL, the peer everyone can install."""
    dgl = load("dgl")
    if dgl is None:
        print("DGL is not installed: no ratios (pip install 'gttf-sampler[bench]')")
        return
    graph = dgl.graph((index[0], index[1]), num_nodes=nodes)
    graph.edata["p"] = weight
    graph = graph.formats(["csr", "csc"])
    graph.create_formats_()
    far_first, name = fanouts[::-1], f"DGL {dgl.__version__}"
    sampler = dgl.dataloading.NeighborSampler
    for replace, how in ((False, "without"), (True, "with")):
        plain = sampler(far_first, replace=replace)
        call = lambda s, sampler=plain: sampler.sample(graph, s)  # noqa: E731
        tasks[f"rooted, {how} replacement"][name] = call
    tasks["forest, with replacement"][name] = call
    heavy = sampler(far_first, prob="p")
    tasks["weighted, without replacement"][name] = lambda s: heavy.sample(graph, s)
    tasks["uniform walks"][name] = lambda s: dgl.sampling.random_walk(
        graph, s, length=LENGTH
    )
    tasks["node2vec walks"][name] = lambda s: dgl.sampling.node2vec_random_walk(
        graph, s, P, Q, LENGTH
    )


def add_walk_peers(tasks, adj: CompactAdj) -> None:
    torch_cluster = load("torch_cluster")
    if torch_cluster is None:
        return
    rowptr, col = adj.rowptr, adj.col.long()
    walk = torch.ops.torch_cluster.random_walk
    name = f"torch-cluster {torch_cluster.__version__}"
    tasks["uniform walks"][name] = lambda s: walk(rowptr, col, s, LENGTH, 1.0, 1.0)
    tasks["node2vec walks"][name] = lambda s: walk(rowptr, col, s, LENGTH, P, Q)


def add_pyg_peers(tasks, adj: CompactAdj, fanouts: list[int]) -> None:
    """What PyG samples with.

    Versions of pyg-lib differ in the arguments between the fanouts and `csc`, so that
    these go by name; those of torch-sparse have no names.
    """
    for package, space in (("pyg_lib", "pyg"), ("torch_sparse", "torch_sparse")):
        found = load(package)
        if found is None:
            continue
        sample = getattr(torch.ops, space).neighbor_sample
        graph = partial(sample, adj.rowptr, adj.col.long())
        for replace, how in ((False, "without"), (True, "with")):
            options = {"csc": True, "replace": replace} if space == "pyg" else {}
            rest = () if space == "pyg" else (replace, True)  # replace, directed
            call = lambda s, r=rest, o=options, f=graph: f(s, fanouts, *r, **o)  # noqa: E731
            name = f"{package} {found.__version__}"
            tasks[f"rooted, {how} replacement"][name] = call


def add_build(tasks, index: torch.Tensor, nodes: int) -> None:
    """Unsorted edges to rows; the one task that does not depend on the seeds."""
    task = {"gttf": lambda s: CompactAdj.from_edge_index(index, nodes)}
    try:
        import torch_geometric
        from torch_geometric.data import Data
        from torch_geometric.sampler.utils import to_csc
    except ImportError:
        pass
    else:
        data = Data(edge_index=index, num_nodes=nodes)
        name = f"PyG {torch_geometric.__version__} to_csc"
        task[name] = lambda s: to_csc(data, device=torch.device("cpu"))
    tasks["build"] = task


def edges_in(result: object) -> int | None:
    """How many edges a batch has, to see that peers do the same work."""
    if hasattr(result, "num_edges"):
        return result.num_edges
    if hasattr(result, "fanouts"):
        return sum(level.numel() for level in result.edges[1:])
    if isinstance(result, tuple) and len(result) >= 4:  # of PyG's peers
        return result[1].numel()
    if isinstance(result, tuple) and isinstance(result[-1], list):
        return sum(block.num_edges() for block in result[-1])
    return None


def measure(
    title: str, task: Task, nodes: int, rounds: int, batches: int, bar
) -> dict[str, dict[str, float | None]]:
    """Per peer: milliseconds per batch in its best round, and edges of a batch."""
    generator = torch.Generator().manual_seed(2)
    batches = 1 if title == "build" else batches
    size = (batches, WALKERS if "walks" in title else BATCH)
    seeds = torch.randint(nodes, size, generator=generator)
    best = dict.fromkeys(task, float("inf"))
    edges = {name: edges_in(call(seeds[0])) for name, call in task.items()}
    for _ in range(rounds):
        for name, call in task.items():
            start = time.perf_counter()
            for batch in seeds:
                call(batch)
            taken = (time.perf_counter() - start) / batches
            best[name] = min(best[name], taken * 1e3)
        bar.update()
    return {name: {"ms": best[name], "edges": edges[name]} for name in task}


def show(tasks: dict[str, dict[str, dict[str, float]]]) -> None:
    """One line per peer: time, ratio, size of the batch or steps per second."""
    for title, peers in tasks.items():
        print(f"  {title}")
        for name, found in peers.items():
            ratio, note = found["ms"] / peers["gttf"]["ms"], ""
            if "walks" in title:
                note = f"{WALKERS * LENGTH / found['ms'] / 1e3:8.1f} M steps/s"
            elif found["edges"] is not None:
                note = f"{found['edges']:11,} edges"
            versus = f"{ratio:6.2f} x" if name != "gttf" else ""
            print(f"    {name:22s} {found['ms']:9.2f} ms {versus:9s} {note}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    choices = list(GRAPHS)
    parser.add_argument("--graphs", nargs="+", choices=choices, default=choices[:2])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--json", metavar="FILE", help="also write the numbers here")
    options = parser.parse_args()
    print(f"gttf-sampler on {backend_info()}; times in ms per batch, best round")
    if not backend_info().startswith("numba"):
        print("No row 'gttf (torch)': 'gttf' runs on torch alone here")
    results: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for graph in options.graphs:
        nodes, edges, fanouts = GRAPHS[graph]
        print(f"\n{graph}: {nodes:,} nodes, {edges:,} edges, fanouts {fanouts}")
        tasks = make_tasks(make_edges(nodes, edges), nodes, fanouts)
        results[graph] = {}
        with tqdm(total=len(tasks) * options.rounds, leave=False) as bar:
            for title, task in tasks.items():
                how = (nodes, options.rounds, options.batches, bar)
                results[graph][title] = measure(title, task, *how)
        show(results[graph])
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
