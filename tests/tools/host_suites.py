"""A pytest plugin: the hosts' own tests, with our classes in the place of theirs.

    make test-hosts PYG=<checkout of PyG's tests> DGL=<checkout of DGL's>

Every name in PyG's and DGL's modules that means one of their samplers, loaders or walks
means ours before a test is collected. Tests of PyG that ask for pyg-lib or torch-sparse
only because its own sampler does run without them; those that call a compiled package
themselves, or are about classes that we do not stand in for, stay as they are. With
GTTF_HOSTS_OWN=1 the tests run on the hosts themselves, to see what fails without us.
"""

import importlib
import inspect
import os
import pkgutil
import re
import sys
from importlib.util import find_spec
from typing import Any

COMPILED = ("pyg_lib", "torch_sparse", "torch_scatter", "torch_cluster")
FLAGS = (
    "WITH_PYG_LIB",
    "WITH_TORCH_SPARSE",
    "WITH_WEIGHTED_NEIGHBOR_SAMPLE",
    "WITH_EDGE_TIME_NEIGHBOR_SAMPLE",
)
BESIDE = {  # what stands beside the neighbour loaders
    "loader": ("HGTLoader", "ShaDowKHopSampler", "ClusterData", "ClusterLoader"),
    "sampler": ("HGTSampler", "BidirectionalNeighborSampler"),
}
THEIRS = re.compile(
    r"torch\.ops\.|SparseTensor|torch_sparse\.|pyg_lib\.|GraphSAINT|toarray"
    r"|\.to_sparse_tensor"
)


def swap(package: str, ours: dict[Any, Any]) -> None:
    """Lets every name in the modules of `package` mean ours."""
    for name, module in list(sys.modules.items()):
        if module is not None and name.split(".")[0] == package:
            for key, value in list(vars(module).items()):
                if inspect.isroutine(value) or isinstance(value, type):
                    setattr(module, key, ours.get(value, value))


def swap_pyg() -> None:
    """PyG's loaders, sampler and Node2Vec."""
    import torch_geometric.loader
    import torch_geometric.nn
    import torch_geometric.sampler

    import gttf_pyg

    for name in ("data.lightning", "loader", "sampler", "nn.models", "testing"):
        package = importlib.import_module(f"torch_geometric.{name}")
        for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            try:
                importlib.import_module(info.name)
            except Exception:  # needs something that is not installed
                continue
    theirs = torch_geometric
    swap(
        "torch_geometric",
        {
            theirs.loader.NeighborLoader: gttf_pyg.NeighborLoader,
            theirs.loader.LinkNeighborLoader: gttf_pyg.LinkNeighborLoader,
            theirs.loader.NeighborSampler: gttf_pyg.loader.NeighborSampler,
            theirs.data.lightning.LightningNodeData: gttf_pyg.LightningNodeData,
            theirs.data.lightning.LightningLinkData: gttf_pyg.LightningLinkData,
            theirs.sampler.NeighborSampler: gttf_pyg.NeighborSampler,
            **{
                getattr(getattr(theirs, room), name): getattr(gttf_pyg, name)
                for room, names in BESIDE.items()
                for name in names
            },
            theirs.nn.Node2Vec: gttf_pyg.Node2Vec,
        },
    )
    from torch_geometric import testing
    from torch_geometric.testing import decorators

    real = decorators.withPackage

    def with_package(*packages: str) -> Any:
        def decorate(test: Any) -> Any:
            source = inspect.getsource(test)
            body = source[source.find("\ndef ") :] if "\ndef " in source else source
            own = THEIRS.search(body)
            asked = [p for p in packages if re.split(r"[<>=|]", p)[0] not in COMPILED]
            asked = list(packages) if own else asked
            return real(*asked)(test) if asked else test

        return decorate

    for module in (testing, decorators):
        module.withPackage = with_package
        module.onlyNeighborSampler = lambda test: test
        module.withMETIS = real("pymetis")


def swap_dgl() -> None:
    """DGL's samplers and walks."""
    import dgl.dataloading
    import dgl.sampling

    import gttf_dgl

    theirs = {
        dgl.dataloading: (
            "NeighborSampler",
            "MultiLayerFullNeighborSampler",
            "LaborSampler",
            "ShaDowKHopSampler",
            "SAINTSampler",
        ),
        dgl.sampling: (
            "random_walk",
            "node2vec_random_walk",
            "sample_neighbors",
            "sample_labors",
            "PinSAGESampler",
            "RandomWalkNeighborSampler",
        ),
    }
    ours = {
        getattr(module, name): getattr(gttf_dgl, name)
        for module, names in theirs.items()
        for name in names
    }
    swap("dgl", ours)
    for name in ("sample_neighbors", "sample_labors"):
        setattr(dgl.DGLGraph, name, dgl.utils.alias_func(getattr(gttf_dgl, name)))


def cora_full() -> None:
    """A random graph in the place of CoraFull, which DGL would have to download."""
    import dgl
    import torch

    g = dgl.rand_graph(2000, 13_000)
    g.ndata["feat"], g.ndata["label"] = torch.rand(2000, 16), torch.arange(2000) % 70
    dgl.data.CoraFullDataset = lambda *args, **kwargs: [g]


def flags(value: bool | None) -> None:
    """What test modules of PyG read while they are collected; None is the truth."""
    typing = importlib.import_module("torch_geometric.typing")
    for name in FLAGS:
        setattr(typing, name, TRUE_FLAGS[name] if value is None else value)


TRUE_FLAGS: dict[str, bool] = {}


def pytest_configure() -> None:
    """Swaps what is there."""
    own = bool(os.environ.get("GTTF_HOSTS_OWN"))
    if find_spec("torch_geometric") and not own:
        typing = importlib.import_module("torch_geometric.typing")
        TRUE_FLAGS.update({name: getattr(typing, name) for name in FLAGS})
        swap_pyg()
    if find_spec("dgl"):
        cora_full()
        if not own:
            swap_dgl()


def pytest_collection() -> None:
    """Tests must not leave themselves out because pyg-lib is missing."""
    if TRUE_FLAGS:
        flags(True)


def pytest_collection_finish() -> None:
    """While they run, PyG knows what it has."""
    if TRUE_FLAGS:
        flags(None)
