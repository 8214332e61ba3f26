"""ROC-AUC of embeddings against seconds of training: fanouts 1, 3, 5 and PyG's loss.

    python examples/bench_embedding.py --edges ppi.edgelist --seconds 20 --seeds 0 1 2

Half of the edges of the largest component are hidden, a spanning tree never; every
method has the same CPU time, on one thread, and tests are off the clock. Without
`--edges` a planted partition is made. `--png` draws AUC against seconds. A minute by
default.

"PyG loss" is that of torch_geometric.nn.Node2Vec with p = q = 1, on our walks, with the
settings of PyG's own example: walks of 20 nodes, contexts of 10, 10 walks per node, one
negative each, batches of 128, SparseAdam with a rate of 0.01.
"""

import argparse
import json
import os
import statistics
import time
from itertools import chain, repeat
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # steady times on a busy machine
import torch
from tqdm import tqdm

import gttf_sampler as gs
from gttf_sampler.embedding import (
    DeepWalk,
    WatchYourStep,
    largest_component,
    link_auc,
    split_links,
)
from gttf_sampler.graph import read_edge_list
from planted import planted_partition

PATIENCE = 5  # how many times its seconds a method may take for the first epoch


def load(path):
    """Edges and number of nodes of the largest component, or of a planted partition."""
    if path is not None:
        file = read_edge_list(path)
        edges, nodes = largest_component(file.edge_index, file.num_nodes)
        return edges, len(nodes)
    torch.manual_seed(0)
    return planted_partition(1200, 6, inside=8, outside=2)[0], 1200


class PyGStyle(DeepWalk):
    """The loss of PyG's Node2Vec class on plain walks, all contexts of each walk."""

    CONTEXT, WALKS, EPS = 10, 10, 1e-15

    def __init__(self, adj, dim):
        super().__init__(adj, dim, fanouts=[self.WALKS] + [1] * 18, sparse=True)

    def loss(self, forest):
        walks = forest.path(19)  # [b · 10, 20]
        strangers = torch.randint(self.adj.num_rows, walks[:, 1:].shape)
        strangers = torch.cat([walks[:, :1], strangers], dim=1)
        pair, other = self.scores(walks), self.scores(strangers)
        pair = -torch.log(torch.sigmoid(pair) + self.EPS).mean()
        return pair - torch.log(1 - torch.sigmoid(other) + self.EPS).mean()

    def scores(self, walks):
        """⟨first, other⟩ over all contexts: ten nodes in a row."""
        z = self.embedding(walks.unfold(1, self.CONTEXT, 1).reshape(-1, self.CONTEXT))
        return (z[:, :1] * z[:, 1:]).sum(-1)


def methods(dim):
    """Name → model of a graph, optimizer of a model, batch size."""

    def adam(lr):
        return lambda model: torch.optim.Adam(model.parameters(), lr=lr)

    def deepwalk(fanout, **options):
        fanouts = [fanout] * 3 + [1] * 7  # the first three steps branch
        return lambda adj: DeepWalk(adj, dim, 10, fanouts, **options)

    return {
        "DeepWalk, f = 1": (deepwalk(1), adam(0.1), 512),
        "DeepWalk, f = 3": (deepwalk(3), adam(0.1), 512),
        "DeepWalk, f = 5": (deepwalk(5), adam(0.1), 512),
        "DeepWalk, logistic": (deepwalk(1, contrast="logistic"), adam(0.02), 512),
        "Watch Your Step": (lambda a: WatchYourStep(a, dim), adam(0.03), 2048),
        "PyG loss": (
            lambda adj: PyGStyle(adj, dim),
            lambda model: torch.optim.SparseAdam(model.parameters(), lr=0.01),
            128,
        ),
    }


