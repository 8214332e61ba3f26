"""partition: a `Data` or `HeteroData`, also from a file, cut into parts on disk."""

import os
import pickle
import re
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import is_zipfile

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import (
    BaseStorage,
    EdgeStorage,
    GlobalStorage,
    NodeStorage,
)

from gttf_pyg._check import name_or_none
from gttf_pyg._compat import store_of
from gttf_pyg._rows import ONLY, Options
from gttf_pyg._stores import from_data
from gttf_sampler._check import fail, mistyped, shown
from gttf_sampler.distributed import partition as cut
from gttf_sampler.distributed.write import key_of

# What a Data is made of, beside the classes that PyG itself tells torch to be safe.
STORES = (BaseStorage, GlobalStorage, NodeStorage, EdgeStorage)
CONTENT = [*STORES, DataEdgeAttr, DataTensorAttr]
EDGES = ("edge_index", "adj", "adj_t")
BROKEN = (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, LookupError)


class Whole(NamedTuple):
    """A graph with all that can be cut, as `gttf_sampler.distributed` takes it."""

    graph: Any  # the rows, or those of every edge type
    features: dict[tuple[str, str], Tensor]  # [n, ...] by (node type or "", name)
    left_out: list[str]  # what the data has beside that


def partition(
    data: Any,
    path: str | os.PathLike[str],
    parts: int,
    *,
    weight_attr: str | None = None,
    time_attr: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Cuts a `Data` or `HeteroData` into parts that `PartitionedGraph.open` opens.

    >>> import tempfile
    >>> from torch_geometric.datasets import KarateClub
    >>> from gttf_pyg import partition
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     facts = partition(KarateClub()[0], folder, parts=2)
    >>> sum(facts["nodes"]), facts["features"]
    (34, ['x', 'y', 'train_mask'])

    All tensors with a row per node become features. Edges have ids by their order in
    `edge_index`, as in batches of the whole.

    Args:
        data: one of the two, or a file that `torch.save` has written it to.
        path: a directory, which is made.
        parts: how many.
        weight_attr: the edge attribute to draw by, if batches shall be drawn by it.
        time_attr: the node or edge attribute that rows are sorted by in time.
        options: those of `gttf_sampler.distributed.partition`.
    """
    if isinstance(data, str | os.PathLike):
        data = load(data)
    whole = whole_of(data, weight_attr, time_attr)
    given = options.pop("features", None) or {}
    own = {key_of(key): values for key, values in given.items()}
    features = {**whole.features, **own}
    return cut(whole.graph, path, parts, features=features, **options)


def whole_of(data: Any, weight_attr: str | None, time_attr: str | None) -> Whole:
    """The rows and features of a `Data` or `HeteroData` that are cut."""
    if not isinstance(data, Data | HeteroData):
        mistyped("data", "must be a Data or HeteroData", shown(data))
    name_or_none("weight_attr", weight_attr)
    name_or_none("time_attr", time_attr)
    if not any(name in store for store in data.edge_stores for name in EDGES):
        fail("data", "must have edges", shown(data))
    adjs = from_data(data, Options(time_attr, weight_attr)).adjs
    ends = {end for kind in adjs for end in (kind[0], kind[2])}
    features, left_out = {}, []
    known = {*EDGES, weight_attr, time_attr, "num_nodes"}
    stores = [("", store_of(data))] if isinstance(data, Data) else []
    for kind, store in stores or [*data.node_items(), *data.edge_items()]:
        words = [kind] if isinstance(kind, str) else kind
        for name, value in store.items():
            full = ".".join([*words, name] if kind else [name])
            if kind in ends and store.is_node_attr(name) and isinstance(value, Tensor):
                features[str(kind), name] = value.detach().cpu()
            elif name not in known:
                left_out.append(full)
    graph = adjs[ONLY] if list(adjs) == [ONLY] else adjs
    return Whole(graph, features, left_out)


def saved(file: str, weight_attr: str | None, time_attr: str | None) -> Whole:
    """The rows and features of a `Data` or `HeteroData` in a file."""
    return whole_of(load(file), weight_attr, time_attr)


def load(file: str | os.PathLike[str]) -> Data | HeteroData:
    """The `Data` or `HeteroData` in a file, also that of a dataset with one graph.

    Nothing but tensors and containers of PyG is read from it, so that a file cannot run
    code. Tensors are memory-mapped.
    """
    path = Path(file)
    if not path.is_file():
        fail("data", "must be a file that is there", repr(str(file)))
    try:
        with _allowed():
            found = torch.load(str(path), weights_only=True, mmap=is_zipfile(path))
    except BROKEN as error:
        rule = "must be read by torch.load(weights_only=True)"
        cure = "load it yourself and call gttf_pyg.partition(data, ...)"
        fail("data", rule, _reason(path, error), cure)
    if isinstance(found, tuple) and len(found) == 3:  # processed/data.pt of a dataset
        content, slices, kind = found
        if slices is None and kind in (Data, HeteroData):
            found = kind.from_dict(content)
    if not isinstance(found, Data | HeteroData):
        fail("data", "must hold one Data or HeteroData", f"{path}: {shown(found)}")
    return found


def _allowed() -> AbstractContextManager[Any]:
    """Tells torch which classes it may make; torch before 2.5 knows no such list."""
    allow = getattr(torch.serialization, "safe_globals", None)
    return nullcontext() if allow is None else allow(CONTENT)


def _reason(path: Path, error: BaseException) -> str:
    unknown = re.search(r"GLOBAL (\S+) was not an allowed", str(error))
    if unknown:
        return f"{path} with a {unknown[1]}"
    return f"{path}, which is no whole file of torch.save"
