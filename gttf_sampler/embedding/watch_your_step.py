"""WatchYourStep as a module: embeddings, and how much each distance counts."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

import torch
from torch import Tensor, nn

from gttf_sampler import _check
from gttf_sampler.embedding.base import WalkEmbedding
from gttf_sampler.embedding.halves import beside, score_halves
from gttf_sampler.forest import WalkForest
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.objectives.base import LossAcc
from gttf_sampler.objectives.watch_your_step import WYSAcc


class WatchYourStep(WalkEmbedding):
    """Watch Your Step: embeddings that learn how much each distance counts.

    Args:
        adj: the graph; rows list where to walk to (`direction="out"`).
        embedding_dim: d, even: half of it is L, half R.
        fanouts: how many walkers each walker becomes, per depth; ten steps by default.
        num_negatives: per seed; see `WYSAcc`, like `negative_weight` and `scheme`.
        negative_weight: of all negatives of a seed, where its walkers weigh 1.
        scheme: "unbiased", or "paper".
        symmetric: score pairs as `score` does, in both directions: twice the work, and
            every node learns from all pairs it is in, where the graph is too large for
            many epochs.
        penalty: β; β ‖context‖² is added to the loss, as in Watch Your Step, without
            which the smallest distance gets all the attention in the end.
        sparse: sparse gradients of L and R; the logits of Q have dense ones always.
        dtype: of the vectors; see `DeepWalk`, like `storage`.
        storage: a folder for the vectors.
    """

    def __init__(
        self,
        adj: CompactAdj,
        embedding_dim: int,
        fanouts: Sequence[int] = (1,) * 10,
        num_negatives: int = 20,
        *,
        negative_weight: float = 1.0,
        scheme: str = "unbiased",
        symmetric: bool = False,
        penalty: float = 0.05,
        sparse: bool = False,
        dtype: torch.dtype = torch.float32,
        storage: str | PathLike[str] | None = None,
    ) -> None:
        super().__init__(adj, fanouts, storage)
        how = embedding_dim, sparse, dtype
        self.left = self._vectors("left", *how, parts=2)
        self.right = self._vectors("right", *how, parts=2)
        self.penalty = _check.finite("penalty", penalty)
        self.options = {
            "num_negatives": num_negatives,
            "negative_weight": negative_weight,
            "scheme": scheme,
            "symmetric": symmetric,
        }
        self.context = nn.Parameter(torch.zeros(len(self.fanouts)))
        self.reset_parameters()
        self.objective()  # checks the options

    def reset_parameters(self) -> None:
        """Starts from small random vectors and equal weights of all distances."""
        nn.init.normal_(self.left.weight, std=0.1)
        nn.init.normal_(self.right.weight, std=0.1)
        nn.init.zeros_(self.context)

    @property
    def attention(self) -> Tensor:
        """Q [h]: how much each distance counts."""
        return self.context.softmax(0)

    def objective(self) -> LossAcc:
        """The loss as an accumulator, without the penalty: `WYSAcc`."""
        return WYSAcc(self.left, self.right, self.context, **self.options)

    def loss(self, forest: WalkForest) -> Tensor:
        """The loss per seed of a forest and the penalty, []."""
        return super().loss(forest) + self.penalty * self.context.square().sum()

    def forward(self, batch: Tensor | None = None) -> Tensor:
        """The embeddings [b, d] of some nodes, or of all: L beside R."""
        node = None if batch is None else self._nodes(batch)
        return beside(self.left, self.right, node)

    def score(self, edge: Tensor, *, directed: bool = False) -> Tensor:
        """How much pairs [2, e] look like links, [e]: ⟨L_u, R_v⟩, and ⟨L_v, R_u⟩."""
        return score_halves(self.left, self.right, self._pairs(edge), directed)
