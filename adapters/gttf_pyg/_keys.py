"""Batch keys: seeds that carry the key of their batch, and negatives drawn by it."""

import copy
from typing import Any

import torch
from torch import Tensor
from torch_geometric.sampler import (
    EdgeSamplerInput,
    NegativeSampling,
    NodeSamplerInput,
)

from gttf_pyg._check import as_reals
from gttf_sampler import CompactAdj, EdgeWeightBias, random, traverse
from gttf_sampler._check import dense, fail, fits
from gttf_sampler._loading.seeded import draw_key
from gttf_sampler.graph.weak_cache import kept_of

CPU = torch.device("cpu")


def key_of(inputs: Any) -> int:
    """The key that seeds carry, or a new one."""
    key: int | None = getattr(inputs, "key", None)
    return draw_key() if key is None else key


def with_key(inputs: Any, key: int | None) -> Any:
    """A copy of seeds that carries `key`, and so does every part of it."""
    if type(inputs) is NodeSamplerInput:
        nodes = inputs.input_id, inputs.node, inputs.time, inputs.input_type
        found: Any = KeyedNodes(*nodes)
    elif type(inputs) is EdgeSamplerInput:
        ends = inputs.input_id, inputs.row, inputs.col
        found = KeyedEdges(*ends, inputs.label, inputs.time, inputs.input_type)
    else:
        found = copy.copy(inputs)
    found.key = key
    return found


class KeyedNodes(NodeSamplerInput):
    """Seed nodes of a loader, of which some are indexed with the key of their batch."""

    def __getitem__(self, index: Any) -> Any:
        found: Any = super().__getitem__(index)
        found.key = key_of(self)
        return found


class KeyedEdges(EdgeSamplerInput):
    """Seed edges of a loader, of which some are indexed with the key of their batch."""

    def __getitem__(self, index: Any) -> Any:
        found: Any = super().__getitem__(index)
        found.key = key_of(self)
        return found


def keyed(negatives: NegativeSampling, key: int) -> NegativeSampling:
    """Negatives drawn from `key`, unless a class of the user draws them."""
    if type(negatives).sample is not NegativeSampling.sample:
        return negatives
    return KeyedNegatives(negatives, key)


class KeyedNegatives(NegativeSampling):
    """A `NegativeSampling` that draws from the key of the batch.

    PyG's draws from torch's default generator, which is another one in every worker.
    """

    def __init__(self, negatives: NegativeSampling, key: int) -> None:
        weights = negatives.src_weight, negatives.dst_weight
        super().__init__(negatives.mode, negatives.amount, *weights)
        self.given = negatives
        self.key = random.new_key(key, CPU, random.NEGATIVE)
        self.calls = 0

    def sample(
        self, num_samples: int, endpoint: str, num_nodes: int | None = None
    ) -> Tensor:
        """Nodes [num_samples], by weight where there are weights."""
        if num_samples == 0:
            return torch.empty(0, dtype=torch.int64)
        self.calls += 1
        key = random.fold(self.key, self.calls)
        weight = self.src_weight if endpoint == "src" else self.dst_weight
        if weight is None:
            if num_nodes is None:
                fail("num_nodes", "must be given without weights", None)
            return uniform_nodes(key, num_samples, num_nodes)
        as_reals(f"{endpoint}_weight", dense(f"{endpoint}_weight", weight))
        if num_nodes is not None and weight.numel() != num_nodes:
            rule = f"must have one entry per node, {num_nodes} in all"
            fail(f"{endpoint}_weight", rule, weight.numel())
        row = _row(self.given, endpoint, weight)
        drawn = traverse(row, [0], [num_samples], EdgeWeightBias(), generator=int(key))
        nodes: Tensor = drawn.nodes[1].view(-1)
        if num_samples and int(nodes[0]) < 0:
            fail(f"{endpoint}_weight", "must have a positive entry", "zeros only")
        return nodes


def uniform_nodes(key: random.Key, count: int, num_nodes: int) -> Tensor:
    """int64 [count]: nodes drawn uniformly, with replacement."""
    fits("neg_sampling", 24 * count)
    word = random.stream(key, torch.arange(count))
    return random.below_wide(word, torch.full_like(word, num_nodes))


def _row(given: NegativeSampling, endpoint: str, weight: Tensor) -> CompactAdj:
    """All nodes as the neighbours of one, by weight; made once per weights."""
    size = weight.numel()

    def make() -> CompactAdj:
        nodes, mass = torch.arange(size), weight.detach().cpu()
        return CompactAdj.from_csr([0, size], nodes, size, edge_weight=mass)

    return kept_of(given).get(endpoint, make, weight)
