"""Our samplers and walks in the place of DGL's, for code that nobody can edit."""

import dgl

from gttf_sampler._swap import Swap

SWAPPED = {
    "dataloading": (
        *("DataLoader", "LaborSampler", "MultiLayerFullNeighborSampler"),
        *("MultiLayerNeighborSampler", "NeighborSampler", "SAINTSampler"),
        "ShaDowKHopSampler",
    ),
    "sampling": (
        *("PinSAGESampler", "RandomWalkNeighborSampler", "node2vec_random_walk"),
        *("random_walk", "sample_labors", "sample_neighbors"),
    ),
}
"""Names of DGL's modules that `install` swaps for ours."""

METHODS = ("sample_labors", "sample_neighbors")  # of a DGLGraph as well

_SWAP = Swap(
    {(f"dgl.{room}", "gttf_dgl"): names for room, names in SWAPPED.items()},
    {(dgl.DGLGraph, name): "gttf_dgl" for name in METHODS},
)


def install() -> None:
    """Puts our samplers, DataLoader and walks in the place of DGL's.

    In DGL itself and in every module that has imported them already, so that code which
    nobody can edit samples with this package. `uninstall` undoes it.

    >>> import dgl, gttf_dgl
    >>> with gttf_dgl.installed():
    ...     dgl.dataloading.NeighborSampler.__module__
    'gttf_dgl.sampler'
    """
    _SWAP.install()


uninstall = _SWAP.uninstall
"""Gives DGL and all other modules back what `install` has replaced."""

installed = _SWAP.installed
"""`install` for the length of a `with` block."""
