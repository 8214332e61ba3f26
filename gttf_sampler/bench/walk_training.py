"""Epochs of node embeddings for `gttf bench walks`: walks, loss, gradient and step."""

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from gttf_sampler import CompactAdj, Node2VecBias, embedding, traverse
from gttf_sampler.bench import peers
from gttf_sampler.bench.measure import Peer, Report, Work, compare

SIZE, WINDOW, NEGATIVES = 64, 10, 5
FEW = 3  # rounds: one takes seconds
RATE = 0.01

Windows = Callable[[Tensor], Tensor]  # seeds [b] → walks [b, length + 1]
Pairs = dict[str, Peer]


def groups(
    adj: CompactAdj,
    seeds: Tensor,
    length: int,
    p: float,
    q: float,
    rounds: int,
    report: Report,
    missing: peers.Missing,
) -> list[dict[str, Any]]:
    """An epoch over `seeds` [batches, b] per model; `adj` lists where to walk to."""
    window = min(WINDOW, length)
    size = f"{len(seeds)} batches of {seeds.shape[1]:,} walks"
    found = []
    for title, law in (
        ("DeepWalk", (1.0, 1.0)),
        (f"node2vec, p = {p:g}, q = {q:g}", (p, q)),
    ):
        everyone = skip_grams(adj, seeds, length, window, *law, missing)
        title = f"training {title}: {size}, {length} steps"
        found.append(compare(title, everyone, seeds, min(rounds, FEW), report))
    title = f"training our own modules: {size}, {length} steps, every pair"
    rows = []
    for name, peer in modules(adj, seeds, length, window, p, q).items():
        one = compare(name, {name: peer}, seeds, min(rounds, FEW), report)
        rows += one["rows"]  # their losses differ, so there is no ratio
    found.append({"title": title, "rows": rows})
    for group in found:
        group["columns"] = "training"
        for row in group["rows"]:
            row["rate"] = row["edges"] / row["best"] / 1e3
            for key in ("best", "median"):  # milliseconds of a batch, so far
                row[key] *= len(seeds) / 1e3
    return found


