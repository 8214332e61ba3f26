"""Learns Watch Your Step embeddings, and which distances matter; ten seconds.

The graph is made here: 6 communities of 200 nodes with 16 neighbours inside and 4
outside; `--edges FILE` takes an edge list (PPI, ca-HepTh) instead. Half of the edges
are hidden, the walks see the rest. Writes the embeddings (`--out x.npy`, with the ids
of the file beside it) and a picture of them (`--png x.png`).
"""

import argparse
import os
import time

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # steady times on a busy machine
import torch
from tqdm import tqdm

import gttf_sampler as gs
from gttf_sampler.embedding import (
    WatchYourStep,
    largest_component,
    link_auc,
    split_links,
)
from gttf_sampler.graph import read_edge_list, write_embeddings
from gttf_sampler.plot import communities, draw_embeddings


def planted_partition(blocks=6, size=200, inside=16.0, outside=4.0):
    """Edges [2, m] and the community [n] of every node; both are mean degrees."""
    y = torch.arange(blocks * size) % blocks
    same = y[:, None] == y
    chance = torch.where(same, inside / size, outside / (size * (blocks - 1)))
    return torch.rand(len(y), len(y)).less(chance).triu(1).nonzero().T, y


def load(path):
    """Edges, the ids of the nodes, and their community if it is known."""
    if path is None:
        edges, y = planted_partition()
        return edges, range(len(y)), y
    file = read_edge_list(path)
    edges, kept = largest_component(file.edge_index, file.num_nodes)
    return edges, file.node_id[kept.numpy()], None


def train(model, loader, optimizer):
    total = 0.0
    for forest in loader:
        optimizer.zero_grad()
        loss = model.loss(forest)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def test(model, split):
    return 100 * link_auc(model.score, split)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Watch Your Step on walk forests.")
    parser.add_argument("--edges", help="file with lines 'source target'")
    parser.add_argument(
        "--out", help="where to write the embeddings (.npy, .npz, .txt)"
    )
    parser.add_argument("--png", help="where to draw them")
    parser.add_argument("--fanouts", type=int, nargs="+", default=[3, 3, 1, 1, 1])
    parser.add_argument("--negatives", type=int, default=20)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=35)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    edges, ids, y = load(args.edges)
    split = split_links(edges, len(ids), hide=0.5)
    adj = gs.CompactAdj.from_edge_index(split.train, split.num_nodes, direction="out")
    model = WatchYourStep(adj, args.dim, args.fanouts, args.negatives)
    loader = model.loader(batch_size=2048, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    start = time.perf_counter()
    for epoch in tqdm(range(1, args.epochs + 1), "epochs", leave=False):
        loss = train(model, loader, optimizer)
        if epoch in (1, 2, 5, args.epochs) or epoch % 10 == 0:
            auc, seconds = test(model, split), time.perf_counter() - start
            line = f"epoch {epoch:3}  loss {loss:10.2f}  ROC-AUC {auc:4.1f}"
            tqdm.write(f"{line}  {seconds:5.1f} s")
    shares = ", ".join(f"{share:.2f}" for share in model.attention.tolist())
    print(f"How much distances 1, 2, … count: {shares}")
    if args.out:
        write_embeddings(args.out, model(), ids)
    if args.png:
        y = communities(adj).clamp(max=9) if y is None else y
        draw_embeddings(model(), y, title="Watch Your Step").savefig(args.png, dpi=120)
    print(f"ROC-AUC on hidden edges: {auc:.1f}", "" if args.edges else "(82 expected)")
