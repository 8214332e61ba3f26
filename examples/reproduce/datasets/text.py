"""Tables of numbers in text files, read a piece at a time."""

import gzip
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

PIECE = 1 << 20  # lines that are in memory at a time


def pieces(
    path: Path, dtype: Any, delimiter: str | None = None, columns: int | None = None
) -> Iterator[np.ndarray[Any, Any]]:
    """The rows of a file, [at most PIECE, columns]; lines with # are comments.

    Args:
        path: a text file, or one in gzip's format.
        dtype: of the numbers.
        delimiter: between columns; any space by default.
        columns: only the first so many, of which every line must have as many.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    use = None if columns is None else range(columns)
    with opened(path, "rt", encoding="utf-8") as lines:
        plain = (line for line in lines if line[0] not in "#\n")
        try:
            while some := list(islice(plain, PIECE)):
                yield np.loadtxt(
                    some,
                    dtype,
                    comments=None,
                    delimiter=delimiter,
                    ndmin=2,
                    usecols=use,
                )
        except (ValueError, EOFError, gzip.BadGzipFile) as error:
            raise ValueError(
                f"{path} must be a whole table of numbers: {error}"
            ) from None


def table(path: Path, dtype: Any, delimiter: str = ",") -> np.ndarray[Any, Any]:
    """All rows of a file, [rows, columns]."""
    found = list(pieces(path, dtype, delimiter))
    if not found:
        raise ValueError(f"{path} must hold at least one line")
    return np.concatenate(found)
