"""The graphs: from files that people have, or one made here that needs none."""

from dataclasses import dataclass
from importlib import import_module

import torch
from torch import Tensor

from examples.reproduce.datasets.catalog import SOURCES, files_of
from examples.reproduce.features import DenseFeatures, Features

RANDOM_SPLITS = ("computers", "physics")


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
        y: int64 [n], classes; or uint8 [n, classes], ones for those of a node.
        train, val, test: int64, node ids.
    """

    name: str
    edge_index: Tensor
    features: Features | DenseFeatures
    y: Tensor
    train: Tensor
    val: Tensor
    test: Tensor

    @property
    def num_nodes(self) -> int:
        return len(self.y)

    @property
    def num_classes(self) -> int:
        return self.y.shape[1] if self.y.dim() > 1 else int(self.y.max()) + 1


def load(
    name: str, root: str | None = None, edges: str | None = None, split: int = 0
) -> Dataset | Graph:
    """A graph by its name, from files; nothing is downloaded.

    Args:
        name: of the dataset.
        root: the folder of the datasets, each as PyG or OGB lays it out.
        edges: the folder of edge lists; by default the same.
        split: the number of a random split, for datasets without one of their own.
    """
    if name == "planted":
        return planted()
    if name not in SOURCES:
        known = ["planted", *SOURCES]
        raise ValueError(f"'name' must be one of {known} (got {name!r})")
    files = files_of(name, root, edges)
    module, function = SOURCES[name].reader.split(":")
    reader = import_module(f"examples.reproduce.datasets.{module}")
    how = {"split": split} if name in RANDOM_SPLITS else {}
    found: Dataset | Graph = getattr(reader, function)(name, files, **how)
    return found


def as_graph(data: Dataset | Graph) -> Graph:
    """The edges of a dataset, as embeddings use it."""
    if isinstance(data, Graph):
        return data
    return Graph(data.name, data.edge_index, data.num_nodes)


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
