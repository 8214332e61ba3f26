"""GraphSAGE on a graph that is cut into a part per process; 20 seconds.

    torchrun --nproc-per-node 2 examples/pyg_distributed.py

A process holds rows and features of its own nodes only, and trains on those; the others
are asked for the rest, batch by batch. Without torchrun there is one process with one
part, which learns as much. Large graphs are cut by `gttf partition` beforehand. With
`--checkpoint FILE` and `torchrun --max-restarts 1` a run survives `--kill 30`.
"""

import argparse
import os
import tempfile

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # steady times on a busy machine
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.datasets import Planetoid
from torch_geometric.nn import GraphSAGE

from gttf_pyg import GTTFLoader, partition
from gttf_sampler.distributed import PartitionedGraph
from planted import for_pyg
from processes import RANK, WORLD, die_once, join, leave, load, save


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
    parser.add_argument("--checkpoint", help="a file to write, and to continue from")
    parser.add_argument("--kill", type=int, help="the step at which a process dies")
    args = parser.parse_args()
    join()
    torch.manual_seed(0)
    data = Planetoid(args.root, "Cora")[0] if args.root else for_pyg(6_000, 6)
    folder = tempfile.TemporaryDirectory()
    path = [f"{args.checkpoint}.parts" if args.checkpoint else folder.name]
    if RANK == 0:
        partition(data, path[0], WORLD)  # once: a second call finds it done
    dist.broadcast_object_list(path)
    graph = PartitionedGraph.open(path[0])
    seeds = graph.own_nodes()[graph.features["", "train_mask"].own[:]]
    fewest = torch.tensor(len(seeds))  # DDP wants as many batches everywhere
    dist.all_reduce(fewest, dist.ReduceOp.MIN)
    model = GraphSAGE(data.num_features, 32, 2, int(data.y.max()) + 1, dropout=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    how = {"batch_size": 64 // WORLD, "shuffle": True, "prefetch": 2}
    loader = GTTFLoader(graph, [10, 10], seeds[:fewest], **how)
    everyone = GTTFLoader(graph, [20, 20], batch_size=1024)
    torch.manual_seed(RANK)  # other batches, another dropout
    if args.checkpoint:
        load(args.checkpoint, model, optimizer, loader)
    shared, steps, loss = DistributedDataParallel(model), 0, torch.zeros(())
    for epoch in range(loader.state_dict()["epoch"], args.epochs):
        model.train()
        for batch in loader:
            out = shared(batch.x, batch.edge_index)[: batch.batch_size]
            loss = F.cross_entropy(out, batch.y[: batch.batch_size])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
            if args.checkpoint:
                save(args.checkpoint, model, optimizer, loader)
            if steps == args.kill:
                die_once()
        right = test(model, everyone)
        if RANK == 0:
            print(f"epoch {epoch + 1:2}  loss {loss:.3f}  test accuracy {right:.1f} %")
    graph.close()
    if RANK == 0:
        print("Expected after 6 epochs, in any number of processes: 98 %.")
    leave()
