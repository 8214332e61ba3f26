"""Training with patience: the test accuracy where the validation loss was lowest."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from examples.reproduce.config import Method
from examples.reproduce.data import Dataset
from examples.reproduce.learner import Learner

Report = Callable[[int, dict[str, float]], None]


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
    learner: Learner, data: Dataset, method: Method, report: Report = lambda e, p: None
) -> dict[str, Any]:
    """Trains a classifier, and returns what is to be kept of it."""

    def losses() -> Iterator[tuple[Tensor, int]]:
        learner.model.train()
        for step in learner.steps():
            yield F.cross_entropy(step.logits, data.y[step.seeds]), step.nodes

    def look(loss: float) -> dict[str, float]:
        return evaluate(learner, data)

    optimizer = optimizer_of(learner, method)
    best, costs = run(method, optimizer, losses, look, report, "val loss")
    return {name: best[name] for name in ("test", "val", "best epoch")} | costs


def run(
    method: Method,
    optimizer: torch.optim.Optimizer,
    losses: Callable[[], Iterator[tuple[Tensor, int]]],
    look: Callable[[float], dict[str, float]],
    report: Report,
    watched: str | None,
) -> tuple[dict[str, float], dict[str, Any]]:
    """Trains until the epochs or the patience are over.

    Args:
        method: how long, and how often to look.
        optimizer: of the parameters.
        losses: one epoch: per batch the loss, and the number of nodes that it saw.
        look: from the mean loss of an epoch to what is noted of the model then.
        report: told the number of an epoch and what was noted.
        watched: what must get lower, or the patience ends; None to go on, and to take
            the last epoch for the best.

    Returns:
        what was noted in the best epoch, and seconds, nodes and the learning curve.
    """
    curve: list[dict[str, float]] = []
    best: dict[str, float] = {}
    seconds, nodes, steps = 0.0, 0, 0
    for epoch in range(1, method.epochs + 1):
        begin, seen = time.perf_counter(), []
        for loss, size in losses():
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen.append(loss.item())
            nodes, steps = nodes + size, steps + 1
        seconds += time.perf_counter() - begin
        if epoch % method.every and epoch < method.epochs:
            continue
        mean = sum(seen) / len(seen)
        curve.append({"epoch": epoch, "loss": mean, **look(mean)})
        report(epoch, curve[-1])
        if watched is None or not best or curve[-1][watched] < best[watched]:
            best = {**curve[-1], "best epoch": epoch}
        elif epoch - best["epoch"] >= method.patience:
            break
    return best, {
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
