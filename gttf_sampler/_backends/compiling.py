"""Kernels that another process compiles while the torch reference does the work.

Both give the same bits, so nobody has to wait for a compiler: until the kernels of an
operation are on disk, the reference answers, and a child process compiles them without
holding anybody's GIL. From then on, calls go to the kernels. Operations that add up
floats do so in another order than the reference: their kernels are compiled where they
are called, so that results do not depend on a compiler's pace.

Nothing here imports numba, which takes longer than a first batch.
"""

import os
import platform
import stat
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from logging import getLogger
from pathlib import Path
from threading import Lock

GROUPS = {
    "build": ("both_ways", "group_by_row"),
    "gather": ("gather",),
    "node2vec": ("draw_node2vec", "walk_node2vec", "weigh_node2vec"),
    "rooted": ("draw_for_remote", "rooted"),
    "rows": (
        *("edge_filter", "has_edge", "relabel", "take_or_none"),
        *("upper_bound", "weight_table"),
    ),
    "walks": ("draw_uniform", "draw_weighted", "walk_forest"),
}
"""Operations whose kernels are compiled together, by another process."""

REFERENCE_ONLY = {"rooted_padded"}
"""Operations without kernels for CPUs, for which numba is not worth importing."""

HERE = "here"  # GTTF_COMPILE=here: compile in the process that calls, and wait
RETRY = 1.0  # seconds until a process looks again whether another one still compiles
OTHERS = stat.S_IRWXG | stat.S_IRWXO

_GROUP_OF = {op: group for group, ops in GROUPS.items() for op in ops}
_HERE = Path(__file__).parent
_log = getLogger(__name__)
_lock = Lock()
_ready: set[str] = set()
_failed: set[str] = set()
_children: dict[str, "subprocess.Popen[bytes]"] = {}
_asked: dict[str, float] = {}  # when a process was last asked for, by group


def ready(op: str) -> bool:
    """True if a call of `op` need not wait for a compiler; else has it compiled."""
    group = _GROUP_OF.get(op)
    if group is None:
        return op not in REFERENCE_ONLY
    if group in _ready:
        return True
    if os.environ.get("GTTF_COMPILE") == HERE:
        return True
    folder = kernel_folder()
    if folder is not None and (folder / f"{group}.ready").exists():
        _ready.add(group)
        return True
    if group not in _failed:
        with _lock:
            _have_compiled(group, folder)
    return False


def _have_compiled(group: str, folder: Path | None) -> None:
    """Starts a process that compiles a group, unless there is one already."""
    if folder is None:
        _give_up(group, "there is no folder to keep kernels in; set NUMBA_CACHE_DIR")
        return
    child = _children.get(group)
    ended = child is not None and child.poll() is not None
    if ended and not (folder / f"{group}.ready").exists():
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
    if not _failed:
        _log.warning("torch samples on the CPU, slower than numba would: %s", why)
    _failed.add(group)


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


def mark_ready(group: str) -> None:
    """Writes down that all kernels of a group are on disk."""
    folder = kernel_folder()
    if folder is not None:
        (folder / f"{group}.ready").touch()


def has_kernels() -> bool:
    """True if an earlier process has left kernels on disk."""
    folder = kernel_folder()
    return folder is not None and any(folder.glob("*.nbi"))


def pending() -> list[str]:
    """The groups that another process is compiling for this one."""
    return sorted(_asked.keys() - _ready - _failed)


@cache
def kernel_folder() -> Path | None:
    """The folder of compiled kernels for this user, numba, Python, CPU and sources.

    In NUMBA_CACHE_DIR if that is set, else where the user has caches, else among
    temporary files; None if none of these can be the user's alone.
    """
    own = os.environ.get("NUMBA_CACHE_DIR")
    homes = [lambda: own] if own else [_user_cache, tempfile.gettempdir]
    found = (_folder_in(home) for home in homes)
    folder = next((folder for folder in found if folder is not None), None)
    if folder is None:
        return None
    try:
        about = "\n".join([version("numba"), sys.version, platform.machine(), _cpu()])
    except PackageNotFoundError:
        return None
    folder /= f"{zlib.crc32(about.encode()):08x}-{source_stamp()}"
    try:
        folder.mkdir(mode=stat.S_IRWXU, exist_ok=True)
    except OSError:
        return None
    return folder


def _folder_in(home: Callable[[], str | Path]) -> Path | None:
    """The user's own folder in what a function finds; None if it finds nothing."""
    try:
        return private_folder(Path(home()))
    except (OSError, RuntimeError):  # no user of that number, no temporary files
        return None


def _user_cache() -> str | Path:
    """The folder where this system's programs keep their caches."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    named = "LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME"
    default = "AppData/Local" if os.name == "nt" else ".cache"
    return os.environ.get(named) or Path.home() / default


def _cpu() -> str:
    """The name and the abilities of the CPU, as far as the system tells."""
    told = ("model name", "flags", "Features", "CPU part")
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(sorted({line for line in lines if line.startswith(told)}))


@cache
def source_stamp() -> str:
    """A checksum of all sources that kernels are compiled from."""
    folders = (_HERE, _HERE / "numba")
    files = [file for folder in folders for file in folder.glob("*.py")]
    constants = [_HERE / "torch" / name for name in ("draw.py", "node2vec.py")]
    return stamp_of([*files, *constants, _HERE.parent / "random.py"])


def stamp_of(files: Iterable[Path]) -> str:
    """A checksum of all files."""
    total = zlib.crc32(b"")
    for file in sorted(files):
        total = zlib.crc32(file.read_bytes(), total)
    return f"{total:08x}"


def is_private(folder: Path) -> bool:
    """True for a folder, no link to one, that the user alone has access to."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        return False
    if not hasattr(os, "geteuid"):  # on Windows, folders of a user are his own
        return True
    return found.st_uid == os.geteuid() and not found.st_mode & OTHERS


def private_folder(home: Path) -> Path | None:
    """The user's own folder in `home`, made if need be; None if there can be none.

    Nor where others could put another one in its place: they may write to `home`, and
    it has no sticky bit.
    """
    folder = home / f"gttf-{os.geteuid() if hasattr(os, 'geteuid') else 'user'}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        mode = os.stat(home).st_mode
        open_to_all = mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX
        if open_to_all and os.name == "posix":
            return None
        folder.mkdir(mode=stat.S_IRWXU, exist_ok=True)
    except OSError:
        return None
    return folder if is_private(folder) and os.access(folder, os.W_OK) else None


def _forget_children() -> None:
    """Leaves a forked child without the processes of its parent, nor a lock held."""
    global _lock
    _lock = Lock()
    _children.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_children)