def run(split, make, make_optimizer, batch_size, budget):
    """(seconds, epochs, AUC in %) now and then, until the time is over."""
    adj = gs.CompactAdj.from_edge_index(split.train, split.num_nodes, direction="out")
    model = make(adj)
    optimizer = make_optimizer(model)
    loader = model.loader(batch_size=batch_size, shuffle=True)
    spent, steps, epoch, curve = 0.0, 0, len(loader), []
    batches = chain.from_iterable(repeat(loader))
    while spent < budget or (steps < epoch and spent < PATIENCE * budget):
        start = time.process_time()
        forest = next(batches)
        optimizer.zero_grad()
        model.loss(forest).backward()
        optimizer.step()
        spent, steps = spent + time.process_time() - start, steps + 1
        due = spent >= len(curve) * budget / 20
        if due or steps == epoch or (spent >= budget and steps > epoch):
            auc = 100 * link_auc(model.score, split)
            curve.append((spent, steps / epoch, auc))
    return curve


def untrained(split):
    """The AUC of the product of the degrees: what needs no learning."""
    degree = torch.bincount(split.train[0], minlength=split.num_nodes).double()
    return 100 * link_auc(lambda pairs: degree[pairs].prod(0), split)


def mean_of(aucs):
    """The mean, and half of the range."""
    return f"{statistics.mean(aucs):5.1f} ± {(max(aucs) - min(aucs)) / 2:.1f}"


def after_one_epoch(runs):
    """The mean AUC after one epoch, as text; a dash if it was not over in time."""
    found = [[auc for _, epochs, auc in curve if epochs >= 1] for curve in runs]
    return f"{statistics.mean(f[0] for f in found):.1f}" if all(found) else "—"


def draw(curves, path, title):
    """AUC against seconds, one line per method and seed; dots end the first epoch."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 5), layout="constrained")
    axes = figure.add_subplot()
    for number, (name, runs) in enumerate(curves.items()):
        for turn, curve in enumerate(runs):
            seconds, epochs, aucs = zip(*curve, strict=True)
            label = name if turn == 0 else None
            axes.plot(seconds, aucs, color=f"C{number}", lw=1.2, label=label)
            over = [i for i, epoch in enumerate(epochs) if epoch >= 1][:1]
            for end in over:
                axes.plot(seconds[end], aucs[end], "o", color=f"C{number}", ms=4)
    axes.set(xlabel="CPU seconds of training", ylabel="ROC-AUC on hidden edges, %")
    axes.set(title=f"{title} (dots: end of the first epoch)")
    axes.legend(frameon=False)
    axes.grid(color="0.92")
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="AUC against seconds.")
    parser.add_argument("--edges", help="file with lines 'source target'")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument(
        "--seconds", type=float, default=8.0, help="per method and seed"
    )
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--only", help="methods whose name holds this")
    parser.add_argument("--json")
    parser.add_argument("--png")
    args = parser.parse_args()
    torch.set_num_threads(1)
    edges, size = load(args.edges)
    chosen = {n: m for n, m in methods(args.dim).items() if (args.only or "") in n}
    curves, degrees = {name: [] for name in chosen}, []
    for seed in args.seeds:
        split = split_links(edges, size, hide=0.5, generator=seed)
        degrees.append(untrained(split))
        for name in tqdm(chosen, f"seed {seed}", leave=False, disable=None):
            torch.manual_seed(seed)
            curves[name].append(run(split, *chosen[name], args.seconds))
    print(f"{'':18}  AUC at the end   after one epoch   s per epoch")
    for name, runs in curves.items():
        end = mean_of([curve[-1][2] for curve in runs])
        pace = statistics.mean(curve[-1][0] / curve[-1][1] for curve in runs)
        print(f"{name:18}  {end:>14}   {after_one_epoch(runs):>15}   {pace:11.2f}")
    print(f"{'degree product':18}  {mean_of(degrees):>14}")
    title = Path(args.edges).stem if args.edges else "planted partition"
    if args.json:
        found = {"graph": title, "curves": curves, "degrees": degrees}
        Path(args.json).write_text(json.dumps(found))
    if args.png:
        draw(curves, args.png, title)
    print("Expected on the planted partition: Watch Your Step 80, DeepWalk 81.")
