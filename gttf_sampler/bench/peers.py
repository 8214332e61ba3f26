"""Who there is to compare with, found at run time and named with its version."""

import sys
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import CompactAdj

# module → the name under which people install it
PACKAGES = {
    "torch_geometric": "torch-geometric",
    "pyg_lib": "pyg-lib",
    "torch_sparse": "torch-sparse",
    "torch_cluster": "torch-cluster",
    "dgl": "dgl",
    "gensim": "gensim",
    "pecanpy": "pecanpy",
    "numba": "numba",
    "rich": "rich",
    "matplotlib": "matplotlib",
    "psutil": "psutil",
    "tqdm": "tqdm",
    "triton": "triton",
}


ELSEWHERE = "install it from its own wheel index or source"
COMPILED = ("torch_sparse", "torch_cluster")  # PyPI has their source alone


@cache
def attempt(module: str) -> tuple[Any, str]:
    """An optional package, imported now, or None and the reason."""
    try:
        return import_module(module), ""
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        # not there, or made for another torch or numpy
        return None, (str(error).splitlines() or [type(error).__name__])[0]


def load(module: str) -> Any:
    """An optional package, imported now; None if that does not work."""
    return attempt(module)[0]


def version(module: str) -> str | None:
    """The version of a package without importing it; None if it is not there."""
    try:
        return installed(PACKAGES[module])
    except PackageNotFoundError:
        return None


def cure(module: str) -> str:
    """How to install a package."""
    if module == "pyg_lib":
        return f"{ELSEWHERE} (it is not on PyPI)"
    if module == "dgl" and sys.version_info >= (3, 12):  # as setup.cfg says
        return f"{ELSEWHERE} (PyPI has none for this Python)"
    if module in COMPILED:
        name = PACKAGES[module]
        return f"install it with: pip install --no-build-isolation {name} (it compiles)"
    asked = "'dgl<2' packaging" if module == "dgl" else PACKAGES[module]
    return f"install it with: pip install {asked}"


def absent(module: str) -> str:
    """Why a package cannot take part, and how to install it."""
    name, found = PACKAGES[module], version(module)
    why = f"{name} is not installed"
    if found is not None:
        why = f"{name} {found} cannot be imported ({attempt(module)[1]})"
    return f"{why}; {cure(module)}"


def label(module: str, what: str = "") -> str:
    """A peer's name for a table: "DGL 1.1.3 NeighborSampler"."""
    short = {"torch_geometric": "PyG", "dgl": "DGL"}
    name = short.get(module, PACKAGES[module])
    found = getattr(load(module), "__version__", None) or version(module)
    return " ".join(part for part in (name, found, what) if part)


def pyg_label(what: str) -> str:
    """The name of a class of PyG that samples, with the backend it takes."""
    return label("torch_geometric", f"{what} ({pyg_backend()})")


def pyg_backend() -> str | None:
    """The compiled sampler that PyG takes here, by name; None if there is none."""
    if load("torch_geometric") is None:
        return None
    typing = import_module("torch_geometric.typing")
    if typing.WITH_PYG_LIB:
        return label("pyg_lib")
    return label("torch_sparse") if typing.WITH_TORCH_SPARSE else None


def no_backend() -> str:
    """Why PyG cannot sample, and what to install."""
    one, other = cure("pyg_lib"), cure("torch_sparse")
    return (
        f"neither pyg-lib nor torch-sparse can be imported, and it needs one; "
        f"pyg-lib: {one}; torch-sparse: {other}"
    )


class Missing(list[dict[str, str]]):
    """The peers that were left out, each with the reason."""

    def add(self, peer: str, why: str) -> None:
        """Notes one, once."""
        entry = {"peer": peer, "why": why}
        if entry not in self:
            self.append(entry)

    def needs(self, module: str, peer: str) -> bool:
        """Whether `module` is there; notes its absence."""
        if load(module) is not None:
            return True
        self.add(peer, absent(module))
        return False

    def needs_dgl_on(self, device: torch.device, peer: str) -> bool:
        """Whether DGL is there and can hold graphs on `device`; notes it if not."""
        if not self.needs("dgl", peer):
            return False
        why = "" if device.type == "cpu" else dgl_lacks(device)
        if why:
            self.add(label("dgl", peer.removeprefix("DGL ")), why)
        return not why

    def needs_pyg_backend(self, what: str) -> bool:
        """Whether PyG's own sampler can run; notes its absence."""
        if not self.needs("torch_geometric", f"PyG {what}"):
            return False
        if pyg_backend() is None:
            self.add(label("torch_geometric", what), no_backend())
            return False
        return True


def dgl_graph(adj: CompactAdj, layout: str = "csc") -> Any:
    """The rows of a CompactAdj as a DGLGraph with int64 ids.

    With int32 ids DGL 1.1.3 samples far fewer edges than it should, so nobody could
    compare with it.
    """
    dgl = load("dgl")
    none = torch.empty(0, dtype=torch.int64)
    rows = (adj.rowptr, adj.col.to(torch.int64), none)
    return dgl.graph((layout, rows), num_nodes=adj.num_rows).formats(layout)


def on_cpu(device: torch.device) -> str:
    """What is said of a peer that stays on the CPU while others are on `device`."""
    return "" if device.type == "cpu" else ", on the CPU"


def dgl_lacks(device: torch.device) -> str:
    """Why the DGL that is here cannot hold graphs on `device`; empty if it can."""
    dgl = load("dgl")
    try:
        dgl.graph(([0], [0])).to(device)
    except (dgl.DGLError, RuntimeError, AssertionError) as error:
        said = (str(error).splitlines() or [type(error).__name__])[0]
        return f"DGL {dgl.__version__} has no graphs on {device} ({said[-120:]})"
    return ""


def pyg_data(adj: CompactAdj, **arrays: Tensor) -> Any:
    """The edges of a CompactAdj as PyG's Data."""
    data = import_module("torch_geometric.data")
    return data.Data(edge_index=adj.to_edge_index(), num_nodes=adj.num_rows, **arrays)
