"""The folders that compiled kernels are kept in: one of the user's own, and root's.

Whoever writes such a file has his code run by whoever reads it. So kernels are read
from folders alone to which nobody but the user and root can write, and written to a
folder of the user's own.
"""

import os
import platform
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = 0
ACCESS = stat.S_IRWXG | stat.S_IRWXO  # of others
WRITE = stat.S_IWGRP | stat.S_IWOTH
READABLE = 0o755  # by all, and the user's own to change

_HERE = Path(__file__).parent


@cache
def kernel_folder() -> Path | None:
    """The folder where this process keeps kernels; None if there can be none.

    It is one of this user, numba, Python, CPU and sources: in NUMBA_CACHE_DIR if that
    is set, else where the user has caches; among temporary files where that cannot be
    written.
    """
    name = _name()
    if name is None:
        return None
    for home in _homes():
        folder = private_folder(home)
        if folder is not None:
            with suppress(OSError):
                (folder / name).mkdir(mode=stat.S_IRWXU, exist_ok=True)
                return folder / name
    return None


@cache
def kernel_folders() -> list[Path]:
    """`kernel_folder`, and folders of the same kernels that are only read.

    These are the user's own and root's, as in an image whose kernels root has compiled.
    """
    own, name = kernel_folder(), _name()
    if name is None:
        return []
    others = [
        folder / name
        for home in _homes()
        for folder in dict.fromkeys((_of_user(home), home / f"gttf-{ROOT}"))
        if is_safe(folder) and not _open_to_all(home) and (folder / name).is_dir()
    ]
    return [*([own] if own else []), *(folder for folder in others if folder != own)]


def mark_compiled(group: str) -> None:
    """Writes down that all kernels of a group are on disk; all may read root's."""
    folder = kernel_folder()
    if folder is None:
        return
    (folder / f"{group}.ready").touch()
    if hasattr(os, "geteuid") and os.geteuid() == ROOT:
        for path in (folder.parent, folder, *folder.iterdir()):
            with suppress(OSError):  # another process has renamed it
                path.chmod(READABLE if path.is_dir() else READABLE & 0o666)


def is_compiled(group: str) -> bool:
    """True if all kernels of a group are on disk."""
    return any((folder / f"{group}.ready").exists() for folder in kernel_folders())


def has_kernels() -> bool:
    """True if an earlier process has left kernels on disk."""
    return any(any(folder.glob("*.nbi")) for folder in kernel_folders())


def is_safe(path: Path | str) -> bool:
    """True for a folder, no link to one, that only the user and root can write to."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and only_ours(found)


def is_private(path: Path | str) -> bool:
    """True for a folder that others have no access to."""
    return os.name != "posix" or not os.lstat(path).st_mode & ACCESS


def only_ours(found: os.stat_result) -> bool:
    """True for what the user or root owns, and nobody else can write to."""
    if not hasattr(os, "geteuid"):  # on Windows, folders of a user are his own
        return True
    return found.st_uid in (os.geteuid(), ROOT) and not found.st_mode & WRITE


def private_folder(home: Path) -> Path | None:
    """The user's own folder in `home`, made if need be; None if there can be none.

    Nor where others could put another one in its place.
    """
    folder = _of_user(home)
    try:
        home.mkdir(parents=True, exist_ok=True)
        if _open_to_all(home):
            return None
        folder.mkdir(mode=stat.S_IRWXU, exist_ok=True)
    except OSError:
        return None
    return folder if is_safe(folder) and os.access(folder, os.W_OK) else None


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


def _of_user(home: Path) -> Path:
    return home / f"gttf-{os.geteuid() if hasattr(os, 'geteuid') else 'user'}"


def _open_to_all(home: Path) -> bool:
    """True if others may write to a folder, which has no sticky bit as /tmp has."""
    try:
        mode = os.stat(home).st_mode
    except OSError:
        return True
    return os.name == "posix" and bool(mode & WRITE) and not mode & stat.S_ISVTX


def _homes() -> list[Path]:
    """The places of folders, the best one first."""
    found: list[Path] = []
    for find in (_chosen, tempfile.gettempdir):
        with suppress(OSError, RuntimeError):  # no user of that number, no such files
            found.append(Path(find()))
    return found


def _chosen() -> str | Path:
    return os.environ.get("NUMBA_CACHE_DIR") or _user_cache()


def _user_cache() -> str | Path:
    """The folder where this system's programs keep their caches."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    named = "LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME"
    default = "AppData/Local" if os.name == "nt" else ".cache"
    return os.environ.get(named) or Path.home() / default


def _name() -> str | None:
    """The name of a folder of kernels; None without numba."""
    try:
        about = "\n".join([version("numba"), sys.version, platform.machine(), _cpu()])
    except PackageNotFoundError:
        return None
    return f"{zlib.crc32(about.encode()):08x}-{source_stamp()}"


def _cpu() -> str:
    """The name and the abilities of the CPU that numba compiles for."""
    chosen = os.environ.get("NUMBA_CPU_NAME")
    if chosen:
        return f"{chosen} {os.environ.get('NUMBA_CPU_FEATURES')}"
    told = ("model name", "flags", "Features", "CPU part")
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(sorted({line for line in lines if line.startswith(told)}))
