"""The choice of the backend that runs the hot loops."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from logging import getLogger
from types import ModuleType

import torch

from gttf_sampler import _check
from gttf_sampler._backends.compiling import has_kernels, pending, ready
from gttf_sampler._compat import is_compiling

BACKENDS = ("auto", "numba", "torch", "triton")
MISSING = "numba is not installed; get it with: pip install numba"
OLDEST_TRITON = "3.7.1"  # older ones do not compile draws by weight

_log = getLogger(__name__)
_wanted = "auto"


def set_backend(name: str) -> None:
    """Chooses what runs the hot loops; results are the same, bit for bit.

    "auto" takes numba for tensors on the CPU and Triton for those on a GPU, if they are
    installed, and torch for all others. "numba" and "triton" insist on theirs; "torch"
    does without both. Triton's interpreter (TRITON_INTERPRET=1 in the environment, for
    tests) makes "triton" run on the CPU.
    """
    global _wanted
    _check.one_of("name", name, BACKENDS)
    if name == "numba" and _numba_ops() is None:
        raise ImportError(MISSING)
    if name == "triton":
        if _triton_ops() is None:
            raise ImportError(no_triton())
        if not _interpreted() and not torch.cuda.is_available():
            cure = "set TRITON_INTERPRET=1 for tests on the CPU"
            _check.fail("name", "must be another where torch finds no GPU", name, cure)
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


def backend_info(device: str = "cpu") -> str:
    """Names the backend that runs on tensors of a device now, and says why.

    >>> import gttf_sampler
    >>> with gttf_sampler.use_backend("torch"):
    ...     print(gttf_sampler.backend_info())
    torch ..., ... thread(s): chosen by set_backend('torch')

    Args:
        device: "cpu" or "cuda".
    """
    where = torch.device(_check.one_of("device", device, ("cpu", "cuda")))
    fast = fast_backend(where)
    threads = f", {torch.get_num_threads()} thread(s)" if device == "cpu" else ""
    chosen = f"chosen by set_backend({_wanted!r})"
    if fast is None:
        why = chosen
        if _wanted != "torch":
            why = MISSING if device == "cpu" else _why_not_triton()
        return f"torch {torch.__version__}{threads}: {why}"
    name = "numba" if fast is _numba_ops() else "triton"
    why = chosen if _wanted == name else "it is installed"
    if name == "triton" and _interpreted():
        name, why = "triton's interpreter", f"{why}, for tests"
    version = import_module(name.partition("'")[0]).__version__
    waits = ", ".join(pending()) if name == "numba" and _wanted == "auto" else ""
    later = f"; torch until another process has compiled: {waits}" if waits else ""
    return f"{name} {version}{threads}: {why}{later}"


def fast_backend(device: torch.device, op: str | None = None) -> ModuleType | None:
    """The module with compiled functions for tensors on `device`, if there is one.

    None for torch.compile, which fuses the reference, and while another process
    compiles the kernels of `op`, unless numba was insisted on.
    """
    if _wanted == "torch" or is_compiling():
        return None
    if device.type == "cpu":
        if _wanted == "auto" and op is not None and _has_numba() and not ready(op):
            return None
        return _triton_ops() if _wanted == "triton" and _interpreted() else _numba_ops()
    if device.type != "cuda" or _wanted == "numba":
        return None
    if _wanted == "triton":
        return _triton_ops()
    return _automatic_triton() if torch.cuda.is_available() else None


def _interpreted() -> bool:
    """True if Triton's kernels run in its interpreter."""
    return find_spec("triton") is not None and bool(
        import_module("triton").knobs.runtime.interpret
    )


def _why_not_triton() -> str:
    """Why torch runs on GPUs."""
    if _triton_ops() is None:
        return no_triton()
    if _wanted == "numba":
        return "set_backend('numba') leaves GPUs to torch"
    return "there is no GPU"


@cache
def _triton_ops() -> ModuleType | None:
    """The Triton backend, imported when it is first needed."""
    if no_triton():
        return None
    return import_module("gttf_sampler._backends.triton")


@cache
def _automatic_triton() -> ModuleType | None:
    """The Triton backend; tells once of one that is there and too old."""
    if _triton_ops() is None and find_spec("triton") is not None:
        _log.warning("torch samples on the GPU: %s", no_triton())
    return _triton_ops()


def no_triton() -> str:
    """Why the Triton backend cannot be used, and the cure; empty where it can."""
    cure = f"torch 2.13 for CUDA brings {OLDEST_TRITON}"
    if find_spec("triton") is None:
        return f"triton {OLDEST_TRITON} or newer is not installed; {cure}"
    found = import_module("triton").__version__
    if _numbers(found) < _numbers(OLDEST_TRITON):
        return f"triton must be {OLDEST_TRITON} or newer (got {found}); {cure}"
    return ""


def _numbers(version: str) -> list[int]:
    """The three numbers that a version begins with."""
    return [int(part) for part in re.findall(r"\d+", version)[:3]]


@cache
def _numba_ops() -> ModuleType | None:
    """The numba backend, imported when it is first needed."""
    if not _has_numba():
        return None
    try:
        found = import_module("gttf_sampler._backends.numba")
    except Exception as error:  # a broken llvmlite raises nearly everything
        _log.warning("torch samples on the CPU, slower: numba does not load: %s", error)
        return None
    if not has_kernels():
        _log.warning("compiling the CPU kernels: half a minute, once on this machine")
    return found


@cache
def _has_numba() -> bool:
    """True if numba is installed."""
    return find_spec("numba") is not None
