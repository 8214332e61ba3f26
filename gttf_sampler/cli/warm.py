"""`gttf warm`: compiles kernels ahead, by the calls that would wait for them."""

import argparse
import tempfile
from collections.abc import Callable

import numpy as np
import torch

from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    Node2VecBias,
    _check,
    gather_rows,
    sample_rooted,
    traverse,
    use_backend,
)
from gttf_sampler._backends import cache, ops
from gttf_sampler._backends.record import (
    UNIFORM,
    Batch,
    Plan,
    Relation,
    RemoteWalkers,
)
from gttf_sampler._backends.torch.gather import Reads
from gttf_sampler.aggregate import (
    Receivers,
    aggregate,
    attend,
    attend_to_sums,
    receivers_of,
)
from gttf_sampler.cli.reading import progress
from gttf_sampler.dropout import dropout
from gttf_sampler.embedding import DeepWalk, Node2Vec, WatchYourStep
from gttf_sampler.objectives import NegativeSampler

CPU = torch.device("cpu")
NODES, EDGES = 2_000, 70_000  # enough for the loops that threads share
FEW, MANY = 8, 1_500  # seeds: a batch in one call, a batch that threads share


def add_warm(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `gttf warm`."""
    parser.add_argument("group", nargs="*", help=f"some of {', '.join(WORK)} (all)")
    parser.epilog = (
        "Kernels are kept in NUMBA_CACHE_DIR, or where the user has caches, and are "
        "compiled anew when numba, the CPU or this package is another one."
    )


def run_warm(args: argparse.Namespace) -> list[str]:
    """Compiles group by group."""
    for group in args.group:
        _check.one_of("group", group, WORK)
    groups = args.group or list(WORK)
    with use_backend("numba"), progress(len(groups), " groups") as report:
        for group in groups:
            if report:
                report(group, 0)
            WORK[group]()
            cache.mark_compiled(group)
            if report:
                report(group, 1)
    return [f"compiled for {', '.join(groups)}, kept in {cache.kernel_folder()}"]


def _graph(edges: int = EDGES, weight: torch.Tensor | None = None) -> CompactAdj:
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(NODES, (2, edges), generator=generator)
    return CompactAdj.from_edge_index(ends, NODES, edge_weight=weight)


def _aggregate() -> None:
    ends = torch.randint(NODES, (2, EDGES))
    for count, edges in ((FEW, ends[:, :99]), (NODES, ends)):
        to = receivers_of(edges[0], edges[1] % count, count)
        aggregate(torch.zeros(NODES, 32, dtype=torch.int8), to)
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            _reduce(torch.zeros(NODES, 32, dtype=dtype), to)
            _attend(torch.zeros(NODES, 4, 8, dtype=dtype), to)


def _reduce(x: torch.Tensor, to: Receivers) -> None:
    """Sums, means and extremes, with gradients."""
    weight = torch.ones(len(to.index), dtype=x.dtype)
    for how in ("sum", "mean", "max", "min"):
        for given in (None, weight.requires_grad_()):
            aggregate(x.requires_grad_(), to, given, how).sum().backward()


def _attend(x: torch.Tensor, to: Receivers) -> None:
    """Attention of GAT, of one and of several heads, and of GATv2, with gradients."""
    score = torch.zeros(len(to.index), x.shape[1], dtype=x.dtype, requires_grad=True)
    attend(x.requires_grad_(), to, score).sum().backward()
    attend(x[:, 0], to, score).sum().backward()
    query = x[: to.num_receivers].detach().requires_grad_()
    vector = torch.ones(x.shape[1:], dtype=x.dtype, requires_grad=True)
    attend_to_sums(x, query, to, vector).sum().backward()


def _dropout() -> None:
    for dtype in (torch.float32, torch.float64):
        dropout(torch.zeros(NODES, 32, dtype=dtype))


def _embed() -> None:
    ends = torch.randint(NODES, (2, EDGES // 10))
    adj = CompactAdj.from_edge_index(ends, NODES, direction="out")
    models = [
        DeepWalk(adj, 16),
        DeepWalk(adj, 16, contrast="logistic", halves=True, symmetric=True),
        DeepWalk(adj, 16, dtype=torch.bfloat16),
        WatchYourStep(adj, 16, [2, 1]),
        WatchYourStep(adj, 16, [2, 1], scheme="paper"),
        Node2Vec(adj, 16, trainable=True),
    ]
    for model in models:
        for optimizer in ("sgd", "adagrad", "adam"):
            model.fit(1, optimizer=optimizer, progress=False)
    for sparse in (True, False):
        model = DeepWalk(adj, 16, sparse=sparse)
        model.loss(next(iter(model.loader(batch_size=MANY)))).backward()


def _files() -> None:
    ids, width = np.arange(0, NODES, 2), 256
    out = torch.empty(len(ids), width, dtype=torch.uint8)
    starts, failed = np.arange(len(ids) + 1), np.zeros(len(ids), np.uint8)
    with tempfile.TemporaryFile() as file:
        file.write(bytes(NODES * width))
        file.flush()
        for align in (1, 512):
            how = CPU, file.fileno(), 0, width, align
            ops.read_all(
                Reads(*how, ids, np.arange(len(ids)), starts, out, failed), file
            )


def _build() -> None:
    _graph(100)
    _graph()
    sample_rooted(_graph(), torch.arange(FEW), [3]).bidirectional()


def _rooted() -> None:
    adj = _graph()
    for count in (FEW, MANY):
        seeds = torch.arange(count)
        sample_rooted(adj, seeds, [5, 5])
        sample_rooted(adj, seeds, [5, 5], disjoint=True)
        sample_rooted({("a", "to", "a"): adj}, {"a": seeds}, [5, 5])
        plan = Plan((Relation(adj, 0, 0, [5]),), (), (), 1, False, CPU)
        walkers = [RemoteWalkers(seeds, seeds, seeds)]
        ops.draw_for_remote(plan, Batch([], [], False, [UNIFORM], [None], 0), walkers)


def _walks() -> None:
    adj = _graph(weight=torch.rand(EDGES))
    for count in (FEW, MANY):
        for bias in (None, EdgeWeightBias()):
            for replace in (True, False):
                traverse(adj, torch.arange(count), [4, 2], bias, replace=replace)
    NegativeSampler(adj, 0.75).draw((MANY, 5))


def _node2vec() -> None:
    adj, bias = _graph(), Node2VecBias(0.5, 2.0)
    for count in (FEW, MANY):
        for fanouts in ([1] * 4, [2, 2]):
            traverse(adj, torch.arange(count), fanouts, bias)
    ends = torch.stack([torch.arange(NODES), torch.zeros(NODES).long()])
    star = CompactAdj.from_edge_index(torch.cat([ends, ends.flip(0)], 1), NODES)
    # walkers that must go back, which is next to never drawn by rejection
    traverse(star, torch.arange(FEW), [2, 2, 2], Node2VecBias(1e4, 1e-3))


def _gather() -> None:
    for dtype in (torch.float32, torch.float64, torch.float16):
        for width in (3, 64):
            gather_rows(torch.zeros(NODES, width, dtype=dtype), torch.arange(MANY))


def _rows() -> None:
    adj, ids = _graph(), torch.arange(MANY)
    row, longest = (adj.rowptr[:-1][:MANY], adj.rowptr[1:][:MANY]), adj.max_degree
    for dtype in (torch.int32, torch.int64, torch.float32, torch.float64):
        values = torch.arange(EDGES).to(dtype)
        ops.take_or_none(values, ids)
        bound = values[:MANY].double() if dtype.is_floating_point else ids
        ops.upper_bound(values, *row, bound, longest)
        if dtype.is_floating_point:
            ops.weight_table(values, adj.rowptr)
    with adj.borrow_table(NODES) as table:
        ops.relabel(ids[:0], ids, table)
    columns = torch.arange(EDGES, dtype=adj.col.dtype) % NODES
    ops.has_edge(adj.rowptr, columns, ids, ids, longest)
    ops.edge_filter(adj.rowptr, columns)


WORK: dict[str, Callable[[], None]] = {
    "aggregate": _aggregate,
    "build": _build,
    "dropout": _dropout,
    "embed": _embed,
    "files": _files,
    "gather": _gather,
    "node2vec": _node2vec,
    "rooted": _rooted,
    "rows": _rows,
    "walks": _walks,
}
