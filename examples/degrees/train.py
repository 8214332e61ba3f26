"""One run: so many steps on batches of one kind, tested on the whole graph."""

import time
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader

import gttf_pyg
from examples.degrees.data import Graph
from examples.degrees.models import FANOUTS, MODELS
from examples.reproduce.models_pyg import full_matrix

WAYS = {
    "full": "full batch",
    "neighbor": "PyG's NeighborLoader",
    "sampled": "ours, degrees of the sample",
    "unbiased": "ours, unbiased",
    "layerwise": "ours, unbiased, layerwise",
}
EVERY = 20  # steps from one point of the learning curve to the next


def missing(model: str, way: str) -> str | None:
    """Why there is no such run, or None."""
    if way == "neighbor":
        try:
            import pyg_lib  # noqa: F401
        except ImportError:
            return "pyg-lib is not installed"
    if way == "layerwise" and FANOUTS[model][0] == FANOUTS[model][1]:
        return "one sample for two layers is exact"
    return None


def run(graph: Graph, name: str, way: str, seed: int, steps: int) -> dict[str, Any]:
    """Trains a model; returns its accuracy and learning curve."""
    train, test = graph.split(seed)
    torch.manual_seed(seed)
    model = MODELS[name](graph.width, graph.num_classes)
    if way in ("unbiased", "layerwise"):
        gttf_pyg.unbiased(model)
    whole = Whole(model, graph)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    batches = _full(train) if way == "full" else _sampled(graph, name, way, train)
    curve, seconds = [], 0.0
    for step in range(1, steps + 1):
        begin = time.perf_counter()
        node, edges, seeds = next(batches)
        model.train()
        out = (whole if edges is None else model)(graph.rows(node), edges)[seeds]
        loss = F.cross_entropy(out, graph.y[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seconds += time.perf_counter() - begin
        if step % EVERY == 0 or step == steps:
            found = _accuracy(whole, graph, test)
            curve.append([step, round(loss.item(), 4), round(found, 2)])
    return {"test": curve[-1][2], "curve": curve, "ms": round(1e3 * seconds / steps, 2)}


Batch = tuple[Tensor | None, Any, Any]  # nodes, edges, where the seeds are


def _full(train: Tensor) -> Iterator[Batch]:
    """All nodes and all edges, for ever."""
    while True:
        yield None, None, train


def _sampled(graph: Graph, name: str, way: str, train: Tensor) -> Iterator[Batch]:
    """Neighbourhoods of all training nodes, drawn anew for every step."""
    data = Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)
    how: dict[str, Any] = {"input_nodes": train, "batch_size": len(train)}
    shared, deep = FANOUTS[name]
    if way == "neighbor":
        loader = NeighborLoader(data, shared, **how)
    elif way == "layerwise":
        loader = gttf_pyg.NeighborLoader(data, deep, layerwise=True, **how)
    else:
        loader = gttf_pyg.NeighborLoader(data, shared, **how)
    while True:
        for batch in loader:
            yield batch.n_id, batch.edge_index, slice(batch.batch_size)


class Whole:
    """A model on the whole graph.

    Most layers can do without normalising it anew in every step: they get a matrix that
    is, which makes the steps of the full batch several times faster.
    """

    def __init__(self, model: Any, graph: Graph) -> None:
        self.model, self.edges = model, graph.edge_index
        self.layers = [part for part in model.modules() if hasattr(part, "normalize")]
        if self.layers:
            self.edges = full_matrix(graph.edge_index, graph.num_nodes, normalized=True)

    def __call__(self, x: Tensor, edges: None = None) -> Tensor:
        for layer in self.layers:
            layer.normalize = False
        out: Tensor = self.model(x, self.edges)
        for layer in self.layers:
            layer.normalize = True
        return out


@torch.no_grad()
def _accuracy(whole: Whole, graph: Graph, test: Tensor) -> float:
    """Per cent of the test nodes whose class is found, on the whole graph."""
    whole.model.eval()
    found = whole(graph.rows()).argmax(1)
    return 100 * float((found[test] == graph.y[test]).double().mean())


def quiet() -> None:
    """Leaves out what is no news here."""
    warnings.filterwarnings("ignore", "Sparse CSR")
    warnings.filterwarnings("ignore", "Sparse invariant checks")
    kind = getattr(gttf_pyg, "SampledDegreeWarning", UserWarning)
    warnings.filterwarnings("ignore", category=kind)  # one way is about that
