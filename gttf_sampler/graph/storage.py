"""A directory of plain arrays with a JSON header: readable by anything, mappable.

The header names the files and is replaced last, in one step: a crash leaves the old
header with its old files, or the new one with its new files, never a mixture.
"""

import json
import os
import re
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

FORMAT, VERSION = "gttf-compact-adj", 1
HEADER = "header.json"
CHUNK = 1 << 26
REQUIRED, OPTIONAL = ("rowptr", "col"), ("edge_id", "edge_weight", "edge_time")
NAMES = ("node_id", "name_text", "name_end")  # what nodes are called
IDS = ("<i4", "<i8")
NUMBERS = (*IDS, "|i1", "|u1", "<i2", "<f2", "<f4", "<f8")
OURS = re.compile(
    r"(?:rowptr|col|edge_id|edge_weight|edge_time|node_id|name_text|name_end)\.([0-9a-f]{12})\.bin"
    r"|header\.json\.([0-9a-f]{12})"
)

Array = np.ndarray[Any, Any]


class Pieces(NamedTuple):
    """An array of `size` numbers that is made while it is written, piece by piece."""

    dtype: np.dtype[Any]
    size: int
    pieces: Iterable[Array]


class GoneError(Exception):
    """A file that a header names is not there."""


def save(
    path: str | os.PathLike[str],
    arrays: Mapping[str, Tensor | Pieces],
    facts: dict[str, Any],
    overwrite: bool = False,
) -> None:
    """Writes `arrays` and `facts` into the directory `path`, replacing what it held."""
    plain = {
        name: array if isinstance(array, Pieces) else _as_numpy(name, array)
        for name, array in arrays.items()
    }

    def write(files: Mapping[str, Path]) -> dict[str, Any]:
        return {name: write_array(files[name], a) for name, a in plain.items()}

    replace(path, plain, facts, overwrite, write)


