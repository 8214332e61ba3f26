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
from importlib.util import find_spec
from typing import Any

COMPILED = ("pyg_lib", "torch_sparse", "torch_scatter", "torch_cluster")
FLAGS = (
    "WITH_PYG_LIB",
    "WITH_TORCH_SPARSE",
    "WITH_WEIGHTED_NEIGHBOR_SAMPLE",
    "WITH_EDGE_TIME_NEIGHBOR_SAMPLE",
)
THEIRS = re.compile(
    r"torch\.ops\.|SparseTensor|torch_sparse\.|pyg_lib\.|toarray|\.to_sparse_tensor"
)


def swap_pyg() -> None:
    """PyG's loaders, sampler and Node2Vec."""
    import gttf_pyg

    for name in ("data.lightning", "loader", "sampler", "nn.models", "testing"):
        package = importlib.import_module(f"torch_geometric.{name}")
        for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            try:
                importlib.import_module(info.name)
            except Exception:  # needs something that is not installed
                continue
    gttf_pyg.install()
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
    import gttf_dgl

    gttf_dgl.install()


def cora_full() -> None:
    """A random graph in the place of CoraFull, which DGL would have to download."""
    import dgl
    import torch

    g = dgl.rand_graph(2000, 13_000)
    g.ndata["feat"], g.ndata["label"] = torch.rand(2000, 16), torch.arange(2000) % 70
    dgl.data.CoraFullDataset = lambda *args, **kwargs: [g]


def flags(value: bool | None) -> None:
    """Flags that PyG's test modules read at collection; None is the truth."""
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
