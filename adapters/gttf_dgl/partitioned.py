"""PartitionedLoader: blocks of a graph whose rows are in several processes."""

from collections.abc import Iterator
from typing import Any

import dgl
import torch
from dgl import EID, NID
from dgl.heterograph import DGLBlock
from torch import Tensor

from gttf_dgl import _check
from gttf_sampler import random
from gttf_sampler._check import (
    count,
    fail,
    integers,
    mistyped,
    shown,
    within,
    yes_or_no,
)
from gttf_sampler.distributed import PartitionedGraph
from gttf_sampler.rooted import RootedSampler, laws_of

CPU = torch.device("cpu")


class PartitionedLoader:
    """Batches of a graph in parts, as DGL's `DataLoader` with `GTTFSampler` has them.

    >>> import tempfile
    >>> from gttf_sampler import CompactAdj
    >>> from gttf_sampler.distributed import PartitionedGraph, partition
    >>> ring = CompactAdj.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     facts = partition(ring, folder, parts=1, features={"x": torch.eye(4)})
    ...     graph = PartitionedGraph.open(folder)
    >>> loader = PartitionedLoader(graph, [2, 2], batch_size=2)
    >>> input_nodes, output_nodes, blocks = next(iter(loader))
    >>> input_nodes.tolist(), output_nodes.tolist(), blocks[0].srcdata["x"].shape
    ([0, 1, 3, 2], [0, 1], torch.Size([4, 4]))

    A block per layer, each drawn anew. The nodes that the first block reads, and those
    that the last one writes, have all features of the graph as their data.

    Args:
        graph: without types.
        fanouts: neighbours per layer; -1 takes all.
        nodes: [k], the seeds; by default the process's own nodes.
        batch_size: seeds per batch.
        shuffle: whether to put the seeds in a new order in every epoch.
        drop_last: whether to leave out a last batch that is smaller.
        replace: whether a neighbour may be drawn twice.
        generator: a torch.Generator on the CPU for order and draws; by default torch's.
    """

    def __init__(
        self,
        graph: PartitionedGraph,
        fanouts: Any,
        nodes: Any = None,
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        replace: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        if not isinstance(graph, PartitionedGraph):
            mistyped("graph", "must be a PartitionedGraph", shown(graph))
        self.graph, self.generator = graph, generator
        self.fanouts: list[int] = _check.fanouts(fanouts)
        if not all(isinstance(fanout, int) for fanout in self.fanouts):
            fail("fanouts", "must be numbers, as the graph has no types", fanouts)
        adj: Any = graph.adj
        self.nodes = graph.own_nodes()
        if nodes is not None:
            self.nodes = within("nodes", integers("nodes", nodes), adj.num_rows)
        self.batch_size = count("batch_size", batch_size)
        self.shuffle = yes_or_no("shuffle", shuffle)
        self.drop_last = yes_or_no("drop_last", drop_last)
        seen = adj.seen_with(weights=False, times=False)
        self._laws = laws_of({("", "", ""): seen}, {})
        replace = yes_or_no("replace", replace)
        self._layers = [
            RootedSampler(seen, [fanout], replace=replace) for fanout in self.fanouts
        ]

    def __len__(self) -> int:
        """How many batches an epoch has."""
        whole, rest = divmod(self.nodes.numel(), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, list[DGLBlock]]]:
        """(input_nodes, output_nodes, blocks), the block of the seeds last."""
        key, nodes = random.draw(self.generator), self.nodes
        if self.shuffle:
            nodes = nodes[torch.randperm(nodes.numel(), generator=self.generator)]
        for number in range(len(self)):
            seeds = nodes[number * self.batch_size :][: self.batch_size]
            yield self.sample(seeds, int(random.fold(key, number)))

    def sample(self, seeds: Tensor, key: int) -> tuple[Tensor, Tensor, list[DGLBlock]]:
        """One batch, drawn by a key."""
        root = random.new_key(key, CPU, random.BATCH)
        blocks: list[DGLBlock] = []
        frontier = seeds.to(torch.int64)
        for layer, rooted in enumerate(reversed(self._layers)):
            own = int(random.fold(root, layer))
            batch = rooted.batch({"": frontier}, self._laws or [], False, own)
            drawn = rooted.draw(batch)
            (node,), (row,), (col,), (edge,) = (
                drawn.node,
                drawn.row,
                drawn.col,
                drawn.edge,
            )
            sizes = {"num_src_nodes": node.numel(), "num_dst_nodes": frontier.numel()}
            block = dgl.create_block((row, col), **sizes)
            block.srcdata[NID], block.dstdata[NID] = node, frontier
            block.edata[EID] = edge
            blocks.insert(0, block)
            frontier = node
        for (_, name), features in self.graph.features.items():
            blocks[0].srcdata[name] = features.rows(frontier)
            blocks[-1].dstdata[name] = features.rows(seeds)
        return frontier, seeds, blocks
