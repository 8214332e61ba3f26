"""Times DGL's DataLoader with its own NeighborSampler and with GTTFSampler, in one run.

    PYTHONPATH=.:adapters python examples/bench_dgl_loader.py    # about 5 minutes
    ... examples/bench_dgl_loader.py --graphs reddit-like --rounds 5 --json loader.json

Both loaders see the same graph, seeds and features, take turns in every round, and are
judged by their best round; the ratio says how many times as long DGL's own takes. A
batch is sampled, its 100 features per node are fetched, and nothing is computed. The
parts are timed apart from the loader: sampling alone, and fetching alone.
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable, Iterable
from functools import partial

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # spinning threads hurt each other
os.environ.setdefault("DGLBACKEND", "pytorch")

import dgl
import torch
from bench_kernels import BATCH, GRAPHS, make_edges
from dgl.dataloading import DataLoader, NeighborSampler
from tqdm import tqdm

from gttf_dgl import GTTFSampler
from gttf_sampler import backend_info, gather_rows

FANOUTS, FEATURES = [10, 15], 100

# DGL advises to pin threads to cores, which needs workers; nobody gets it here.
warnings.filterwarnings("ignore", message="Dataloader CPU affinity opt is not enabled")

Peers = dict[str, Callable[[torch.Tensor], Iterable]]


def make_graph(nodes: int, edges: int) -> dgl.DGLGraph:
    """The edges of `bench_kernels` as DGL takes them, with features."""
    ends = tuple(make_edges(nodes, edges))
    graph = dgl.graph(ends, num_nodes=nodes).formats("csc")
    graph.create_formats_()
    generator = torch.Generator().manual_seed(1)
    graph.ndata["feat"] = torch.rand(nodes, FEATURES, generator=generator)
    return graph


def make_tasks(graph: dgl.DGLGraph) -> dict[str, Peers]:
    """What is compared: per task, for every peer, the seeds [batches, b] → batches."""
    host = f"DGL {dgl.__version__}"
    samplers = {
        "gttf": GTTFSampler(FANOUTS, prefetch_node_feats=["feat"]),
        host: NeighborSampler(FANOUTS, prefetch_node_feats=["feat"]),
    }
    feat = graph.ndata["feat"]
    input_nodes = samplers["gttf"].sample(graph, torch.arange(BATCH) % len(feat))[0]
    gather = {"gttf": gather_rows, host: dgl.backend.gather_row}

    def load(sampler, seeds):
        return DataLoader(graph, seeds.view(-1), sampler, batch_size=BATCH)

    def sample(sampler, seeds):
        return (sampler.sample(graph, batch) for batch in seeds)

    def fetch(call, seeds):
        return (call(feat, input_nodes) for _ in seeds)

    return {
        "DataLoader": {n: partial(load, s) for n, s in samplers.items()},
        "sampling alone": {n: partial(sample, s) for n, s in samplers.items()},
        "fetching alone": {n: partial(fetch, call) for n, call in gather.items()},
    }


def measure(peers: Peers, seeds: torch.Tensor, rounds: int, bar: tqdm) -> dict:
    """Milliseconds per batch of every peer in its best round."""
    best = dict.fromkeys(peers, float("inf"))
    for turn in range(rounds + 1):
        for name, make in peers.items():
            start = time.perf_counter()
            for batch in make(seeds if turn else seeds[:2]):  # the first is a warm-up
                del batch
            taken = (time.perf_counter() - start) / len(seeds) * 1e3
            if turn:
                best[name] = min(best[name], taken)
        bar.update()
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    choices = list(GRAPHS)
    parser.add_argument("--graphs", nargs="+", choices=choices, default=choices[:2])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--json", metavar="FILE", help="also write the numbers here")
    options = parser.parse_args()
    print(f"gttf-sampler on {backend_info()}; times in ms per batch, best round")
    results = {}
    for name in options.graphs:
        nodes, edges, _ = GRAPHS[name]
        print(f"\n{name}: {nodes:,} nodes, {edges:,} edges, fanouts {FANOUTS}")
        generator = torch.Generator().manual_seed(2)
        seeds = torch.randint(nodes, (options.batches, BATCH), generator=generator)
        tasks = make_tasks(make_graph(nodes, edges))
        results[name] = {}
        with tqdm(total=len(tasks) * (options.rounds + 1), leave=False) as bar:
            for title, peers in tasks.items():
                results[name][title] = measure(peers, seeds, options.rounds, bar)
        for title, found in results[name].items():
            print(f"  {title}")
            for peer, ms in found.items():
                versus = "" if peer == "gttf" else f"{ms / found['gttf']:6.2f} x"
                print(f"    {peer:12s} {ms:9.2f} ms {versus}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
