"""A directory of plain arrays with a JSON header: readable by anything, mappable.

The header names the files and is replaced last, in one step: a crash leaves the old
header with its old files, or the new one with its new files, never a mixture.
"""

import json
import os
import re
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check

FORMAT, VERSION = "gttf-compact-adj", 1
HEADER = "header.json"
CHUNK = 1 << 26
CHEAP_TO_VERIFY = 1 << 30
REQUIRED, OPTIONAL = ("rowptr", "col"), ("edge_id", "edge_weight", "edge_time")
IDS = ("<i4", "<i8")
NUMBERS = (*IDS, "|i1", "|u1", "<i2", "<f2", "<f4", "<f8")
OURS = re.compile(
    r"(rowptr|col|edge_id|edge_weight|edge_time)\.[0-9a-f]{12}\.bin"
    r"|header\.json\.[0-9a-f]{12}"
)

Array = np.ndarray[Any, Any]


class Pieces(NamedTuple):
    """An array of `size` numbers that is made while it is written, piece by piece."""

    dtype: np.dtype[Any]
    size: int
    pieces: Iterable[Array]


def save(
    path: str | os.PathLike[str],
    arrays: Mapping[str, Tensor | Pieces],
    facts: dict[str, Any],
) -> None:
    """Writes `arrays` and `facts` into the directory `path`, replacing what it held."""
    plain = {
        name: array if isinstance(array, Pieces) else _as_numpy(name, array)
        for name, array in arrays.items()
    }
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    token = uuid.uuid4().hex[:12]
    files = {name: folder / f"{name}.{token}.bin" for name in plain}
    header = folder / f"{HEADER}.{token}"
    try:
        entries = {name: _write(files[name], array) for name, array in plain.items()}
        content = {"format": FORMAT, "version": VERSION, **facts, "arrays": entries}
        content["crc32"] = _checksum(content)
        _write_bytes(header, [json.dumps(content, indent=1).encode()])
        os.replace(header, folder / HEADER)
    except BaseException:
        if _token_of(folder / HEADER) != token:  # the old header is still in force
            for file in (*files.values(), header):
                file.unlink(missing_ok=True)
        raise
    _sync_folder(folder)
    for file in folder.iterdir():
        if OURS.fullmatch(file.name) and token not in file.name:
            file.unlink(missing_ok=True)


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


def _checksum(content: dict[str, Any]) -> int:
    """A checksum of everything a header says but for the checksum."""
    said = {key: value for key, value in content.items() if key != "crc32"}
    return zlib.crc32(json.dumps(said, sort_keys=True).encode())


def load(
    path: str | os.PathLike[str], mmap: bool, verify: bool | None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The arrays and the header of the directory `path`."""
    folder = Path(path)
    header = _read_header(folder / HEADER)
    entries = header["arrays"]
    total = sum(_expected_bytes(entry) for entry in entries.values())
    if verify is None:
        verify = not mmap or total <= CHEAP_TO_VERIFY
    arrays = {}
    for name, entry in entries.items():
        arrays[name] = _read(folder / entry["file"], entry, mmap, verify)
    edges = arrays["col"].numel()
    for name in OPTIONAL:
        if name in arrays and arrays[name].numel() != edges:
            rule = f"must describe {edges} edges like 'col'"
            _damaged(folder / HEADER, rule, f"{arrays[name].numel()} in {name!r}")
    return arrays, header


def _write(file: Path, array: Array | Pieces) -> dict[str, Any]:
    """Writes one array; returns its entry in the header."""
    crc = _write_bytes(file, _chunks(array))
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


def _write_bytes(file: Path, chunks: Any) -> int:
    """Writes the chunks, waits until they are on disk, returns their checksum."""
    crc = 0
    with open(file, "wb") as out:
        for chunk in chunks:
            crc = zlib.crc32(chunk, crc)
            out.write(chunk)
        out.flush()
        os.fsync(out.fileno())
    return crc


def _sync_folder(folder: Path) -> None:
    """Makes the replaced header durable, where the system can sync a directory."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _read_header(file: Path) -> dict[str, Any]:
    """The header, after checks of everything the readers rely on."""
    if not file.is_file():
        _damaged(file, "must be the header of a saved CompactAdj", "no such file")
    try:
        header = json.loads(file.read_text(encoding="utf-8"))
        found = header["format"], header["version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        _damaged(file, "must hold the JSON that 'save' wrote", repr(error)[:80])
    if found != (FORMAT, VERSION):
        _damaged(file, f"must have format {FORMAT!r} version {VERSION}", found)
    if header.get("crc32") != _checksum(header):
        _damaged(file, "must match its own checksum", "other content")
    try:
        sound = _is_sound(header)
    except (KeyError, TypeError, AttributeError) as error:
        _damaged(file, "must describe the arrays that 'save' wrote", repr(error)[:80])
    if not sound:
        _damaged(file, "must describe the arrays that 'save' wrote", "other values")
    return dict(header)


def _is_sound(header: dict[str, Any]) -> bool:
    """Whether everything is there and of the kind that readers rely on."""
    names, size = set(header["arrays"]), header["num_cols"]
    sound = header["direction"] in ("in", "out") and type(size) is int and size >= 0
    sound &= names >= set(REQUIRED) and names <= {*REQUIRED, *OPTIONAL}
    for name, entry in header["arrays"].items():
        sound &= OURS.fullmatch(entry["file"]) is not None
        kinds = NUMBERS if name in ("edge_weight", "edge_time") else IDS
        sound &= entry["dtype"] in kinds
        sound &= type(entry["length"]) is int and entry["length"] >= 0
        sound &= type(entry["crc32"]) is int
    return bool(sound)


def _expected_bytes(entry: dict[str, Any]) -> int:
    return int(entry["length"] * np.dtype(entry["dtype"]).itemsize)


def _read(file: Path, entry: dict[str, Any], mmap: bool, verify: bool) -> Tensor:
    """One array, after a check of its size and, if wanted, of its checksum."""
    if not file.is_file():
        _damaged(file, "must be there, the header names it", "no such file")
    size, expected = file.stat().st_size, _expected_bytes(entry)
    if size != expected:
        _damaged(file, f"must have {expected} bytes", f"{size} bytes")
    dtype = np.dtype(entry["dtype"])
    if size == 0:
        plain = np.empty(0, dtype)
    elif mmap:  # mode "c" keeps the file as it is whatever is done to the tensor
        plain = np.memmap(file, dtype, mode="c")
    else:
        plain = np.fromfile(file, dtype)
    if verify:
        crc = 0
        for chunk in _chunks(plain):
            crc = zlib.crc32(chunk, crc)
        if crc != entry["crc32"]:
            _damaged(file, "must match the checksum in the header", "other content")
    return torch.from_numpy(plain.astype(dtype.newbyteorder("="), copy=False))


def _damaged(file: Path, rule: str, got: object) -> Any:
    """Raises the ValueError that names the damaged file."""
    _check.fail(str(file), rule, got, "save the graph again")
