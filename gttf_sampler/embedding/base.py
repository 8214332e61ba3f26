"""WalkEmbedding: what the modules that learn from walk forests share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from gttf_sampler import _check
from gttf_sampler.draw import BiasFn
from gttf_sampler.embedding import probe
from gttf_sampler.embedding.loader import ForestLoader
from gttf_sampler.forest import WalkForest
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.objectives.base import LossAcc, complete


class WalkEmbedding(nn.Module):
    """What the models here share: a graph, walks on it, and how they are used.

    The graph goes with the parameters: `model.to("cuda")` walks there, too. Walks are
    uniform whatever the edge weights are; `model.bias` can be set to another rule.
    """

    bias: BiasFn | None = None

    def __init__(self, adj: CompactAdj, fanouts: Sequence[int]) -> None:
        super().__init__()
        _check.of_type("adj", adj, CompactAdj)
        _check.one_node_set("adj", adj.num_rows, adj.num_cols)
        self.adj = adj
        self.fanouts = tuple(_check.fanouts(fanouts, allow_all=False))

    def objective(self) -> LossAcc:
        """The loss as an accumulator, for `traverse(..., accumulate=...)`."""
        raise NotImplementedError

    def forward(self, batch: Tensor | None = None) -> Tensor:
        """The embeddings [b, d] of some nodes, or of all."""
        raise NotImplementedError

    def loader(self, **kwargs: Any) -> ForestLoader:
        """A DataLoader of walk forests; takes the arguments of torch's DataLoader."""
        return ForestLoader(self.adj, self.fanouts, self.bias, **kwargs)

    def loss(self, forest: WalkForest) -> Tensor:
        """The loss per seed of a forest, []."""
        return self.objective().loss(forest) / max(
            1, complete(forest).nodes[0].shape[0]
        )

    def score(self, edge: Tensor) -> Tensor:
        """How much the pairs of nodes [2, e] look like links, [e]: ⟨Z_u, Z_v⟩."""
        source, target = self._pairs(edge)
        product: Tensor = self(source) * self(target)
        return product.sum(-1)

    def _vectors(
        self, embedding_dim: int, sparse: bool, parts: int = 1
    ) -> nn.Embedding:
        """One of `parts` tables that embeddings of so many numbers are split into."""
        size, rows = _check.count("embedding_dim", embedding_dim), self.adj.num_rows
        if size % parts:
            _check.fail("embedding_dim", "must be even: half is L, half R", size)
        _check.fits("embedding_dim", 4 * rows * size)
        sparse = _check.yes_or_no("sparse", sparse)
        return nn.Embedding(rows, size // parts, sparse=sparse)

    def _pairs(self, edge: Tensor) -> Tensor:
        """`edge`, which must be pairs [2, e] of nodes."""
        _check.integers("edge", _check.dense("edge", edge), rank=2)
        if edge.shape[0] != 2:
            _check.fail("edge", "must have shape [2, e]", f"shape {list(edge.shape)}")
        return self._nodes(edge, "edge")

    def _nodes(self, batch: Tensor, name: str = "batch") -> Tensor:
        """`batch`, which must hold nodes of the graph."""
        _check.integers(name, _check.dense(name, batch), rank=None)
        if batch.device.type == "cpu":
            _check.within(name, batch, self.adj.num_rows)
        return batch.clone() if batch.is_inference() else batch

    @staticmethod
    def test(train_z: Tensor, train_y: Tensor, test_z: Tensor, test_y: Tensor) -> float:
        """The accuracy of a logistic regression from embeddings to classes."""
        return probe.accuracy(train_z, train_y, test_z, test_y)

    def _apply(
        self, fn: Callable[[Tensor], Tensor], recurse: bool = True
    ) -> WalkEmbedding:
        """Takes the graph along when the parameters move."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        device = next(self.parameters()).device
        if device != self.adj.device and device.type != "meta":
            self.adj = self.adj.to(device)
        return self

    def __repr__(self) -> str:
        """Says how large it is and how it walks."""
        n, d = self().shape
        return f"{type(self).__name__}({n}, {d}, fanouts={list(self.fanouts)})"
