"""Everything the engine draws or builds, with numba and without, beside compiled peers.

    python -m examples.bench.kernels --scale 1

A made graph of Reddit's size; DGL, pyg-lib, torch-sparse, torch-cluster and PyG's
`to_csc` take part where they are installed. Ten minutes; `--scale 0.01` tries it.
"""

import argparse
import importlib

import torch

from examples.bench.tables import show
from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    sample_rooted,
    traverse,
    use_backend,
)
from gttf_sampler.aggregate import Receivers, aggregate, receivers_of
from gttf_sampler.bench import embedding, graphs
from gttf_sampler.bench.hosts import hosts
from gttf_sampler.bench.machine import Missing
from gttf_sampler.bench.measure import Peer, Work, compare, draw_seeds, each

FANOUTS, LENGTH = [25, 10], 20
HOW = {False: "without replacement", True: "with replacement"}
ONCE = torch.zeros(1, 1, dtype=torch.int64)  # seeds that nobody looks at


def beside_torch(peer):
    """A peer of ours, and the same on the backend of torch alone."""

    def run(seeds):
        with use_backend("torch"):
            yield from peer.run(seeds)

    return {"gttf": peer, "gttf without numba": Peer(run, peer.work)}


def of_blocks(made):
    return Work(sum(block.num_edges() for block in made[2]), len(made[0]))


def layers(adj, replace, bias=None):
    """Draws one hop per layer, from all nodes there are so far."""

    def draw(seeds):
        made = []
        for fanout in FANOUTS:
            how = {"replace": replace, "bias": bias}
            made.append(sample_rooted(adj, seeds, [fanout], **how))
            seeds = made[-1].node
        return made

    return Peer(
        each(draw), lambda m: Work(sum(h.num_edges for h in m), m[-1].num_nodes)
    )


def rooted(adj, replace, missing):
    """One rooted sample, beside what PyG samples with, called directly."""
    ours = each(lambda s: sample_rooted(adj, s, FANOUTS, replace=replace))
    found = beside_torch(Peer(ours, lambda sub: Work(sub.num_edges, sub.num_nodes)))
    rows = adj.rowptr, adj.col.to(torch.int64)
    if missing.load("pyg_lib", "pyg-lib neighbor_sample", "pyg-lib"):
        # its versions differ in the arguments between the fanouts and `csc`
        named = {"csc": True, "replace": replace}
        found["pyg-lib neighbor_sample"] = Peer(
            each(lambda s: torch.ops.pyg.neighbor_sample(*rows, s, FANOUTS, **named)),
            lambda made: Work(made[0].numel(), made[2].numel()),
        )
    if missing.load("torch_sparse", "torch-sparse neighbor_sample", "torch-sparse"):
        sparse = torch.ops.torch_sparse.neighbor_sample
        found["torch-sparse neighbor_sample"] = Peer(
            each(lambda s: sparse(*rows, s, FANOUTS, replace, True)),
            lambda made: Work(made[1].numel(), made[0].numel()),
        )
    return found


def layered(adj, replace, missing, weight=None):
    """A hop per layer, uniformly or by weight, beside DGL's sampler."""
    heavy = CompactAdj(adj.rowptr, adj.col, adj.num_cols, edge_weight=weight)
    bias = None if weight is None else EdgeWeightBias()
    found = {"gttf": layers(heavy, replace, bias)}
    if missing.load("dgl", "DGL NeighborSampler"):
        loading = importlib.import_module("dgl.dataloading")
        graph = importlib.import_module("gttf_dgl._bench").graph_of(adj)
        how = {"replace": replace}
        if weight is not None:
            graph.edata["p"] = weight
            how["prob"] = "p"
        sampler = loading.NeighborSampler(FANOUTS[::-1], **how)
        draw = each(lambda s: sampler.sample(graph, s))
        found["DGL NeighborSampler"] = Peer(draw, of_blocks)
    return found


