"""The four graphs, and their splits of twenty training nodes per class."""

from pathlib import Path

import torch
from torch import Tensor
from torch_geometric import datasets
from torch_geometric.transforms import NormalizeFeatures

from examples.reproduce.data import planted
from examples.reproduce.features import Features

FOLDERS = {
    "cora": "planetoid",
    "citeseer": "planetoid",
    "computers": "amazon",
    "physics": "coauthor",
}
TITLES = {
    "cora": "Cora",
    "citeseer": "CiteSeer",
    "computers": "Amazon Computers",
    "physics": "Coauthor Physics",
    "planted": "planted partition",
}
PER_CLASS = 20
STEPS = {"physics": 100}  # it is learnt in 20, and a step takes long


class Graph:
    """A graph whose nodes are to be classified."""

    def __init__(self, edge_index: Tensor, x: Tensor, y: Tensor) -> None:
        self.edge_index, self.y, self.width = edge_index, y, x.shape[1]
        few = float((x[:1000] != 0).double().mean()) < 0.1
        self.x: Tensor | Features = Features(x) if few else x

    def rows(self, node: Tensor | None = None) -> Tensor:
        """[b, width]: features of some nodes, or of all; sparse if most are zero."""
        if isinstance(self.x, Features):
            return self.x.rows(node)
        return self.x if node is None else self.x[node]

    @property
    def num_nodes(self) -> int:
        return self.y.numel()

    @property
    def num_classes(self) -> int:
        return int(self.y.max()) + 1

    def split(self, seed: int) -> tuple[Tensor, Tensor]:
        """(training nodes, test nodes): some of every class, and all others."""
        order = torch.randperm(
            self.num_nodes, generator=torch.Generator().manual_seed(seed)
        )
        chosen = [order[self.y[order] == kind][:PER_CLASS] for kind in self.y.unique()]
        train = torch.cat(chosen)
        rest = torch.ones(self.num_nodes, dtype=torch.bool)
        rest[train] = False
        return train, rest.nonzero().view(-1)


def load(name: str, root: str | None) -> Graph:
    """A graph by its name; the planted one is made here and needs no folder."""
    if name == "planted":
        made = planted(size=200)
        return Graph(made.edge_index, made.features.rows().to_dense(), made.y)
    if root is None:
        raise ValueError(f"'root' must name the folder of {name!r} (got None)")
    folder = str(Path(root) / FOLDERS[name])
    if name == "computers":
        data = datasets.Amazon(folder, "Computers")[0]
    elif name == "physics":
        data = datasets.Coauthor(folder, "Physics")[0]
    else:
        data = datasets.Planetoid(folder, TITLES[name], transform=NormalizeFeatures())[
            0
        ]
    return Graph(data.edge_index, data.x, data.y)
