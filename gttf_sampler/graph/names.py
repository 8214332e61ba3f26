"""Ids that nodes have elsewhere: words or integers, in the place of 0 … n - 1."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check

LARGEST = 2**63 - 1

Array = np.ndarray[Any, Any]


def ids_of(name: str, values: Any) -> Array:
    """Ids as an array of integers or of words; whatever is missing is refused."""
    if isinstance(values, Tensor):
        values = _check.dense(name, values).tolist()
    try:
        found: Array = np.asarray(values)
    except ValueError:  # rows of several lengths
        _check.fail(name, "must have 1 dimension(s)", _check.shown(values))
    if found.ndim != 1:
        _check.fail(name, "must have 1 dimension(s)", f"shape {list(found.shape)}")
    if found.dtype.kind in "iu":
        if found.dtype == np.uint64 and len(found) and found.max() > LARGEST:
            _too_large(name, found.max())
        return found.astype(np.int64)
    if found.dtype.kind == "U":
        if isinstance(values, list | tuple):  # of which numpy makes words of numbers
            found = np.array(values, dtype=object)
        else:
            return found
    if found.dtype.kind == "f" and not len(found):
        return found.astype(np.int64)
    if found.dtype.kind not in "OT":
        cure = "convert them to integers or to words"
        _check.mistyped(name, "must hold integers or words", found.dtype, cure)
    entries = found.tolist()
    if all(isinstance(entry, int) for entry in entries):
        if max(map(abs, entries), default=0) > LARGEST:
            _too_large(name, max(entries, key=abs))
        return np.array(entries, dtype=np.int64)
    if all(isinstance(entry, str) for entry in entries):
        return np.array(entries, dtype=np.str_)
    kinds = sorted({type(entry).__name__ for entry in entries})
    _check.mistyped(name, "must hold integers, or words, in every row", kinds)


def _too_large(name: str, value: Any) -> NoReturn:
    """Refuses an integer that int64 cannot hold."""
    _check.fail(name, "must hold integers below 2**63", value, "convert them to words")


def numbered(source: Array, target: Array) -> tuple[Tensor, Array]:
    """Edges int64 [2, m] among nodes 0 … n - 1, and the id [n] of each, in order."""
    if source.dtype.kind != target.dtype.kind:
        rule = "must be of one kind, integers or words"
        _check.mistyped("source and target", rule, f"{source.dtype}, {target.dtype}")
    node_id, number = np.unique(np.concatenate([source, target]), return_inverse=True)
    return torch.from_numpy(number.reshape(2, -1).astype(np.int64)), node_id


def telling(node_id: Array | None, nodes: int) -> Array | None:
    """The ids, or None where they say no more than the numbers do."""
    if node_id is None:
        return None
    if node_id.dtype.kind == "i" and np.array_equal(node_id, np.arange(nodes)):
        return None
    return node_id


def places(
    name: str, wanted: Iterable[Any], node_id: Array | None, nodes: int
) -> list[int]:
    """The numbers of nodes, from their ids, which may be given as words."""
    known = {
        str(entry): i
        for i, entry in enumerate(range(nodes) if node_id is None else node_id)
    }
    found = []
    for entry in wanted:
        if str(entry) not in known:
            some = ", ".join(list(known)[:3])
            _check.fail(name, f"must be ids of the graph, like {some}", repr(entry))
        found.append(known[str(entry)])
    return found


def packed(node_id: Array | None) -> dict[str, Tensor]:
    """Ids as arrays of numbers: integers as they are, words as their UTF-8 and ends."""
    if node_id is None:
        return {}
    if node_id.dtype.kind == "i":
        return {"node_id": torch.from_numpy(node_id)}
    rule, cure = "must be integers or words to be saved", "forget them: adj.named(None)"
    if node_id.dtype.kind != "U":
        _check.mistyped("node_id", rule, f"dtype {node_id.dtype}", cure)
    try:
        words = [str(word).encode() for word in node_id]
    except UnicodeEncodeError as error:  # half a character of UTF-16
        _check.fail("node_id", rule, repr(error.object), cure)
    text = np.frombuffer(b"".join(words), np.uint8).copy()
    ends = np.cumsum([len(word) for word in words], dtype=np.int64)
    return {"name_text": torch.from_numpy(text), "name_end": torch.from_numpy(ends)}


def unpacked(arrays: dict[str, Tensor]) -> Array | None:
    """The ids among the arrays of a saved graph, which are taken out."""
    plain, text, ends = (
        arrays.pop(name, None) for name in ("node_id", "name_text", "name_end")
    )
    if plain is not None:
        return plain.numpy()
    if text is None or ends is None:
        return None
    whole, stops = text.numpy().tobytes(), ends.tolist()
    words = [whole[a:b].decode() for a, b in pairwise([0, *stops])]
    return np.array(words, dtype=np.str_)
