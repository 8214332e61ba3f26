"""The single door to the hot code: which backend runs it, and what it runs.

Every module calls a function of this one, never a backend. Each of them has the
signature of its namesake in `torch`, the reference, and calls the one of the fast
backend instead if that has one for the tensors at hand.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from logging import getLogger
from types import ModuleType
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.cache import has_kernels
from gttf_sampler._backends.compiling import CompileError, give_up, pending, ready
from gttf_sampler._backends.record import Batch, Padded, Plan, RemoteWalkers, Rooted
from gttf_sampler._backends.torch import (
    aggregate,
    draw,
    dropout,
    forest,
    node2vec,
    pairs,
    rows,
)
from gttf_sampler._backends.torch import (
    gather as gathers,
)
from gttf_sampler._backends.torch import (
    relabel as labels,
)
from gttf_sampler._backends.torch.node2vec import SecondOrder
from gttf_sampler._compat import is_compiling
from gttf_sampler.random import Key

P = ParamSpec("P")
T = TypeVar("T")

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


def fast_backend(
    device: torch.device, op: str | None = None, size: int = 0
) -> ModuleType | None:
    """The module with compiled functions for tensors on `device`, if there is one.

    None for torch.compile, which fuses the reference, and while another process
    compiles the kernels of `op`, unless numba was insisted on. `size` is that of the
    first argument.
    """
    if _wanted == "torch" or is_compiling():
        return None
    if device.type == "cpu":
        gated = op if _wanted == "auto" and _has_numba() else None
        if gated is not None and not ready(gated, size):
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


def _door(reference: Callable[P, T]) -> Callable[P, T]:
    """`reference`, or its namesake in the fast backend for the first argument."""
    name = reference.__name__

    @wraps(reference)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        first = args[0]
        device = getattr(first, "device", None)  # of a tensor or a record of them
        size = first.numel() if isinstance(first, Tensor) else 0
        fast = None if device is None else fast_backend(device, name, size)
        found = getattr(fast, name, None)  # which may be a file of that name, too
        if not callable(found):
            return reference(*args, **kwargs)
        chosen: Callable[P, T] = found
        try:
            return chosen(*args, **kwargs)
        except CompileError as error:
            if _wanted == "numba":
                raise
            give_up(name, error)
            return reference(*args, **kwargs)

    return call


# what no backend has faster
arrive, compress, expand = forest.arrive, rows.compress, rows.expand
id_dtype, row_range, take = rows.id_dtype, rows.row_range, rows.take

additive_gradient = _door(aggregate.additive_gradient)
additive_score = _door(aggregate.additive_score)
as_gradient = _door(pairs.as_gradient)
both_ways = _door(rows.both_ways)
draw_alias = _door(pairs.draw_alias)
draw_node2vec = _door(node2vec.draw_node2vec)
draw_uniform = _door(draw.draw_uniform)
draw_weighted = _door(draw.draw_weighted)
drop = _door(dropout.drop)
edge_dot = _door(aggregate.edge_dot)
edge_filter = _door(rows.edge_filter)
gather = _door(gathers.gather)
group_by_row = _door(rows.group_by_row)
has_edge = _door(rows.has_edge)
pair_pass = _door(pairs.pair_pass)
pair_scores = _door(pairs.pair_scores)
read_all = _door(gathers.read_all)
relabel = _door(labels.relabel)
scatter_best = _door(aggregate.scatter_best)
segment_best = _door(aggregate.segment_best)
segment_softmax = _door(aggregate.segment_softmax)
segment_sum = _door(aggregate.segment_sum)
softmax_gradient = _door(aggregate.softmax_gradient)
sound = _door(aggregate.sound)
step_rows = _door(pairs.step_rows)
take_or_none = _door(rows.take_or_none)
upper_bound = _door(rows.upper_bound)
walk_forest = _door(forest.walk_forest)
weigh_node2vec = _door(node2vec.weigh_node2vec)
weight_table = _door(draw.weight_table)


# Calls for a whole batch that only fast backends have. They give None where they have
# none for what is asked: then steps are taken one by one, and come out the same.


@_door
def rooted(plan: Plan, batch: Batch) -> Rooted | None:
    """A batch in one call; `sample_hops` of `torch.hop` is the reference."""
    return None


@_door
def rooted_padded(plan: Plan, batch: Batch) -> Padded | None:
    """`rooted` with static shapes; `sample_padded` of `torch.hop` is the reference.

    No fanout is -1, every bias has a law, and the seeds are sound.
    """
    return None


@_door
def draw_for_remote(
    plan: Plan, batch: Batch, walkers: Sequence[RemoteWalkers]
) -> list[tuple[Tensor, Tensor, Tensor] | None] | None:
    """One hop: per relation how many edges each walker takes, these, and their nodes.

    None for a relation that takes nothing.
    """
    return None


@_door
def walk_node2vec(
    graph: SecondOrder, seeds: Tensor, length: int, key: Key, stays: bool
) -> list[tuple[Tensor, Tensor]] | None:
    """(edges, nodes) [b, 1] of every step of walks."""
    return None
