"""Files that are replaced as a whole: nothing is lost, and nothing half written."""

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from gttf_sampler import _check

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]


def check_free(
    name: str,
    path: str | os.PathLike[str],
    force: bool,
    ours: Callable[[Path], bool] = lambda file: False,
    cure: str = "'--force' overwrites it",
) -> None:
    """Refuses a place that cannot be written, or whose file would be lost.

    With `force` nothing is, nor is a file that `ours` knows as one that we have written
    before. A pipe or a terminal holds nothing.
    """
    file = Path(path)
    folder = file.resolve().parent
    if file.is_dir():
        _check.fail(name, "must be a file", file)
    if not folder.is_dir():
        _check.fail(name, "must be in a directory that is there", file)
    if _is_stream(file):
        return
    if not os.access(folder, os.W_OK):
        _check.fail(name, "must be in a directory that can be written", file)
    if file.exists() and not force and not ours(file):
        _check.fail(name, "must not be there yet", file, cure)


def check_folder(
    folder: Path, ours: Callable[[str], Any], holds: str, cure: str = ""
) -> None:
    """Refuses a file as a directory, and one with names that are not `ours`."""
    if folder.exists() and not folder.is_dir():
        _check.fail("path", "must name a directory", f"{str(folder)!r}, a file")
    for file in folder.iterdir() if folder.exists() else ():
        if not ours(file.name):
            rule = f"must be an empty directory, or hold {holds}"
            _check.fail("path", rule, f"{str(folder)!r} with {file.name!r}", cure)


@contextmanager
def replacing(*paths: str | os.PathLike[str]) -> Iterator[list[IO[bytes]]]:
    """Open files that take the places of `paths` when the block is over.

    Until then the old ones are there; if the block is left by an exception they stay,
    and nothing else does. Links are followed; pipes and terminals are written at once.
    """
    token = uuid.uuid4().hex[:12]
    drafts: dict[Path, Path] = {}
    try:
        with ExitStack() as stack:
            files: list[IO[bytes]] = []
            for number, path in enumerate(map(Path, paths)):
                place = path
                if not _is_stream(path):
                    place = path.resolve().with_name(f".gttf-{token}-{number}")
                    drafts[place] = path.resolve()
                files.append(stack.enter_context(open(place, "wb")))
            yield files
            for file in files:
                file.flush()
                if Path(file.name) in drafts:
                    os.fsync(file.fileno())
        for draft, place in drafts.items():
            if place.exists():
                shutil.copymode(place, draft)
            os.replace(draft, place)
    except BaseException:
        for draft in drafts:
            draft.unlink(missing_ok=True)
        raise


def _is_stream(file: Path) -> bool:
    """True for a pipe, a terminal or the like, which cannot be replaced."""
    return file.exists() and not file.is_file() and not file.is_dir()


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Holds the lock of a file or directory; False where the system has none."""
    if fcntl is None:
        yield False
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:  # some network file systems
            yield False
        else:
            yield True
    finally:
        os.close(handle)


def is_locked(path: Path) -> bool:
    """True if a process that lives holds the lock of a file."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def sync_folder(folder: Path) -> None:
    """Makes renames in a directory durable, where the system can sync a directory."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
