"""The ways to train on PyG: full batch, GTTF, and PyG's own loader where it runs."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader

from examples.reproduce import models_pyg, samplers
from examples.reproduce.attention import Attention
from examples.reproduce.config import Method
from examples.reproduce.data import Dataset
from examples.reproduce.learner import Learner, Step, batches_of
from examples.reproduce.sparse import Matrix
from examples.reproduce.weights import HostWeights, close_leaves
from gttf_pyg import GTTFLoader
from gttf_sampler import CompactAdj
from gttf_sampler.embedding.links import components

UNWEIGHTED = ("gat", "sage")  # their layers take no edge weights
NORMALIZED = ("gcnii", "mixhop")  # their layers take the weights as they are
MATRIX = ("gcnii", "mixhop", "sgc", "sage")  # multiply with a matrix in full batches


def missing(way: str) -> str | None:
    """Why a way cannot be gone here, or None."""
    if way == "neighbor" and not (find_spec("pyg_lib") or find_spec("torch_sparse")):
        return "PyG's NeighborLoader needs pyg-lib or torch-sparse"
    return samplers.missing(way)


def learner(name: str, method: Method, data: Dataset, way: str, seed: int) -> Learner:
    """A model of PyG and one way to train it."""
    torch.manual_seed(seed)
    if name == "sgc" and way == "full":  # what it propagates never changes
        method = replace(method, options={**method.options, "cached": True})
    model = models_pyg.MODELS[name](data.features.width, data.num_classes, method)
    whole = data.edge_index
    if name in MATRIX:
        size, normalized = data.num_nodes, name in NORMALIZED
        whole = models_pyg.full_matrix(data.edge_index, size, normalized)
    if name == "gcnii":
        whole = Matrix(whole, whole)  # the graph has both directions of its edges

    def logits(dropout: float = 0.0) -> Tensor:
        return model(data.features.rows(dropout=dropout), whole, None)

    def full() -> Iterator[Step]:
        yield Step(logits(method.dropout)[data.train], data.train, data.num_nodes)

    if way == "full":
        steps = seen_steps(model, method, data) if name == "gcnii" else full
        return Learner(model, steps, logits)
    if way in samplers.WAYS:
        return other_learner(model, method, data, way, seed)
    attention = None
    if way == "attention":
        attention = Attention([model.first, model.last], data, method.fanouts[0])
    loader = loader_of(name, method, data, way, seed, attention)

    def sampled() -> Iterator[Step]:
        if attention is not None:
            attention.refresh()
        for batch in loader:
            if attention is not None:
                attention.use(batch.e_id, batch.num_nodes)
            x = data.features.rows(batch.n_id, method.dropout)
            weight = batch.edge_weight if "edge_weight" in batch else None
            out = model(x, batch.edge_index, weight)[: batch.batch_size]
            yield Step(out, batch.n_id[: batch.batch_size], batch.num_nodes)

    def exact() -> Tensor:
        if attention is not None:
            attention.use(None)
        return logits()

    return Learner(model, sampled, exact)


def seen_steps(
    model: torch.nn.Module, method: Method, data: Dataset
) -> Callable[[], Iterator[Step]]:
    """Full batches of all nodes that training nodes can see, however deep the model.

    What is left out, other components, has no part in the loss: two thirds of CiteSeer
    are enough, and so is the time that they take.
    """
    component = components(data.edge_index, data.num_nodes)
    seen = torch.isin(component, component[data.train])
    node = seen.nonzero().view(-1)
    local = seen.cumsum(0) - 1
    edge_index = local[data.edge_index[:, seen[data.edge_index[0]]]]
    part = models_pyg.full_matrix(edge_index, node.numel(), normalized=True)

    def steps() -> Iterator[Step]:
        x = data.features.rows(node, method.dropout)
        out = model(x, Matrix(part, part), None)[local[data.train]]
        yield Step(out, data.train, node.numel())

    return steps


def other_learner(
    model: torch.nn.Module, method: Method, data: Dataset, way: str, seed: int
) -> Learner:
    """A GCN trained with layer sampling or GraphSAINT."""
    degree = torch.bincount(data.edge_index[1], minlength=data.num_nodes)
    ones = torch.ones(data.edge_index.shape[1])
    whole = samplers.with_loops(data.edge_index, degree, ones)
    if way in samplers.LAYERWISE:  # weights of a sample do not sum to one: keep them
        model.first.normalize = model.last.normalize = False
    drawn = samplers.batches(method, data, way, seed)

    def sampled() -> Iterator[Step]:
        batch = next(drawn)
        x = data.features.rows(batch.node, method.dropout)
        out = model(x, batch.edge_index, batch.weight)[: batch.size]
        yield Step(out, batch.node[: batch.size], batch.node.numel())

    def logits() -> Tensor:
        if way in samplers.LAYERWISE:
            return model(data.features.rows(), *whole)
        return model(data.features.rows(), data.edge_index, None)

    return Learner(model, sampled, logits)


def loader_of(
    name: str,
    method: Method,
    data: Dataset,
    way: str,
    seed: int,
    attention: Attention | None = None,
) -> NeighborLoader:
    """The loader of a way; all training nodes are one batch, but on large graphs."""
    graph = Data(edge_index=data.edge_index, num_nodes=data.num_nodes)
    how = {"input_nodes": data.train, **batches_of(method, data)}
    if way == "neighbor":
        return NeighborLoader(graph, list(method.fanouts), **how)
    how["seed"] = seed
    if attention is not None:
        how.update(bias=attention.bias, replace=True)
    if name not in UNWEIGHTED:
        how["normalize"] = "unbiased"
    if method.leaves == "closed":
        how["transform"] = close_leaves
    elif name not in UNWEIGHTED:
        adj = CompactAdj.from_edge_index(data.edge_index, data.num_nodes)
        how["transform"] = HostWeights(adj)
    return GTTFLoader(graph, list(method.fanouts), **how)
