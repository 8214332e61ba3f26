"""GraphSAINT's samplers: a random subgraph per step, and how likely its parts were."""

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric import loader as theirs
from torch_geometric.data import Data
from torch_geometric.index import index2ptr
from torch_geometric.loader import GraphSAINTSampler as _Saint  # see `install`
from tqdm import tqdm

from gttf_pyg._check import as_pairs, one_graph
from gttf_pyg._rows import detached, plain
from gttf_pyg._seeded import SeededLoader
from gttf_pyg._seeds import key_of
from gttf_pyg.loaders import set_rows
from gttf_sampler import CompactAdj, Subgraph, random, traverse
from gttf_sampler._check import (
    count,
    dense,
    fail,
    mistyped,
    one_of,
    shown,
    size,
    steps,
    within,
    yes_or_no,
)
from gttf_sampler.rooted.sample import WeightedDraw, draw_ids

SCHEMES = ("unbiased", "pyg")
NORMS = ("node_norm", "edge_norm")
MOST = 1e4  # an edge_norm, as GraphSAINT has it
UNSEEN = 0.1  # the count of a node, and the edge_norm of an edge, that nobody has seen


class GraphSAINTSampler(_Saint, SeededLoader):
    """PyG's `GraphSAINTSampler`, the base of the three below, nothing to compile.

    A batch is the graph that some nodes induce, as a `Data` with all attributes of
    nodes and edges: nodes by id, edges by source and then by target. With
    `sample_coverage` it has `node_norm` and `edge_norm`, the weights of nodes in a loss
    and of edges in an aggregation that make both unbiased (Zeng et al., 2020).

    Under `torch.manual_seed`, batches are the same bit by bit for any number of
    workers, and `state_dict` lets another loader continue in the middle of an epoch.
    Coefficients are the same whatever the seed.

    Differs from PyG where PyG differs from the paper, unless `scheme="pyg"`: an edge is
    drawn in proportion to 1/δ of its ends, not δ, and its norm counts how often the
    node was there that receives its message, not the one that sends it.

    Args:
        data: a `Data` with an `edge_index`.
        batch_size: how many nodes, edges or walks are drawn for a batch.
        num_steps: batches per epoch.
        sample_coverage: how often a node is sampled, on average, to estimate the
            coefficients; 0 for none.
        save_dir: where to keep them, and to look for them first.
        log: show a bar meanwhile.
        scheme: "unbiased", or "pyg" for PyG's own formulas.
        seed: short for `generator=torch.Generator().manual_seed(seed)`.
        **kwargs: of torch's DataLoader.
    """

    def __init__(
        self,
        data: Data,
        batch_size: int,
        num_steps: int = 1,
        sample_coverage: int = 0,
        save_dir: str | os.PathLike[str] | None = None,
        log: bool = True,
        *,
        scheme: str = "unbiased",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        one_graph(data)
        if data.edge_index is None:
            fail("data", "must have an edge_index", "none")
        for name in NORMS:
            if name in data:
                fail("data", f"must not have a {name!r} already", "one", "delete it")
        if save_dir is not None and not isinstance(save_dir, str | os.PathLike):
            mistyped("save_dir", "must be a path or None", shown(save_dir))
        self.num_steps = size("num_steps", num_steps)
        self._batch_size = count("batch_size", batch_size)
        self.sample_coverage = size("sample_coverage", sample_coverage)
        self.save_dir, self.log = save_dir, yes_or_no("log", log)
        self.scheme = one_of("scheme", scheme, SCHEMES)
        self.data = detached(data)
        self.N, self.E = int(data.num_nodes), data.num_edges
        self._ends = as_pairs(
            "data.edge_index", plain(dense("data.edge_index", data.edge_index))
        ).cpu()
        self._ends = within("data.edge_index", self._ends, self.N).long()
        row, col = self._ends
        order = (row * self.N + col).argsort(stable=True)
        self.adj = CompactAdj.from_csr(
            index2ptr(row[order], self.N), col[order], direction="out", edge_id=order
        )
        self._prepare()
        SeededLoader.__init__(self, range(self.num_steps), seed=seed, **kwargs)
        self.node_norm = self.edge_norm = None
        if self.sample_coverage:
            self.node_norm, self.edge_norm = self._norms()
        self.use_keys()

    def _prepare(self) -> None:
        """Makes what draws need, once."""
        if not self.E:
            fail("data", "must have at least one edge to draw from", "none")

    def _sample(self) -> tuple[Tensor, Subgraph]:
        """The nodes of a batch, ascending, and all edges between them."""
        node = self._sample_nodes(self._batch_size).unique()
        none = node.new_empty(0)
        return node, Subgraph(node, none, none, none).induced(self.adj)

    def collate_fn(self, index: Any) -> Data:
        """The batch of a step; `index` only says how many there are."""
        node, found = self._sample()
        e_id = self.adj.original_edge(found.edge).long()
        batch = type(self.data)()
        batch.num_nodes = node.numel()
        # walkers stand where edges begin: a row lists where they end
        batch.edge_index = torch.stack([found.col, found.row])
        set_rows(batch, self.data, node, e_id, ("edge_index", "num_nodes"))
        if self.node_norm is not None and self.edge_norm is not None:
            batch.node_norm, batch.edge_norm = (
                self.node_norm[node],
                self.edge_norm[e_id],
            )
        return batch

    def __getitem__(self, idx: int) -> Data:
        """One more batch, whatever its number."""
        return self.collate_fn([idx])

    @property
    def _filename(self) -> str:
        """PyG's name for PyG's coefficients; ours depend on the batch size as well."""
        name: str = super()._filename
        if self.scheme == "pyg":
            return name
        return name.replace(".pt", f"_{self.scheme}_{self._batch_size}.pt")

    def _norms(self) -> tuple[Tensor, Tensor]:
        """The coefficients, from `save_dir` if they are there."""
        if self.save_dir is None:
            return self._compute_norm()
        path = Path(self.save_dir, self._filename)
        if not path.exists():
            part = path.with_suffix(f".{os.getpid()}.part")
            torch.save(self._compute_norm(), part)
            part.replace(path)  # whole, or not there
        node, edge = torch.load(path, weights_only=True)
        if (node.numel(), edge.numel()) != (self.N, self.E):
            rule = f"must hold coefficients of {self.N} nodes and {self.E} edges"
            got = f"{node.numel()} and {edge.numel()} in {path.name}"
            fail("save_dir", rule, got, "delete the file")
        return node, edge

    def _compute_norm(self) -> tuple[Tensor, Tensor]:
        """The coefficients, from samples that have all nodes often enough.

        They have keys of their own, so that two loaders never differ in them.
        """
        nodes, edges = torch.zeros(self.N), torch.zeros(self.E)
        samples = seen = 0
        wanted = self.N * self.sample_coverage
        with tqdm(total=wanted, desc="GraphSAINT norms", disable=not self.log) as bar:
            while seen < wanted:
                self.key = int(random.fold(0, samples))
                node, found = self._sample()
                nodes[node] += 1
                edges[self.adj.original_edge(found.edge).long()] += 1
                samples, seen = samples + 1, seen + node.numel()
                bar.update(node.numel())
        self.key = None
        at = self._ends[0 if self.scheme == "pyg" else 1]
        norm = (nodes[at] / edges).clamp_(0, MOST).nan_to_num_(UNSEEN)
        return samples / nodes.where(nodes > 0, UNSEEN) / self.N, norm


class GraphSAINTNodeSampler(GraphSAINTSampler, theirs.GraphSAINTNodeSampler):
    """PyG's `GraphSAINTNodeSampler`: nodes in proportion to the edges that leave them.

    >>> from torch_geometric.datasets import KarateClub
    >>> from gttf_pyg import GraphSAINTNodeSampler
    >>> loader = GraphSAINTNodeSampler(KarateClub()[0], batch_size=12, num_steps=5)
    >>> len(loader), all(batch.num_nodes <= 12 for batch in loader)
    (5, True)

    Args:
        data: and all others: see `GraphSAINTSampler`.
    """

    def _sample_nodes(self, batch_size: int) -> Tensor:
        return self._ends[0][_ids(self, batch_size, self.E)[0]]


class GraphSAINTEdgeSampler(GraphSAINTSampler, theirs.GraphSAINTEdgeSampler):
    """PyG's `GraphSAINTEdgeSampler`: the ends of edges that are drawn by their degrees.

    >>> from torch_geometric.datasets import KarateClub
    >>> from gttf_pyg import GraphSAINTEdgeSampler
    >>> loader = GraphSAINTEdgeSampler(
    ...     KarateClub()[0], batch_size=6, num_steps=5, sample_coverage=50, log=False
    ... )
    >>> batch = next(iter(loader))
    >>> batch.num_nodes <= 12, batch.node_norm.numel() == batch.num_nodes
    (True, True)

    Args:
        data: and all others: see `GraphSAINTSampler`.
    """

    def _prepare(self) -> None:
        super()._prepare()
        row, col = self._ends
        leave, arrive = (end.bincount(minlength=self.N).double() for end in (row, col))
        weight = 1 / leave[row] + 1 / arrive[col]
        if self.scheme == "pyg":
            weight = arrive[row] + leave[col]
        self._draw = WeightedDraw(weight, self._batch_size)

    def _sample_nodes(self, batch_size: int) -> Tensor:
        return self._ends[:, self._draw(key_of(self))].view(-1)


class GraphSAINTRandomWalkSampler(
    GraphSAINTSampler, theirs.GraphSAINTRandomWalkSampler
):
    """PyG's `GraphSAINTRandomWalkSampler`: what walks from uniform nodes have visited.

    >>> from torch_geometric.datasets import KarateClub
    >>> from gttf_pyg import GraphSAINTRandomWalkSampler
    >>> data = KarateClub()[0]
    >>> loader = GraphSAINTRandomWalkSampler(data, batch_size=4, walk_length=2)
    >>> next(iter(loader)).num_nodes <= 4 * 3
    True

    A walk stays where no edge leads on.

    Args:
        data: and `batch_size`, the number of walks: see `GraphSAINTSampler`.
        walk_length: the number of steps of each walk.
        *args: and all others: see `GraphSAINTSampler`.
    """

    def __init__(
        self, data: Data, batch_size: int, walk_length: int, *args: Any, **kwargs: Any
    ) -> None:
        self.walk_length = steps("walk_length", walk_length)
        super().__init__(data, batch_size, *args, **kwargs)

    def _prepare(self) -> None:
        if not self.N:
            fail("data", "must have at least one node to start from", "none")

    def _sample_nodes(self, batch_size: int) -> Tensor:
        start, key = _ids(self, batch_size, self.N)
        fanouts = [1] * self.walk_length
        forest = traverse(self.adj, start, fanouts, generator=int(random.fold(key, 0)))
        return torch.cat([level.view(-1) for level in forest.nodes])


def _ids(loader: Any, count: int, upper: int) -> tuple[Tensor, random.Key]:
    """Uniform ids for a batch, and the key they were drawn with."""
    key = random.new_key(key_of(loader), loader.adj.device, random.BATCH)
    return draw_ids(count, upper, key, loader.adj.device), key
