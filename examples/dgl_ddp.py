"""GraphSAGE with DGL on two processes, each with the whole graph; fifteen seconds.

    torchrun --nproc-per-node 2 examples/dgl_ddp.py

An ordinary DDP script of DGL but for the sampler: `use_ddp=True` gives every process
its share of the seeds. For `--checkpoint FILE` and `--kill STEP` see pyg_ddp.py.
"""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from dgl.dataloading import DataLoader
from dgl.nn import SAGEConv
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from gttf_dgl import GTTFSampler
from planted import for_dgl
from processes import RANK, WORLD, die_once, join, leave, load, save

NODES, CLASSES, FEATURES, HIDDEN, BATCH = 3000, 6, 32, 32, 100


class SAGE(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = SAGEConv(FEATURES, HIDDEN, "mean")
        self.second = SAGEConv(HIDDEN, CLASSES, "mean")

    def forward(self, blocks, x):
        x = F.dropout(self.first(blocks[0], x).relu(), 0.5, self.training)
        return self.second(blocks[1], x)


@torch.no_grad()
def test(model, loader):
    """The share of nodes, in %, whose class is found."""
    model.eval()
    right = [
        model(blocks, blocks[0].srcdata["x"]).argmax(1) == blocks[-1].dstdata["y"]
        for _, _, blocks in loader
    ]
    return 100 * torch.cat(right).float().mean().item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--checkpoint", help="a file to write, and to continue from")
    parser.add_argument("--kill", type=int, help="the step at which a process dies")
    args = parser.parse_args()
    join()
    torch.manual_seed(0)  # the same graph everywhere
    g, nodes, model = for_dgl(NODES, CLASSES), torch.randperm(NODES), SAGE()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    torch.manual_seed(RANK)  # dropout is another one
    np.random.seed(RANK)  # by which DGL shuffles
    fetch = {"prefetch_node_feats": ["x"], "prefetch_labels": ["y"]}
    sampler = GTTFSampler([5, 5], seed=RANK, **fetch)
    how = {"batch_size": BATCH // WORLD, "shuffle": True, "use_ddp": True}
    loader = DataLoader(g, nodes[:1000], sampler, **how)
    everyone = GTTFSampler([-1, -1], **fetch)  # all neighbours
    tester = DataLoader(g, nodes[1000:], everyone, batch_size=BATCH)
    if args.checkpoint:
        load(args.checkpoint, model, optimizer, loader)
    shared, steps, loss = DistributedDataParallel(model), 0, torch.zeros(())
    for epoch in range(loader.state_dict()["epoch"], args.epochs):
        model.train()
        for _, _, blocks in loader:
            out = shared(blocks, blocks[0].srcdata["x"])
            loss = F.cross_entropy(out, blocks[-1].dstdata["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
            if args.checkpoint:
                save(args.checkpoint, model, optimizer, loader)
            if steps == args.kill:
                die_once()
        if RANK == 0:
            accuracy = test(model, tester)
            print(
                f"epoch {epoch + 1:2}  loss {loss:.3f}  test accuracy {accuracy:.1f} %"
            )
    if RANK == 0:
        print("Expected after 10 epochs, with one process or two: 90 % or more.")
    leave()
