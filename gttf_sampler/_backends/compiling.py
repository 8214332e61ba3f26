"""Kernels that another process compiles while the torch reference does the work.

Both give the same bits, so nobody has to wait for a compiler: until the kernels of an
operation are on disk, the reference answers, and a child process compiles them without
holding anybody's GIL. From then on, calls go to the kernels. Where they are on disk
already, a thread imports numba, which takes longer than a first batch.

Operations that add up floats do so in another order than the reference: their kernels
are compiled where they are called, unless `gttf warm` has compiled them ahead, so that
results do not depend on a compiler's pace.
"""

import os
import subprocess
import sys
import time
from contextlib import suppress
from importlib import import_module
from logging import getLogger
from pathlib import Path
from threading import Lock, Thread, current_thread
from typing import Any

from gttf_sampler._backends.cache import is_compiled, kernel_folder

GROUPS = {
    "build": ("both_ways", "group_by_row"),
    "dropout": ("drop",),
    "files": ("read_all",),
    "gather": ("gather",),
    "node2vec": ("draw_node2vec", "walk_node2vec", "weigh_node2vec"),
    "rooted": ("draw_for_remote", "rooted"),
    "rows": (
        *("edge_filter", "has_edge", "relabel", "take_or_none"),
        *("upper_bound", "weight_table"),
    ),
    "walks": ("draw_alias", "draw_uniform", "draw_weighted", "walk_forest"),
}
"""Operations whose kernels are compiled together, by another process."""

SUMS = {
    "aggregate": (
        *("additive_gradient", "additive_score", "edge_dot", "scatter_best"),
        *("segment_best", "segment_softmax", "segment_sum", "softmax_gradient"),
        "sound",
    ),
    "embed": ("as_gradient", "pair_pass", "pair_scores", "step_rows"),
}
"""Operations that add up floats, whose kernels only `gttf warm` compiles ahead."""

REFERENCE_ONLY = {"rooted_padded"}
"""Operations without kernels for CPUs, for which numba is not worth importing."""

HERE = "here"  # GTTF_COMPILE=here: compile in the process that calls, and wait
RETRY = 1.0  # seconds until a process looks again whether another one still compiles
BACKEND = "gttf_sampler._backends.numba"
MANY = 1 << 22  # edges to build a graph of: the reference takes longer than an import

_GROUP_OF = {op: group for group, ops in GROUPS.items() for op in ops}
_HERE = Path(__file__).parent
_log = getLogger(__name__)
_lock = Lock()
_ready: set[str] = set()
_failed: set[str] = set()
_children: dict[str, "subprocess.Popen[bytes]"] = {}
_asked: dict[str, float] = {}  # when a process was last asked for, by group
_broken: set[str] = set()  # operations of which a kernel did not compile here
_loading: Thread | None = None
_held: list[Any] = []  # numba's lock, while a process forks


class CompileError(ImportError):
    """A kernel that numba cannot compile here."""


def ready(op: str, size: int = 0) -> bool:
    """True if a call of `op` need not wait for a compiler; else has it compiled.

    A large graph, of `size` edges, is worth waiting for numba's import.
    """
    if op in _broken or op in REFERENCE_ONLY:
        return False
    group = _GROUP_OF.get(op)
    if group is None or os.environ.get("GTTF_COMPILE") == HERE:
        return True
    if group in _ready or is_compiled(group):
        _ready.add(group)
        return _loaded() or (group == "build" and size >= MANY)
    if group not in _failed:
        with _lock:
            _have_compiled(group, kernel_folder())
    return False


def give_up(op: str, why: object) -> None:
    """Leaves an operation to the reference; the first one is told of."""
    _warn(f"a kernel does not compile: {why}")
    _broken.add(op)


def _have_compiled(group: str, folder: Path | None) -> None:
    """Starts a process that compiles a group, unless there is one already."""
    if folder is None:
        _give_up(group, "there is no folder to keep kernels in; set NUMBA_CACHE_DIR")
        return
    child = _children.get(group)
    ended = child is not None and child.poll() is not None
    if ended and not is_compiled(group):
        _give_up(group, "kernels did not compile; see 'gttf warm'")
        return
    now = time.monotonic()
    if child is None and now - _asked.get(group, -RETRY) >= RETRY:
        _asked[group] = now
        try:
            started = _start(group, folder)
        except (OSError, ValueError) as error:
            _give_up(group, f"no process to compile kernels could be started: {error}")
            return
        if started is not None:
            _children[group] = started


def _give_up(group: str, why: str) -> None:
    _warn(why)
    _failed.add(group)


def _warn(why: str) -> None:
    """Tells once that there are no kernels, or not all of them."""
    if not _failed and not _broken:
        _log.warning("torch samples on the CPU, slower than numba would: %s", why)


def _start(group: str, folder: Path) -> "subprocess.Popen[bytes] | None":
    """A process that compiles a group; None if another one is about it.

    It inherits an open file that is locked, so that the lock ends with it.
    """
    held = os.open(folder / f"{group}.lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if not _locked(held):
            return None
        paths = [str(_HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
        ours = {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "PYTHONSAFEPATH": "1",  # files beside the user's program are no modules
            "GTTF_COMPILE": HERE,
        }
        return subprocess.Popen(
            [sys.executable, "-m", "gttf_sampler.cli", "warm", group],
            env={**os.environ, **ours},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # it finishes for the next run if this one ends
            pass_fds=(held,) if os.name == "posix" else (),
        )
    finally:
        os.close(held)


def _locked(file: int) -> bool:
    """Locks a file where locks are known; False if another process has locked it."""
    try:
        import fcntl
    except ImportError:  # on Windows two processes may compile the same
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # as on some network disks: two processes may compile the same
        return True
    return True


def pending() -> list[str]:
    """The groups that another process is compiling for this one."""
    asked = _asked.keys() - _ready - _failed
    return sorted(group for group in asked if not is_compiled(group))


def _loaded() -> bool:
    """True once numba can be called; until then, has a thread import it.

    The first kernel of a process has numba register its functions, which takes longer
    than the import.
    """
    global _loading
    if _loading is None:
        if BACKEND in sys.modules:
            return True
        loading = Thread(target=_load, name="gttf-load")
        try:
            loading.start()
        except RuntimeError:  # the system or a closing interpreter starts none
            return True
        _loading = loading
    return not _loading.is_alive()


def _load() -> None:
    """Imports the backend and has a kernel read; `ops` tells of it if that fails."""
    with suppress(Exception):
        import_module(BACKEND)
        rng = import_module(f"{BACKEND}.rng")
        rng.mix(rng.ONE)


def _before_fork() -> None:
    """Waits for threads that import or compile, whose locks a child would inherit."""
    if _loading is not None and _loading is not current_thread():
        _loading.join()
    module = sys.modules.get("numba.core.compiler_lock")
    lock = getattr(module, "global_compiler_lock", None)
    if lock is not None:
        lock.acquire()
        _held.append(lock)


def _after_fork() -> None:
    while _held:
        _held.pop().release()


def _after_fork_in_child() -> None:
    """Leaves a child without the processes of its parent, nor a lock held."""
    global _lock
    _after_fork()
    _lock = Lock()
    _children.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork,
        after_in_child=_after_fork_in_child,
    )
