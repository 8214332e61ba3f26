"""The loaders under the names that existing scripts and their tests use.

from gttf_pyg import LinkNeighborLoader, NeighborLoader  # was: torch_geometric.loader
"""

from gttf_pyg.link_loader import GTTFLinkLoader
from gttf_pyg.loader import GTTFLoader


class NeighborLoader(GTTFLoader):
    """`GTTFLoader` by the name of what it stands in for.

    >>> from torch_geometric.datasets import KarateClub
    >>> NeighborLoader(KarateClub()[0], num_neighbors=[5])
    NeighborLoader()
    """


class LinkNeighborLoader(GTTFLinkLoader):
    """`GTTFLinkLoader` by the name of what it stands in for.

    >>> from torch_geometric.datasets import KarateClub
    >>> LinkNeighborLoader(KarateClub()[0], num_neighbors=[5])
    LinkNeighborLoader()
    """
