"""Our classes in the place of PyG's, for code that nobody can edit."""

from gttf_sampler._swap import Swap

SWAPPED = {
    "loader": (
        *("ClusterData", "ClusterLoader", "GraphSAINTEdgeSampler"),
        *("GraphSAINTNodeSampler", "GraphSAINTRandomWalkSampler", "GraphSAINTSampler"),
        *("HGTLoader", "LinkNeighborLoader"),
        *("NeighborLoader", "NeighborSampler", "ShaDowKHopSampler"),
    ),
    "sampler": ("BidirectionalNeighborSampler", "HGTSampler", "NeighborSampler"),
    "nn": ("Node2Vec",),
    "data.lightning": ("LightningLinkData", "LightningNodeData"),
}
"""Names of PyG's modules, and of ours of the same name, that `install` swaps."""

_SWAP = Swap(
    {
        (f"torch_geometric.{room}", f"gttf_pyg.{room.removeprefix('data.')}"): names
        for room, names in SWAPPED.items()
    }
)


def install() -> None:
    """Puts our loaders, samplers and `Node2Vec` in the place of PyG's.

    In PyG itself and in every module that has imported them already, so that code which
    nobody can edit samples with this package. `uninstall` undoes it.

    >>> import gttf_pyg, torch_geometric.loader
    >>> with gttf_pyg.installed():
    ...     torch_geometric.loader.NeighborLoader.__module__
    'gttf_pyg.loader'
    >>> torch_geometric.loader.NeighborLoader.__module__
    'torch_geometric.loader.neighbor_loader'
    """
    _SWAP.install()


uninstall = _SWAP.uninstall
"""Gives PyG and all other modules back what `install` has replaced."""

installed = _SWAP.installed
"""`install` for the length of a `with` block."""
