"""The state of a run of `fit` as a file, from which it goes on exactly."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gttf_sampler import _check, _files
from gttf_sampler.embedding.settings import Epoch

if TYPE_CHECKING:
    from gttf_sampler.embedding.fit import Run

VERSION = 1
Place = str | PathLike[str]


def save(path: Place, run: Run) -> None:
    """Writes all that the next epoch depends on, in the place of an older file."""
    state = {
        "version": VERSION,
        "options": _options(run),
        "key": hex(run.key),
        "model": run.task.model.state_dict(),
        "optimizer": run.optimizer.saved(),
        "history": [tuple(epoch) for epoch in run.history],
        "best": run.best,
    }
    with _files.replacing(path) as (file,):
        torch.save(state, file)


def load(path: Place, run: Run) -> None:
    """Puts a run where the file was written; refuses the file of another one."""
    file = _check.path("checkpoint", path)
    if not Path(file).is_file():
        _check.fail("checkpoint", "must be a file that is there", file)
    try:
        state: dict[str, Any] = torch.load(file, weights_only=True)
        known = state["version"] == VERSION
    except Exception:  # torch.load raises nearly everything
        known = False
    if not known:
        _check.fail("checkpoint", "must be a file that 'fit' has written", file)
    options = _options(run)
    for name, value in state["options"].items():
        if options[name] != value:
            rule = f"must be {value!r}, as in the checkpoint"
            _check.fail(name, rule, repr(options[name]))
    run.key = run.optimizer.key = int(state["key"], 16)
    run.task.model.load_state_dict(state["model"])
    run.optimizer.restore(state["optimizer"])
    run.history = [Epoch(*epoch) for epoch in state["history"]]
    run.best = state["best"]


def _options(run: Run) -> dict[str, Any]:
    """The arguments that a run cannot change when it goes on."""
    options = run.options
    names = "optimizer", "lr", "weight_decay", "batch_size"
    found = {name: getattr(options, name) for name in names}
    named = isinstance(options.schedule, str)
    found["schedule"] = options.schedule if named else "a function"
    if options.schedule != "constant":
        found["epochs"] = options.epochs  # of which the schedule depends
    return found
