"""Trains a 16-layer GCNII on rooted adjacencies with DGL's DataLoader; half a minute.

A deep model cannot have a fresh sample per layer: 16 hops would reach everyone. All its
layers share one graph, the paper's rooted adjacency of three hops. Tested on all of it.
"""

import argparse
import warnings

import dgl
import torch
import torch.nn.functional as F
from dgl.dataloading import DataLoader
from dgl.nn import GCN2Conv
from torch import nn

from gttf_dgl import GTTFSubgraphSampler

NODES, CLASSES, FEATURES, HIDDEN, BATCH = 3000, 6, 32, 32, 100

# DGL advises to pin threads to cores, which is not worth it for a graph this small.
warnings.filterwarnings("ignore", message="Dataloader CPU affinity opt is not enabled")


def make_graph(inside=10.0, outside=8.0, signal=0.3):
    """A planted partition with self-loops; `inside` and `outside` are mean degrees."""
    y = torch.arange(NODES) % CLASSES
    same = y[:, None] == y
    chance = torch.where(same, inside / same.sum(1), outside / (~same).sum(1))
    u, v = torch.rand(NODES, NODES).less(chance).triu(1).nonzero().T
    g = dgl.graph((torch.cat([u, v]), torch.cat([v, u])), num_nodes=NODES)
    noise = torch.randn(NODES, FEATURES)
    g.ndata.update(x=signal * torch.randn(CLASSES, FEATURES)[y] + noise, y=y)
    return dgl.add_self_loop(g)


class GCNII(nn.Module):
    def __init__(self, depth=16):
        super().__init__()
        self.enter, self.leave = nn.Linear(FEATURES, HIDDEN), nn.Linear(HIDDEN, CLASSES)
        # nodes of the last hop receive nothing
        options = {"alpha": 0.1, "lambda_": 0.5, "allow_zero_in_degree": True}
        self.layers = nn.ModuleList(
            [GCN2Conv(HIDDEN, number, **options) for number in range(1, depth + 1)]
        )

    def forward(self, g, x):
        first = x = self.enter(x).relu()
        for layer in self.layers:
            x = layer(g, F.dropout(x, 0.3, self.training), first).relu()
        return self.leave(x)


def train(model, loader, optimizer):
    """One epoch; returns the loss of the last batch."""
    model.train()
    for _, seeds, batch in loader:
        out = model(batch, batch.ndata["x"])[: len(seeds)]  # the seeds come first
        loss = F.cross_entropy(out, batch.ndata["y"][: len(seeds)])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


@torch.no_grad()
def test(model, g, nodes):
    """The share of nodes, in %, whose class is found."""
    right = model.eval()(g, g.ndata["x"]).argmax(1) == g.ndata["y"]
    return 100 * right[nodes].float().mean().item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()
    torch.manual_seed(0)
    g = make_graph()
    nodes = torch.randperm(NODES)
    sampler = GTTFSubgraphSampler([5, 10, 10], prefetch_node_feats=["x", "y"])
    loader = DataLoader(g, nodes[:1000], sampler, batch_size=BATCH, shuffle=True)
    model = GCNII()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for epoch in range(1, args.epochs + 1):
        loss = train(model, loader, optimizer)
        accuracy = test(model, g, nodes[1000:])
        print(f"epoch {epoch:2}  loss {loss:.3f}  test accuracy {accuracy:.1f} %")
    print("Expected after 10 epochs: 80 % or more.")
