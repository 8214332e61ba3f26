"""Trains DGL's GraphSAGE on a graph cut into a part per process; twenty seconds.

Start it with `torchrun --nproc-per-node 2 examples/dgl_distributed.py`. A process holds
rows and features of its own nodes only, and asks others for the rest.
"""

import argparse
import tempfile

import dgl
import torch
import torch.distributed as dist
import torch.nn.functional as F
from dgl.nn import SAGEConv
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from gttf_dgl import PartitionedLoader, partition
from gttf_sampler.distributed import PartitionedGraph
from planted import noisy_features, planted_partition
from processes import RANK, WORLD, join, leave

NODES, CLASSES, FEATURES, HIDDEN = 3000, 6, 32, 32


class SAGE(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = SAGEConv(FEATURES, HIDDEN, "mean")
        self.second = SAGEConv(HIDDEN, CLASSES, "mean")

    def forward(self, blocks, x):
        x = F.dropout(self.first(blocks[0], x).relu(), 0.5, self.training)
        return self.second(blocks[1], x)


def train(model, loader, optimizer):
    """One epoch; the loss of the last batch of this process."""
    with Join([model.train()]):  # who has no batches left still averages gradients
        for _, _, blocks in loader:
            optimizer.zero_grad()
            out = model(blocks, blocks[0].srcdata["x"])
            loss = F.cross_entropy(out, blocks[-1].dstdata["y"])
            loss.backward()
            optimizer.step()
    return loss.item()


@torch.no_grad()
def test(model, loader):
    """The share of all processes' test nodes, in %, whose class is found."""
    counts, _ = torch.zeros(2), model.eval()
    for _, nodes, blocks in loader:
        found = model(blocks, blocks[0].srcdata["x"]).argmax(1)
        right = (found == blocks[-1].dstdata["y"]).sum()
        counts += torch.tensor([right, nodes.numel()])
    dist.all_reduce(counts)
    return 100 * float(counts[0] / counts[1])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    epochs = parser.parse_args().epochs
    join()
    torch.manual_seed(0)
    path = [(folder := tempfile.TemporaryDirectory()).name]
    if RANK == 0:
        ends, y = planted_partition(NODES, CLASSES)
        g = dgl.graph(tuple(torch.cat([ends, ends.flip(0)], 1)), num_nodes=NODES)
        g.ndata["x"], g.ndata["y"] = noisy_features(y), y
        partition(g, path[0], WORLD)
    dist.broadcast_object_list(path)
    with PartitionedGraph.open(path[0]) as graph:
        own, how = graph.own_nodes(), {"batch_size": 100 // WORLD, "shuffle": True}
        few = torch.rand(len(own)) < 0.3
        loader = PartitionedLoader(graph, [5, 5], own[few], prefetch=2, **how)
        tester = PartitionedLoader(graph, [-1, -1], own[~few], batch_size=100)
        model = DistributedDataParallel(SAGE())
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
        for epoch in range(1, epochs + 1):
            loss, right = train(model, loader, optimizer), test(model.module, tester)
            if RANK == 0:
                print(f"epoch {epoch:2}  loss {loss:.3f}  test accuracy {right:.1f} %")
    if RANK == 0:
        print("Expected after 10 epochs: 90 % or more.")
    folder.cleanup()
    leave()
