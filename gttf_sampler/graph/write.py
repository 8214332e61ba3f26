"""Writes graphs, and embeddings with the ids of their nodes, to files."""

from __future__ import annotations

import csv
import gzip
import io
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check, _files
from gttf_sampler.graph.cells import COMMENTS, is_missing, whole_numbers
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.graph.exchange import columns_of, values_of
from gttf_sampler.graph.files import TABLES
from gttf_sampler.graph.names import Array, ids_of

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": " ", ".edgelist": " ", ".edges": " "}
WRITTEN = (*SEPARATORS, ".npz", *TABLES)
VECTOR_TEXTS = (".txt", ".tsv", ".emb")
VECTORS = (".npy", ".npz", *VECTOR_TEXTS)


def write_graph(path: str | os.PathLike[str], adj: CompactAdj) -> Path:
    """Writes the edges of a graph with the ids of its nodes; `read_graph` reads them.

    The end of the name says how: .csv, .tsv and .txt are text, packed if .gz follows;
    .parquet and .npz are tables. Nodes without edges are kept by .npz alone.
    """
    file = _check.path("path", path)
    packed = file.suffix == ".gz"
    suffix = Path(file.stem).suffix if packed else file.suffix
    if suffix not in WRITTEN or (packed and suffix not in SEPARATORS):
        rule = f"must end in one of {', '.join(WRITTEN)}, text also in .gz"
        _check.fail("path", rule, repr(file.name))
    _check.one_node_set("adj", adj.num_rows, adj.num_cols)
    if suffix in TABLES:
        pyarrow = _check.library("pyarrow", suffix)
        table = pyarrow.table(columns_of(adj, "source", "target"))
        with _files.replacing(file) as (out,):
            import_module("pyarrow.parquet").write_table(table, out)
        return file
    if suffix == ".npz":
        arrays: dict[str, Any] = {"edge_index": adj.to_edge_index().cpu().numpy()}
        arrays["num_nodes"] = np.array(adj.num_rows)
        if adj.node_id is not None:
            arrays["node_id"] = ids_of("node_id", adj.node_id)
        arrays |= values_of(adj)
        with _files.replacing(file) as (out,):
            np.savez(out, **arrays)
        return file
    text = _as_text(columns_of(adj, "source", "target"), SEPARATORS[suffix])
    with _files.replacing(file) as (out,):
        out.write(gzip.compress(text, mtime=0) if packed else text)
    return file


def _as_text(named: dict[str, Array], separator: str) -> bytes:
    """Writes columns under their names; words that hold a separator are quoted."""
    words = np.unique(np.concatenate([named["source"], named["target"]]))
    if words.dtype.kind == "U":
        _check_words(words.tolist(), separator)
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator="\n")
    writer.writerow(named)
    writer.writerows(zip(*(column.tolist() for column in named.values()), strict=True))
    return out.getvalue().encode()


def _check_words(words: list[str], separator: str) -> None:
    """Refuses ids that would not be read as they are."""
    if separator == " " and any(len(word.split()) != 1 for word in words):
        cure = "write .csv, .tsv or .parquet"
        _check.fail("node_id", "must be words without spaces", "others", cure)
    cure = "write .parquet or .npz"
    for word in words:
        if word.startswith(COMMENTS):
            rule = f"must not begin with {' or '.join(COMMENTS)} in text: a comment"
            _check.fail("node_id", rule, repr(word), cure)
        if word != word.strip() or len(word.splitlines()) != 1:
            rule = "must have no space around them in text, nor line breaks"
            _check.fail("node_id", rule, repr(word), cure)
        if separator == " " and '"' in word:
            _check.fail("node_id", "must have no quotes in text", repr(word), cure)
    known = [word for word in words if not is_missing(word)]
    if words and whole_numbers(known) is not None:
        rule = "must not be words that are all read as integers in text"
        _check.fail("node_id", rule, repr(words[0]), cure)


def embedding_files(path: str | os.PathLike[str]) -> list[Path]:
    """Returns the files that `write_embeddings` writes for a name."""
    file = _check.path("path", path)
    if file.suffix not in VECTORS:
        _check.fail("path", f"must end in one of {', '.join(VECTORS)}", repr(file.name))
    if not file.absolute().parent.is_dir():
        _check.fail("path", "must be in a directory that is there", str(file))
    return [file, file.with_suffix(".ids.txt")] if file.suffix == ".npy" else [file]


def write_embeddings(
    path: str | os.PathLike[str], embedding: Tensor, node_id: Array
) -> list[Path]:
    """Writes vectors [n, d] with the ids [n] of their nodes; returns the files.

    The end of the name says how: `.npy` is the matrix alone, with the ids in a file
    `.ids.txt` beside it, line by line; `.npz` holds the arrays `embedding` and
    `node_id`; `.txt`, `.tsv` and `.emb` are word2vec's text, a line `n d` and then
    `id x₁ … x_d` per node. What was there before stays until the new file is whole.
    """
    files = embedding_files(path)
    file = files[0]
    vectors = _matrix(embedding)
    if not isinstance(node_id, np.ndarray | list | tuple | range):
        rule = "must be an array or a list of ids"
        _check.mistyped("node_id", rule, _check.kind_of(node_id))
    if np.ndim(node_id) != 1 or len(node_id) != len(vectors):
        rule = f"must have one entry per row, {len(vectors)}"
        _check.fail("node_id", rule, f"shape {list(np.shape(node_id))}")
    if not np.isfinite(vectors).all():
        cure = "learn with a smaller rate"
        _check.fail("embedding", "must hold finite numbers", "others, too", cure)
    if file.suffix in VECTOR_TEXTS and any(
        len(str(name).split()) != 1 for name in node_id
    ):
        rule = f"must be words without spaces in {file.suffix}"
        _check.fail("node_id", rule, "others, too", "write .npz or .npy")
    with _files.replacing(*files) as (out, *beside):
        if file.suffix == ".npy":
            np.save(out, vectors)
            beside[0].write("".join(f"{name}\n" for name in node_id).encode())
        elif file.suffix == ".npz":
            np.savez(out, embedding=vectors, node_id=node_id)
        else:
            out.write(f"{vectors.shape[0]} {vectors.shape[1]}\n".encode())
            for name, vector in zip(node_id, vectors, strict=True):
                line = f"{name} {' '.join(f'{x:.6g}' for x in vector)}\n"
                out.write(line.encode())
    return files


def _matrix(embedding: Tensor) -> Array:
    """Converts vectors [n, d] to numpy."""
    _check.real("embedding", _check.dense("embedding", embedding))
    vectors = _check.tensor("embedding", embedding, rank=2).cpu()
    if vectors.dtype == torch.bfloat16:  # which numpy lacks
        vectors = vectors.float()
    found: Array = vectors.numpy()
    return found
