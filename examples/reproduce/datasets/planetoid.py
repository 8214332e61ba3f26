"""Cora, CiteSeer and PubMed, read by PyG."""

from pathlib import Path

from examples.reproduce.data import Dataset
from examples.reproduce.features import Features


def read(name: str, files: list[Path]) -> Dataset:
    """The public split; rows of features sum to one."""
    from torch_geometric.datasets import Planetoid
    from torch_geometric.transforms import NormalizeFeatures

    folder = files[0].parent.parent
    data = Planetoid(str(folder.parent), folder.name, transform=NormalizeFeatures())[0]
    masks = data.train_mask, data.val_mask, data.test_mask
    split = (mask.nonzero().view(-1) for mask in masks)
    return Dataset(name, data.edge_index, Features(data.x), data.y, *split)
