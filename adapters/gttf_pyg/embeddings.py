"""DeepWalk and WatchYourStep from an `edge_index`, in the words of PyG's Node2Vec."""

from typing import Any

from torch import Tensor

from gttf_sampler import CompactAdj, embedding
from gttf_sampler._check import at_least, fail, steps


class DeepWalk(embedding.DeepWalk):
    """DeepWalk embeddings, trained on random walks that follow an `edge_index`.

    >>> import torch
    >>> from gttf_pyg import DeepWalk
    >>> edge_index = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> model = DeepWalk(edge_index, embedding_dim=8, walk_length=4, context_size=3)
    >>> for forest in model.loader(batch_size=2, shuffle=True):
    ...     model.loss(forest).backward()

    Differs from PyG's Node2Vec: `loader` yields one walk forest per batch, which `loss`
    takes; pairs count by their distance, as in word2vec; every walk may branch.

    Args:
        edge_index: [2, m]; walks follow the edges.
        embedding_dim: length of an embedding.
        walk_length: nodes of a walk, its start included, as in PyG.
        context_size: nodes that see each other, alike; a window of one step less.
        fanout: how many walkers each walker becomes, at every step; 1 is a plain walk.
        num_negative_samples: see `gttf_sampler.DeepWalkAcc`, like `contrast`.
        contrast: "partition", as in the paper, or "logistic", as in PyG.
        num_nodes: by default the largest id + 1.
        sparse: sparse gradients, for `torch.optim.SparseAdam`.
        options: further ones of `gttf_sampler.embedding.DeepWalk`: `halves`, `dtype`, …
    """

    def __init__(
        self,
        edge_index: Tensor,
        embedding_dim: int,
        walk_length: int,
        context_size: int,
        fanout: int = 1,
        num_negative_samples: int = 5,
        *,
        contrast: str = "partition",
        num_nodes: int | None = None,
        sparse: bool = False,
        **options: Any,
    ) -> None:
        walk_length = steps("walk_length", walk_length, 2)
        context_size = at_least(2, "context_size", context_size)
        if context_size > walk_length:
            rule = f"must lie between 2 and 'walk_length' {walk_length}"
            fail("context_size", rule, context_size)
        adj = CompactAdj.from_edge_index(edge_index, num_nodes, direction="out")
        super().__init__(
            adj,
            embedding_dim,
            context_size - 1,
            [fanout] * (walk_length - 1),
            num_negative_samples,
            contrast=contrast,
            sparse=sparse,
            **options,
        )


class WatchYourStep(embedding.WatchYourStep):
    """Watch Your Step embeddings, trained on walks that follow an `edge_index`.

    >>> import torch
    >>> from gttf_pyg import WatchYourStep
    >>> edge_index = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> model = WatchYourStep(edge_index, embedding_dim=8, walk_length=4)
    >>> for forest in model.loader(batch_size=2, shuffle=True):
    ...     model.loss(forest).backward()
    >>> model.attention.shape  # how much each of three distances counts
    torch.Size([3])

    Args:
        edge_index: [2, m]; walks follow the edges.
        embedding_dim: length of an embedding, even: half is L, half R.
        walk_length: nodes of a walk, its start included, as in PyG.
        fanout: how many walkers each walker becomes, at every step; 1 is a plain walk.
        num_negative_samples: per node; see `gttf_sampler.WYSAcc`.
        num_nodes: by default the largest id + 1.
        sparse: sparse gradients of the embeddings.
        options: further ones of `gttf_sampler.embedding.WatchYourStep`.
    """

    def __init__(
        self,
        edge_index: Tensor,
        embedding_dim: int,
        walk_length: int,
        fanout: int = 1,
        num_negative_samples: int = 20,
        *,
        num_nodes: int | None = None,
        sparse: bool = False,
        **options: Any,
    ) -> None:
        walk_length = steps("walk_length", walk_length, 2)
        adj = CompactAdj.from_edge_index(edge_index, num_nodes, direction="out")
        fanouts = [fanout] * (walk_length - 1)
        shape = embedding_dim, fanouts, num_negative_samples
        super().__init__(adj, *shape, sparse=sparse, **options)
