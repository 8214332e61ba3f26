"""Samplers of blocks, by DGL's names and ours; sample_neighbors.

All samplers of this package draw every batch by a key of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from dgl import NID, DGLGraph
from dgl import dataloading as theirs
from dgl.dataloading import BlockSampler
from dgl.heterograph import DGLBlock
from torch.utils.data import get_worker_info

from gttf_dgl import _check
from gttf_dgl._blocks import block_of, check_norm, frontier_of, output_device
from gttf_dgl._check import Nodes
from gttf_dgl._compat import (
    set_dst_lazy_features,
    set_edge_lazy_features,
    set_src_lazy_features,
)
from gttf_dgl._source import Choice, Source
from gttf_sampler import (
    BiasFn,
    CompactAdj,
    EdgeWeightBias,
    ExcludeBias,
    HeteroSubgraph,
    random,
    sample_rooted,
)
from gttf_sampler._loading.seeded import BatchKey, KeyedIndex
from gttf_sampler.random import WORD

CPU = torch.device("cpu")


def fold(key: int, number: int) -> int:
    """The key of sub-task `number`, from any integer."""
    return int(random.fold(key & WORD, number))


class KeyedSampler:
    """The base of all samplers of this package, which draw by keys.

    A `gttf_dgl.DataLoader` has every batch drawn by a copy of its sampler, with the key
    of the batch; calls of that copy are views of the batch, each with a key of its own.
    Anywhere else calls are counted: without a seed, each takes a number from torch's
    default generator, which torch seeds in every worker; with one, the first has the
    seed itself and the others what follows from it, in a worker together with the
    worker's seed.

    Attributes:
        bias: what neighbours are drawn by; a loader asks whether a thread may.
        thread_workers: see `DataLoader`.
        seed: what keys follow from; None for torch's default generator.
    """

    bias: Any = None
    thread_workers: bool | None = None
    seed: int | None = None
    _root = 0
    _calls = 0
    _lone: int | None = None  # the only epoch of calls without a loader
    _index: KeyedIndex | None = None  # of the batch of a loader

    def use_keys(
        self, generator: Any = None, seed: Any = None, thread_workers: Any = None
    ) -> None:
        """Has batches drawn by keys; for the end of a constructor.

        Args:
            generator: a torch.Generator, an integer, or None.
            seed: an integer instead of it, or None.
            thread_workers: see `DataLoader`.
        """
        if thread_workers is not None:
            _check.yes_or_no("thread_workers", thread_workers)
        self.thread_workers = thread_workers
        if seed is not None:
            if generator is not None:
                _check.fail("seed", "must not be given beside 'generator'", seed)
            generator = _check.integer("seed", seed)
        given = _check.randomness(generator)
        if isinstance(given, torch.Generator):  # one number, once: a copy of the
            # generator would repeat itself in every worker
            device = given.device
            given = int(torch.randint(1 << 62, (), generator=given, device=device))
        self.seed, self._calls, self._lone = given, 0, None
        self._root = 0
        if given is not None:
            self._root = int(random.new_key(given, CPU, random.BATCH))

    def for_batch(self, index: KeyedIndex) -> Any:
        """A copy that draws one batch of a loader, which fetches the rows of files."""
        found = copy.copy(self)
        found._index, found._calls = index, 0
        return found

    def epoch_key(self, epoch: int) -> int | None:
        """The key of an epoch of a loader; None without a seed."""
        return None if self.seed is None else fold(self._root, epoch)

    def next_key(self) -> int:
        """The key of the next call."""
        self._calls += 1
        if self._index is not None:
            return fold(self._index.key or 0, self._calls)
        if self.seed is None:
            return random.draw(None)
        worker = get_worker_info()
        if worker is not None:
            return fold(fold(self._root, worker.seed), self._calls)
        return self.seed if self._calls == 1 else fold(self._root, self._calls)

    def next_in_epoch(self) -> tuple[int, int]:
        """The key of the next batch's epoch, and its number there.

        Outside a DataLoader of this package all calls are one epoch.
        """
        key = None if self._index is None else self._index.key
        if isinstance(key, BatchKey):
            return key.epoch, key.number
        if self._lone is None:
            self._lone = random.draw(None) if self.seed is None else self._root
        self._calls += 1
        return self._lone, self._calls - 1

    @property
    def fetches(self) -> bool:
        """True if a batch needs rows of a file, which `fetch` reads."""
        return False

    def fetch(self, result: Any) -> None:
        """Reads the rows of a batch from their files."""


@cache
def load_kernels(replace: bool) -> None:
    """Samples once from a tiny graph of every kind; a process does so once.

    A sampler does not hear of workers before it is in one, and there each would load
    the machine code by itself, in every epoch.
    """
    how: dict[str, Any] = {"replace": replace, "generator": 0}
    for dtype in (torch.int32, torch.int64):
        ids, weight = torch.tensor([1, 0], dtype=dtype), torch.ones(2)
        adj = CompactAdj.from_csr([0, 1, 2], ids, edge_id=ids, edge_weight=weight)
        for bias in (None, EdgeWeightBias(), ExcludeBias([0])):
            sub = sample_rooted(adj, [0], [1, -1], bias=bias, **how)
            adj.original_edge(sub.edge)
        sample_rooted({("", "", ""): adj}, {"": [0]}, [1, -1], **how)


class NeighborChoice(KeyedSampler):
    """The part of a sampler that says which neighbours are drawn, and how many."""

    fanouts: list[Any]
    normalize: str | None
    edge_dir: str
    prob: str | None
    mask: str | None
    replace: bool

    def choose(
        self, fanouts: Any, choice: Choice, normalize: Any, prefetched: Any
    ) -> None:
        """Stores checked options, and loads the kernels.

        `prefetched` is the edge data that batches will have.
        """
        self.fanouts = _check.fanouts(fanouts)
        for name, value in choice._asdict().items():
            setattr(self, name, value)
        self.normalize = check_norm(normalize, choice.uniform, prefetched)
        load_kernels(self.replace)

    def source_of(self, g: DGLGraph, seed_nodes: Any, exclude_eids: Any) -> Source:
        """The rows that a batch is drawn from, by the sampler's current attributes."""
        how = self.edge_dir, self.prob, self.mask, self.replace, self.bias
        source = Source.of(g, Choice(*how), exclude_eids, seeds=seed_nodes)
        _check.prefetched(g, self)
        return source

    def hops_of(self, g: DGLGraph) -> list[list[int]]:
        """The fanouts of every edge type, for each hop from the seeds on."""
        return [_check.layer_fanouts(g, entry) for entry in reversed(self.fanouts)]


