"""NeighborSampler of old: neighbours drawn anew for every layer, a graph for each."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric import loader as theirs
from torch_geometric.loader.neighbor_sampler import Adj, EdgeIndex
from torch_geometric.typing import SparseTensor

from gttf_pyg._check import as_pairs
from gttf_pyg._keys import key_of
from gttf_pyg._options import seeded
from gttf_pyg._seeded import SeededLoader
from gttf_pyg._seeds import input_nodes_of
from gttf_pyg.sampler import sample_layers
from gttf_sampler import CompactAdj
from gttf_sampler._check import as_dense, mistyped, shown, size


class NeighborSampler(theirs.NeighborSampler, SeededLoader):
    """PyG's old `loader.NeighborSampler`: the same arguments, nothing to compile.

    >>> from torch_geometric.datasets import KarateClub
    >>> from gttf_pyg.loader import NeighborSampler
    >>> loader = NeighborSampler(KarateClub()[0].edge_index, [5, 5], batch_size=4)
    >>> batch_size, n_id, adjs = next(iter(loader))
    >>> batch_size, [adj.size[1] for adj in adjs][-1], adjs[0].size[0] == n_id.numel()
    (4, 4, True)

    Every layer draws anew for all nodes that it needs. Under `torch.manual_seed`,
    batches are the same bit by bit for any number of workers, and `state_dict` lets
    another loader continue in the middle of an epoch.

    Args:
        edge_index: and everything up to `transform`: see PyG's class of this name.
        seed: short for `generator=torch.Generator().manual_seed(seed)`.
    """

    def __init__(
        self,
        edge_index: Any,
        sizes: Sequence[int],
        node_idx: Any = None,
        num_nodes: int | None = None,
        return_e_id: bool = True,
        transform: Callable[..., Any] | None = None,
        *,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        self.sizes, self.return_e_id = sizes, return_e_id
        self.transform = transform
        self.is_sparse_tensor = isinstance(edge_index, SparseTensor)
        self.is_hetero = False
        edge_index = edge_index.to("cpu") if self.is_sparse_tensor else edge_index
        self.edge_index, self.node_idx = edge_index, node_idx
        self.__val__ = None
        if self.is_sparse_tensor:
            rowptr, col, self.__val__ = edge_index.csr()
            self.adj = CompactAdj.from_csr(rowptr, col, edge_index.size(1))
        else:
            pairs = as_pairs("edge_index", as_dense("edge_index", edge_index)).cpu()
            count = _count(pairs, node_idx, num_nodes)
            self.adj = CompactAdj.from_edge_index(pairs, count, direction="in")
        self.num_nodes = self.adj.num_rows
        self.fanouts = _fanouts(sizes)
        nodes, _ = input_nodes_of(node_idx, None, None, self, "node_idx")
        if nodes is None:
            nodes = torch.arange(self.num_nodes)
        elif nodes.dtype == torch.bool:
            nodes = nodes.nonzero().view(-1)
        self._nodes: Tensor = nodes
        SeededLoader.__init__(self, range(nodes.numel()), **seeded(kwargs, seed))
        self.use_keys()

    def collate_fn(self, index: Any) -> Any:
        """The batch of some seeds, by their positions among all seeds."""
        return self.sample(self._nodes[torch.as_tensor(index)])

    def sample(self, batch: Any) -> Any:
        """The batch of some nodes: (batch_size, n_id, adjs)."""
        seeds = torch.as_tensor(batch)
        found = sample_layers(self.adj, seeds, self.fanouts, None, False, key_of(self))
        counts: Any = found.num_sampled_edges
        parts = (part.split(counts) for part in (found.row, found.col, found.edge))
        adjs, known = [], seeds.numel()
        new = found.num_sampled_nodes or []
        for row, col, edge, more in zip(*parts, new[1:], strict=True):
            adjs.append(self._bipartite(row, col, edge, (known + more, known)))
            known += more
        layers = adjs[0] if len(adjs) == 1 else adjs[::-1]
        out = seeds.numel(), found.node, layers
        return out if self.transform is None else self.transform(*out)

    def _bipartite(
        self, row: Tensor, col: Tensor, edge: Tensor, size: tuple[int, int]
    ) -> Any:
        """The edges of one layer, from `size[0]` nodes to the first `size[1]`."""
        e_id = self.adj.original_edge(edge).long() if self.return_e_id else None
        if not self.is_sparse_tensor:
            return EdgeIndex(torch.stack([row, col]), e_id, size)
        value = self.__val__
        value = None if value is None else value[edge]
        matrix = SparseTensor(row=col, col=row, value=value, sparse_sizes=size[::-1])
        return Adj(matrix, e_id, size)


def _fanouts(sizes: Any) -> list[int]:
    """Neighbours per layer, the last layer first."""
    if not isinstance(sizes, list | tuple):
        mistyped("sizes", "must be a list of integers, one per layer", shown(sizes))
    return [fanout if fanout == -1 else size("sizes", fanout) for fanout in sizes]


def _count(pairs: Tensor, node_idx: Any, num_nodes: int | None) -> int:
    """The number of nodes, guessed as PyG does where nobody says."""
    if num_nodes is not None:
        return size("num_nodes", num_nodes)
    top = int(pairs.max()) + 1 if pairs.numel() else 0
    if node_idx is None:
        return top
    nodes = as_dense("node_idx", node_idx)
    if nodes.dtype == torch.bool:
        return nodes.numel()
    return max(top, int(nodes.max()) + 1 if nodes.numel() else 0)
