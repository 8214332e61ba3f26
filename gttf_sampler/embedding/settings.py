"""Options of `fit` and their checks, and the file from which a run goes on exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from gttf_sampler import _check, _files
from gttf_sampler._backends.pairs import RULES
from gttf_sampler._loading.state import described
from gttf_sampler.embedding.links import LinkSplit, Score
from gttf_sampler.random import Randomness

if TYPE_CHECKING:
    from gttf_sampler.embedding.fit import Run

Schedule = Callable[[float], float]  # the share of an lr, by the share of all steps
Show = Callable[[float, float, int], None]  # share of all epochs, loss, pairs
VERSION = 2
OWN = "must be a file that 'fit' has written"
NAMES = (
    *("optimizer", "lr", "weight_decay", "batch_size", "schedule", "hogwild"),
    *("valid", "patience"),
)
SCHEDULES: dict[str, Schedule] = {
    "constant": lambda share: 1.0,
    "linear": lambda share: 1.0 - share,
    "cosine": lambda share: 0.5 + 0.5 * math.cos(math.pi * share),
}


class Epoch(NamedTuple):
    """Record of an epoch of `fit`.

    Attributes:
        loss: the mean over its batches.
        seconds: how long it took, without the test on held-out edges.
        pairs: how many pairs of vectors were multiplied, negatives included.
        auc: of held-out edges after it; None if none are held out.
    """

    loss: float
    seconds: float
    pairs: int
    auc: float | None


class Task(NamedTuple):
    """A model and the functions that `fit` trains it with."""

    model: nn.Module  # all parameters that want a gradient are trained
    tables: dict[str, nn.Embedding]  # of vectors, by name
    batches: Callable[[int, torch.Generator], Any]  # an epoch, by the size of a batch
    loss: Callable[[Any], Tensor]  # of a batch, []
    score: Score  # of pairs [2, e], for held-out edges
    allocate: Callable[[str, torch.Size, torch.dtype], Tensor]  # what optimizers keep
    settings: Callable[[], dict[str, Any]]  # all else that a run depends on, by name


class Options(NamedTuple):
    """The arguments of `fit`; see `WalkEmbedding.fit`."""

    epochs: int
    optimizer: str = "adam"
    lr: float = 0.01
    weight_decay: float = 0.0
    batch_size: int = 512
    schedule: str | Schedule = "constant"
    hogwild: bool = False
    valid: LinkSplit | None = None
    patience: int | None = None
    checkpoint: str | PathLike[str] | None = None
    resume: bool = False
    progress: bool | Show | None = None
    generator: Randomness = None


def check_options(options: Options) -> None:
    """Refuses options that make no sense."""
    _check.count("epochs", options.epochs)
    _check.one_of("optimizer", options.optimizer, RULES)
    _check.positive("lr", options.lr)
    if _check.finite("weight_decay", options.weight_decay) < 0:
        _check.fail("weight_decay", "must not be negative", options.weight_decay)
    _check.count("batch_size", options.batch_size)
    if not callable(options.schedule):
        _check.one_of("schedule", options.schedule, tuple(SCHEDULES))
    _check.yes_or_no("hogwild", options.hogwild)
    _check.yes_or_no("resume", options.resume)
    if options.valid is not None:
        _check.of_type("valid", options.valid, LinkSplit)
    if options.patience is not None:
        _check.count("patience", options.patience)
        if options.valid is None:
            _check.fail("patience", "needs 'valid' edges to look at", options.patience)
    _check.randomness(options.generator)
    if options.checkpoint is not None:  # now, not after the first epoch
        file = _check.path("checkpoint", options.checkpoint)
        _files.check_free("checkpoint", file, force=True)
    elif options.resume:
        _check.fail("resume", "needs a 'checkpoint'", "none")


def check_table(name: str, table: Any) -> None:
    """Refuses tables that do more than to hold vectors, or hold none."""
    plain = type(table) is nn.Embedding and table.padding_idx is None
    if not plain or table.max_norm is not None or table.scale_grad_by_freq:
        rule = "must be a plain torch.nn.Embedding"
        _check.fail(name, rule, repr(table), "train it with an optimizer of torch")
    if not table.num_embeddings:
        _check.fail("num_nodes", "must be at least 1 for 'fit'", 0)


def save(path: str | PathLike[str], run: Run) -> None:
    """Writes all that the next epoch depends on, in the place of an older file."""
    state = {
        "version": VERSION,
        "settings": run.settings,
        "generator": _number(run.options.generator),
        "key": hex(run.key),
        "model": run.task.model.state_dict(),
        "optimizer": run.optimizer.saved(),
        "history": [tuple(epoch) for epoch in run.history],
        "best": run.best,
    }
    with _files.replacing(path) as (file,):
        torch.save(state, file)


def load(path: str | PathLike[str] | None, run: Run) -> None:
    """Puts a run where the file was written; refuses the file of another run."""
    file = _check.path("checkpoint", path)
    if not file.is_file():
        _check.fail("checkpoint", "must be a file that is there", file)
    state = _read(file)
    _same_settings(state, run)
    own, part = run.task.model.state_dict(), "key"
    try:
        key = int(state[part], 16)
        part = "history"
        history = [Epoch(*epoch) for epoch in state[part]]
        sum(epoch.loss + epoch.seconds + epoch.pairs for epoch in history)
        for part in ("model", "best"):
            if part == "model" or state[part] is not None:
                _check_alike(state[part], own)
        part = "optimizer"
        run.optimizer.restore(state[part])
    except Exception:  # whatever a file that is damaged leads to
        _check.fail("checkpoint", OWN, f"{file}, whose {part!r} is damaged")
    run.key = run.optimizer.key = key
    run.history, run.best = history, state["best"]
    # last, when nothing can be refused any more
    run.task.model.load_state_dict(state["model"])


def _read(file: Path) -> dict[str, Any]:
    """The state in a file, which must be of this version."""
    try:
        state: dict[str, Any] = torch.load(file, weights_only=True)
        version, found = state["version"], state.keys()
    except Exception:  # torch.load raises nearly everything
        _check.fail("checkpoint", OWN, file)
    if version != VERSION:
        cure = "go on with the version of gttf-sampler that has written it"
        rule = f"must have version {VERSION}"
        _check.fail("checkpoint", rule, f"version {version!r} in {file}", cure)
    parts = "settings", "generator", "key", "model", "optimizer", "history", "best"
    missing = [name for name in parts if name not in found]
    if missing or not isinstance(state["settings"], dict):
        name = missing[0] if missing else "settings"
        _check.fail("checkpoint", OWN, f"{file}, whose {name!r} is damaged")
    return state


def _same_settings(state: dict[str, Any], run: Run) -> None:
    """Refuses the file of a run that is not this one, by the first difference."""
    then, now = state["settings"], run.settings
    for name in (*now, *then):
        if name not in then or name not in now or then[name] != now[name]:
            rule = f"must be {then.get(name)!r}, as in the checkpoint"
            _check.fail(name, rule, repr(now.get(name)))
    number = _number(run.options.generator)
    if number is not None and state["key"] != hex(run.key):
        rule = f"must be {state['generator']!r}, as in the checkpoint, or left out"
        _check.fail("generator", rule, repr(number))


def _check_alike(found: dict[str, Any], own: dict[str, Any]) -> None:
    """Raises unless a state has the tensors of the model, in their shapes."""
    if found.keys() != own.keys():
        raise ValueError(found.keys())
    for name, value in own.items():
        other = found[name]
        if other.shape != value.shape or other.dtype != value.dtype:
            raise ValueError(name)


def _number(generator: Any) -> int | None:
    """A generator that is a number, which can be told from others."""
    return None if isinstance(generator, torch.Generator) else generator


def settings(task: Task, options: Options) -> dict[str, Any]:
    """The settings that a run cannot change when it goes on, by name."""
    found = task.settings()
    for name, table in task.tables.items():
        found[name] = f"{list(table.weight.shape)}, {table.weight.dtype}"
    found |= {name: described(getattr(options, name)) for name in NAMES}
    if options.schedule != "constant":
        found["epochs"] = options.epochs  # of which the schedule depends
    return found
