"""Random rows of a feature file, by gaps and sizes of reads, and epochs fed from it.

    python -m examples.bench.disk --what rows --scale 0.05 --features 128
    python -m examples.bench.disk --what sweep --scale 0.05 --features 128
    python -m examples.bench.disk --what epochs --scale 0.05 --features 128

A made graph of papers100M's size times `--scale`. Needs Linux, and PyG for the epochs.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GraphSAGE

from examples.bench.tables import show
from gttf_pyg import FileStore, GTTFLoader, GTTFSampler
from gttf_pyg import _bench_modes as modes
from gttf_sampler import FeatureFile
from gttf_sampler.bench import disk, graphs
from gttf_sampler.bench.loader import CLASSES, HIDDEN, made_features
from gttf_sampler.bench.machine import private
from gttf_sampler.bench.measure import Options, Peer, compare, draw_seeds, each
from gttf_sampler.features import read

GAPS = 0, 1 << 12, 1 << 13, 1 << 14, 1 << 15
LONGEST = 1 << 15, 1 << 17, 1 << 19
ROWS = 40_000, 120_000  # of a batch with most of them in a cache, or none
AHEAD = 3  # batches
RANDOM = 120_000  # rows that are read at random places
SLOW = 8  # memmap reads fewer of them, by so much


def readers(mapped):
    """Readers of random rows by name, each with the number of rows it reads."""
    count, path = min(RANDOM, len(mapped)), mapped.filename
    few = max(1, count // SLOW)
    return {
        "np.memmap, one page after the other": (few, lambda ids: mapped[ids.numpy()]),
        "gttf FeatureFile": (count, FeatureFile(path, direct=False).read),
        "gttf FeatureFile, direct": (count, FeatureFile(path, direct=True).read),
    }


def random_rows(mapped, found, asked, report):
    """Rows at random places of a file that the system has forgotten."""
    count = max(count for count, _ in found.values())
    generator = torch.Generator().manual_seed(asked.seed)
    shape = asked.rounds + 1, 1, count
    turns = torch.randint(len(mapped), shape, generator=generator)
    peers = {
        name: reader_of(read, some, lambda: disk.forget(mapped))
        for name, (some, read) in found.items()
    }
    title = f"{count:,} rows of {mapped[:1].nbytes} bytes at random places, cold"
    group = compare(title, peers, turns, asked.rounds, report)
    for row in group["rows"]:
        some, _ = found[row["peer"]]
        row["rate"], row["median"] = (1e3 * some / row[k] for k in ("best", "median"))
        row["ratio"] = row["rate"] / group["rows"][0]["rate"]
    return {**group, "columns": "disk rows"}


def reader_of(read, count, before):
    """Reads the first `count` rows of those that are asked for."""
    facts = {}

    def run(ids):
        start, cpu = disk.bytes_from_disk(), time.process_time()
        read(ids[:count])
        spent = 1e6 * (time.process_time() - cpu) / count  # µs of all threads
        facts["cpu"] = min(spent, facts.get("cpu", spent))
        facts["bytes"] = (disk.bytes_from_disk() - start) / count

    return Peer(each(run), bound=True, before=before, facts=facts)


def with_sizes(gap, longest, reader):
    """A reader that joins rows and cuts reads at these sizes."""

    def call(ids):
        usual = read.GAP, read.LONGEST
        read.GAP, read.LONGEST = gap, longest
        try:
            return reader(ids)
        finally:
            read.GAP, read.LONGEST = usual

    return call


def sweep(mapped, options, report):
    """Random rows with other gaps and sizes of reads than the usual ones."""
    groups = []
    for direct in (True, False):
        own = FeatureFile(mapped.filename, direct=direct)
        for count in (min(rows, len(mapped)) for rows in ROWS):
            readers = {
                f"gap {gap // 1024} kB, reads of {longest // 1024} kB": (
                    count,
                    with_sizes(gap, longest, own.read),
                )
                for gap in GAPS
                for longest in LONGEST
            }
            group = random_rows(mapped, readers, options, report)
            best = max(row["median"] for row in group["rows"])
            for row in group["rows"]:
                row["share"] = row["median"] / best
            around = "around" if own.direct else "through"
            title = f"{count:,} rows of {len(mapped):,}, {around} the system's cache"
            groups.append({**group, "title": title, "columns": "disk sweep"})
    return groups


def step_of_sage(features):
    """Training steps of PyG's GraphSAGE, trimmed by the hops of a batch."""
    torch.manual_seed(0)
    model = GraphSAGE(features, HIDDEN, num_layers=2, out_channels=CLASSES)
    optimizer = torch.optim.Adam(model.parameters())

    def step(batch):
        hops = {
            "num_sampled_nodes_per_hop": batch.num_sampled_nodes,
            "num_sampled_edges_per_hop": batch.num_sampled_edges,
        }
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index, **hops)[: batch.batch_size]
        loss = torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size])
        loss.backward()
        optimizer.step()

    return step


