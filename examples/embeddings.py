"""Learns embeddings of one of three methods, and finds hidden edges; ten seconds.

DeepWalk, node2vec (`--train-pq` learns its p and q), or Watch Your Step, which learns
how much every distance counts. The graph is made, 6 communities of 200 nodes; half of
its edges are hidden, the walks see the rest. `--png` draws the embeddings. For the
edges of a file, there is the command `gttf embed`.
"""

import argparse
import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # steady times on a busy machine
import torch

from gttf_sampler import CompactAdj, embedding
from gttf_sampler.plot import draw_embeddings
from planted import planted_partition

FANOUTS, DIM = [3, 3, 1, 1, 1], 128
USUAL = {"deepwalk": (20, 0.1), "node2vec": (20, 0.1), "wys": (35, 0.02)}  # epochs, lr


def make_model(adj, method, train_pq):
    if method == "wys":
        return embedding.WatchYourStep(adj, DIM, FANOUTS)
    if method == "node2vec":
        pq = {"p": 2.0, "q": 0.5, "trainable": train_pq}
        return embedding.Node2Vec(adj, DIM, 5, FANOUTS, **pq)
    return embedding.DeepWalk(adj, DIM, 5, FANOUTS)


def train(model, loader, optimizer):
    """One epoch; the mean loss."""
    total = 0.0
    for forest in loader:
        optimizer.zero_grad()
        loss = model.loss(forest)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def learned(model):
    """Describes the parameters that a method learned besides the embeddings."""
    if hasattr(model, "attention"):
        return "  distances " + " ".join(f"{c:.2f}" for c in model.attention.tolist())
    return f"  p {model.p:.2f}  q {model.q:.2f}" if hasattr(model, "p") else ""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=USUAL, default="deepwalk")
    parser.add_argument("--png", help="where to draw them")
    parser.add_argument("--train-pq", action="store_true")
    parser.add_argument("--epochs", type=int)
    args = parser.parse_args()
    torch.manual_seed(0)
    edges, y = planted_partition(1200, 6, inside=8, outside=2)
    split = embedding.split_links(edges, len(y), hide=0.5)
    adj = CompactAdj.from_edge_index(split.train, split.num_nodes, direction="out")
    model = make_model(adj, args.method, args.train_pq)
    epochs, lr = USUAL[args.method]
    loader = model.loader(batch_size=2048, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for epoch in range(1, (args.epochs or epochs) + 1):
        loss = train(model, loader, optimizer)
        auc = 100 * embedding.link_auc(model.score, split)
        print(f"epoch {epoch:2}  loss {loss:9.2f}  ROC-AUC {auc:.1f} %{learned(model)}")
    if args.png:
        draw_embeddings(model(), y, title=args.method).savefig(args.png, dpi=120)
    print("Expected: 82 %.")
