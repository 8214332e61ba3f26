"""The memory of training a GCN, like the paper's Table 4; every subject in a process.

The same two layers of 16 units everywhere. Full batch multiplies with the whole graph
in every step; GTTF samples a rooted adjacency for a batch of the training nodes.
"""

import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gttf_sampler import CompactAdj, _check, sample_rooted
from gttf_sampler.bench import graphs, peers
from gttf_sampler.bench.children import RefusedError
from gttf_sampler.bench.measure import Report
from gttf_sampler.bench.peak import PeakMemory

HIDDEN, CLASSES, TRAIN, STEPS = 16, 7, 512, 5
FANOUTS, SEEDS = [10, 10], 64
MADE = "PubMed-sized, made"  # without --root
MADE_SIZE = (19_717, 88_648, 500)
NAMES = "Cora", "CiteSeer"


def write_dataset(name: str, root: str | None, folder: str, report: Report) -> None:
    """The job that writes a dataset as arrays; Planetoid is read from a copy."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    report(name, 0.0)
    if root is None:
        nodes, edges, width = MADE_SIZE
        graphs.make(target / "graph", nodes, edges)
        edge_index = CompactAdj.open(target / "graph").to_edge_index()
        x = torch.rand(nodes, width, generator=torch.Generator().manual_seed(0))
    else:
        raw = Path(root, name, "raw")
        if not raw.is_dir():
            rule = f"must hold {name}/raw with the files of Planetoid"
            raise RefusedError(f"'--root' {rule} (got {root})")
        shutil.copytree(raw, target / "copy" / name / "raw")
        planetoid = import_module("torch_geometric.datasets").Planetoid
        data = planetoid(str(target / "copy"), name)[0]
        edge_index, x = data.edge_index, data.x
    np.save(target / "edges.npy", edge_index.numpy())
    np.save(target / "x.npy", x.numpy())


def measure(subject: str, folder: str, report: Report) -> dict[str, Any]:
    """The job of one subject: the peak beyond the input of a few training steps."""
    kind = SUBJECTS[subject]
    tiny = torch.arange(40).view(2, 20) % 16
    kind(tiny, torch.rand(16, 8), torch.zeros(16, dtype=torch.int64))()
    edge_index = torch.from_numpy(np.load(Path(folder, "edges.npy")))
    x = torch.from_numpy(np.load(Path(folder, "x.npy")))
    y = torch.arange(len(x)) % CLASSES
    report(subject, 0.5)
    with PeakMemory() as training:
        kind(edge_index, x, y)()
    return {
        "peer": LABELS[subject](),
        "peak": training.beyond,
        "input": edge_index.nbytes + x.nbytes,
        "nodes": len(x),
        "edges": edge_index.shape[1],
    }


def _train(parameters: Any, logits: Any, y: Tensor) -> None:
    """Some steps; `logits(i)` gives the outputs of step i and their nodes."""
    optimizer = torch.optim.Adam(parameters, 0.01)
    for index in range(STEPS):
        optimizer.zero_grad()
        out, node = logits(index)
        nn.functional.cross_entropy(out, y[node]).backward()
        optimizer.step()


def _gttf(edge_index: Tensor, x: Tensor, y: Tensor) -> Any:
    def go() -> None:
        adj = CompactAdj.from_edge_index(edge_index, len(x))
        first, second = nn.Linear(x.shape[1], HIDDEN), nn.Linear(HIDDEN, CLASSES)
        train = torch.arange(min(TRAIN, len(x)))

        def logits(index: int) -> tuple[Tensor, Tensor]:
            node = train.roll(-SEEDS * index)[:SEEDS]
            sub = sample_rooted(adj, node, FANOUTS)
            A = sub.to_sparse(sub.gcn_weight(adj))
            out = A @ second((A @ first(x[sub.node])).relu())
            return out[: len(node)], node

        _train([*first.parameters(), *second.parameters()], logits, y)

    return go


def _pyg(edge_index: Tensor, x: Tensor, y: Tensor) -> Any:
    def go() -> None:
        convolution = import_module("torch_geometric.nn").GCNConv
        layers = convolution(x.shape[1], HIDDEN), convolution(HIDDEN, CLASSES)
        train = torch.arange(min(TRAIN, len(x)))

        def logits(index: int) -> tuple[Tensor, Tensor]:
            out = layers[1](layers[0](x, edge_index).relu(), edge_index)
            return out[train], train

        _train([p for layer in layers for p in layer.parameters()], logits, y)

    return go


def _dgl(edge_index: Tensor, x: Tensor, y: Tensor) -> Any:
    def go() -> None:
        convolution = import_module("dgl.nn").GraphConv
        dgl = import_module("dgl")
        graph = dgl.add_self_loop(dgl.graph(tuple(edge_index), num_nodes=len(x)))
        layers = convolution(x.shape[1], HIDDEN), convolution(HIDDEN, CLASSES)
        train = torch.arange(min(TRAIN, len(x)))

        def logits(index: int) -> tuple[Tensor, Tensor]:
            out = layers[1](graph, layers[0](graph, x).relu())
            return out[train], train

        _train([p for layer in layers for p in layer.parameters()], logits, y)

    return go


SUBJECTS = {"gttf": _gttf, "pyg": _pyg, "dgl": _dgl}
LABELS = {
    "gttf": lambda: f"gttf, {SEEDS} seeds, fanouts {FANOUTS}",
    "pyg": lambda: peers.label("torch_geometric", "GCNConv, full batch"),
    "dgl": lambda: peers.label("dgl", "GraphConv, full batch"),
}


MODULES = {"pyg": "torch_geometric", "dgl": "dgl"}


def subjects() -> tuple[list[str], peers.Missing]:
    """The subjects that can run here, and those that cannot."""
    missing = peers.Missing()
    found = ["gttf"]
    for name, module in MODULES.items():
        if peers.version(module):
            found.append(name)
        else:
            missing.add(LABELS[name](), peers.absent(module))
    return found, missing


def check_root(root: str) -> None:
    """Refuses a place without one of the datasets, or nobody to read them."""
    if not any(Path(root, name, "raw").is_dir() for name in NAMES):
        rule = f"must hold {' or '.join(f'{name}/raw' for name in NAMES)}"
        _check.fail("--root", rule, root)
    if peers.version("torch_geometric") is None:
        rule, cure = "needs torch-geometric to be read", peers.cure("torch_geometric")
        _check.fail("--root", rule, "none", cure)