def trained(mapped, x, setting, cold):
    """Training steps while the next batches are sampled and read."""
    adj, y, fanouts, seeds = setting
    none = torch.empty(2, 0, dtype=torch.int64)  # its rows are the sampler's
    data = Data(x=x, y=y, edge_index=none, num_nodes=len(y))
    how = {"num_neighbors": fanouts, "input_nodes": seeds.reshape(-1)}
    how |= {"neighbor_sampler": GTTFSampler(FileStore(adj), fanouts)}
    how["batch_size"] = seeds.shape[1]
    memmap = isinstance(x, np.memmap)
    kind = NeighborLoader if memmap else GTTFLoader
    loader = kind(data, **how, **({} if memmap else {"prefetch": AHEAD, "seed": 0}))
    step, facts = step_of_sage(x.shape[1]), {}

    def run(_):
        start = last = time.perf_counter()
        waiting = 0.0
        for made in loader:
            waiting += time.perf_counter() - last
            step(made)
            facts["peak"] = max(private(), facts.get("peak", 0))
            yield made
            last = time.perf_counter()
        facts["share"] = waiting / (time.perf_counter() - start)

    before = (lambda: disk.forget(mapped)) if cold else (lambda: None)
    return Peer(run, modes.work_of, before=before, facts=facts)


def epochs(mapped, adj, options, report):
    """GraphSAGE, with sampling, reading and training at the same time."""
    seeds = draw_seeds(adj.num_rows, options.batches, options.batch)
    _, y = made_features(adj.num_rows, 1, 0)
    setting, path = (adj, y, options.fanouts, seeds), mapped.filename
    ways = {
        "gttf, all in memory": (FeatureFile(path)[:], False),
        "PyG's loader, np.memmap, cold": (mapped, True),
        "gttf FeatureFile, cold": (FeatureFile(path), True),
        "gttf FeatureFile, cold, direct": (FeatureFile(path, direct=True), True),
    }
    peers = {
        name: trained(mapped, x, setting, cold) for name, (x, cold) in ways.items()
    }
    title = f"an epoch of GraphSAGE, {len(seeds)} batches, {AHEAD} made ahead"
    group = compare(title, peers, seeds, options.rounds, report)
    for row in group["rows"]:
        row["batch"] = row["best"]
        row["best"], row["median"] = (
            row[k] * len(seeds) / 1e3 for k in ("best", "median")
        )
    return [{**group, "columns": "disk epochs"}]


def main(args, report=lambda what, share: None):
    size = graphs.scaled("papers-like", args.scale)
    options = Options(features=args.features, rounds=args.rounds, batches=args.batches)
    with tempfile.TemporaryDirectory(dir=args.tmp) as folder:
        path = str(Path(folder, "features.npy"))
        disk.made_file(path, size.nodes, options, None, report)
        mapped = np.load(path, mmap_mode="r")
        if args.what == "rows":
            groups = [random_rows(mapped, readers(mapped), options, report)]
        elif args.what == "sweep":
            groups = sweep(mapped, options, report)
        else:
            adj = graphs.plain(size.nodes, size.edges / size.nodes)
            groups = epochs(mapped, adj, options, report)
        show("disk", groups, [], args)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--what", default="sweep", choices=["rows", "sweep", "epochs"])
    add("--scale", type=float, default=0.001)
    add("--features", type=int, default=128)
    add("--rounds", type=int, default=3)
    add("--batches", type=int, default=10)
    add("--tmp", default=None, help="where files are made")
    add("--json", help="numbers as JSON")
    main(parser.parse_args())
