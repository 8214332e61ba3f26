"""Node ids: the integers or words that nodes have outside of this package."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, pairwise
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check

LARGEST = 2**63 - 1

Array = np.ndarray[Any, Any]


def ids_of(name: str, values: Any) -> Array:
    """Converts ids to an array of integers or of words; refuses missing ones."""
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
    _check.fail(name, "must hold integers below 2**63", value, "convert them to words")


def numbered(source: Array, target: Array) -> tuple[Tensor, Array]:
    """Returns edges int64 [2, m] among nodes 0 … n - 1, and the id [n] of each."""
    if source.dtype.kind != target.dtype.kind:
        rule = "must be of one kind, integers or words"
        _check.mistyped("source and target", rule, f"{source.dtype}, {target.dtype}")
    node_id, number = np.unique(np.concatenate([source, target]), return_inverse=True)
    return torch.from_numpy(number.reshape(2, -1).astype(np.int64)), node_id


def node_ids(values: Any, nodes: int) -> Array | None:
    """Checks ids [n] of all nodes; None where they say no more than the numbers do."""
    if getattr(getattr(values, "dtype", None), "kind", "") != "O":
        values = ids_of("node_id", values)  # networkx has nodes of any kind
    check_one_per_node(len(values), nodes)
    if values.dtype.kind == "i" and np.array_equal(values, np.arange(nodes)):
        return None
    found: Array = values
    return found


def check_one_per_node(
    ids: int, nodes: int, name: str = "node_id", cure: str = ""
) -> None:
    """Refuses more or fewer ids than there are nodes."""
    if ids != nodes:
        _check.fail(name, f"must have one entry per node, {nodes}", ids, cure)


def places(
    name: str, wanted: Iterable[Any], node_id: Array | None, nodes: int
) -> list[int]:
    """Returns the numbers of nodes from their ids, which may be given as words."""
    ids = range(nodes) if node_id is None else node_id
    known = {str(entry): i for i, entry in enumerate(ids)}
    found = []
    for entry in wanted:
        if str(entry) not in known:
            some = (word if word.isprintable() else repr(word) for word in known)
            rule = f"must be ids of the graph, like {', '.join(islice(some, 3))}"
            _check.fail(name, rule, repr(entry))
        found.append(known[str(entry)])
    return found


def packed(node_id: Array | None) -> dict[str, Tensor]:
    """Packs ids as arrays of numbers: integers, or the UTF-8 of words and its ends."""
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
    """Takes the ids out of the arrays of a saved graph."""
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
