"""Training with patience; the test set is read once, where validation was best."""

import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from examples.reproduce.config import Method
from examples.reproduce.data import Dataset
from examples.reproduce.learner import Learner
from examples.reproduce.scores import loss_of, micro_f1

Report = Callable[[int, dict[str, float]], None]


def optimizer_of(learner: Learner, method: Method) -> torch.optim.Optimizer:
    """Adam or plain SGD; the convolutions of GCNII have a weight decay of their own."""
    groups: dict[float, list[Any]] = {}
    for name, parameter in learner.model.named_parameters():
        decay = method.weight_decay
        if name.startswith("convs."):
            decay = method.options.get("conv_decay", decay)
        groups.setdefault(decay, []).append(parameter)
    parts = [{"params": own, "weight_decay": decay} for decay, own in groups.items()]
    if "sgd" in method.options:
        return torch.optim.SGD(parts, lr=method.lr)
    return torch.optim.Adam(parts, lr=method.lr)


def rate(method: Method, epoch: int) -> float:
    """The factor of the first rate, for methods whose rate decays."""
    every = method.options.get("slower_every", method.epochs + 1)
    past = sum(epoch >= mark for mark in method.options.get("milestones", ()))
    return (1 - epoch // every / 100) * method.options.get("decay", 1.0) ** past


def train(
    learner: Learner, data: Dataset, method: Method, report: Report = lambda e, p: None
) -> tuple[dict[str, float], dict[str, Any]]:
    """Trains a classifier, which then has its best weights; as `run` returns it."""
    model, optimizer = learner.model, optimizer_of(learner, method)
    slower = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda e: rate(method, e))

    def losses() -> Iterator[tuple[Tensor, int]]:
        model.train()
        for step in learner.steps():
            loss = loss_of(step.logits, data.y[step.seeds])
            yield loss + learner.penalty(), step.nodes
        slower.step()

    def look(loss: float) -> dict[str, float]:
        return judge(learner, data, data.val, "val")

    best_state: dict[str, Any] = {}

    def keep() -> None:
        best_state.update(copy.deepcopy(model.state_dict()))

    found = run(method, optimizer, losses, look, report, method.watch, keep)
    model.load_state_dict(best_state)
    return found


def fit(
    learner: Learner, data: Dataset, method: Method, report: Report = lambda e, p: None
) -> dict[str, Any]:
    """Trains a classifier, reads the test set, and returns what is to be kept."""
    best, costs = train(learner, data, method, report)
    test = judge(learner, data, data.test, "test")["test"]
    kept = {name: best[name] for name in ("val", "val loss", "best epoch")}
    return {"test": test, **kept, **costs}


def run(
    method: Method,
    optimizer: torch.optim.Optimizer,
    losses: Callable[[], Iterator[tuple[Tensor, int]]],
    look: Callable[[float], dict[str, float]],
    report: Report,
    watched: str | None,
    keep: Callable[[], None] = lambda: None,
) -> tuple[dict[str, float], dict[str, Any]]:
    """Trains until the epochs or the patience are over.

    Args:
        method: how long, and how often to look.
        optimizer: of the parameters.
        losses: one epoch: per batch the loss, and the number of nodes that it saw.
        look: from the mean loss of an epoch to what is noted of the model then.
        report: told the number of an epoch and what was noted.
        watched: what must not get higher, or the patience ends; None to go on, and to
            take the last epoch for the best. Of two, "this and that", patience waits
            for either, and the best epoch has both as low as any before.
        keep: called in every epoch that is the best so far.

    Returns:
        what was noted in the best epoch, and seconds, nodes and the learning curve.
    """
    curve: list[dict[str, float]] = []
    best: dict[str, float] = {}
    lowest = dict.fromkeys(watched.split(" and ") if watched else (), float("inf"))
    hopeful = 0  # the last epoch in which something was as low as ever
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
        good = [curve[-1][name] <= low for name, low in lowest.items()]
        lowest = {name: min(low, curve[-1][name]) for name, low in lowest.items()}
        if all(good):
            best = {**curve[-1], "best epoch": epoch}
            keep()
        if any(good) or not lowest:
            hopeful = epoch
        elif epoch - hopeful >= method.patience:
            break
    return best, {
        "epochs": curve[-1]["epoch"],
        "train seconds": seconds,
        "ms per step": 1000 * seconds / steps,
        "nodes per step": nodes / steps,
        "curve": thinned(curve),
    }


@torch.no_grad()
def judge(learner: Learner, data: Dataset, node: Tensor, name: str) -> dict[str, float]:
    """Loss, accuracy and error in percent on some nodes, under these names."""
    learner.model.eval()
    logits = learner.logits()[node]
    right = 100 * micro_f1(logits, data.y[node])
    loss = loss_of(logits, data.y[node]).item()
    return {name: right, f"{name} loss": loss, f"{name} error": 100 - right}


def thinned(curve: list[dict[str, float]], points: int = 60) -> list[dict[str, float]]:
    """At most so many points of a curve, the last among them, rounded for the file."""
    step = -(-len(curve) // points)
    kept = curve[::-1][::step][::-1]
    return [{name: round(value, 4) for name, value in p.items()} for p in kept]