class GTTFSampler(NeighborChoice, BlockSampler):
    """Samples blocks for multi-layer message passing, in place of NeighborSampler.

    >>> import dgl, torch
    >>> from gttf_dgl import GTTFSampler
    >>> g = dgl.graph(([1, 2, 3, 4], [0, 0, 0, 2]))
    >>> sampler = GTTFSampler([-1, 2])  # farthest layer first
    >>> input_nodes, output_nodes, blocks = sampler.sample(g, torch.tensor([0]))
    >>> blocks[1]
    Block(num_src_nodes=3, num_dst_nodes=1, num_edges=2)

    Takes the arguments of `dgl.dataloading.NeighborSampler` and gives what that gives,
    for every layer a fresh sample. Draws follow `torch.manual_seed`, and are the same
    for any number of threads and, in `gttf_dgl.DataLoader`, of workers. A batch that
    comes twice draws independently. Edges to exclude are left out before anything is
    drawn. Inside a batch, what a node draws depends on the batch and the
    node alone, so copies of a repeated seed draw the same edges each. With
    `edge_dir="out"` a node gets messages from the nodes its edges lead to: the blocks
    of `dgl.reverse(g)`, with the edge ids of `g`.

    Args:
        fanouts: per layer the neighbours of each edge type, as one number or a mapping;
            -1 takes all.
        edge_dir: "in" samples edges into a node, "out" edges out of it.
        prob: name of edge data; neighbours are drawn in proportion to it, never where
            it is zero. Edge types without it are uniform.
        mask: name of boolean edge data; only edges where it is true are drawn.
        replace: draw `fanout` neighbours independently.
        prefetch_node_feats: node data that the first block's sources will have.
        prefetch_labels: node data that the last block's targets will have.
        prefetch_edge_feats: edge data that all blocks will have.
        output_device: where the blocks go; by default where the seeds are.
        fused: for scripts that pass it; there is one way to sample.
        bias: a BiasFn, or one per edge type, multiplied with the rest. It sees one step
            at a time, or whole paths if `rooted`.
        generator: a torch.Generator, of which one number is taken now, or an integer.
        seed: the same for an integer.
        features: {name: file} with `FeatureFile`s, or {node type: {name: file}}; node
            data and labels to prefetch that it names are read from there.
        thread_workers: whether a thread stands in for the loader's `num_workers`; see
            `DataLoader`.
        rooted: draw once for all layers, every node when it is first reached: the
            paper's Ã, of which the layers see ever larger parts.
        normalize: "both", "right", "left" or "none" put weights into
            `block.edata["norm"]` with which `GraphConv(norm="none")`, given them as
            `edge_weight`, estimates `GraphConv` of that norm without bias.
    """

    def __init__(
        self,
        fanouts: Any,
        edge_dir: str = "in",
        prob: str | None = None,
        mask: str | None = None,
        replace: bool = False,
        prefetch_node_feats: Any = None,
        prefetch_labels: Any = None,
        prefetch_edge_feats: Any = None,
        output_device: Any = None,
        fused: bool = True,
        *,
        bias: BiasFn | Mapping[Any, BiasFn] | None = None,
        generator: Any = None,
        seed: int | None = None,
        rooted: bool = False,
        normalize: str | None = None,
        thread_workers: bool | None = None,
        features: Mapping[str, Any] | None = None,
    ) -> None:
        output_device = _check.device_or_none("output_device", output_device)
        _check.columns("prefetch_node_feats", prefetch_node_feats)
        _check.columns("prefetch_labels", prefetch_labels)
        _check.columns("prefetch_edge_feats", prefetch_edge_feats)
        self.features = _check.files(features)
        inputs, self._inputs = _check.without_files(prefetch_node_feats, self.features)
        labels, self._labels = _check.without_files(prefetch_labels, self.features)
        # not super(), behind which subclasses have a sampler of DGL's
        BlockSampler.__init__(self, inputs, labels, prefetch_edge_feats, output_device)
        self.fused, self.rooted = fused, _check.yes_or_no("rooted", rooted)
        choice = Choice(edge_dir, prob, mask, replace, bias).checked(self.rooted)
        self.choose(fanouts, choice, normalize, prefetch_edge_feats)
        self.use_keys(generator, seed, thread_workers)

    @property
    def fetches(self) -> bool:
        """True if a batch needs rows of a file."""
        return bool(self._inputs or self._labels)

    def fetch(self, result: Any) -> None:
        """Gives senders of the first block and receivers of the last one their rows."""
        blocks = result[-1]
        ends = (blocks[0].srcnodes, self._inputs), (blocks[-1].dstnodes, self._labels)
        for views, files in ends:
            for (kind, name), source in files.items():
                data = views[blocks[0].srctypes[0] if kind is None else kind].data
                ids = data[NID]
                rows = source.rows(ids.to("cpu", torch.int64).contiguous())
                data[name] = rows.to(ids.device)

    def assign_lazy_features(self, result: Any) -> Any:
        """Marks what DGL is to prefetch.

        It looks for edge data under the type that the edges have in a block. Where
        those are turned round that is another one, or none; the blocks have the columns
        of their own, which are gathered when they are read.
        """
        _, _, blocks = result
        set_src_lazy_features(blocks[0], self.prefetch_node_feats)
        set_dst_lazy_features(blocks[-1], self.prefetch_labels)
        if self.edge_dir == "in" or len(blocks[0].srctypes) == 1:
            for block in blocks:
                set_edge_lazy_features(block, self.prefetch_edge_feats)
        return result

    def sample(
        self, g: DGLGraph, seed_nodes: Any, exclude_eids: Any = None
    ) -> tuple[Any, Any, list[DGLBlock]]:
        """(input_nodes, output_nodes, blocks), with marks where DGL will prefetch.

        Rows of files are fetched here, unless a loader of this package does it.
        """
        result: tuple[Any, Any, list[DGLBlock]]
        result = super().sample(g, seed_nodes, exclude_eids)
        if self.fetches and self._index is None:
            self.fetch(result)
        return result

    def sample_blocks(
        self, g: DGLGraph, seed_nodes: Any, exclude_eids: Any = None
    ) -> tuple[Any, Any, list[DGLBlock]]:
        """(input_nodes, output_nodes, blocks), the block of the seeds last."""
        source = self.source_of(g, seed_nodes, exclude_eids)
        _check.files_fit(g, {**self._inputs, **self._labels})
        return self._sample_from(source, seed_nodes)

    def _sample_from(
        self, source: Source, seed_nodes: Any
    ) -> tuple[Any, Any, list[DGLBlock]]:
        """`sample_blocks`, from rows wherever they are."""
        g = source.g
        seeds = _check.seeds(g, seed_nodes, device=source.device)
        make_blocks = self._rooted_blocks if self.rooted else self._layered_blocks
        blocks = make_blocks(source, seeds, self.hops_of(g))
        device = output_device(self.output_device, seed_nodes, g)
        if device != source.device:
            blocks = [block.to(device) for block in blocks]
        return blocks[0].srcdata[NID], seed_nodes, blocks

    def _layered_blocks(
        self, source: Source, seeds: Nodes, hops: list[list[int]]
    ) -> list[DGLBlock]:
        """Blocks of one sample per layer, each drawn anew."""
        root = self._batch_key(source.device)
        blocks: list[DGLBlock] = []
        frontier = seeds
        for layer, fanouts in enumerate(hops):
            drawn, block = self._layer(source, frontier, fanouts, root, layer)
            blocks.insert(0, block)
            frontier = {name: drawn.node[name] for name in seeds}
        return blocks

    def _batch_key(self, device: torch.device) -> Any:
        """The key of the next batch, from which those of its layers follow."""
        return random.new_key(self.next_key(), device, random.BATCH)

    def _layer(
        self, source: Source, frontier: Nodes, fanouts: list[int], root: Any, layer: int
    ) -> tuple[HeteroSubgraph, DGLBlock]:
        """Draws one hop, and makes its block."""
        drawn = source.draw(frontier, [fanouts], int(random.fold(root, layer)))
        sizes = {name: ids.numel() for name, ids in frontier.items()}
        return drawn, block_of(source, drawn, sizes, norm=self.normalize)

    def _rooted_blocks(
        self, source: Source, seeds: Nodes, hops: list[list[int]]
    ) -> list[DGLBlock]:
        """Blocks of one sample: the layer h steps from the seeds sees h hops of it."""
        drawn = source.draw(seeds, hops, self.next_key())
        counts = drawn.num_sampled_nodes or {}
        blocks = []
        for depth in range(len(hops), 0, -1):
            sizes = {name: sum(counts[name][:depth]) for name in seeds}
            blocks.append(block_of(source, drawn, sizes, depth, self.normalize))
        return blocks


