"""The state of a run of `fit` as a file, from which it goes on exactly."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gttf_sampler import _check, _files
from gttf_sampler._loading.state import described
from gttf_sampler.embedding.settings import Epoch, Options, Task

if TYPE_CHECKING:
    from gttf_sampler.embedding.fit import Run

VERSION = 2
Place = str | PathLike[str]
OWN = "must be a file that 'fit' has written"
NAMES = (
    *("optimizer", "lr", "weight_decay", "batch_size", "schedule", "hogwild"),
    *("valid", "patience"),
)


def save(path: Place, run: Run) -> None:
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


def load(path: Place | None, run: Run) -> None:
    """Puts a run where the file was written; refuses the file of another one.

    The model changes last, when nothing can be refused any more.
    """
    file = _check.path("checkpoint", path)
    if not file.is_file():
        _check.fail("checkpoint", "must be a file that is there", file)
    state = _read(file)
    _same_settings(state, run)
    part = "key"
    try:
        key = int(state[part], 16)
        part = "history"
        history = [Epoch(*epoch) for epoch in state[part]]
        sum(epoch.loss + epoch.seconds + epoch.pairs for epoch in history)
        part = "model"
        _check_alike(state[part], run.task.model.state_dict())
        part = "best"
        if state[part] is not None:
            _check_alike(state[part], run.task.model.state_dict())
        part = "optimizer"
        run.optimizer.restore(state[part])
    except Exception:  # whatever a file that is damaged leads to
        _check.fail("checkpoint", OWN, f"{file}, whose {part!r} is damaged")
    run.key = run.optimizer.key = key
    run.history, run.best = history, state["best"]
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
