"""A directory of plain arrays with a JSON header: readable by anything, mappable.

The header names the files and is replaced last, in one step: a crash leaves the old
header with its old files, or the new one with its new files, never a mixture.
"""

import json
import os
import uuid
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check

FORMAT, VERSION = "gttf-compact-adj", 1
HEADER = "header.json"
CHUNK = 1 << 26
CHEAP_TO_VERIFY = 1 << 30
REQUIRED, OPTIONAL = ("rowptr", "col"), ("edge_id", "edge_weight", "edge_time")


def save(
    path: str | os.PathLike[str], arrays: Mapping[str, Tensor], facts: dict[str, Any]
) -> None:
    """Writes `arrays` and `facts` into the directory `path`, replacing what it held."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    token = uuid.uuid4().hex[:12]
    entries: dict[str, Any] = {}
    written: list[Path] = []
    header = folder / f"{HEADER}.{token}"
    try:
        for name, array in arrays.items():
            written.append(folder / f"{name}.{token}.bin")
            entries[name] = _write(written[-1], array)
        written.append(header)
        content = {"format": FORMAT, "version": VERSION, **facts, "arrays": entries}
        _write_bytes(header, [json.dumps(content, indent=1).encode()])
        os.replace(header, folder / HEADER)
    except BaseException:
        for file in written:
            file.unlink(missing_ok=True)
        raise
    _sync_folder(folder)
    kept = {entry["file"] for entry in entries.values()}
    for stale in folder.glob("*.bin"):
        if stale.name not in kept:
            stale.unlink(missing_ok=True)


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


def _write(file: Path, array: Tensor) -> dict[str, Any]:
    """Writes one array; returns its entry in the header."""
    plain = array.detach().cpu().contiguous().numpy()
    crc = _write_bytes(file, _chunks(plain))
    little = plain.dtype.newbyteorder("<").str
    return {"file": file.name, "dtype": little, "length": plain.size, "crc32": crc}


def _chunks(array: np.ndarray[Any, Any]) -> Iterator[bytes]:
    """The bytes of `array`, a bounded piece at a time."""
    step = CHUNK // array.itemsize
    for start in range(0, array.size, step):
        piece = array[start : start + step]
        yield piece.astype(piece.dtype.newbyteorder("<"), copy=False).tobytes()


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
    except (ValueError, KeyError, TypeError) as error:
        _damaged(file, "must hold the JSON that 'save' wrote", error)
    if found != (FORMAT, VERSION):
        _damaged(file, f"must have format {FORMAT!r} version {VERSION}", found)
    try:
        known = header["direction"] in ("in", "out") and header["num_cols"] >= 0
        names = set(header["arrays"])
        known &= names >= set(REQUIRED) and names <= {*REQUIRED, *OPTIONAL}
        for entry in header["arrays"].values():
            known &= Path(entry["file"]).name == entry["file"]
            known &= np.dtype(entry["dtype"]).kind in "iuf" and entry["length"] >= 0
            known &= isinstance(entry["crc32"], int)
    except (KeyError, TypeError, AttributeError) as error:
        _damaged(file, "must describe the arrays that 'save' wrote", repr(error))
    if not known:
        _damaged(file, "must describe the arrays that 'save' wrote", "other values")
    return dict(header)


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
