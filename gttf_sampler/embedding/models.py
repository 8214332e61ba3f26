"""DeepWalk, Node2Vec and WatchYourStep as modules, used like PyG's Node2Vec.

for forest in model.loader(batch_size=256, shuffle=True):
    optimizer.zero_grad()
    model.loss(forest).backward()
    optimizer.step()
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import torch
from torch import Tensor, nn

from gttf_sampler import _check
from gttf_sampler.bias.node2vec import Node2VecBias
from gttf_sampler.embedding.base import WalkEmbedding
from gttf_sampler.forest import WalkForest
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.objectives.base import LossAcc
from gttf_sampler.objectives.deepwalk import DeepWalkAcc
from gttf_sampler.objectives.node2vec import Node2VecAcc
from gttf_sampler.objectives.transitions import WYSAcc


class DeepWalk(WalkEmbedding):
    """DeepWalk: embeddings of nodes, trained on random walks that may branch.

    >>> import torch
    >>> from gttf_sampler import CompactAdj
    >>> from gttf_sampler.embedding import DeepWalk
    >>> ring = CompactAdj.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]], direction="out")
    >>> model = DeepWalk(ring, embedding_dim=8, window=2, fanouts=[2, 2])
    >>> model
    DeepWalk(4, 8, fanouts=[2, 2])
    >>> for forest in model.loader(batch_size=2, shuffle=True):
    ...     model.loss(forest).backward()

    Edge weights do not count, unless `model.bias = EdgeWeightBias()` is set.

    Args:
        adj: the graph; rows list where to walk to (`direction="out"`).
        embedding_dim: d; even with `halves`.
        window: the largest distance of a pair; see `DeepWalkAcc`.
        fanouts: how many walkers each walker becomes, per depth; by default plain walks
            of `window` steps.
        num_negatives: see `DeepWalkAcc`.
        halves: half of a vector is L, of nodes that are left, half R, of nodes that are
            come to, as word2vec has two vectors of a word; `right` of `DeepWalkAcc`.
        sparse: sparse gradients, for `torch.optim.SparseAdam`.
        dtype: of the vectors: float32, float64, or bfloat16, for `fit`.
        storage: a folder; the vectors, and what optimizers of `fit` keep, are then in
            files there, memory-mapped, and may be larger than memory.
        options: of `DeepWalkAcc`: `contrast`, `negative_power`, `negative_weight`,
            `share_negatives`, and with `halves` `symmetric`.
    """

    def __init__(
        self,
        adj: CompactAdj,
        embedding_dim: int,
        window: int = 5,
        fanouts: Sequence[int] | None = None,
        num_negatives: int = 5,
        *,
        halves: bool = False,
        sparse: bool = False,
        dtype: torch.dtype = torch.float32,
        storage: str | PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        if fanouts is None:
            fanouts = [1] * _check.steps("window", window, least=1)
        super().__init__(adj, fanouts, storage)
        self.options = {"window": window, "num_negatives": num_negatives, **options}
        parts = 2 if _check.yes_or_no("halves", halves) else 1
        how = embedding_dim, sparse, dtype, parts
        self.embedding = self._vectors("embedding", *how)
        self.right = self._vectors("right", *how) if halves else None
        self.reset_parameters()
        self.options = _options(self.objective())  # checked, and complete

    def objective(self) -> LossAcc:
        """The loss as an accumulator: `DeepWalkAcc`."""
        own: dict[str, Any] = {"right": self.right, "generator": None}
        return DeepWalkAcc(self.embedding, **own, **self.options)


class Node2Vec(DeepWalk):
    """node2vec: embeddings of nodes; p and q steer the walks, or are trained.

    Args:
        adj: the graph; rows list where to walk to (`direction="out"`).
        embedding_dim: d.
        window: the largest distance of a pair.
        fanouts: how many walkers each walker becomes, per depth.
        num_negatives: see `DeepWalk`, like the options not named here.
        p: return parameter.
        q: in-out parameter.
        trainable: walk uniformly and learn p and q; see `Node2VecAcc`. What they learn
            is to make the loss small, which need not be what a task wants.
        options: of `DeepWalk`.
    """

    def __init__(
        self,
        adj: CompactAdj,
        embedding_dim: int,
        window: int = 5,
        fanouts: Sequence[int] | None = None,
        num_negatives: int = 5,
        *,
        p: float = 1.0,
        q: float = 1.0,
        trainable: bool = False,
        **options: Any,
    ) -> None:
        walks = Node2VecBias(p, q)
        trainable = _check.yes_or_no("trainable", trainable)
        super().__init__(adj, embedding_dim, window, fanouts, num_negatives, **options)
        self.bias = None if trainable else walks
        start = torch.tensor([walks.p, walks.q]).log()
        self.log_pq = nn.Parameter(start, requires_grad=trainable)

    @property
    def p(self) -> Tensor:
        """The return parameter, []."""
        return self.log_pq[0].exp()

    @property
    def q(self) -> Tensor:
        """The in-out parameter, []."""
        return self.log_pq[1].exp()

    def objective(self) -> LossAcc:
        """The loss as an accumulator: `Node2VecAcc` if p and q are trained."""
        if self.bias is not None or not hasattr(self, "log_pq"):
            return super().objective()
        how: dict[str, Any] = {"p": self.p, "q": self.q, **self.options}
        return Node2VecAcc(self.embedding, right=self.right, **how)


class WatchYourStep(WalkEmbedding):
    """Watch Your Step: embeddings that learn how much each distance counts.

    Args:
        adj: the graph; rows list where to walk to (`direction="out"`).
        embedding_dim: d, even: half of it is L, half R.
        fanouts: how many walkers each walker becomes, per depth; ten steps by default.
        num_negatives: per seed; see `WYSAcc`.
        penalty: β; β ‖context‖² is added to the loss, as in Watch Your Step, without
            which the smallest distance gets all the attention in the end.
        sparse: sparse gradients of L and R; the logits of Q have dense ones always.
        dtype: of the vectors; see `DeepWalk`, like `storage`.
        storage: a folder for the vectors.
        options: of `WYSAcc`: `negative_weight`, `scheme`, and `symmetric`, which is
            twice the work, and every node learns from all pairs it is in, where the
            graph is too large for many epochs.
    """

    def __init__(
        self,
        adj: CompactAdj,
        embedding_dim: int,
        fanouts: Sequence[int] = (1,) * 10,
        num_negatives: int = 20,
        *,
        penalty: float = 0.05,
        sparse: bool = False,
        dtype: torch.dtype = torch.float32,
        storage: str | PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(adj, fanouts, storage)
        how = embedding_dim, sparse, dtype, 2
        self.left = self._vectors("left", *how)
        self.right = self._vectors("right", *how)
        self.penalty = _check.finite("penalty", penalty)
        self.options = {"num_negatives": num_negatives, **options}
        self.context = nn.Parameter(torch.zeros(len(self.fanouts)))
        self.reset_parameters()
        self.options = _options(self.objective())  # checked, and complete

    def reset_parameters(self) -> None:
        """Starts from small random vectors and equal weights of all distances."""
        super().reset_parameters()
        nn.init.zeros_(self.context)

    @property
    def attention(self) -> Tensor:
        """Q [h]: how much each distance counts."""
        return self.context.softmax(0)

    def objective(self) -> LossAcc:
        """The loss as an accumulator, without the penalty: `WYSAcc`."""
        vectors = self.left, self.right
        return WYSAcc(*vectors, self.context, generator=None, **self.options)

    def loss(self, forest: WalkForest) -> Tensor:
        """The loss per seed of a forest and the penalty, []."""
        return super().loss(forest) + self.penalty * self.context.square().sum()


def _options(loss: LossAcc) -> dict[str, Any]:
    """The numbers, words and switches that a loss was made with, by name."""
    plain = bool, int, float, str
    return {name: x for name, x in vars(loss).items() if isinstance(x, plain)}
