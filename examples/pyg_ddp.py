"""GraphSAGE on two processes with DDP, each with the whole graph; 20 seconds.

    torchrun --nproc-per-node 2 examples/pyg_ddp.py

Every process has its share of the seeds. `--checkpoint FILE` saves all of it after each
step, so that `torchrun --max-restarts 1` gives the same parameters if a process dies:
`--kill 30` has one do so at step 30. Without torchrun there is one process.
"""

import argparse

import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler
from torch_geometric.datasets import Planetoid
from torch_geometric.nn import GraphSAGE
from torch_geometric.transforms import NormalizeFeatures

from gttf_pyg import GTTFLoader
from planted import for_pyg
from processes import RANK, WORLD, die_once, join, leave, load, save


@torch.no_grad()
def test(model, loader):
    """Accuracy in %, from all neighbours."""
    model.eval()
    right = [
        (model(batch.x, batch.edge_index).argmax(1) == batch.y)[: batch.batch_size]
        for batch in loader
    ]
    return 100 * torch.cat(right).float().mean().item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", help="where Planetoid's Cora is, or shall be stored")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--checkpoint", help="a file to write, and to continue from")
    parser.add_argument("--kill", type=int, help="the step at which a process dies")
    args = parser.parse_args()
    join()
    torch.manual_seed(0)  # the same graph everywhere
    data = for_pyg(6_000, 6)
    if args.root is not None:
        data = Planetoid(args.root, "Cora", transform=NormalizeFeatures())[0]
    model = GraphSAGE(data.num_features, 32, 2, int(data.y.max()) + 1, dropout=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    seeds = data.train_mask.nonzero().view(-1)
    share = DistributedSampler(seeds, WORLD, RANK)
    options = {"batch_size": 64 // WORLD, "sampler": share, "num_workers": 1}
    loader = GTTFLoader(data, [10, 10], seeds, seed=RANK, **options)
    tester = GTTFLoader(data, [-1, -1], data.test_mask, batch_size=1024)
    torch.manual_seed(RANK)  # dropout is another one
    if args.checkpoint:
        load(args.checkpoint, model, optimizer, loader)
    shared, steps, loss = DistributedDataParallel(model), 0, torch.zeros(())
    for epoch in range(loader.state_dict()["epoch"], args.epochs):
        share.set_epoch(epoch)
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
        if RANK == 0:
            right = test(model, tester)
            print(f"epoch {epoch + 1:2}  loss {loss:.3f}  test accuracy {right:.1f} %")
    if RANK == 0:
        print("Expected after 6 epochs, with one process or two: 98 %.")
    leave()
