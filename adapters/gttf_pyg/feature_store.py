"""FileStore: feature files as PyG's FeatureStore."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import FeatureStore, TensorAttr

from gttf_pyg._sources import is_source
from gttf_sampler._check import fail, integers, within
from gttf_sampler.features import RowSource

Key = tuple[Any, Any]


class FileStore(FeatureStore):
    """A `FeatureStore` whose tensors are feature files, or anything with such rows.

    >>> import tempfile, torch
    >>> from torch_geometric.data import Data
    >>> from gttf_pyg import FileStore, GTTFLoader
    >>> from gttf_sampler import FeatureFile
    >>> folder = tempfile.mkdtemp()
    >>> store = FileStore()
    >>> x = FeatureFile.from_array(f"{folder}/x.npy", torch.eye(3))
    >>> store.put_tensor(x, group_name=None, attr_name="x", index=None)
    True
    >>> graph, ring = Data(), torch.tensor([[0, 1, 2], [1, 2, 0]])
    >>> graph.put_edge_index(ring, layout="coo", size=(3, 3))
    True
    >>> loader = GTTFLoader((store, graph), [1], input_nodes=torch.tensor([1]))
    >>> next(iter(loader)).x.tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]

    `put_tensor` takes a `FeatureFile` or a tensor, whole; `get_tensor` reads rows. For
    node types, `group_name` is the type.
    """

    def __init__(self) -> None:
        super().__init__()
        self.__dict__["sources"] = {}

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        if attr.is_set("index") and attr.index is not None:
            fail("index", "must be None: files are put as a whole", attr.index)
        if not is_source(tensor) and not isinstance(tensor, Tensor | np.ndarray):
            fail("tensor", "must be a FeatureFile or a tensor", type(tensor).__name__)
        self.sources[_key(attr)] = tensor
        return True

    def _get_tensor(self, attr: TensorAttr) -> Tensor | None:
        source = self.sources.get(_key(attr))
        if source is None:
            return None
        index = attr.index if attr.is_set("index") else None
        if not isinstance(source, RowSource):
            rows = torch.as_tensor(source)
            return rows if index is None else rows[index]
        if index is None or isinstance(index, slice):
            start, stop, step = (index or slice(None)).indices(len(source))
            return source.rows(torch.arange(start, stop, step))
        ids = integers("index", index).to("cpu", torch.int64).contiguous()
        return source.rows(within("index", ids, len(source), "rows"))

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        return self.sources.pop(_key(attr), None) is not None

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        source = self.sources.get(_key(attr))
        return None if source is None else tuple(source.shape)

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """One for every file."""
        return [TensorAttr(group, name) for group, name in self.sources]


def _key(attr: TensorAttr) -> Key:
    """What a file is found by."""
    group = attr.group_name if attr.is_set("group_name") else None
    return group, attr.attr_name
