"""GraphSAGE from PyG, full batch and with `GTTFLoader` side by side; 20 seconds.

The script is any PyG script, only the loader's import is another one. Without `--root`,
the graph is made here: 6 communities of 1,000 nodes, and features so noisy that the
neighbours have to be asked. On Cora, `--epochs 30` gives 79 %.
"""

import argparse
import os
import time

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # steady times on a busy machine
import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.datasets import Planetoid
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GraphSAGE
from torch_geometric.transforms import NormalizeFeatures
from torch_geometric.utils import to_undirected

from gttf_pyg import GTTFLoader


def planted_partition(nodes=6_000, classes=6, inside=5, outside=4):
    """Every node links with some of its own class, and with others."""
    y = torch.arange(nodes) % classes
    start = torch.arange(nodes).repeat(inside)
    same = torch.randint(nodes // classes, start.shape) * classes + y[start]
    other = torch.randint(nodes, (2, nodes * outside))
    edges = torch.cat([torch.stack([start, same]), other], dim=1)
    x = 0.3 * torch.randn(classes, 32)[y] + torch.randn(nodes, 32)
    train_mask = torch.rand(nodes) < 0.1
    masks = {"train_mask": train_mask, "test_mask": ~train_mask}
    return Data(x=x, y=y, edge_index=to_undirected(edges), **masks)


def train(model, loader, optimizer):
    """One epoch; the number of nodes that a step looked at on average."""
    model.train()
    nodes = []
    for batch in loader:
        optimizer.zero_grad()
        sampled = "batch_size" in batch  # then the seeds come first
        seeds = torch.arange(batch.batch_size) if sampled else batch.train_mask
        out = model(batch.x, batch.edge_index)[seeds]
        F.cross_entropy(out, batch.y[seeds]).backward()
        optimizer.step()
        nodes.append(batch.num_nodes)
    return sum(nodes) / len(nodes)


@torch.no_grad()
def test(model, data):
    """Accuracy in % on the whole graph."""
    right = model.eval()(data.x, data.edge_index).argmax(dim=1) == data.y
    return 100 * right[data.test_mask].float().mean().item()


def run(name, data, loader, epochs):
    """Trains a new model; a row of the table."""
    torch.manual_seed(1)
    model = GraphSAGE(data.num_features, 32, 2, int(data.y.max()) + 1, dropout=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    next(iter(loader))  # numba compiles on first use; keep that off the clock
    seconds = 0.0
    for epoch in range(1, epochs + 1):
        start = time.perf_counter()
        nodes = train(model, loader, optimizer)
        seconds += time.perf_counter() - start
        print(f"{name:13}  epoch {epoch:2}  test accuracy {test(model, data):.1f} %")
    return f"{name:13}  {test(model, data):11.1f} %  {nodes:14,.0f}  {seconds:7.1f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="GraphSAGE, full batch and sampled.")
    parser.add_argument("--root", help="where Planetoid's Cora is, or shall be stored")
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(0)
    data = planted_partition()
    if args.root is not None:
        data = Planetoid(args.root, "Cora", transform=NormalizeFeatures())[0]
    options = {"input_nodes": data.train_mask, "batch_size": 64, "shuffle": True}
    sampled = {f"GTTF {f}": GTTFLoader(data, f, **options) for f in ([5, 5], [10, 10])}
    steps = len(sampled["GTTF [5, 5]"])  # of an epoch
    loaders = {"full batch": DataLoader([data] * steps), **sampled}
    rows = [run(name, data, loader, args.epochs) for name, loader in loaders.items()]
    print(f"\n{'training':13}  test accuracy  nodes per step  seconds", *rows, sep="\n")
    print("Expected on the made graph: full batch 98 %, GTTF [10, 10] within 2 %.")