class SkipGram(nn.Module):
    """The model and the loss of PyG's `Node2Vec`, for walks by anybody."""

    def __init__(self, nodes: int, length: int, window: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(nodes, SIZE, sparse=True)
        self.length, self.window = length, window

    def windows(self, walks: Tensor) -> Tensor:
        """Every node of a walk that has `window` nodes after it, and those."""
        return walks.unfold(1, self.window + 1, 1).flatten(0, 1)

    def batch(self, walk: Windows, ids: list[int]) -> tuple[Tensor, Tensor]:
        """The windows of walks, and of as many that jump anywhere."""
        seeds = torch.tensor(ids)
        nodes = self.embedding.num_embeddings
        jumps = torch.randint(nodes, (len(ids), self.length))
        negative = torch.cat([seeds[:, None], jumps], dim=1)
        return self.windows(walk(seeds)), self.windows(negative)

    def loss(self, positive: Tensor, negative: Tensor) -> Tensor:
        """Skip-gram with one negative per pair, []."""
        like, unlike = self._scores(positive), self._scores(negative)
        sigmoid = nn.functional.logsigmoid
        return -sigmoid(like).mean() - sigmoid(-unlike).mean()

    def _scores(self, windows: Tensor) -> Tensor:
        """⟨Z_u, Z_v⟩ of the first node of a window and each other one."""
        found = self.embedding(windows)  # [rows, window + 1, size]
        scores: Tensor = (found[:, :1] * found[:, 1:]).sum(-1)
        return scores


def skip_grams(
    adj: CompactAdj,
    seeds: Tensor,
    length: int,
    window: int,
    p: float,
    q: float,
    missing: peers.Missing,
) -> Pairs:
    """Who trains the same model on walks of its own."""
    uniform = p == q == 1.0
    bias = None if uniform else Node2VecBias(p, q)

    def ours(seeds: Tensor) -> Tensor:
        forest = traverse(adj, seeds, [1] * length, bias)
        return torch.cat(forest.nodes, dim=1)

    def trained(walk: Windows) -> Peer:
        model = SkipGram(adj.num_rows, length, window)
        batches: Any = partial(model.batch, walk)
        nodes: Any = range(adj.num_rows)
        loader = DataLoader(nodes, collate_fn=batches, **_over(seeds))
        return _epoch(model, loader, lambda made: model.loss(*made))

    found = {"gttf traverse": trained(ours)}
    if missing.needs("torch_geometric", "PyG Node2Vec"):
        found |= _pyg(adj, seeds, length, window, p, q, missing)
    name = "random_walk" if uniform else "node2vec_random_walk"
    if missing.needs("dgl", f"DGL {name}"):
        sampling = import_module("dgl.sampling")
        rows = peers.dgl_graph(adj, "csr")

        def theirs(seeds: Tensor) -> Tensor:
            if uniform:
                found: Tensor = sampling.random_walk(rows, seeds, length=length)[0]
                return found
            walks: Tensor = sampling.node2vec_random_walk(rows, seeds, p, q, length)
            return walks

        found[peers.label("dgl", name)] = trained(theirs)
    return found


def _pyg(
    adj: CompactAdj,
    seeds: Tensor,
    length: int,
    window: int,
    p: float,
    q: float,
    missing: peers.Missing,
) -> Pairs:
    """Our Node2Vec in PyG's words, and PyG's own where it can walk by these p and q."""
    edges = adj.to_edge_index()
    options: dict[str, Any] = {"walk_length": length + 1, "context_size": window + 1}
    options |= {"p": p, "q": q, "num_nodes": adj.num_rows, "sparse": True}
    found = {}
    theirs = peers.label("torch_geometric", "Node2Vec")
    for name, module in (
        ("gttf_pyg.Node2Vec", "gttf_pyg"),
        (theirs, "torch_geometric.nn"),
    ):
        try:
            model = import_module(module).Node2Vec(edges, SIZE, **options)
            model.pos_sample(seeds[0])
        except (ImportError, RuntimeError, AttributeError) as error:
            if name != theirs:
                raise
            law = f", p = {p:g}, q = {q:g}"
            missing.add(name + law, (str(error).splitlines() or ["no reason"])[0])
            continue
        loader = model.loader(**_over(seeds))
        found[name] = _epoch(model, loader, lambda made, model=model: model.loss(*made))  # type: ignore[misc]
    return found


def modules(
    adj: CompactAdj, seeds: Tensor, length: int, window: int, p: float, q: float
) -> Pairs:
    """What `gttf_sampler.embedding` has; losses count every pair of a walk."""
    steps: list[int] = [1] * length
    common: dict[str, Any] = {"contrast": "logistic", "sparse": True}
    models: dict[str, Any] = {
        "gttf DeepWalk": embedding.DeepWalk(
            adj, SIZE, window, steps, NEGATIVES, **common
        ),
        "gttf Node2Vec": embedding.Node2Vec(
            adj, SIZE, window, steps, NEGATIVES, p=p, q=q, **common
        ),
        "gttf WatchYourStep": embedding.WatchYourStep(adj, SIZE, steps, sparse=True),
    }
    within = sum(length - k + 1 for k in range(1, window + 1))
    pairs = dict.fromkeys(models, within) | {"gttf WatchYourStep": length}
    return {
        name: _epoch(model, model.loader(**_over(seeds)), model.loss, pairs[name])
        for name, model in models.items()
    }


def _over(seeds: Tensor) -> dict[str, Any]:
    """What makes a loader go through these seeds, batch by batch."""
    return {"batch_size": seeds.shape[1], "sampler": seeds.reshape(-1).tolist()}


def _epoch(
    model: nn.Module, loader: Any, loss: Callable[[Any], Tensor], pairs: int = 0
) -> Peer:
    """Steps of training, one per batch; `pairs` of a walk, if batches are forests."""
    kinds: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for name, parameter in model.named_parameters():
        # a table of vectors has sparse gradients; p, q and attention have dense ones
        if parameter.requires_grad:
            kinds[name.endswith(".weight")].append(parameter)
    steppers: list[torch.optim.Optimizer] = [torch.optim.SparseAdam(kinds[True], RATE)]
    if kinds[False]:
        steppers.append(torch.optim.Adam(kinds[False], RATE))

    def run(seeds: Tensor) -> Iterator[Any]:
        for made in loader:
            for stepper in steppers:
                stepper.zero_grad()
            loss(made).backward()
            for stepper in steppers:
                stepper.step()
            yield made

    def work(made: Any) -> Work:
        if pairs:
            walks = made.nodes[0].numel()
            return Work(pairs * walks, walks)
        windows, width = made[0].shape
        return Work(windows * (width - 1))

    return Peer(run, work)
