"""GraphSAGE on a graph that is cut into a part per process; 20 seconds.

    torchrun --nproc-per-node 2 examples/pyg_distributed.py

A process holds rows and features of its own nodes only, and trains on those; the others
are asked for the rest, batch by batch. Without torchrun there is one process with one
part, which learns as much. Large graphs are cut by `gttf partition` beforehand.
"""

import argparse
import os
import shutil
import tempfile

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # steady times on a busy machine
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.datasets import Planetoid
from torch_geometric.nn import GraphSAGE

from gttf_pyg import GTTFLoader, partition
from gttf_sampler.distributed import PartitionedGraph
from planted import for_pyg


def train(model, loader, optimizer):
    """One epoch; the mean loss of this process."""
    losses, _ = [], model.train()
    with Join([model]):  # a process whose batches have ended still averages gradients
        for batch in loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            loss = F.cross_entropy(out, batch.y[: batch.batch_size])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return sum(losses) / max(len(losses), 1)


@torch.no_grad()
def test(model, loader):
    """Accuracy in % on the test nodes of all processes, from 20 neighbours per hop."""
    counts, _ = torch.zeros(2), model.eval()
    for batch in loader:
        seeds = batch.test_mask[: batch.batch_size].nonzero().view(-1)
        right = model(batch.x, batch.edge_index)[seeds].argmax(1) == batch.y[seeds]
        counts += torch.tensor([right.sum(), seeds.numel()])
    dist.all_reduce(counts)
    return 100 * float(counts[0] / counts[1])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="GraphSAGE on a partitioned graph.")
    parser.add_argument("--root", help="where Planetoid's Cora is, or shall be stored")
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()
    alone = {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    dist.init_process_group("gloo", **({} if "RANK" in os.environ else alone))
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    data = Planetoid(args.root, "Cora")[0] if args.root else for_pyg(6_000, 6)
    path = [tempfile.mkdtemp() if rank == 0 else ""]
    if rank == 0:
        partition(data, path[0], size)
    dist.broadcast_object_list(path)
    graph = PartitionedGraph.open(path[0])
    seeds = graph.own_nodes()[graph.features["", "train_mask"].own]
    torch.manual_seed(1)
    model = GraphSAGE(data.num_features, 32, 2, int(data.y.max()) + 1, dropout=0.5)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    how = {"batch_size": 64 // size, "shuffle": True, "prefetch": 2}
    loader = GTTFLoader(graph, [10, 10], seeds, **how)
    everyone = GTTFLoader(graph, [20, 20], batch_size=1024)
    for epoch in range(1, args.epochs + 1):
        loss, right = train(model, loader, optimizer), test(model.module, everyone)
        if rank == 0:
            print(f"epoch {epoch:2}  loss {loss:.3f}  test accuracy {right:.1f} %")
    graph.close()
    if rank == 0:
        print("Expected after 6 epochs, in any number of processes: 98 %")
        shutil.rmtree(path[0])
    dist.destroy_process_group()
