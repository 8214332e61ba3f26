"""Training with patience: the test accuracy where the validation loss was lowest."""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from examples.reproduce.config import Method
from examples.reproduce.data import Dataset
from examples.reproduce.learner import Learner


def optimizer_of(learner: Learner, method: Method) -> torch.optim.Optimizer:
    """Adam; the convolutions of GCNII have a weight decay of their own."""
    groups: dict[float, list[Any]] = {}
    for name, parameter in learner.model.named_parameters():
        decay = method.weight_decay
        if name.startswith("convs."):
            decay = method.options.get("conv_decay", decay)
        groups.setdefault(decay, []).append(parameter)
    parts = [{"params": own, "weight_decay": decay} for decay, own in groups.items()]
    return torch.optim.Adam(parts, lr=method.lr)


def fit(
    learner: Learner,
    data: Dataset,
    method: Method,
    report: Callable[[int, dict[str, float]], None] = lambda epoch, point: None,
) -> dict[str, Any]:
    """Trains, and returns what is to be kept: accuracy, seconds, the learning curve."""
    optimizer = optimizer_of(learner, method)
    curve: list[dict[str, float]] = []
    best = {"val loss": float("inf"), "epoch": 0.0, "test": 0.0}
    seconds, nodes, steps = 0.0, 0, 0
    for epoch in range(1, method.epochs + 1):
        begin = time.perf_counter()
        learner.model.train()
        losses = []
        for step in learner.steps():
            loss = F.cross_entropy(step.logits, data.y[step.seeds])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            nodes, steps = nodes + step.nodes, steps + 1
        seconds += time.perf_counter() - begin
        if epoch % method.every and epoch < method.epochs:
            continue
        point = {"epoch": epoch, "loss": sum(losses) / len(losses)}
        point.update(evaluate(learner, data))
        curve.append(point)
        report(epoch, point)
        if point["val loss"] < best["val loss"]:
            best = point
        elif epoch - best["epoch"] >= method.patience:
            break
    return {
        "test": best["test"],
        "val": best["val"],
        "best epoch": best["epoch"],
        "epochs": curve[-1]["epoch"],
        "train seconds": seconds,
        "ms per step": 1000 * seconds / steps,
        "nodes per step": nodes / steps,
        "curve": thinned(curve),
    }


@torch.no_grad()
def evaluate(learner: Learner, data: Dataset) -> dict[str, float]:
    """Validation loss, and accuracies in percent."""
    learner.model.eval()
    logits = learner.logits()
    right = (logits.argmax(1) == data.y).float()
    return {
        "val loss": F.cross_entropy(logits[data.val], data.y[data.val]).item(),
        "val": 100 * right[data.val].mean().item(),
        "test": 100 * right[data.test].mean().item(),
    }


def thinned(curve: list[dict[str, float]], points: int = 60) -> list[dict[str, float]]:
    """At most so many points of a curve, the last among them, rounded for the file."""
    step = -(-len(curve) // points)
    kept = curve[::-1][::step][::-1]
    return [{name: round(value, 4) for name, value in p.items()} for p in kept]