class NeighborSampler(GTTFSampler, theirs.NeighborSampler):
    """DGL's `NeighborSampler` on the engine of this package: `GTTFSampler`.

    >>> import dgl, torch
    >>> sampler = NeighborSampler([5, 10])
    >>> isinstance(sampler, dgl.dataloading.NeighborSampler)
    True
    """


MultiLayerNeighborSampler = NeighborSampler  # DGL's older name


class MultiLayerFullNeighborSampler(
    NeighborSampler, theirs.MultiLayerFullNeighborSampler
):
    """Samples all neighbours in each of `num_layers` layers.

    >>> MultiLayerFullNeighborSampler(2).fanouts
    [-1, -1]

    Args:
        num_layers: how many layers the model has.
        **kwargs: of `GTTFSampler`.
    """

    def __init__(self, num_layers: int, **kwargs: Any) -> None:
        super().__init__([-1] * _check.length("num_layers", num_layers), **kwargs)


def sample_neighbors(
    g: DGLGraph,
    nodes: Any,
    fanout: Any,
    edge_dir: str = "in",
    prob: str | None = None,
    replace: bool = False,
    copy_ndata: bool = True,
    copy_edata: bool = True,
    _dist_training: bool = False,  # of DGL's own, without effect
    exclude_edges: Any = None,
    output_device: Any = None,
    *,
    bias: BiasFn | Mapping[Any, BiasFn] | None = None,
    generator: random.Randomness = None,
) -> DGLGraph:
    """Samples edges of some nodes, as `dgl.sampling.sample_neighbors` does.

    The result is a graph of all nodes of `g` with the sampled edges.

    >>> import dgl
    >>> g = dgl.graph(([1, 2, 3, 4], [0, 0, 0, 2]))
    >>> sample_neighbors(g, [2, 0], 2).in_degrees().tolist()
    [2, 0, 1, 0, 0]

    A node that is named twice draws the same edges twice.

    Args:
        g: the graph.
        nodes: ids, or one lone id; per node type if there are types.
        fanout: edges per node and edge type, -1 for all; or one per edge type.
        edge_dir: "in" samples edges that arrive at the nodes, "out" those that leave.
        prob: name of edge data to draw in proportion to; booleans are a mask.
        replace: draw `fanout` edges independently.
        copy_ndata: whether the graph has the node data of `g`.
        copy_edata: whether it has the edge data of its edges, beside their ids.
        exclude_edges: ids of edges that are as if they were not there.
        output_device: where the graph goes; by default it stays with `g`.
        bias: any BiasFn of `gttf_sampler`, or one per edge type.
        generator: a torch.Generator, an integer, or None for torch's default generator.
    """
    choice = Choice(edge_dir, prob, None, replace, bias)
    source, seeds, fanouts = one_hop(g, nodes, fanout, choice, exclude_edges)
    device = _check.device_or_none("output_device", output_device)
    drawn = source.draw(seeds, [fanouts], _check.randomness(generator))
    frontier = frontier_of(source, drawn, copy_ndata, copy_edata)
    return frontier if device is None else frontier.to(device)


def one_hop(
    g: DGLGraph, nodes: Any, fanout: Any, choice: Choice, exclude_edges: Any
) -> tuple[Source, Nodes, list[int]]:
    """The rows, seeds and fanouts of one hop, from what the caller passed."""
    source = Source.of(g, choice.checked(), exclude_edges, "exclude_edges")
    seeds = _check.seeds(g, _check.several(nodes), "nodes")
    (fanouts,) = _check.fanouts([fanout], "fanout")
    return source, seeds, _check.layer_fanouts(g, fanouts, "fanout")
