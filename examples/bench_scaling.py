"""Times one batch while the graph grows to a hundred times its size; 10 to 30 seconds.

The work of a batch depends on its seeds and fanouts, not on the graph: a forest takes
b · (f₁ + f₁f₂) steps in a graph of any size. Two things move the times nevertheless: a
rooted sample expands each node once, so it draws less where a small graph runs out of
nodes; and a large graph does not fit into the caches, which makes every edge dearer.

The graphs are uniformly random with 20 edges per node. In every round each task has its
turn on each graph, with new seeds; the best and the median round are reported.
"""

import argparse
import json
import os
import pathlib
import time
from statistics import mean, median

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # steady times on a busy machine
import torch
from tqdm import tqdm

from gttf_sampler import CompactAdj, backend_info, sample_rooted, set_backend, traverse

SIZES, DEGREE, BATCH, FANOUTS = [10**5, 10**6, 10**7], 20, 1024, [15, 10]
TASKS = {"rooted": False, "rooted, replace": True, "traverse": None}
HEADS = "task", "graph edges", "drawn edges", "best ms", "median ms", "ns per edge"


def one_batch(task, adj):
    """Seconds, and the number of edges drawn."""
    seeds = torch.randint(adj.num_rows, (BATCH,))
    start = time.perf_counter()
    if task == "traverse":
        forest = traverse(adj, seeds, FANOUTS)
        return time.perf_counter() - start, forest.edge_index().shape[1]
    sub = sample_rooted(adj, seeds, FANOUTS, replace=TASKS[task])
    return time.perf_counter() - start, sub.num_edges


def measure(graphs, rounds):
    """One row, as HEADS has it, per task and graph."""
    turns = {(task, m): [] for task in TASKS for m in graphs}
    for _ in tqdm(range(rounds + 1), "rounds", leave=False):
        for (task, m), results in turns.items():
            results.append(one_batch(task, graphs[m]))
    for (task, m), results in turns.items():
        seconds, edges = zip(*results[1:], strict=True)  # the first round warms up
        best, middle, drawn = min(seconds), median(seconds), mean(edges)
        yield task, m, round(drawn), 1e3 * best, 1e3 * middle, 1e9 * best / drawn


def plot(rows, path):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for axes, column in zip(figure.subplots(1, 2), (3, 5), strict=True):
        for task in TASKS:
            points = [(row[1], row[column]) for row in rows if row[0] == task]
            axes.plot(*zip(*points, strict=True), "o-", label=task)
        axes.set(xscale="log", xlabel=HEADS[1], ylabel=HEADS[column], ylim=(0, None))
        axes.grid(alpha=0.3)
    figure.legend(axes.lines, TASKS, loc="outside upper center", ncols=len(TASKS))
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Times a batch while the graph grows.")
    parser.add_argument("--edges", type=int, nargs="+", metavar="M", default=SIZES)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--json", type=pathlib.Path, help="write the rows as well")
    parser.add_argument("--png", type=pathlib.Path, help="plot them as well")
    parser.add_argument("--backend", default="auto", help="auto, numba or torch")
    args = parser.parse_args()
    set_backend(args.backend)
    torch.manual_seed(0)
    graphs = {}
    for m in tqdm(args.edges, "graphs", leave=False):
        edges = torch.randint(m // DEGREE, (2, m))
        graphs[m] = CompactAdj.from_edge_index(edges, m // DEGREE)
    rows = list(measure(graphs, args.rounds))
    print(f"batch {BATCH}, fanouts {FANOUTS}; {backend_info()}\n")
    print("{:15}  {:>11}  {:>11}  {:>8}  {:>9}  {:>11}".format(*HEADS))
    for row in rows:
        print("{:15}  {:11,}  {:11,}  {:8.1f}  {:9.1f}  {:11.0f}".format(*row))
    if args.json:
        named = [dict(zip(HEADS, row, strict=True)) for row in rows]
        args.json.write_text(json.dumps(named, indent=1))
    if args.png:
        plot(rows, args.png)
