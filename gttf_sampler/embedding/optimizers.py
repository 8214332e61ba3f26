"""Tables of vectors, in memory or in files, and optimizers of the rows in use.

torch's own want a gradient as large as the table, or a sparse tensor that they sort and
copy first; they keep their state in memory, and round bfloat16 to the nearest number,
by which small steps are lost. So rows are changed here, in one compiled pass over those
that have a gradient.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from itertools import count
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import ops
from gttf_sampler._backends.memory import empty
from gttf_sampler._backends.pairs import RowGradients, Rule
from gttf_sampler._backends.torch.pairs import join
from gttf_sampler.objectives.scores import Owed
from gttf_sampler.random import fold

KEPT = {"sgd": 0, "adagrad": 1, "adam": 2}  # numbers per number of a vector
EPS = {"sgd": 0.0, "adagrad": 1e-10, "adam": 1e-8}
BETAS = 0.9, 0.999
DENSE: dict[str, Any] = {
    "sgd": torch.optim.SGD,
    "adagrad": torch.optim.Adagrad,
    "adam": torch.optim.Adam,
}
SUFFIX = ".gttf-vectors"  # of files that are ours to write over

Allocate = Callable[[str, torch.Size, torch.dtype], Tensor]


def folder_of(value: str | PathLike[str] | None) -> Path | None:
    """`storage` as a folder that is there; None for memory."""
    if value is None:
        return None
    folder = Path(_check.path("storage", value))
    if folder.exists() and not folder.is_dir():
        _check.fail("storage", "must be a folder", folder)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def zeros(
    folder: Path | None, name: str, shape: torch.Size, dtype: torch.dtype
) -> Tensor:
    """A table of zeros; with a folder, in a new file there that takes no room yet.

    What does not fit into memory is written back by the system, row by row. An older
    file of the same name is removed; who has it open keeps what they see.
    """
    numbers = math.prod(shape)
    nbytes = numbers * dtype.itemsize
    if folder is None:
        _check.fits("embedding_dim", nbytes)
        return empty(numbers, dtype).zero_().view(shape)
    place = folder / f"{name}{SUFFIX}"
    place.unlink(missing_ok=True)
    if (free := shutil.disk_usage(folder).free) < nbytes:
        rule = f"must have room for {nbytes:,} bytes"
        _check.fail("storage", rule, f"{free:,} in {folder}")
    how = {"shared": True, "size": numbers, "dtype": dtype}
    return torch.from_file(str(place), **how).view(shape)  # type: ignore[arg-type]


class RowOptimizer:
    """SGD, Adagrad or lazy Adam: torch's SGD, Adagrad and SparseAdam, row by row."""

    def __init__(
        self,
        kind: str,
        tables: dict[str, Tensor],  # [n, d], changed in place
        others: Sequence[Tensor],  # with dense gradients, for torch's own optimizers
        key: int,  # of the random numbers by which bfloat16 is rounded
        allocate: Allocate,  # what is kept per number of a vector, all zeros
        decay: float = 0.0,  # what rows of tables add to their gradients
    ) -> None:
        self.kind, self.key, self.decay = kind, key, decay
        self.names, self.tables = list(tables), list(tables.values())
        self.state: list[list[Tensor]] = []
        for name, table in tables.items():
            shape = table.shape, torch.promote_types(table.dtype, torch.float32)
            parts = [allocate(f"{name}.{part}", *shape) for part in range(KEPT[kind])]
            self.state.append([part.to(table.device) for part in parts])
        self.others = list(others)
        # `data` has a version of its own: another thread may be between its loss and
        # its gradient, where autograd refuses a parameter that has changed.
        self._values = [other.data for other in self.others]
        self.dense: Any = DENSE[kind](self._values, lr=1.0) if others else None
        self._lock = Lock()
        self._steps = count(1)
        self.steps = 0

    def step(
        self, owed: Sequence[Owed], dense: Sequence[Tensor | None], lr: float
    ) -> None:
        """Changes all rows that are owed something, and others by dense gradients."""
        self.steps = step = next(self._steps)  # one number for each of several threads
        rule = self._rule(step, lr)
        with torch.no_grad():
            for number, (rows, scale) in _by_table(owed).items():
                own = self.tables[number], self.state[number]
                ops.step_rows(rows, *own, rule._replace(scale=scale))
        if self.dense is not None:
            with self._lock:
                self._dense_step(dense, lr)

    def _dense_step(self, gradients: Sequence[Tensor | None], lr: float) -> None:
        """Changes the parameters with dense gradients."""
        for group in self.dense.param_groups:
            group["lr"] = lr
        for values, gradient in zip(self._values, gradients, strict=True):
            values.grad = gradient
        self.dense.step()
        self.dense.zero_grad()

    def _rule(self, step: int, lr: float) -> Rule:
        """Returns the update rule of step number `step`, from 1."""
        rate = lr
        if self.kind == "adam":
            first, second = (1 - beta**step for beta in BETAS)
            rate = lr * second**0.5 / first
        key = int(fold(self.key, step))
        how = self.kind, rate, *BETAS, EPS[self.kind], key
        return Rule(*how, decay=self.decay)

    def saved(self) -> dict[str, Any]:
        """All there is to know to go on later."""
        dense = None if self.dense is None else self.dense.state_dict()
        return {"steps": self.steps, "state": self.state, "dense": dense}

    def restore(self, saved: dict[str, Any]) -> None:
        """Goes on from what `saved` has returned."""
        self.steps = saved["steps"]
        self._steps = count(self.steps + 1)
        for own, kept in zip(self.state, saved["state"], strict=True):
            for mine, theirs in zip(own, kept, strict=True):
                mine.copy_(theirs.view_as(mine))
        if self.dense is not None:
            self.dense.load_state_dict(saved["dense"])


def _by_table(owed: Sequence[Owed]) -> dict[int, tuple[RowGradients, float]]:
    """The gradient of every table, and what to multiply it by."""
    found: dict[int, list[tuple[RowGradients, float]]] = {}
    for table, rows, scale in owed:
        found.setdefault(table, []).append((rows, scale))
    return {
        table: several[0] if len(several) == 1 else (join(several), 1.0)
        for table, several in found.items()
    }
