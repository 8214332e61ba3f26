"""Times whole loaders against DGL's and, where they run, PyG's own, in one run.

    python examples/bench_loader.py                       # both graphs, 5 minutes
    python examples/bench_loader.py --graphs reddit-like --rounds 5 --json loader.json

A batch is sampled, its 100 features per node are gathered, and the host's object is
made. All peers get the same graph, seeds and fanouts, take turns in every round, and
are judged by their best round; a ratio says how many times as long a peer takes. The
memory is the peak beyond the input, each peer in a process of its own.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # spinning threads hurt each other

import torch
from bench_kernels import BATCH, GRAPHS, make_edges
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from tqdm import tqdm

from gttf_pyg import GTTFLoader
from gttf_sampler import backend_info

FEATURES = 100

Peer = Callable[[torch.Tensor], Iterator[int]]  # seeds → nodes of every batch


def make_input(name: str) -> tuple[Data, list[int]]:
    nodes, edges, fanouts = GRAPHS[name]
    x = torch.rand(nodes, FEATURES, generator=torch.Generator().manual_seed(1))
    return Data(x=x, edge_index=make_edges(nodes, edges), num_nodes=nodes), fanouts


def gttf_peer(data: Data, fanouts: list[int]) -> Peer:
    loader = GTTFLoader(data, fanouts, batch_size=BATCH)
    return lambda seeds: pyg_batches(
        GTTFLoader(
            data,
            fanouts,
            seeds,
            neighbor_sampler=loader.node_sampler,
            batch_size=BATCH,
        )
    )


def pyg_peer(data: Data, fanouts: list[int]) -> Peer | None:
    """PyG's own; None without one of the libraries that it needs."""
    for package in ("pyg_lib", "torch_sparse"):
        try:
            __import__(package)
        except ImportError:
            continue
        sampler = NeighborLoader(data, fanouts, batch_size=BATCH).node_sampler
        return lambda seeds: pyg_batches(
            NeighborLoader(
                data, fanouts, seeds, neighbor_sampler=sampler, batch_size=BATCH
            )
        )
    return None


def pyg_batches(loader: NeighborLoader) -> Iterator[int]:
    for batch in loader:
        yield batch.x.shape[0]


def dgl_peer(data: Data, fanouts: list[int]) -> Peer | None:
    try:
        import dgl
    except ImportError:
        return None
    graph = dgl.graph(tuple(data.edge_index), num_nodes=data.num_nodes)
    graph = graph.formats(["csc"])
    graph.create_formats_()
    graph.ndata["x"] = data.x
    sampler = dgl.dataloading.NeighborSampler(fanouts[::-1])

    def batches(seeds: torch.Tensor) -> Iterator[int]:
        loader = dgl.dataloading.DataLoader(graph, seeds, sampler, batch_size=BATCH)
        for _, _, blocks in loader:
            yield blocks[0].srcdata["x"].shape[0]  # gathers them

    return batches


PEERS = {"gttf": gttf_peer, "DGL": dgl_peer, "PyG": pyg_peer}


def peak_beyond_input(graph: str, name: str) -> float | None:
    """Gigabytes, measured by this script in a new process; None if it cannot run."""
    command = [sys.executable, __file__, "--peak", name, "--graphs", graph]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    return float(child.stdout) if child.returncode == 0 and child.stdout else None


def report_peak(graph: str, name: str) -> None:
    """Prints how far the memory of this process rose above the input at its peak."""
    tiny, fanouts = make_input("tiny")
    if (peer := PEERS[name](tiny, fanouts)) is None:
        return
    next(peer(torch.arange(BATCH)))  # so that libraries and kernels are loaded
    data, fanouts = make_input(graph)
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # the peak so far does not count
    before = memory("VmRSS")
    batches = PEERS[name](data, fanouts)(torch.randint(data.num_nodes, (BATCH * 10,)))
    for _ in batches:
        pass
    print((memory("VmHWM") - before) / 1e6)


def memory(field: str) -> int:
    """Kilobytes, as Linux counts them."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field))


def measure(
    peers: dict[str, Peer], nodes: int, rounds: int, batches: int, bar: tqdm
) -> dict[str, dict[str, float]]:
    """Per peer: milliseconds per batch in its best round, and nodes of a batch."""
    generator = torch.Generator().manual_seed(2)
    seeds = torch.randint(nodes, (BATCH * (batches + 1),), generator=generator)
    found = {name: {"ms": float("inf"), "nodes": 0.0} for name in peers}
    for _ in range(rounds):
        for name, peer in peers.items():
            iterator = peer(seeds)
            next(iterator)  # whoever starts something does it here
            start = time.perf_counter()
            count = [next(iterator) for _ in range(batches)]
            taken = (time.perf_counter() - start) / batches * 1e3
            found[name]["ms"] = min(found[name]["ms"], taken)
            found[name]["nodes"] = sum(count) / batches
            del iterator
        bar.update()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = list(GRAPHS)
    parser.add_argument("--graphs", nargs="+", choices=names, default=names[:2])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--json", metavar="FILE", help="also write the numbers here")
    parser.add_argument("--peak", choices=list(PEERS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        report_peak(options.graphs[0], options.peak)
        return
    print(f"gttf-sampler on {backend_info()}; ms per batch, best round")
    results: dict[str, dict[str, dict[str, float | None]]] = {}
    for graph in options.graphs:
        data, fanouts = make_input(graph)
        edges = data.num_edges
        print(f"\n{graph}: {data.num_nodes:,} nodes, {edges:,} edges, {fanouts}")
        made = {name: make(data, fanouts) for name, make in PEERS.items()}
        peers = {name: peer for name, peer in made.items() if peer is not None}
        with tqdm(total=options.rounds, leave=False) as bar:
            how = (data.num_nodes, options.rounds, options.batches, bar)
            results[graph] = dict(measure(peers, *how))
        del data, made, peers
        for name, found in results[graph].items():
            found["peak_gb"] = peak_beyond_input(graph, name)
            ratio = found["ms"] / results[graph]["gttf"]["ms"]
            versus = f"{ratio:6.2f} x" if name != "gttf" else ""
            peak = "" if found["peak_gb"] is None else f"{found['peak_gb']:6.2f} GB"
            size = f"{found['nodes']:9,.0f} nodes"
            print(f"  {name:6s} {found['ms']:8.2f} ms {versus:9s} {size} {peak}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
