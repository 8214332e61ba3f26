"""What only some of the supported versions of PyG have, in a form for all of them."""

from typing import Any

from torch import Tensor
from torch_geometric import sampler
from torch_geometric.index import index2ptr

# what samplers in both directions pass for; PyG has a class for them from 2.7 on
BOTH_WAYS: Any = getattr(
    sampler, "BidirectionalNeighborSampler", sampler.NeighborSampler
)


def reverse_edge_type(kind: tuple[str, str, str]) -> tuple[str, str, str]:
    """The edge type with its ends swapped; PyG has it from 2.7 on."""
    src, rel, dst = kind
    return dst, rel, src


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


def forward_pre_hooks(module: Any) -> list[Any]:
    """The forward pre-hooks of a module, in the order of their calls."""
    return list(module._forward_pre_hooks.values())
