"""Our classes in the place of PyG's, for code that nobody can edit."""

from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

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
}
"""Names of PyG's modules, and of ours of the same name, that `install` swaps."""

LIGHTNING = ("LightningLinkData", "LightningNodeData")


def _pairs() -> list[tuple[Any, Any]]:
    """Pairs of PyG's names and our classes that take their place."""
    found = []
    for room, names in SWAPPED.items():
        theirs = import_module(f"torch_geometric.{room}")
        ours = import_module(f"gttf_pyg.{room}")
        found += [(_first(theirs, name), getattr(ours, name)) for name in names]
    theirs = import_module("torch_geometric.data.lightning")
    ours = import_module("gttf_pyg.lightning")
    found += [(_first(theirs, name), getattr(ours, name)) for name in LIGHTNING]
    return found


def _first(module: Any, name: str) -> Any:
    """Looks up the meaning of a name in a PyG module before anything was swapped."""
    return _THEIRS.setdefault((module.__name__, name), getattr(module, name))


_THEIRS: dict[tuple[str, str], Any] = {}
_SWAP = Swap(_pairs)


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


def uninstall() -> None:
    """Gives PyG and all other modules back what `install` has replaced."""
    _SWAP.uninstall()


def installed() -> AbstractContextManager[None]:
    """`install` for the length of a `with` block."""
    return _SWAP.installed()
