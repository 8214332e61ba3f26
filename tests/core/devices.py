"""The device that `pytest --device` names, as a context in which "cuda" is there."""

import warnings
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from unittest import mock

import pytest
import torch

import compiled
from paper import PaperStreams
from simulated import Accelerator


class Device:
    """Calls give a context; `syncs` of what that gives lists where the host waited.

    The simulated device counts every wait by rule. A real one tells of most of them,
    by `torch.cuda.set_sync_debug_mode`, and their number is torch's affair: tests of a
    number ask `exact`, those of none at all run on both.
    """

    def __init__(self, real: bool) -> None:
        self.real = real

    def __call__(self):
        return _real() if self.real else _simulated()

    def exact(self):
        """The context, for tests that count waits; skips where they are not exact."""
        if self.real:
            pytest.skip("waits are counted on the simulated device")
        return self()


@contextmanager
def _simulated():
    with Accelerator() as gpu, _kernels():
        gpu.streams = PaperStreams("cuda", gpu)
        own = {"cuda": gpu.streams}
        name = "gttf_sampler._backends.streams.cuda_streams"
        with mock.patch(name, lambda device: own.get(device.type)):
            yield gpu


def _kernels():
    """Triton's kernels as it compiles them, where that can be run."""
    return nullcontext() if compiled.why_not() else compiled.kernels()


@contextmanager
def _real():
    with warnings.catch_warnings(record=True) as waits:
        warnings.filterwarnings("ignore", "Synchronization debug mode is a prototype")
        warnings.filterwarnings("always", "called a synchronizing")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield SimpleNamespace(syncs=waits)
        finally:
            torch.cuda.set_sync_debug_mode("default")
