"""Private names of torch and PyG, and what only some versions of PyG have.

All that this package reads or sets behind their public interfaces is here, so that
`tests/pyg/test_compat.py` can say which of it a new version has changed.
"""

from contextlib import AbstractContextManager
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree
from torch_geometric import sampler
from torch_geometric.data import HeteroData
from torch_geometric.index import index2ptr
from torch_geometric.nn import MessagePassing

from gttf_sampler._compat import Shadows
from gttf_sampler._compat import version_of as version_of

EdgeType = tuple[str, str, str]
ONLY = ("", "", "")  # the edge type of a graph that has only one

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


def sparse_values(store: Any) -> Tensor | None:
    """The values of a SparseTensor in the order of `ordered_rows`, where it has some.

    None beside an edge_index, whose edges are the model's.
    """
    if "edge_index" in store:
        return None
    name, order = ("adj", "csc") if "adj" in store else ("adj_t", "csr")
    found: Tensor | None = getattr(store[name], order)()[2] if name in store else None
    return found


def store_of(data: Any) -> Any:
    return data._store


class Stores(NamedTuple):
    """The stores of nodes and of edges by type; that of a `Data` has the type None."""

    nodes: dict[Any, Any]
    edges: dict[Any, Any]


def stores_of(data: Any) -> Stores:
    if isinstance(data, HeteroData):
        return Stores(data._node_store_dict, data._edge_store_dict)
    return Stores({None: data._store}, {None: data._store})


def mapping_of(store: Any) -> dict[str, Any]:
    """The attributes of a store as a dictionary, which can be set without checks."""
    found: dict[str, Any] = store._mapping
    return found


def mappings(stores: Stores) -> Stores:
    """The attributes of all stores as dictionaries, instead of the stores."""
    nodes, edges = ({k: s._mapping for k, s in part.items()} for part in stores)
    return Stores(nodes, edges)


def set_original_edges(data: Any, kind: Any, edge_index: Tensor) -> None:
    """Keeps the edges of a batch as they were before their reverses were added."""
    stores_of(data).edges[kind]._orig_edge_index = edge_index


def type_of(store: Any) -> Any:
    return getattr(store, "_key", None)


def forward_pre_hooks(module: Any) -> list[Any]:
    return list(module._forward_pre_hooks.values())


def plain(module: Any) -> bool:
    """True if nobody watches the calls of a module."""
    return not (module._forward_pre_hooks or module._forward_hooks)


def plain_but_for(module: Any, owner: Any) -> bool:
    """True if nobody but one owner of hooks watches the calls of a module."""
    every = [*module._forward_pre_hooks.values(), *module._forward_hooks.values()]
    return all(getattr(hook, "__self__", None) is owner for hook in every)


def has_message_hooks(layer: Any) -> bool:
    """True if somebody watches or changes the messages of a layer."""
    names = ("propagate", "message", "aggregate", "message_and_aggregate")
    ends = ("forward_pre_hooks", "forward_hooks")
    every = [*names, "edge_update"]
    return any(getattr(layer, f"_{name}_{end}") for name in every for end in ends)


def base_of(tensor: Tensor) -> Tensor | None:
    return tensor._base


def without_torch_function() -> AbstractContextManager[Any]:
    """A context in which tensor subclasses are treated as plain tensors."""
    found: AbstractContextManager[Any] = torch._C.DisableTorchFunctionSubclass()
    return found


def without_numbers(kind: Any, shape: tuple[int, ...], dtype: torch.dtype) -> Any:
    """A tensor of a subclass that has a shape and no memory."""
    return Tensor._make_wrapper_subclass(kind, shape, dtype=dtype)


def tree_map(change: Any, value: Any) -> Any:
    """`value` with all that lists, tuples and dictionaries in it hold changed."""
    return _pytree.tree_map(change, value)


def in_backward() -> bool:
    """True if autograd is running `backward` in this thread."""
    return bool(torch._C._current_graph_task_id() != -1)


def made_by(node: Any) -> tuple[str, dict[str, Any]]:
    """The operation of a node of autograd's graph, and the arguments it has saved."""
    kept = ("dim", "start", "end", "training")
    saved = {
        k: getattr(node, f"_saved_{k}") for k in kept if hasattr(node, f"_saved_{k}")
    }
    return node.name().rstrip("0123456789").removesuffix("Backward"), saved


def shape_of(node: Any) -> tuple[int, ...]:
    """The shape of what a node of autograd's graph has made."""
    if hasattr(node, "variable"):
        return tuple(node.variable.shape)
    about = node._input_metadata
    return tuple(about[0].shape) if about else ()


def edge_mask(layer: Any) -> Tensor | None:
    """The mask of an explainer for the edges of a layer, as weights; None if none."""
    mask: Tensor | None = layer._edge_mask
    if not layer.explain or mask is None:
        return None
    return mask.sigmoid() if layer._apply_sigmoid else mask


def methods_with(kind: Any, *names: str) -> list[str]:
    """The methods of a layer, but `forward`, that call one of PyG's functions."""
    found: dict[str, None] = {}
    for base in kind.__mro__[: kind.__mro__.index(MessagePassing)]:
        for name, value in vars(base).items():
            if isinstance(value, FunctionType) and name != "forward":
                called = set(names) & {*value.__code__.co_names} & {*value.__globals__}
                found |= dict.fromkeys([name] if called else [])
    return list(found)


def with_globals(function: Any, names: dict[str, Any]) -> FunctionType:
    """A copy of a function whose globals of some names are others.

    Layers call PyG's functions by name; so only the copy calls another.
    """
    known = {k: v for k, v in names.items() if k in function.__globals__}
    return FunctionType(
        function.__code__,
        {**function.__globals__, **known},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


def put_edge_mask(shadows: Shadows, layer: Any, mask: Tensor) -> None:
    """Hides the mask of an explainer behind weights of edges."""
    shadows.put(layer, "_edge_mask", mask)
    shadows.put(layer, "_apply_sigmoid", False)
