"""Trains a GCN in plain torch, full batch and on rooted adjacencies; half a minute.

The graph is made: 6 communities of 500 nodes, a node with 12 neighbours inside its own
and 10 outside, and features so noisy that the neighbours have to be asked. Every row
takes the same number of Adam steps and is tested on the whole graph.
"""

import argparse
import os
import time

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # steady times on a busy machine
import torch
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm

from gttf_sampler import CompactAdj, sample_rooted
from planted import noisy_features, planted_partition

NODES, CLASSES, FEATURES, HIDDEN, BATCH = 3000, 6, 32, 32, 64


def rooted(adj, seeds, fanouts):
    """The nodes around the seeds, seeds first, and Å, their normalised adjacency."""
    sub = sample_rooted(adj, seeds, fanouts)
    return sub.node, sub.to_sparse(sub.gcn_weight(adj))


def batches(adj, whole, seeds, fanouts):
    """One epoch of nodes, Å and the rows to learn from; full batch without fanouts."""
    for batch in seeds[torch.randperm(len(seeds))].split(BATCH):
        first = torch.arange(len(batch))
        yield (*rooted(adj, batch, fanouts), first) if fanouts else (*whole, seeds)


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(FEATURES, HIDDEN)
        self.second = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x, A):
        return A @ self.second(F.dropout(F.relu(A @ self.first(x)), 0.5, self.training))


def run(adj, fanouts, x, y, train, test, epochs):
    """Test accuracy in %, nodes touched per step, and seconds of training."""
    torch.manual_seed(1)
    model, touched = GCN(), []
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    whole, start = rooted(adj, range(NODES), [-1]), time.perf_counter()
    for _ in epochs:
        for node, A, rows in batches(adj, whole, train, fanouts):
            optimizer.zero_grad()
            F.cross_entropy(model(x[node], A)[rows], y[node[rows]]).backward()
            optimizer.step()
            touched.append(len(node))
    seconds = time.perf_counter() - start
    right = model.eval()(x, whole[1]).argmax(1) == y
    return 100 * right[test].float().mean(), sum(touched) / len(touched), seconds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A GCN, full batch and sampled.")
    parser.add_argument("--epochs", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(0)
    edges, y = planted_partition(NODES, CLASSES, outside=6)
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    x = noisy_features(y, signal=0.2, size=FEATURES)
    train, test = torch.randperm(NODES).split([1000, 2000])
    graph = CompactAdj.from_edge_index(edges, NODES)
    alone = CompactAdj.from_edge_index(edges[:, :0], NODES)
    rooted(graph, train, [1, 1])  # numba compiles on first use; keep that off the clock
    runs = [("no graph", alone, None), ("full batch", graph, None)]
    runs += [(f"GTTF {f}", graph, f) for f in ([3, 3], [5, 5], [10, 10])]
    print(f"{'training':13}  test accuracy  nodes per step  seconds")
    for name, adj, fanouts in runs:
        silent = {"leave": False, "disable": None}  # where stderr is no terminal
        epochs = tqdm(range(args.epochs), f"{name:13}", unit="epoch", **silent)
        accuracy, nodes, seconds = run(adj, fanouts, x, y, train, test, epochs)
        print(f"{name:13}  {accuracy:11.1f} %  {nodes:14,.0f}  {seconds:7.1f}")
    print("Expected after 20 epochs: full batch 97 %, GTTF [5, 5] within 2 % of it.")
