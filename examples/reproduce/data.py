"""The graphs: Planetoid's Cora and CiteSeer, or one made here that needs no file."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from examples.reproduce.features import Features
from gttf_sampler.embedding import largest_component
from gttf_sampler.graph import read_edge_list

NAMES = {"cora": "Cora", "citeseer": "CiteSeer"}
FILES = {"ppi": "ppi.edgelist", "hepth": "ca-HepTh.txt"}


@dataclass(frozen=True)
class Graph:
    """A graph without features, whose edges are to be found; its largest component."""

    name: str
    edge_index: Tensor
    num_nodes: int


@dataclass(frozen=True)
class Dataset:
    """A graph whose nodes are to be classified.

    Attributes:
        edge_index: int64 [2, m], both directions of every edge, no self-loops.
        features: of all nodes.
        y: int64 [n], classes.
        train, val, test: int64, node ids.
    """

    name: str
    edge_index: Tensor
    features: Features
    y: Tensor
    train: Tensor
    val: Tensor
    test: Tensor

    @property
    def num_nodes(self) -> int:
        return self.y.numel()

    @property
    def num_classes(self) -> int:
        return int(self.y.max()) + 1


def load(
    name: str, root: str | None = None, edges: str | None = None
) -> Dataset | Graph:
    """A graph by its name.

    Args:
        name: of the dataset.
        root: the folder of PyG's `Planetoid`.
        edges: the folder of edge lists.
    """
    if name == "planted":
        return planted()
    if name in FILES:
        if edges is None:
            raise ValueError(
                f"'edges' must name the folder of {FILES[name]} (got None); use --edges"
            )
        file = read_edge_list(Path(edges) / FILES[name])
        kept, node = largest_component(file.edge_index, file.num_nodes)
        return Graph(name, kept, node.numel())
    if name not in NAMES:
        known = ["planted", *NAMES, *FILES]
        raise ValueError(f"'name' must be one of {known} (got {name!r})")
    if root is None:
        raise ValueError(
            f"'root' must name the folder of Planetoid's {NAMES[name]} (got None); "
            "use --root"
        )
    from torch_geometric.datasets import Planetoid
    from torch_geometric.transforms import NormalizeFeatures

    data = Planetoid(root, NAMES[name], transform=NormalizeFeatures())[0]
    masks = data.train_mask, data.val_mask, data.test_mask
    split = (mask.nonzero().view(-1) for mask in masks)
    return Dataset(name, data.edge_index, Features(data.x), data.y, *split)


def planted(blocks: int = 4, size: int = 60, words: int = 40) -> Dataset:
    """A planted partition: 8 neighbours inside, 2 outside; a few words per node."""
    generator = torch.Generator().manual_seed(0)
    n = blocks * size
    y = torch.arange(n) % blocks
    same = y[:, None] == y
    chance = torch.where(same, 8 / size, 2 / (size * (blocks - 1)))
    upper = torch.rand(n, n, generator=generator).less(chance).triu(1)
    edge_index = (upper | upper.T).nonzero().T.contiguous()
    topic = torch.arange(words) % blocks == y[:, None]
    chance = torch.where(topic, 0.12, 0.06)
    x = torch.rand(n, words, generator=generator).less(chance).float()
    x = x / x.sum(1, keepdim=True).clamp(min=1)
    order = torch.randperm(n, generator=generator)
    split = order[:40], order[40:100], order[100:]
    return Dataset("planted", edge_index, Features(x), y, *split)
