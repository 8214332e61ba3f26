"""Deep Graph Infomax: PyG's module on rooted adjacencies, without any label.

A batch B is sampled as for a GCN; the same Ã carries the features and, as the negative
example, permuted ones. What the embeddings know is asked of a linear model afterwards.
"""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.nn import DeepGraphInfomax, GCNConv

from examples.reproduce.config import Method
from examples.reproduce.data import Dataset
from examples.reproduce.train import Report, run
from examples.reproduce.weights import HostWeights
from gttf_pyg import GTTFLoader
from gttf_sampler import CompactAdj


class Encoder(nn.Module):
    """One GCNConv, for the seeds of a batch; takes the ids of its nodes."""

    def __init__(self, data: Dataset, hidden: int) -> None:
        super().__init__()
        self.features = data.features
        self.conv = GCNConv(data.features.width, hidden)
        self.prelu = nn.PReLU(hidden)

    def forward(self, node: Tensor, edge_index: Tensor, weight: Any, size: int):
        h = self.conv(self.features.rows(node), edge_index, weight)
        return self.prelu(h[:size])


def corrupted(node: Tensor, *rest: Any) -> tuple[Any, ...]:
    """The same graph with other nodes' features."""
    return node[torch.randperm(node.numel())], *rest


def summary(z: Tensor, *rest: Any) -> Tensor:
    return z.mean(0).sigmoid()


def fit(
    data: Dataset, method: Method, way: str, seed: int, report: Report
) -> dict[str, Any]:
    """Trains, and returns the accuracy of a linear model of the embeddings."""
    torch.manual_seed(seed)
    encoder = Encoder(data, method.hidden)
    model = DeepGraphInfomax(method.hidden, encoder, summary, corrupted)
    optimizer = torch.optim.Adam(model.parameters(), lr=method.lr)
    every = torch.arange(data.num_nodes)
    whole = every, data.edge_index, None, data.num_nodes
    adj = CompactAdj.from_edge_index(data.edge_index, data.num_nodes)
    loader = GTTFLoader(
        Data(edge_index=data.edge_index, num_nodes=data.num_nodes),
        list(method.fanouts),
        batch_size=int(method.options["batch"]),
        shuffle=True,
        seed=seed,
        normalize="unbiased",
        transform=HostWeights(adj),
    )

    def losses() -> Iterator[tuple[Tensor, int]]:
        model.train()
        for batch in [whole] if way == "full" else map(_arguments, loader):
            yield model.loss(*model(*batch)), batch[0].numel()

    def look(loss: float) -> dict[str, float]:
        return {"val": -loss}

    best_state: dict[str, Any] = {}

    def keep() -> None:
        best_state.update(copy.deepcopy(model.state_dict()))

    best, costs = run(method, optimizer, losses, look, report, "loss", keep)
    model.load_state_dict(best_state)
    model.eval()
    with torch.no_grad():
        z = encoder(*whole)
    test = 100 * linear_accuracy(z, data)
    return {"test": test, "best epoch": best["best epoch"], **costs}


def _arguments(batch: Any) -> tuple[Any, ...]:
    return batch.n_id, batch.edge_index, batch.edge_weight, batch.batch_size


def linear_accuracy(z: Tensor, data: Dataset, steps: int = 200) -> float:
    """The share of test nodes that a logistic regression of the embeddings finds."""
    z = z / z.norm(dim=1, keepdim=True).clamp(min=1e-12)
    model = nn.Linear(z.shape[1], data.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(steps):
        loss = F.cross_entropy(model(z[data.train]), data.y[data.train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    right = model(z[data.test]).argmax(1) == data.y[data.test]
    return right.float().mean().item()
