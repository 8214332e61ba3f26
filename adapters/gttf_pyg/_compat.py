"""Private names of torch and PyG, and what only some versions of PyG have.

All that this package reads or sets behind their public interfaces is here, so that
`tests/pyg/test_compat.py` can say which of it a new version has changed.
"""

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch_geometric import sampler
from torch_geometric.data import HeteroData
from torch_geometric.index import index2ptr

EdgeType = tuple[str, str, str]

# The base of samplers in both directions; PyG has a class for them from 2.7 on.
BOTH_WAYS: Any = getattr(
    sampler, "BidirectionalNeighborSampler", sampler.NeighborSampler
)


def row_type(kind: EdgeType, backward: bool = True) -> EdgeType:
    """The edge type as walkers go: with its ends swapped where they go backward.

    It is what names the rows of a relation; PyG has a function for it from 2.7 on.
    """
    src, rel, dst = kind
    return (dst, rel, src) if backward else (src, rel, dst)


def ordered_rows(
    store: Any, size: tuple[int, int], backward: bool
) -> tuple[Tensor, Tensor]:
    """(rowptr, col) of a SparseTensor, or of an edge_index that is in order already.

    PyG's `to_csc` cannot go backward before 2.7, and from then on it swaps the two for
    a SparseTensor.

    Args:
        store: what holds an `adj`, an `adj_t` or an `edge_index`.
        size: the numbers of (sources, targets).
        backward: whether rows are those of the sources, not of the targets.
    """
    if "adj" in store:
        rowptr, col, _ = store["adj"].csr() if backward else store["adj"].csc()
    elif "adj_t" in store:
        rowptr, col, _ = store["adj_t"].csc() if backward else store["adj_t"].csr()
    else:
        src, dst = store["edge_index"]
        row, col = (src, dst) if backward else (dst, src)
        rowptr = index2ptr(row, size[0 if backward else 1])
    return rowptr, col


def store_of(data: Any) -> Any:
    """The only store of a `Data`."""
    return data._store


def node_stores(data: Any) -> dict[Any, Any]:
    """The stores of nodes by type; that of a `Data` has the type None."""
    typed = isinstance(data, HeteroData)
    return data._node_store_dict if typed else {None: data._store}


def edge_stores(data: Any) -> dict[Any, Any]:
    """The stores of edges by type; that of a `Data` has the type None."""
    typed = isinstance(data, HeteroData)
    return data._edge_store_dict if typed else {None: data._store}


def mapping_of(store: Any) -> dict[str, Any]:
    """The attributes of a store as a dictionary, which can be set without checks."""
    found: dict[str, Any] = store._mapping
    return found


def type_of(store: Any) -> Any:
    """The node or edge type of a store; None in a `Data`."""
    return getattr(store, "_key", None)


def forward_pre_hooks(module: Any) -> list[Any]:
    """The forward pre-hooks of a module, in the order of their calls."""
    return list(module._forward_pre_hooks.values())


def base_of(tensor: Tensor) -> Tensor | None:
    """The tensor that this one is a view of, if it is one."""
    return tensor._base


def version_of(tensor: Tensor) -> int | None:
    """The number of changes in place; None where torch does not count them."""
    return None if tensor.is_inference() else tensor._version


def without_torch_function() -> AbstractContextManager[Any]:
    """A context in which tensor subclasses are treated as plain tensors."""
    found: AbstractContextManager[Any] = torch._C.DisableTorchFunctionSubclass()
    return found


def in_backward() -> bool:
    """True if autograd is running `backward` in this thread."""
    return bool(torch._C._current_graph_task_id() != -1)


def edge_mask(layer: Any) -> Tensor | None:
    """The mask of an explainer for the edges of a layer, as weights; None if none."""
    mask: Tensor | None = layer._edge_mask
    if not layer.explain or mask is None:
        return None
    return mask.sigmoid() if layer._apply_sigmoid else mask


class Shadows:
    """Attributes of modules that hide their own for a while.

    They are set in the `__dict__` of an instance, which is looked up before methods of
    its class and before submodules, and where `state_dict` does not look.
    """

    def __init__(self) -> None:
        self._own: list[tuple[Any, str, Any]] = []

    def put(self, module: Any, name: str, value: Any) -> None:
        """Hides an attribute of a module until `restore`."""
        self._own.append((module, name, module.__dict__.get(name, self)))
        module.__dict__[name] = value

    def put_edge_mask(self, layer: Any, mask: Tensor) -> None:
        """Hides the mask of an explainer behind weights of edges."""
        self.put(layer, "_edge_mask", mask)
        self.put(layer, "_apply_sigmoid", False)

    def restore(self, count: int = 0) -> None:
        """Shows all attributes again but the first `count` that were hidden."""
        while len(self._own) > count:
            module, name, value = self._own.pop()
            module.__dict__.pop(name, None)
            if value is not self:
                module.__dict__[name] = value

    def __len__(self) -> int:
        return len(self._own)
