"""ShaDowKHopSampler: a small graph of its own around every seed."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric import loader as theirs
from torch_geometric.data import Batch, Data
from torch_geometric.typing import SparseTensor

from gttf_pyg import _graph
from gttf_pyg._keys import key_of
from gttf_pyg._options import seeded
from gttf_pyg._rows import ONLY, Options, detached
from gttf_pyg._seeded import SeededLoader
from gttf_pyg._seeds import input_nodes_of
from gttf_sampler import CompactAdj, Subgraph
from gttf_sampler._check import mistyped, shown, size
from gttf_sampler.rooted import RootedSampler

OWN = ("edge_index", "adj_t", "num_nodes", "batch", "ptr")


class ShaDowKHopSampler(theirs.ShaDowKHopSampler, SeededLoader):
    """PyG's `ShaDowKHopSampler`: the same arguments and batches, nothing to compile.

    >>> from torch_geometric.datasets import KarateClub
    >>> data = KarateClub()[0]
    >>> loader = ShaDowKHopSampler(data, depth=2, num_neighbors=5, batch_size=4)
    >>> batch = next(iter(loader))
    >>> batch.num_graphs, batch.x[batch.root_n_id].argmax(dim=1).tolist()
    (4, [0, 1, 2, 3])

    Under `torch.manual_seed`, batches are the same bit by bit for any number of
    workers, and `state_dict` lets another loader continue in the middle of an epoch.

    Differs from PyG, which draws anew for a node each time it is reached: here a node
    draws once per graph, as everywhere in this package.

    Args:
        data: and everything up to `replace`: see PyG's `ShaDowKHopSampler`; a fanout of
            -1 takes all neighbours.
        seed: short for `generator=torch.Generator().manual_seed(seed)`.
    """

    def __init__(
        self,
        data: Data,
        depth: int,
        num_neighbors: int,
        node_idx: Any = None,
        replace: bool = False,
        *,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(data, Data):
            mistyped("data", "must be a Data", shown(data))
        hop = num_neighbors
        if not isinstance(hop, int) or hop != -1:
            hop = size("num_neighbors", num_neighbors)
        graph = _graph.from_data(data, Options())
        self.data = copy.copy(detached(data))
        self.depth, self.num_neighbors = size("depth", depth), num_neighbors
        self.replace = replace
        self.is_sparse_tensor = "edge_index" not in data
        self.adj: CompactAdj = graph.adjs[ONLY].to("cpu")  # as seeds are
        self.num_nodes, self.is_hetero = graph.num_nodes, False
        self._draw = RootedSampler(
            self.adj, [hop] * self.depth, replace=replace, disjoint=True
        )
        nodes, _ = input_nodes_of(node_idx, None, data, self, "node_idx")
        if nodes is None:
            nodes = torch.arange(graph.num_nodes)
        elif nodes.dtype == torch.bool:
            nodes = nodes.nonzero().view(-1)
        self.node_idx: Tensor = nodes
        SeededLoader.__init__(self, range(nodes.numel()), **seeded(kwargs, seed))
        self.use_keys()

    def collate_fn(self, index: Any) -> Batch:
        """The batch of some seeds, by their positions among all seeds."""
        return self.__collate__(self.node_idx[torch.as_tensor(index)])

    def __collate__(self, n_id: Tensor | Sequence[int]) -> Batch:
        """The batch of some nodes, which may repeat."""
        found: Any = self._draw(torch.as_tensor(n_id), generator=key_of(self))
        node, tree, place = _by_id(found)
        row, col, edge = _edges(found.induced(self.adj), place)
        e_id = self.adj.original_edge(edge).long()
        trees = found.num_sampled_nodes[0]
        ptr = torch.searchsorted(tree, torch.arange(trees + 1))
        batch = Batch(batch=tree, ptr=ptr)
        batch.root_n_id = place[:trees]
        if self.is_sparse_tensor:
            batch.adj_t = _matrix(self.data.adj_t, row, col, e_id, node.numel())
        else:
            batch.edge_index = torch.stack([row, col])
        return self._with_columns(batch, node, e_id)

    def _with_columns(self, batch: Batch, node: Tensor, e_id: Tensor) -> Batch:
        """Adds what belongs to nodes and edges; of labels, those of the seeds."""
        nodes, edges = self.data.num_nodes, self.data.num_edges
        for key, value in self.data:
            if key in OWN:
                continue
            sized = isinstance(value, Tensor) and value.dim() > 0
            if key == "y" and sized and value.shape[0] == nodes:
                batch[key] = value[node[batch.root_n_id].to(value.device)]
            elif sized and value.shape[0] == nodes:
                batch[key] = value[node.to(value.device)]
            elif sized and value.shape[0] == edges:
                batch[key] = value[e_id.to(value.device)]
            else:
                batch[key] = value
        return batch


def _by_id(found: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes [n] of one tree after another, by id; their trees; where each has gone."""
    tree = found.batch
    order = found.node.argsort(stable=True)
    order = order[tree[order].argsort(stable=True)]
    place = torch.empty_like(order)
    place[order] = torch.arange(order.numel())
    return found.node[order], tree[order], place


def _edges(found: Subgraph, place: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(row, col, edge) in the new numbers, sorted by row and then by column."""
    row, col = place[found.row], place[found.col]
    order = (row * place.numel() + col).argsort(stable=True)
    return row[order], col[order], found.edge[order]


def _matrix(whole: Any, row: Tensor, col: Tensor, e_id: Tensor, size: int) -> Any:
    """The edges as a transposed SparseTensor, with the values that `whole` has."""
    value = whole.storage.value()
    value = None if value is None else value[e_id]
    return SparseTensor(row=col, col=row, value=value, sparse_sizes=(size, size))
