"""Node2Vec for any p and q, DeepWalk, WatchYourStep; PyG's other names of `nn`."""

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torch_geometric import nn as theirs
from torch_geometric.utils.num_nodes import maybe_num_nodes

from gttf_pyg._check import as_pairs, as_reals
from gttf_pyg._rows import plain
from gttf_pyg.negatives import uniform_nodes
from gttf_sampler import (
    BiasFn,
    CompactAdj,
    EdgeWeightBias,
    Node2VecBias,
    embedding,
    traverse,
)
from gttf_sampler._check import (
    at_least,
    count,
    cpu_generator,
    fail,
    fits,
    integers,
    size,
    steps,
    yes_or_no,
)
from gttf_sampler._loading.seeded import KeyedIndex, SeededLoader
from gttf_sampler._loading.state import SPOT, described, described_graph
from gttf_sampler._swap import host_names
from gttf_sampler.embedding import Epoch
from gttf_sampler.embedding.fit import fit
from gttf_sampler.embedding.optimizers import zeros
from gttf_sampler.embedding.settings import Options, Task
from gttf_sampler.objectives.node2vec import node2vec_loss, walk_loss
from gttf_sampler.random import NEGATIVE, new_key


class Node2Vec(theirs.Node2Vec):
    """PyG's `Node2Vec` without pyg-lib: any p and q, edge weights, any device.

    >>> import torch
    >>> from gttf_pyg import Node2Vec
    >>> ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> model = Node2Vec(ring, 8, walk_length=4, context_size=3, p=0.5, q=2.0)
    >>> pos, neg = next(iter(model.loader(batch_size=2)))
    >>> pos.tolist()  # the first window of every walk, then the second
    [[0, 1, 2], [1, 2, 3], [1, 2, 3], [2, 3, 0]]

    Arguments, methods and shapes are PyG's. Walks follow the edges and stay where there
    is none to follow. The graph moves with the module, and the walks are drawn where it
    is. A loader gives the same batches for any number of workers.

    Args:
        edge_index: [2, m], sources above targets.
        embedding_dim: the size of an embedding.
        walk_length: the number of nodes of a walk, its start included.
        context_size: the number of nodes of a window; at most `walk_length`.
        walks_per_node: how many walks start at a node of a batch.
        p: return parameter, > 0: the larger, the fewer walkers turn round.
        q: in-out parameter, > 0: the larger, the closer to their start they stay.
        num_negative_samples: negative walks per positive one.
        num_nodes: by default the largest id + 1.
        sparse: make the gradient of the embedding sparse.
        edge_weight: [m], finite and >= 0; an edge of weight zero counts as none.
        generator: of all walks and negative samples; torch's default one if None.
    """

    def __init__(
        self,
        edge_index: Tensor,
        embedding_dim: int,
        walk_length: int,
        context_size: int,
        walks_per_node: int = 1,
        p: float = 1.0,
        q: float = 1.0,
        num_negative_samples: int = 1,
        num_nodes: int | None = None,
        sparse: bool = False,
        *,
        edge_weight: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        # PyG's own constructor asks for pyg-lib; everything else of the class is used.
        torch.nn.Module.__init__(self)
        embedding_dim = count("embedding_dim", embedding_dim)
        context_size = at_least(2, "context_size", context_size)
        walk_length = steps("walk_length", walk_length)
        if walk_length < context_size:
            rule = f"must be at least 'context_size', {context_size}"
            fail("walk_length", rule, walk_length)
        walks_per_node = count("walks_per_node", walks_per_node)
        num_negative_samples = count("num_negative_samples", num_negative_samples)
        yes_or_no("sparse", sparse)
        Node2VecBias(p, q)  # raises where they make no sense
        generator = cpu_generator("generator", generator)
        if generator is not None and generator.device.type != "cpu":
            fail("generator", "must be on the CPU", generator.device)

        self.EPS = 1e-15
        edge_index = as_pairs("edge_index", edge_index)
        num_nodes = maybe_num_nodes(edge_index, num_nodes)
        self.num_nodes = size("num_nodes", num_nodes)
        self.embedding_dim = embedding_dim
        self.walk_length = walk_length - 1
        self.context_size = context_size
        self.walks_per_node = walks_per_node
        self.p, self.q = p, q
        self.num_negative_samples = num_negative_samples
        self.generator = generator
        self._key: int | None = None
        adj = _graph(edge_index, self.num_nodes, edge_weight)
        fits("embedding_dim", 4 * self.num_nodes * embedding_dim)
        shape = self.num_nodes, embedding_dim
        self.embedding = torch.nn.Embedding(*shape, sparse=bool(sparse))
        self.reset_parameters()
        self.adj = adj.to(self.embedding.weight.device)

    @property
    def rowptr(self) -> Tensor:
        """[n + 1], where the row of every node starts in `col`."""
        return self.adj.rowptr

    @property
    def col(self) -> Tensor:
        """[m], the targets of the edges, sorted by source."""
        return self.adj.col

    def loader(self, **kwargs: Any) -> DataLoader[tuple[Tensor, Tensor]]:
        """A loader of (positive, negative) walks for batches of all nodes.

        With workers a thread walks ahead, unless there is a `worker_init_fn` or this
        is a subclass.

        Args:
            **kwargs: arguments of torch's DataLoader; and `thread_workers`, of which
                False asks for processes, True for the thread.
        """
        kwargs.setdefault("generator", self.generator)
        walker = self
        if kwargs.get("num_workers", 0) > 0 and self.adj.device.type != "cpu":
            walker = copy.copy(self)  # worker processes cannot use an accelerator
            walker.adj = self.adj.to("cpu")
        if kwargs.get("num_workers", 0) > 0:
            warm = copy.copy(walker)  # loads what workers would load by themselves
            warm._key = 0
            warm.sample(torch.empty(0, dtype=torch.int64))
        nodes: Any = range(self.num_nodes)
        return WalkLoader(nodes, collate_fn=walker.sample, **kwargs)

    def sample(self, batch: Sequence[int] | Tensor) -> tuple[Tensor, Tensor]:
        """Positive and negative walks of a batch of nodes, on the graph's device."""
        walker, nodes = self._keyed(batch)
        nbytes = 8 * nodes.numel() * (self.walk_length + 1) * self.walks_per_node
        fits("walks_per_node", nbytes)
        fits("num_negative_samples", nbytes * self.num_negative_samples)
        walks: tuple[Tensor, Tensor] = super(Node2Vec, walker).sample(nodes)
        return walks

    def _keyed(self, batch: Any) -> tuple["Node2Vec", Tensor]:
        """The module with the key of a batch, and its nodes on the graph's device."""
        given, walker = KeyedIndex.of(batch), self
        if given.key is not None:
            walker = copy.copy(self)
            walker._key = given.key
        nodes = integers("batch", given.index, rank=None).to(self.adj.device)
        return walker, nodes.reshape(-1)

    def neg_sample(self, batch: Tensor) -> Tensor:
        """Negative windows, from nodes of the batch to uniform nodes; see PyG."""
        walks = self._negative_walks(batch.repeat(self.walks_per_node))
        windows = walks.unfold(1, self.context_size, 1)  # [walk, window, context]
        return windows.transpose(0, 1).reshape(-1, self.context_size)

    def _negative_walks(self, batch: Tensor) -> Tensor:
        """Walks [w, length] from nodes of the batch to uniform nodes."""
        start = batch.repeat(self.num_negative_samples)
        shape = start.numel(), self.walk_length
        # Drawn on the CPU, so that a seed means the same on every device.
        if self._key is None:  # PyG's own numbers
            how: dict[str, Any] = {"generator": self.generator, "device": "cpu"}
            others = torch.randint(self.num_nodes, shape, **how)
        else:
            key = new_key(self._key, torch.device("cpu"), NEGATIVE)
            others = uniform_nodes(key, shape[0] * shape[1], self.num_nodes).view(shape)
        others = others.to(device=batch.device, dtype=batch.dtype)
        return torch.cat([start[:, None], others], dim=1)

    def loss(self, pos_rw: Tensor, neg_rw: Tensor) -> Tensor:
        """PyG's loss of positive and negative windows, [].

        −mean log(σ(⟨Z_u, Z_v⟩) + EPS) over the pairs of `pos_rw`, the first node of a
        window and each other one, and −mean log(1 − σ + EPS) over those of `neg_rw`. On
        a CPU compiled code multiplies the pairs, without a vector for each of them.
        """
        windows = self.walk_length + 2 - self.context_size
        every = [pos_rw, neg_rw]
        found = node2vec_loss(self.embedding, every, windows, self.EPS)
        if found is None:
            found = super().loss(pos_rw, neg_rw)
        return found

    def fit(
        self,
        epochs: int,
        *,
        lr: float = 0.01,
        batch_size: int = 128,
        generator: torch.Generator | int | None = None,
        **options: Any,
    ) -> list[Epoch]:
        """Trains the embeddings, without a loop or an optimizer; returns the epochs.

        The loss is PyG's, and "adam" its example's SparseAdam. `options` are those of
        `gttf_sampler.embedding.DeepWalk.fit`; `generator` is by default the module's.
        """
        task = Task(
            self,
            {"embedding": self.embedding},
            self._walk_batches,
            lambda walks: walk_loss(self.embedding, walks, self.context_size, self.EPS),
            self._link_score,
            partial(zeros, None),
            self._settings,
        )
        generator = self.generator if generator is None else generator
        options |= {"lr": lr, "batch_size": batch_size, "generator": generator}
        return fit(task, Options(epochs, **options))

    def _settings(self, most: int | None = None) -> dict[str, Any]:
        """All that walks depend on beside seeds and keys, by name."""
        names = "context_size", "walks_per_node", "p", "q", "num_negative_samples"
        return {
            "model": type(self).__name__,
            "edge_index": described_graph(self.adj, most),
            "walk_length": self.walk_length + 1,
            **{name: described(getattr(self, name)) for name in names},
        }

    def _walk_batches(self, size: int, generator: torch.Generator) -> Any:
        """Walks and negative walks of batches of all nodes, in a random order."""
        nodes: Any = range(self.num_nodes)
        how: dict[str, Any] = {"batch_size": size, "shuffle": True}
        return WalkLoader(nodes, collate_fn=self._walks, generator=generator, **how)

    def _walks(self, batch: Any) -> tuple[Tensor, Tensor]:
        walker, nodes = self._keyed(batch)
        start = nodes.repeat(self.walks_per_node)
        how = self.rowptr, self.col, start, self.walk_length, self.p, self.q
        return walker.random_walk_fn(*how), walker._negative_walks(start)

    def _link_score(self, edge: Tensor) -> Tensor:
        """The scores [e] of pairs of nodes [2, e] as links: ⟨Z_u, Z_v⟩."""
        source, target = edge
        product: Tensor = self(source) * self(target)
        return product.sum(-1)

    def random_walk_fn(
        self,
        rowptr: Tensor,
        col: Tensor,
        start: Tensor,
        walk_length: int,
        p: float,
        q: float,
    ) -> Tensor:
        """Walks [b, walk_length + 1] from `start`; called by PyG's `pos_sample`."""
        bias: BiasFn | None = Node2VecBias(p, q, weighted=self._weighted)
        if p == q == 1:  # the last node does not matter
            bias = EdgeWeightBias() if self._weighted else None
        key = self.generator if self._key is None else self._key
        forest = traverse(self.adj, start, [1] * walk_length, bias, generator=key)
        return torch.cat(forest.nodes, dim=1)

    @property
    def _weighted(self) -> bool:
        return self.adj.edge_weight is not None

    def _apply(
        self, fn: Callable[[Tensor], Tensor], recurse: bool = True
    ) -> "Node2Vec":
        """Takes the graph along wherever the module is moved."""
        super()._apply(fn, recurse)
        device = self.embedding.weight.device
        if device != self.adj.device and device.type != "meta":
            self.adj = self.adj.to(device)
        return self


class WalkLoader(SeededLoader):
    """The loader of a `Node2Vec`."""

    def settings(self) -> dict[str, Any]:
        """The options that walks depend on beside seeds and keys, by name."""
        walker = getattr(self.collate_fn, "__self__", None)
        return walker._settings(SPOT) if isinstance(walker, Node2Vec) else {}

    def runs_only_ours(self) -> bool:
        """True if workers would run nothing but code that is safe in a thread."""
        walker = getattr(self.collate_fn, "__self__", None)
        return type(walker) is Node2Vec and self.worker_init_fn is None


def _graph(
    edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None
) -> CompactAdj:
    ends = plain(edge_index)
    if edge_weight is not None:
        edge_weight = as_reals("edge_weight", edge_weight).to(ends.device)
        if edge_weight.shape != ends.shape[1:]:
            rule = f"must have one entry per edge, {ends.shape[1]} in all"
            fail("edge_weight", rule, f"shape {list(edge_weight.shape)}")
        # Where nothing else is left a walker stays, as it does where there is nothing.
        some = edge_weight != 0
        ends, edge_weight = ends[:, some], edge_weight[some]
    return CompactAdj.from_edge_index(
        ends, num_nodes, direction="out", edge_weight=edge_weight
    )


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


__all__, __getattr__ = host_names(theirs, __name__)
