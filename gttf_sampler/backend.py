"""Which code runs the hot loops, and how to choose it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from logging import getLogger
from types import ModuleType

import torch

from gttf_sampler import _check

BACKENDS = ("auto", "numba", "torch")
MISSING = "numba is not installed; get it with: pip install 'gttf-sampler[fast]'"

_log = getLogger(__name__)
_wanted = "auto"


def set_backend(name: str) -> None:
    """Chooses what runs on CPU tensors; other devices always use torch.

    "auto" takes numba if it is installed, "numba" insists on it, "torch" does without.
    Results are the same, bit for bit.
    """
    global _wanted
    _check.one_of("name", name, BACKENDS)
    if name == "numba" and _numba_ops() is None:
        raise ImportError(MISSING)
    _wanted = name


@contextmanager
def use_backend(name: str) -> Iterator[None]:
    """`set_backend` for the length of a `with` block."""
    before = _wanted
    set_backend(name)
    try:
        yield
    finally:
        set_backend(before)


def backend_info() -> str:
    """What runs on CPU tensors now, and why.

    >>> import gttf_sampler
    >>> with gttf_sampler.use_backend("torch"):
    ...     print(gttf_sampler.backend_info())
    torch ..., ... thread(s): chosen by set_backend('torch')
    """
    threads = torch.get_num_threads()
    if fast_backend(torch.device("cpu")) is None:
        why = MISSING if _wanted == "auto" else "chosen by set_backend('torch')"
        return f"torch {torch.__version__}, {threads} thread(s): {why}"
    import numba

    why = "it is installed" if _wanted == "auto" else "chosen by set_backend('numba')"
    return f"numba {numba.__version__}, {threads} thread(s): {why}"


def fast_backend(device: torch.device) -> ModuleType | None:
    """The module with compiled functions for tensors on `device`, if there is one.

    None for torch.compile, which fuses the reference.
    """
    if _wanted == "torch" or device.type != "cpu" or torch.compiler.is_compiling():
        return None
    return _numba_ops()


@cache
def _numba_ops() -> ModuleType | None:
    """The numba backend, imported when it is first needed."""
    if find_spec("numba") is None:
        return None
    from gttf_sampler._backends import kernels, numba_ops

    if not kernels.cached():
        _log.warning("compiling the CPU kernels: half a minute, once on this machine")
    return numba_ops
