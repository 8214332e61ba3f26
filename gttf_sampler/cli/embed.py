"""`gttf embed`: an edge list in, embeddings with the ids of the file out."""

import argparse
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check, _files
from gttf_sampler._backends import ops
from gttf_sampler.cli import reading
from gttf_sampler.embedding.base import WalkEmbedding, wide
from gttf_sampler.embedding.links import link_auc, split_links
from gttf_sampler.embedding.models import DeepWalk, Node2Vec, WatchYourStep
from gttf_sampler.embedding.settings import SCHEDULES
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.graph.io import embedding_files, write_embeddings

METHODS = ("deepwalk", "node2vec", "wys")


def add_embed(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `gttf embed`."""
    add = parser.add_argument
    what = "text with lines 'source target' (also .gz), .parquet or .npz"
    add("edges", help=f"{what}; weights are not used")
    add("out", help="file to write: .npy, .npz, or .txt, .tsv, .emb (word2vec's text)")
    add("--method", choices=METHODS, default="deepwalk")
    add("--dim", type=int, default=128, help="length of an embedding")
    add("--window", type=int, default=5, help="largest distance, and depth of a walk")
    add("--fanout", type=int, default=1, help="walkers that each walker becomes")
    add("--p", type=float, default=1.0, help="node2vec's return parameter")
    add("--q", type=float, default=1.0, help="node2vec's in-out parameter")
    add("--negatives", type=int, default=10)
    add("--contrast", choices=("partition", "logistic"), default="partition")
    add("--epochs", type=int, default=50)
    add("--batch-size", type=int, default=4096)
    add("--lr", type=float, default=0.05)
    what = "λ; rows that are touched get λ z in their gradient"
    add("--weight-decay", type=float, default=0.0, help=what)
    add("--optimizer", choices=("sgd", "adagrad", "adam"), default="adam")
    what = "of the learning rate, over all epochs"
    add("--schedule", choices=tuple(SCHEDULES), default="constant", help=what)
    what = "threads without locks: faster, and another result in every run"
    add("--hogwild", action="store_true", help=what)
    what = "keep vectors in half of the memory"
    add("--bfloat16", action="store_true", help=what)
    add("--checkpoint", metavar="FILE", help="written after every epoch")
    add("--resume", action="store_true", help="go on from the checkpoint")
    add("--directed", action="store_true", help="walk along the edges only")
    add("--hide", type=float, default=0.0, metavar="SHARE")
    parser.description = (
        f"{parser.description} --hide 0.5 hides half of the edges, learns from the "
        "rest, and tells how well the hidden ones are found (ROC-AUC)."
    )
    add("--seed", type=int, default=0)
    add("--force", action="store_true", help="overwrite the file if it is there")
    reading.add_arguments(parser)


def run_embed(args: argparse.Namespace) -> list[str]:
    """Learns and writes; returns the lines to print."""
    check_out(args)  # before the work, not after it
    _check.count("--epochs", args.epochs)
    _check.count("--batch-size", args.batch_size)
    _check.positive("--lr", args.lr)
    torch.manual_seed(args.seed)
    edges, told = reading.read_ends(args, "edges")
    edge_index, split = edges.edge_index, None
    if args.hide:
        if args.directed:
            _check.fail("--hide", "must be 0 for a directed graph", args.hide)
        split = split_links(edge_index, edges.num_nodes, args.hide)
        edge_index = split.train
        if split.positive.numel() == 0:
            _check.fail("--hide", "must hide at least one edge", args.hide)
    elif not args.directed:
        edge_index = both_ways(edge_index, edges.num_nodes)
    adj = CompactAdj.from_edge_index(edge_index, edges.num_nodes, direction="out")
    model = make_model(adj, args)
    epochs = model.fit(
        args.epochs,
        optimizer=args.optimizer,
        lr=args.lr,
        weight_decay=args.weight_decay,
        batch_size=args.batch_size,
        schedule=args.schedule,
        hogwild=args.hogwild,
        checkpoint=args.checkpoint,
        resume=args.resume,
        generator=args.seed,
    )
    vectors = wide(model().detach())
    if not bool(vectors.isfinite().all()):
        rule, cure = "must let the loss stay finite", "try a tenth of it"
        _check.fail("--lr", rule, args.lr, cure)
    files = write_embeddings(args.out, vectors, edges.node_id)
    seconds = sum(epoch.seconds for epoch in epochs)
    pace = sum(epoch.pairs for epoch in epochs) / max(seconds, 1e-9) / 1e6
    pace_of = f"{len(epochs)} epochs in {seconds:.1f} s, {pace:.1f} million pairs/s"
    lines = [f"{model}: {pace_of}"]
    if split is not None:
        auc = 100 * link_auc(model.score, split)
        lines.append(f"ROC-AUC on {split.positive.shape[1]:,} hidden edges: {auc:.1f}")
    return [*told, *lines, f"wrote {', '.join(map(str, files))}"]


def check_out(args: argparse.Namespace) -> None:
    """Refuses an output path that cannot be written, or whose file would be lost."""
    edges = Path(args.edges)
    with reading.called(args, "out"):
        files = embedding_files(args.out)
    for file in files:
        if file.exists() and edges.exists() and file.samefile(edges):
            _check.fail("out", "must not be the file with the edges", file)
        _files.check_free("out", file, args.force)


def both_ways(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Every edge in both directions, once each, without self-loops."""
    source, target = edge_index[:, edge_index[0] != edge_index[1]]
    target, source, _ = ops.both_ways(source, target, num_nodes)
    return torch.stack([source, target])


def make_model(adj: CompactAdj, args: argparse.Namespace) -> WalkEmbedding:
    """The model that was asked for."""
    fanouts = [args.fanout] * args.window
    dtype = torch.bfloat16 if args.bfloat16 else torch.float32
    if args.method == "wys":
        return WatchYourStep(adj, args.dim, fanouts, args.negatives, dtype=dtype)
    shape = args.dim, args.window, fanouts, args.negatives
    how: dict[str, Any] = {"contrast": args.contrast, "dtype": dtype}
    if args.method == "deepwalk":
        return DeepWalk(adj, *shape, **how)
    return Node2Vec(adj, *shape, p=args.p, q=args.q, **how)
