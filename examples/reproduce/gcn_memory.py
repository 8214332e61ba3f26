"""The memory of training a GCN, for Table 4; every framework in a process of its own.

The same two layers of 16 units everywhere. Full batch multiplies with the whole graph
in every step; GTTF samples a rooted adjacency for a batch of the training nodes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gttf_sampler import CompactAdj, sample_rooted
from gttf_sampler.bench.machine import Missing, PeakMemory

HIDDEN, CLASSES, TRAIN, STEPS = 16, 7, 512, 5
FANOUTS, SEEDS = [10, 10], 64

Logits = Callable[[int], tuple[Tensor, Tensor]]  # step → outputs and their nodes


def gttf(edge_index: Tensor, x: Tensor) -> tuple[list[nn.Module], Logits]:
    """Mini-batches of rooted samples."""
    adj = CompactAdj.from_edge_index(edge_index, len(x))
    first, second = nn.Linear(x.shape[1], HIDDEN), nn.Linear(HIDDEN, CLASSES)
    train = torch.arange(min(TRAIN, len(x)))

    def logits(index: int) -> tuple[Tensor, Tensor]:
        node = train.roll(-SEEDS * index)[:SEEDS]
        sub = sample_rooted(adj, node, FANOUTS)
        A = sub.to_sparse(sub.gcn_weight(adj))
        out = A @ second((A @ first(x[sub.node])).relu())
        return out[: len(node)], node

    return [first, second], logits


def pyg(edge_index: Tensor, x: Tensor) -> tuple[list[nn.Module], Logits]:
    """PyG's GCNConv on the whole graph."""
    from torch_geometric.nn import GCNConv

    layers = GCNConv(x.shape[1], HIDDEN), GCNConv(HIDDEN, CLASSES)
    train = torch.arange(min(TRAIN, len(x)))

    def logits(index: int) -> tuple[Tensor, Tensor]:
        return layers[1](layers[0](x, edge_index).relu(), edge_index)[train], train

    return list(layers), logits


def dgl(edge_index: Tensor, x: Tensor) -> tuple[list[nn.Module], Logits]:
    """DGL's GraphConv on the whole graph."""
    import dgl
    from dgl.nn import GraphConv

    graph = dgl.add_self_loop(dgl.graph(tuple(edge_index), num_nodes=len(x)))
    layers = GraphConv(x.shape[1], HIDDEN), GraphConv(HIDDEN, CLASSES)
    train = torch.arange(min(TRAIN, len(x)))

    def logits(index: int) -> tuple[Tensor, Tensor]:
        return layers[1](graph, layers[0](graph, x).relu())[train], train

    return list(layers), logits


SUBJECTS = {"gttf": gttf, "pyg": pyg, "dgl": dgl}


def subjects() -> tuple[list[str], Missing]:
    """The frameworks that can run here, and those that cannot."""
    missing = Missing()
    needs = {"pyg": ("torch_geometric", "torch-geometric"), "dgl": ("dgl", "dgl")}
    names = [
        name for name in needs if missing.load(needs[name][0], name, needs[name][1])
    ]
    return ["gttf", *names], missing


def measure(subject: str, folder: str, report: Any) -> dict[str, Any]:
    """The job of one framework: the peak beyond the input of a few training steps."""
    tiny = torch.arange(40).view(2, 20) % 16
    _train(subject, tiny, torch.rand(16, 8))  # loads libraries, compiles kernels
    edge_index = torch.from_numpy(np.load(Path(folder, "edges.npy")))
    x = torch.from_numpy(np.load(Path(folder, "x.npy")))
    report(subject, 0.5)
    with PeakMemory() as training:
        _train(subject, edge_index, x)
    sizes = {"nodes": len(x), "edges": edge_index.shape[1]}
    return {"peak": training.beyond, "input": edge_index.nbytes + x.nbytes, **sizes}


def _train(subject: str, edge_index: Tensor, x: Tensor) -> None:
    """Some steps of Adam."""
    layers, logits = SUBJECTS[subject](edge_index, x)
    y = torch.arange(len(x)) % CLASSES
    parameters = [p for layer in layers for p in layer.parameters()]
    optimizer = torch.optim.Adam(parameters, 0.01)
    for index in range(STEPS):
        optimizer.zero_grad()
        out, node = logits(index)
        nn.functional.cross_entropy(out, y[node]).backward()
        optimizer.step()