def replace(
    path: str | os.PathLike[str],
    names: Iterable[str],
    facts: dict[str, Any],
    overwrite: bool,
    write: Callable[[Mapping[str, Path]], dict[str, Any]],
) -> None:
    """Has `write` write the files of some arrays, and puts them into force at once.

    It is given a file per array, and returns what the header says of each.

    Every call writes files of its own. Calls at the same time meet only where they
    replace the header, one after the other; each then removes what the header named
    before, and what a process that died has left.
    """
    folder = check_free(path, overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    token = uuid.uuid4().hex[:12]
    files = {name: folder / f"{name}.{token}.bin" for name in names}
    header = folder / f"{HEADER}.{token}"
    with ExitStack() as until_done:
        with locked(folder):  # or another call could take the file for a dead one's
            header.touch()
            until_done.enter_context(locked(header))
        try:
            entries = write(files)
            content = {"format": FORMAT, "version": VERSION, **facts, "arrays": entries}
            content["crc32"] = checksum(content)
            write_bytes(header, [json.dumps(content, indent=1).encode()])
            with locked(folder) as alone:
                before = _token_of(folder / HEADER)
                os.replace(header, folder / HEADER)
                sync_folder(folder)
                _clean(folder, token, None if alone else before)
        except BaseException:
            if _token_of(folder / HEADER) != token:  # another header is in force
                for file in (*files.values(), header):
                    file.unlink(missing_ok=True)
            raise


def check_free(path: str | os.PathLike[str], overwrite: bool) -> Path:
    """The directory to write into, where files of others are not in the way."""
    folder = _check.path("path", path)
    if folder.exists() and not folder.is_dir():
        _check.fail("path", "must name a directory", f"{str(path)!r}, a file")
    there = folder.iterdir() if folder.exists() else iter(())
    strange = next((f.name for f in there if not OURS.fullmatch(f.name)), "")
    if strange and not overwrite and not _token_of(folder / HEADER):
        rule = "must be an empty directory, or hold a saved graph"
        cure = "pass overwrite=True to write beside it"
        _check.fail("path", rule, f"{str(path)!r} with {strange!r}", cure)
    return folder


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


def _clean(folder: Path, token: str, before: str | None) -> None:
    """Removes the files of all other tokens that nobody is writing.

    Where there are no locks to tell, of the one `before` alone.
    """
    others = {m[1] or m[2] for f in folder.iterdir() if (m := OURS.fullmatch(f.name))}
    for other in others - {token}:
        if before is None and _is_written(folder / f"{HEADER}.{other}"):
            continue
        if before is None or other == before:
            for file in folder.glob(f"*.{other}*"):
                if OURS.fullmatch(file.name):
                    file.unlink(missing_ok=True)


def _is_written(header: Path) -> bool:
    """Whether a process that lives is at work on the files of a header to be."""
    try:
        handle = os.open(header, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def _token_of(header: Path) -> str:
    """The token in the names of the files that a header on disk refers to."""
    try:
        entries = json.loads(header.read_text(encoding="utf-8"))["arrays"]
        return str(entries["col"]["file"].split(".")[1])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return ""


def _as_numpy(name: str, array: Tensor) -> Array:
    """The array in memory as numpy sees it."""
    try:
        plain: Array = array.detach().cpu().contiguous().numpy()
    except TypeError:
        cure = "convert it to float32"
        rule = f"must have a dtype that numpy knows to be saved; {cure}"
        _check.mistyped(name, rule, array.dtype)
    return plain


def checksum(content: dict[str, Any]) -> int:
    """A checksum of everything a header says but for the checksum."""
    said = {key: value for key, value in content.items() if key != "crc32"}
    return zlib.crc32(json.dumps(said, sort_keys=True).encode())


def load(
    path: str | os.PathLike[str], mmap: bool, verify: bool
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The arrays and the header of the directory `path`."""
    folder = _check.path("path", path)
    while True:
        header = header_of(folder)
        entries = header["arrays"]
        token = entries["col"]["file"].split(".")[1]
        try:
            arrays = {
                name: read_array(folder / entry["file"], entry, mmap, verify)
                for name, entry in entries.items()
            }
            break
        except GoneError as missing:
            if _token_of(folder / HEADER) == token:
                rule = "must be there, the header names it"
                damaged(missing.args[0], rule, "no such file")
            # else it has been replaced meanwhile, and there is a new one to read
    edges = arrays["col"].numel()
    for name in OPTIONAL:
        if name in arrays and arrays[name].numel() != edges:
            rule = f"must describe {edges} edges like 'col'"
            damaged(folder / HEADER, rule, f"{arrays[name].numel()} in {name!r}")
    return arrays, header


def write_array(file: Path, array: Array | Pieces) -> dict[str, Any]:
    """Writes one array; returns its entry in the header."""
    crc = write_bytes(file, _chunks(array))
    little = array.dtype.newbyteorder("<").str
    length = file.stat().st_size // array.dtype.itemsize
    if length != array.size:
        _check.fail("pieces", f"must hold {array.size} numbers in all", length)
    return {"file": file.name, "dtype": little, "length": length, "crc32": crc}


def _chunks(array: Array | Pieces) -> Iterator[bytes]:
    """The bytes of `array`, a bounded piece at a time."""
    if isinstance(array, Pieces):
        pieces = iter(array.pieces)
    else:
        step = CHUNK // array.itemsize
        starts = range(0, array.size, step)
        pieces = (array[start : start + step] for start in starts)
    little = array.dtype.newbyteorder("<")
    for piece in pieces:
        yield piece.astype(little, copy=False).tobytes()


def write_bytes(file: Path, chunks: Any) -> int:
    """Writes the chunks, waits until they are on disk, returns their checksum."""
    crc = 0
    with open(file, "wb") as out:
        for chunk in chunks:
            crc = zlib.crc32(chunk, crc)
            out.write(chunk)
        out.flush()
        os.fsync(out.fileno())
    return crc


def sync_folder(folder: Path) -> None:
    """Makes the replaced header durable, where the system can sync a directory."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def header_of(folder: Path) -> dict[str, Any]:
    """The header, after checks of everything the readers rely on."""
    file = folder / HEADER
    if not file.is_file():
        damaged(file, "must be the header of a saved CompactAdj", "no such file")
    try:
        header = json.loads(file.read_text(encoding="utf-8"))
        found = header["format"], header["version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        damaged(file, "must hold the JSON that 'save' wrote", repr(error)[:80])
    if found != (FORMAT, VERSION):
        damaged(file, f"must have format {FORMAT!r} version {VERSION}", found)
    if header.get("crc32") != checksum(header):
        damaged(file, "must match its own checksum", "other content")
    try:
        sound = _is_sound(header)
    except (KeyError, TypeError, AttributeError) as error:
        damaged(file, "must describe the arrays that 'save' wrote", repr(error)[:80])
    if not sound:
        damaged(file, "must describe the arrays that 'save' wrote", "other values")
    return dict(header)


def _is_sound(header: dict[str, Any]) -> bool:
    """Whether everything is there and of the kind that readers rely on."""
    names, size = set(header["arrays"]), header["num_cols"]
    sound = header["direction"] in ("in", "out")
    sound &= type(size) is int and 0 <= size <= _check.MAX_NODES
    sound &= names >= set(REQUIRED) and names <= {*REQUIRED, *OPTIONAL, *NAMES}
    for name, entry in header["arrays"].items():
        sound &= OURS.fullmatch(entry["file"]) is not None
        kinds = NUMBERS if name in ("edge_weight", "edge_time") else IDS
        sound &= entry["dtype"] in kinds or (
            name == "name_text" and entry["dtype"] == "|u1"
        )
        sound &= type(entry["length"]) is int and entry["length"] >= 0
        sound &= type(entry["crc32"]) is int
    return bool(sound)


def read_array(file: Path, entry: dict[str, Any], mmap: bool, verify: bool) -> Tensor:
    """One array, after a check of its size and, if wanted, of its checksum."""
    dtype = np.dtype(entry["dtype"])
    expected = entry["length"] * dtype.itemsize
    try:
        size = file.stat().st_size
    except FileNotFoundError:
        raise GoneError(file) from None
    if size != expected:
        damaged(file, f"must have {expected} bytes", f"{size} bytes")
    if size == 0:
        plain = np.empty(0, dtype)
    else:
        try:  # mode "c" keeps the file as it is whatever is done to the tensor
            plain = (
                np.memmap(file, dtype, mode="c") if mmap else np.fromfile(file, dtype)
            )
        except FileNotFoundError:
            raise GoneError(file) from None
    if verify:
        crc = 0
        for chunk in _chunks(plain):
            crc = zlib.crc32(chunk, crc)
        if crc != entry["crc32"]:
            damaged(file, "must match the checksum in the header", "other content")
    return torch.from_numpy(plain.astype(dtype.newbyteorder("="), copy=False))


def damaged(file: Path, rule: str, got: object) -> Any:
    """Raises the ValueError that names the damaged file."""
    _check.fail(str(file), rule, got, "save the graph again")
