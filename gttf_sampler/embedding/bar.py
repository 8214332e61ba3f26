"""The progress of `fit`, where somebody can see it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from typing import Any

from gttf_sampler.embedding.settings import Options, Show


@contextmanager
def bar(
    batches: int, epoch: int, options: Options
) -> Iterator[Callable[[float, int], None]]:
    """Shows loss and pairs per second where tqdm is installed, on a terminal."""
    if callable(options.progress):
        yield _telling(options.progress, batches, epoch, options.epochs)
        return
    if options.progress is False or find_spec("tqdm") is None:
        yield lambda loss, pairs: None
        return
    hidden = None if options.progress is None else False
    name, start = f"epoch {epoch + 1}/{options.epochs}", time.perf_counter()
    how: dict[str, Any] = {"leave": False, "disable": hidden, "unit": "batch"}
    with import_module("tqdm").tqdm(total=batches, desc=name, **how) as line:

        def show(loss: float, pairs: int) -> None:
            line.update()
            if not line.disable:
                pace = pairs / max(1e-9, time.perf_counter() - start) / 1e6
                shown = f"loss {loss:.4g}, {pace:.1f} M pairs/s"
                line.set_postfix_str(shown, refresh=False)

        yield show


def _telling(
    told: Show, batches: int, epoch: int, epochs: int
) -> Callable[[float, int], None]:
    """Tells a function how far a run has come."""
    done = count(1)

    def show(loss: float, pairs: int) -> None:
        told((epoch + next(done) / max(1, batches)) / epochs, loss, pairs)

    return show
