"""Our models in `gttf bench embedding`, and PyG's loss on our walks."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from gttf_sampler import embedding, use_backend
from gttf_sampler.bench import learning, peers
from gttf_sampler.bench.learning import Setting, Subject, timed
from gttf_sampler.embedding import Epoch

STEPS, PARTNERS, STRANGERS = 10, 5, 20  # and negatives of DeepWalk, Watch Your Step
NODE2VEC, DEEPWALK, WYS = "Node2Vec", "DeepWalk", "Watch Your Step"
# per method: epochs for one of Node2Vec, seeds of a batch, the rate of a loop with
# Adam, and what is different in `fit`
PACE: dict[str, tuple[int, int, float, dict[str, Any]]] = {
    DEEPWALK: (10, 512, 0.1, {}),
    WYS: (30, 2048, 0.03, {"lr": 0.1, "schedule": "linear"}),
}
PAIRS = {
    DEEPWALK: sum(STEPS - k + 1 for k in range(1, learning.WINDOW + 1)) + PARTNERS,
    WYS: STEPS + STRANGERS,
}


def subjects() -> dict[str, Subject]:
    """By name, the fastest first in every method."""
    host = "PyG"
    if peers.load("torch_geometric") is not None:
        host = peers.label("torch_geometric")
    found: dict[str, tuple[str, Callable[[Setting], list[Epoch]]]] = {
        "gttf_pyg.Node2Vec.fit": (NODE2VEC, _fit_node2vec),
        "gttf_pyg.Node2Vec.fit, hogwild": (
            NODE2VEC,
            lambda setting: _fit_node2vec(setting, hogwild=True),
        ),
        "gttf_pyg.Node2Vec, SparseAdam": (
            NODE2VEC,
            lambda setting: _pyg_loop(setting, lambda model, b: model.loss(*b)),
        ),
        f"{host} Node2Vec.loss, SparseAdam": (
            NODE2VEC,
            lambda setting: _pyg_loop(setting, _host_loss),
        ),
    }
    for method in (DEEPWALK, WYS):
        name = f"gttf {method.replace(' ', '')}"
        found[f"{name}.fit"] = method, _fitting(method)
        found[f"{name}, Adam"] = method, _looping(method, "auto")
        found[f"{name}, Adam, looked up by torch"] = method, _looping(method, "torch")
    needs = {NODE2VEC: ("torch_geometric",)}
    return {
        name: Subject(method, train, needs.get(method, ()))
        for name, (method, train) in found.items()
    }


def _node2vec(setting: Setting) -> Any:
    """PyG's model as in its example; vectors start as small as those of ours."""
    torch.manual_seed(setting.seed)
    shape = setting.size, learning.LENGTH, learning.CONTEXT, learning.WALKS
    how = {"num_nodes": setting.split.num_nodes, "sparse": True}
    how["num_negative_samples"] = learning.NEGATIVES
    model = import_module("gttf_pyg").Node2Vec(setting.split.train, *shape, **how)
    nn.init.normal_(model.embedding.weight, std=0.1)
    return model


def _fit_node2vec(setting: Setting, **how: Any) -> list[Epoch]:
    model = _node2vec(setting)
    how |= {"batch_size": learning.BATCH, "lr": learning.RATE}
    return _fit(setting, model, setting.epochs, **how)


def _host_loss(model: Any, batch: Any) -> Tensor:
    """PyG's own code on a batch of ours."""
    loss: Tensor = import_module("torch_geometric.nn").Node2Vec.loss(model, *batch)
    return loss


def _pyg_loop(setting: Setting, loss: Callable[[Any, Any], Tensor]) -> list[Epoch]:
    """The loop of PyG's example."""
    model = _node2vec(setting)
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=learning.RATE)
    windows = learning.LENGTH - learning.CONTEXT + 1
    pairs = setting.split.num_nodes * learning.WALKS * windows * (learning.CONTEXT - 1)

    def epoch() -> float:
        batches = model.loader(batch_size=learning.BATCH, shuffle=True)
        return _steps(optimizer, batches, lambda batch: loss(model, batch))

    how = epoch, pairs * (1 + learning.NEGATIVES), model._link_score
    return timed(setting, setting.epochs, *how)


def _model(setting: Setting, method: str) -> Any:
    """Ours as it comes: one plain walk of ten steps per node."""
    torch.manual_seed(setting.seed)
    if method == WYS:
        steps = [1] * STEPS
        return embedding.WatchYourStep(setting.rows(), setting.size, steps, STRANGERS)
    shape = setting.size, learning.WINDOW, [1] * STEPS, PARTNERS
    return embedding.DeepWalk(setting.rows(), *shape)


def _fitting(method: str) -> Callable[[Setting], list[Epoch]]:
    times, batch, lr, other = PACE[method]

    def train(setting: Setting) -> list[Epoch]:
        how: dict[str, Any] = {"batch_size": batch, "lr": lr, **other}
        return _fit(setting, _model(setting, method), times * setting.epochs, **how)

    return train


def _looping(method: str, backend: str) -> Callable[[Setting], list[Epoch]]:
    """A loop with torch's Adam, the loss by compiled code or by torch."""
    times, batch, lr, _ = PACE[method]

    def train(setting: Setting) -> list[Epoch]:
        model = _model(setting, method)
        optimizer = torch.optim.Adam(model.parameters(), lr=lr)

        def loss(forest: Any) -> Tensor:
            with use_backend(backend):
                value: Tensor = model.loss(forest)
                return value

        def epoch() -> float:
            forests = model.loader(batch_size=batch, shuffle=True)
            return _steps(optimizer, forests, loss)

        pairs = PAIRS[method] * setting.split.num_nodes
        return timed(setting, times * setting.epochs, epoch, pairs, model.score)

    return train


def _steps(
    optimizer: torch.optim.Optimizer, batches: Any, loss: Callable[[Any], Tensor]
) -> float:
    """One epoch of any loop; the mean of its losses."""
    values = []
    for batch in batches:
        optimizer.zero_grad()
        value = loss(batch)
        value.backward()
        optimizer.step()
        values.append(value.item())
    return sum(values) / max(1, len(values))


def _fit(setting: Setting, model: Any, epochs: int, **how: Any) -> list[Epoch]:
    """The epochs of `fit`."""
    how |= {"valid": setting.split, "generator": setting.seed, "progress": False}
    found: list[Epoch] = model.fit(epochs, **how)
    return found
