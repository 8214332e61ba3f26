"""Runs of loaders: in one go, or continued from a state in another process."""

import gc
import io
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch


def pairs(batch: Any) -> Any:
    """The indices with keys that a `collate_fn` of `SeededLoader` gets."""
    return batch.index, batch.key


def through_a_file(state: Any) -> Any:
    """The state as a later process reads it."""
    file = io.BytesIO()
    torch.save(state, file)
    return torch.load(io.BytesIO(file.getvalue()), weights_only=True)


def run(
    make: Callable[[], Any],
    stop: int | None = None,
    own: bool = False,
    after: bool = False,
    *,
    epochs: int = 3,
    told: Callable[[Any], Any] = lambda batch: batch,
) -> list[Any]:
    """The batches of all epochs, beside a user's own draws meanwhile.

    Args:
        make: makes the loader.
        stop: after so many batches the state is taken, and a loader of another process
            goes on from there.
        own: whether the loader leaves torch's default generator to the user.
        after: take the state after an epoch if it ends at `stop`, not inside its loop.
        epochs: how many there are.
        told: all that a batch holds, as what can be compared.
    """
    torch.manual_seed(7)
    np.random.seed(7)
    seen, epoch, loader = [], 0, make()
    while epoch < epochs:
        if hasattr(loader.sampler, "set_epoch"):
            loader.sampler.set_epoch(epoch)
        ended = True
        for batch in loader:
            seen.append((epoch, told(batch), torch.rand(()).item()))
            if len(seen) == stop and not (after and len(seen) % len(loader) == 0):
                ended = False
                break
        epoch += ended
        if len(seen) == stop:
            loader, stop = _restarted(loader, make, own), None
            assert loader.state_dict()["epoch"] == epoch
    loader._iterator = None  # ends workers now; the collector takes its time
    return seen


def _restarted(loader: Any, make: Callable[[], Any], own: bool) -> Any:
    """A loader of another process, where everything else was drawn meanwhile."""
    state, user = through_a_file([loader.state_dict(), torch.get_rng_state()])
    loader._iterator = None
    torch.manual_seed(1234)
    np.random.seed(1234)
    again = make()
    torch.rand(5)
    again.load_state_dict(state)
    assert str(again.state_dict()) == str(state)  # as long as nothing happens
    if own:
        torch.set_rng_state(user)
    return again


def threads() -> list[threading.Thread]:
    """The threads that stand in for workers."""
    return [thread for thread in threading.enumerate() if thread.name == "gttf-loader"]


def gone() -> bool:
    """True if all of these end soon."""
    gc.collect()
    deadline = time.monotonic() + 10
    while threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    return not threads()