def builders(edge_index, nodes, missing):
    """Unsorted edges to rows."""

    def work(rowptr):
        return Work(int(rowptr[-1]), int((rowptr.diff() > 0).sum()))

    ours = each(lambda _: CompactAdj.from_edge_index(edge_index, nodes))
    found = beside_torch(Peer(ours, lambda adj: work(adj.rowptr)))
    if missing.load("torch_geometric", "PyG to_csc", "torch-geometric"):
        to_csc = importlib.import_module("torch_geometric.sampler.utils").to_csc
        kind = importlib.import_module("torch_geometric.data").Data
        data, cpu = kind(edge_index=edge_index, num_nodes=nodes), torch.device("cpu")
        call = each(lambda _: to_csc(data, device=cpu))
        found["PyG to_csc"] = Peer(call, lambda made: work(made[0]))
    if dgl := missing.load("dgl", "DGL graph"):

        def build(_):
            graph = dgl.graph(tuple(edge_index), num_nodes=nodes).formats("csc")
            graph.create_formats_()
            return graph

        rows = each(build)
        found["DGL csc"] = Peer(rows, lambda made: work(made.adj_tensors("csc")[0]))
    return found


def sums(adj, seeds, width):
    """Means of sampled neighbours' rows, beside reads of as many rows in order."""
    sampled = sample_rooted(adj, seeds, FANOUTS)
    x = torch.randn(adj.num_cols, width)
    sender, count = sampled.node[sampled.col], int(sampled.row.max()) + 1
    near = receivers_of(sender, sampled.row, count)
    number = min(len(x), sampled.num_edges)
    ptr = torch.arange(0, number + 1, 10)
    order = Receivers(ptr, torch.arange(int(ptr[-1])))
    return {
        "gttf aggregate": summing(near, lambda: aggregate(x, near, reduce="mean")),
        "gttf aggregate, rows in order": summing(order, lambda: aggregate(x, order)),
        "torch sum, rows in order": summing(order, x[: len(order.index)].sum),
    }


def summing(edges, call):
    """A peer that reads the rows of edges; what it makes of them is another thing."""
    return Peer(each(lambda _: call()), lambda _: Work(len(edges.index)), bound=True)


def main(args, report=lambda what, share: None):
    size = graphs.scaled("reddit-like", args.scale)
    adj = graphs.plain(size.nodes, size.edges / size.nodes)
    seeds = draw_seeds(size.nodes, args.batches, args.batch)
    missing, found = Missing(), {}
    for replace, how in HOW.items():
        found[f"one rooted sample, {how}"] = rooted(adj, replace, missing)
    for replace, how in HOW.items():
        found[f"one sample per layer, {how}"] = layered(adj, replace, missing)
    weight = torch.rand(adj.num_edges) + 0.1
    found["by edge weight, per layer"] = layered(adj, False, missing, weight)
    forest = Peer(each(lambda s: traverse(adj, s, FANOUTS)), embedding.of_forest)
    found["a walk forest"] = beside_torch(forest)
    groups = [compare(t, p, seeds, args.rounds, report) for t, p in found.items()]
    starts = draw_seeds(size.nodes, args.batches, 4 * args.batch)
    for name, (p, q) in embedding.LAWS.items():
        peers = beside_torch(embedding.walker(adj, LENGTH, p, q))
        for host in hosts(missing):
            peers |= host.walkers(adj, LENGTH, (p, q), missing)
        title = f"{name} walks of {LENGTH} steps"
        groups.append(compare(title, peers, starts, args.rounds, report))
    made = builders(graphs.shuffled(adj, 0), size.nodes, missing)
    groups.append(compare("unsorted edges to rows", made, ONCE, args.rounds, report))
    for row in (row for group in groups for row in group["rows"]):
        row["rate"] = row["edges"] / row["best"] / 1e3
    for width in (100, 602):
        title, peers = f"rows of {width} float32", sums(adj, seeds[0], width)
        groups.append(compare(title, peers, ONCE, args.rounds, report))
        groups[-1]["columns"] = "sums"
        for row in groups[-1]["rows"]:
            row["rate"] = 4e-6 * width * row["edges"] / row["best"]
    show("kernels", groups, missing, args)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--scale", type=float, default=1.0)
    add("--batch", type=int, default=1024)
    add("--batches", type=int, default=10)
    add("--rounds", type=int, default=5)
    add("--json", help="numbers as JSON")
    main(parser.parse_args())
