"""WalkEmbedding: base class of modules that learn from walk forests; their loader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler._loading.prefetch import is_thread_safe
from gttf_sampler._loading.seeded import KeyedIndex, SeededLoader
from gttf_sampler._loading.state import SPOT, described, described_graph
from gttf_sampler.draw import BiasFn
from gttf_sampler.embedding.fit import fit
from gttf_sampler.embedding.links import LinkSplit, accuracy
from gttf_sampler.embedding.optimizers import folder_of, zeros
from gttf_sampler.embedding.settings import Epoch, Options, Schedule, Show, Task
from gttf_sampler.forest import WalkForest
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.objectives.base import LossAcc, complete
from gttf_sampler.traverse import traverse

DTYPES = (torch.float32, torch.float64, torch.bfloat16)
ORDERS = ("random", "near")
ROUNDS = 2  # steps that a label travels
ENTRIES = 1 << 24  # edges that are looked at together
OWN = ("dataset", "collate_fn", "batch_sampler")
Levels = tuple[list[Tensor], list[Tensor]]


class WalkEmbedding(nn.Module):
    """Base class of embedding models that are trained on walk forests of a graph.

    The graph goes with the parameters: `model.to("cuda")` walks there, too. Walks are
    uniform whatever the edge weights are; `model.bias` can be set to another rule.
    """

    bias: BiasFn | None = None
    options: Mapping[str, Any] = MappingProxyType({})  # of the loss

    def __init__(
        self,
        adj: CompactAdj,
        fanouts: Sequence[int],
        storage: str | PathLike[str] | None = None,
    ) -> None:
        super().__init__()
        _check.of_type("adj", adj, CompactAdj)
        _check.one_node_set("adj", adj.num_rows, adj.num_cols)
        self.adj = adj
        self.fanouts = tuple(_check.fanouts(fanouts, allow_all=False))
        self.storage = folder_of(storage)

    def objective(self) -> LossAcc:
        """The loss as an accumulator, for `traverse(..., accumulate=...)`."""
        raise NotImplementedError

    def tables(self) -> dict[str, nn.Embedding]:
        """The tables of vectors, by name: one, or two whose rows are halves L and R."""
        children = self.named_children()
        return {name: own for name, own in children if isinstance(own, nn.Embedding)}

    def reset_parameters(self) -> None:
        """Starts from small random vectors."""
        for table in self.tables().values():
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, batch: Tensor | None = None) -> Tensor:
        """The embeddings [b, d] of some nodes, or of all; of halves L beside R."""
        node = None if batch is None else self._nodes(batch)
        tables = self.tables().values()
        parts = [own.weight if node is None else own(node) for own in tables]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def loader(self, **kwargs: Any) -> ForestLoader:
        """A DataLoader of walk forests; takes the arguments of torch's DataLoader."""
        return ForestLoader(self.adj, self.fanouts, self.bias, **kwargs)

    def loss(self, forest: WalkForest) -> Tensor:
        """The loss per seed of a forest, []."""
        trees = complete(forest).nodes[0].shape[0]
        return self.objective().loss(forest) / max(1, trees)

    def fit(
        self,
        epochs: int,
        *,
        optimizer: str = "adam",
        lr: float = 0.05,
        weight_decay: float = 0.0,
        batch_size: int = 512,
        schedule: str | Schedule = "constant",
        order: str = "random",
        hogwild: bool = False,
        valid: LinkSplit | None = None,
        patience: int | None = None,
        checkpoint: str | PathLike[str] | None = None,
        resume: bool = False,
        progress: bool | Show | None = None,
        generator: random.Randomness = None,
    ) -> list[Epoch]:
        """Trains all parameters, without a loop or an optimizer; returns the epochs.

        >>> import torch
        >>> from gttf_sampler import CompactAdj
        >>> from gttf_sampler.embedding import DeepWalk
        >>> edges = [[0, 1, 2, 3], [1, 2, 3, 0]]
        >>> ring = CompactAdj.from_edge_index(edges, direction="out")
        >>> model = DeepWalk(ring, 8, window=2, contrast="logistic")
        >>> first, *_, last = model.fit(20, batch_size=4, generator=0)
        >>> last.loss < first.loss
        True

        Every batch changes the rows that it has touched, and no others. The result
        depends on `generator` alone, not on the number of threads.

        Args:
            epochs: how often every node is a seed.
            optimizer: "sgd", "adagrad", or "adam", which is torch's SparseAdam.
            lr: the learning rate.
            weight_decay: λ; the gradient of a row z gets λ z, that of ½ λ ‖z‖², each
                time the row is touched, as in torch's SGD, Adagrad and Adam (and
                unlike AdamW). Vectors only: p, q and contexts have none.
            batch_size: seeds per step.
            schedule: of the learning rate: "constant", "linear" or "cosine" (to zero),
                or a function from the share of steps done to the share of `lr`.
            order: of the seeds: "random", or "near", by which the seeds of a batch have
                neighbours in common and the batch fewer rows; batches come at random.
            hogwild: every thread takes steps of its own, on the same rows at the same
                time and without locks (Niu et al. 2011). What comes out is then
                different in every run.
            valid: hidden edges, whose AUC is told after every epoch.
            patience: stop after so many epochs without a better AUC, and go back to
                the vectors of the best, of which memory holds a copy.
            checkpoint: a file to be written after every epoch.
            resume: go on from that file; the end is that of a run without a break. All
                else must be as it was, but `epochs` may be more of a "constant"
                schedule, and `generator` may be left out.
            progress: a bar with loss and pairs per second; None on terminals only. Or
                a function that is told, after every batch, the share of all epochs that
                is done, the loss, and the pairs of this epoch.
            generator: a torch.Generator, an integer, or None for torch's default one.
        """
        task = Task(
            model=self,
            tables=self.tables(),
            batches=partial(self._batches, _check.one_of("order", order, ORDERS)),
            loss=self.loss,
            score=self.score,
            allocate=partial(zeros, self.storage),
            settings=partial(self._settings, order),
        )
        options = Options(
            epochs=epochs,
            optimizer=optimizer,
            lr=lr,
            weight_decay=weight_decay,
            batch_size=batch_size,
            schedule=schedule,
            hogwild=hogwild,
            valid=valid,
            patience=patience,
            checkpoint=checkpoint,
            resume=resume,
            progress=progress,
            generator=generator,
        )
        return fit(task, options)

    def _batches(self, order: str, size: int, generator: torch.Generator) -> Any:
        """One epoch of forests for `fit`."""
        how: dict[str, Any] = {"batch_size": size, "generator": generator}
        if order == "random":
            return self.loader(shuffle=True, **how)
        near = self.adj.cached("near order", lambda: near_order(self.adj))
        seeds = in_blocks(near.cpu(), size, generator)
        return self.loader(sampler=seeds.tolist(), **how)

    def _settings(self, order: str) -> dict[str, Any]:
        """All that a run of `fit` depends on beside its arguments, by name."""
        return {
            "model": type(self).__name__,
            "adj": described_graph(self.adj),
            "fanouts": list(self.fanouts),
            "bias": described(self.bias),
            "order": order,
            **described({**self.options, "penalty": getattr(self, "penalty", None)}),
        }

    def score(self, edge: Tensor, *, directed: bool = False) -> Tensor:
        """Scores pairs of nodes [2, e] as links, [e].

        By ⟨Z_u, Z_v⟩; where vectors are halves by ⟨L_u, R_v⟩ + ⟨L_v, R_u⟩, or, if links
        are `directed`, by ⟨L_u, R_v⟩ alone.
        """
        _check.integers("edge", _check.dense("edge", edge), rank=2)
        if edge.shape[0] != 2:
            _check.fail("edge", "must have shape [2, e]", f"shape {list(edge.shape)}")
        source, target = self._nodes(edge, "edge")
        left, *halves = self.tables().values()
        right = halves[0] if halves else left
        score: Tensor = (wide(left(source)) * wide(right(target))).sum(-1)
        if not halves or directed:
            return score
        back: Tensor = (wide(left(target)) * wide(right(source))).sum(-1)
        return score + back

    def _vectors(
        self,
        name: str,
        embedding_dim: int,
        sparse: bool,
        dtype: torch.dtype,
        parts: int,
    ) -> nn.Embedding:
        """One of `parts` tables that embeddings of so many numbers are split into."""
        if dtype not in DTYPES:
            _check.fail("dtype", f"must be one of {DTYPES}", dtype)
        size, rows = _check.count("embedding_dim", embedding_dim), self.adj.num_rows
        if size % parts:
            _check.fail("embedding_dim", "must be even: half is L, half R", size)
        sparse = _check.yes_or_no("sparse", sparse)
        shape = torch.Size([rows, size // parts])
        table = zeros(self.storage, name, shape, dtype)
        return nn.Embedding(rows, size // parts, sparse=sparse, _weight=table)

    def _nodes(self, batch: Tensor, name: str = "batch") -> Tensor:
        """`batch`, which must hold nodes of the graph."""
        _check.integers(name, _check.dense(name, batch), rank=None)
        if batch.device.type == "cpu":
            _check.within(name, batch, self.adj.num_rows)
        return batch.clone() if batch.is_inference() else batch

    test = staticmethod(accuracy)

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


def wide(vectors: Tensor) -> Tensor:
    """Vectors with the precision that products are added up in."""
    return vectors.to(torch.promote_types(vectors.dtype, torch.float32))


class ForestLoader(SeededLoader):
    """Yields one `WalkForest` per batch of nodes.

    With workers a thread walks ahead, unless the bias is a function or there is a
    `worker_init_fn`; worker processes send the levels of a forest, never the graph.

    Args:
        adj: where to walk.
        fanouts: how many walkers each walker becomes, per depth.
        bias: weights of the neighbours; None draws uniformly.
        kwargs: of `torch.utils.data.DataLoader`, except those that are used here; and
            `thread_workers`, of which False asks for processes, True for the thread.
    """

    draws_keys = True

    def __init__(
        self,
        adj: CompactAdj,
        fanouts: tuple[int, ...],
        bias: BiasFn | None = None,
        **kwargs: Any,
    ) -> None:
        for name in OWN:
            if name in kwargs:
                _check.fail(name, "must be left to this loader", repr(kwargs[name]))
        if kwargs.get("batch_size", 1) is None:
            _check.fail("batch_size", "must be a number of nodes", None)
        self.adj, self.fanouts, self.bias = adj, fanouts, bias
        walk = partial(_walk, adj, fanouts, bias)
        if kwargs.get("num_workers", 0):
            walk(KeyedIndex([], 0))  # loads what workers would load each by itself
        super().__init__(range(adj.num_rows), collate_fn=walk, **kwargs)

    def runs_only_ours(self) -> bool:
        """True if workers would run nothing but code that is safe in a thread."""
        return self.worker_init_fn is None and is_thread_safe(self.bias)

    def settings(self) -> dict[str, Any]:
        """Returns all that forests depend on beside seeds and keys, by name."""
        names = "adj", "fanouts", "bias"
        return {name: described(getattr(self, name), SPOT) for name in names}

    def __iter__(self) -> Iterator[WalkForest]:  # type: ignore[override]
        """One epoch of forests."""
        for nodes, edges in super().__iter__():
            yield WalkForest(self.adj, self.fanouts, nodes, edges)


def _walk(
    adj: CompactAdj, fanouts: tuple[int, ...], bias: BiasFn | None, batch: Any
) -> Levels:
    """The levels of a forest from ids and a key."""
    given = KeyedIndex.of(batch)
    forest = traverse(adj, given.index, fanouts, bias, generator=given.key)
    return forest.nodes, forest.edges


def near_order(adj: CompactAdj) -> Tensor:
    """The nodes [n], those with neighbours in common beside each other.

    Every node takes the smallest label, a random one at first, of itself and its
    neighbours, and then the smallest of theirs; the nodes are sorted by what they have
    in the end, those with the same one by what they had before.
    """
    slot = torch.arange(adj.num_rows, device=adj.device)
    label = random.stream(0, slot)
    before = label
    for _ in range(ROUNDS):
        before, label = label, _smallest(adj, label)
    _, number = label.unique(return_inverse=True)
    _, earlier = before.unique(return_inverse=True)
    order: Tensor = (number * adj.num_rows + earlier).argsort(stable=True)
    return order


def _smallest(adj: CompactAdj, label: Tensor) -> Tensor:
    """Per node the smallest label [n] of itself and its neighbours."""
    found = label.clone()
    for low in range(0, adj.num_edges, ENTRIES):
        entry = torch.arange(low, min(low + ENTRIES, adj.num_edges), device=adj.device)
        owner = torch.searchsorted(adj.rowptr, entry, right=True) - 1
        there = label.index_select(0, ops.take(adj.col, entry).to(torch.int64))
        found.scatter_reduce_(0, owner, there, "amin")
    return found


def in_blocks(order: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """The nodes [n] of an order, cut into batches at a random place, batches shuffled.

    Every node is a seed once, as in any other order.
    """
    nodes = order.numel()
    first = int(torch.randint(max(1, nodes), (), generator=generator))
    blocks = list(order.roll(-first).split(size))
    short = len(blocks) > 1 and blocks[-1].numel() < size  # it stays last
    last = [blocks.pop()] if short else []
    shuffled = torch.randperm(len(blocks), generator=generator).tolist()
    return torch.cat([*(blocks[number] for number in shuffled), *last])
