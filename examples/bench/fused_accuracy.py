"""Accuracy on Amazon Computers, epoch by epoch: a model fused, and as it was.

    python -m examples.bench.fused_accuracy --root DIR --json fused.json

DIR/amazon has the data. Both train on the same batches from the same weights; their
sums differ by rounding, their dropout by chance. A line per model: test accuracies at
the end, and the largest distance of the two curves in standard errors of the seeds.
"""

import argparse
import json
from pathlib import Path

import torch
from torch.nn import functional
from torch_geometric import datasets, nn

from gttf_pyg import NeighborLoader, fused

MODELS = {"SAGE": nn.GraphSAGE, "GCN": nn.GCN, "GAT": nn.GAT}
FANOUTS, BATCH = [10, 10], 512


def curve(kind, data, seed, epochs, with_fused):
    """[epochs] test accuracy, of all neighbours; one node in ten is trained on."""
    order = torch.Generator().manual_seed(seed)
    nodes = torch.randperm(data.num_nodes, generator=order)
    train, test = nodes.tensor_split([data.num_nodes // 10])
    torch.manual_seed(seed)
    size, classes = data.num_features, int(data.y.max()) + 1
    model = MODELS[kind](size, 64, 2, classes, dropout=0.5)
    if with_fused:
        fused(model)
    optimizer = torch.optim.Adam(model.parameters(), 0.01, weight_decay=5e-4)
    how = {"batch_size": BATCH, "shuffle": True, "seed": seed}
    loader, found = NeighborLoader(data, FANOUTS, input_nodes=train, **how), []
    for _ in range(epochs):
        model.train()
        for batch in loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            functional.cross_entropy(out, batch.y[: batch.batch_size]).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            hit = model(data.x, data.edge_index).argmax(1) == data.y
        found.append(hit[test].double().mean())
    return torch.stack(found)


def compared(kind, data, args):
    """Means and deviations [epochs] of both, and their distance in standard errors."""
    found = {}
    for name, with_fused in (("fused", True), ("as it was", False)):
        curves = [
            curve(kind, data, seed, args.epochs, with_fused)
            for seed in range(args.seeds)
        ]
        found[name] = torch.stack(curves)
    apart = (found["fused"].mean(0) - found["as it was"].mean(0)).abs()
    error = sum(c.var(0) / args.seeds for c in found.values()).sqrt()
    row = {"model": kind, "errors apart": (apart / error.clamp(min=1e-9)).tolist()}
    for name, curves in found.items():
        row |= {name: curves.mean(0).tolist(), f"{name}, std": curves.std(0).tolist()}
    return row


def main(args):
    data = datasets.Amazon(Path(args.root, "amazon"), "Computers")[0]
    rows = []
    for kind in args.only:
        rows.append(row := compared(kind, data, args))
        print(
            f"{kind}: {row['fused'][-1]:.4f} fused, {row['as it was'][-1]:.4f} as it "
            f"was; at most {max(row['errors apart']):.1f} standard errors apart"
        )
    if args.json:
        facts = {"seeds": args.seeds, "fanouts": FANOUTS, "batch": BATCH, "rows": rows}
        Path(args.json).write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--root", required=True, help="the folder of amazon/")
    add("--epochs", type=int, default=20)
    add("--seeds", type=int, default=5, help="two or more")
    add("--only", nargs="+", default=list(MODELS), choices=list(MODELS))
    add("--json")
    main(parser.parse_args())
