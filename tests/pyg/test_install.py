"""Every import line of PyG, and our classes in the place of its own."""

import importlib
import subprocess
import sys

import pytest
import torch
import torch_geometric.loader
import torch_geometric.nn
import torch_geometric.sampler
from torch_geometric.data import Data

import gttf_pyg
import gttf_pyg.loader
import gttf_pyg.nn
import gttf_pyg.sampler
from gttf_pyg.install import SWAPPED
from gttf_sampler._swap import run_as_main

ROOMS = [
    (torch_geometric.loader, gttf_pyg.loader),
    (torch_geometric.sampler, gttf_pyg.sampler),
    (torch_geometric.nn, gttf_pyg.nn),
]


# Public names of PyG's modules that stay PyG's own, because they draw no neighbours. A
# name that PyG adds is in neither list: decide whether it needs one of ours.
THEIRS = {
    torch_geometric.loader: """
        AffinityMixin CachedLoader DataListLoader DataLoader DenseDataLoader
        DynamicBatchSampler ImbalancedSampler LinkLoader NodeLoader PrefetchLoader
        RandomNodeLoader TemporalDataLoader ZipLoader""",
    torch_geometric.sampler: """
        BaseSampler EdgeSamplerInput HeteroSamplerOutput NegativeSampling
        NodeSamplerInput NumNeighbors SamplerOutput""",
}


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(0, 50, (2, 300), generator=generator)
    return Data(x=torch.randn(50, 4, generator=generator), edge_index=ends)


@pytest.mark.parametrize(("host", "ours"), ROOMS, ids=["loader", "sampler", "nn"])
def test_module_has_every_public_name_of_the_host(host, ours):
    for name in host.__all__:
        found = getattr(ours, name)
        own = getattr(found, "__module__", "").startswith("gttf_pyg")
        assert own or found is getattr(host, name), name
    assert set(host.__all__) <= set(ours.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        _ = ours.Nonsense


@pytest.mark.parametrize("host", THEIRS, ids=["loader", "sampler"])
def test_every_name_of_the_host_is_ours_or_left_on_purpose(host):
    swapped = set(SWAPPED[host.__name__.rpartition(".")[2]])
    left = set(THEIRS[host].split())
    assert not swapped & left
    assert set(host.__all__) <= swapped | left


def test_package_has_every_name_of_loader_and_sampler():
    for host, _ in ROOMS[:2]:
        for name in host.__all__:
            assert getattr(gttf_pyg, name) is not None


def test_names_that_we_have_are_ours():
    for name in ("HGTLoader", "ClusterData", "ShaDowKHopSampler"):
        assert getattr(gttf_pyg.loader, name) is getattr(gttf_pyg, name)
    assert gttf_pyg.nn.Node2Vec is gttf_pyg.Node2Vec
    assert gttf_pyg.loader.NeighborSampler is not gttf_pyg.sampler.NeighborSampler


def test_star_import():
    names = {}
    exec("from gttf_pyg.loader import *", names)
    assert names["NeighborLoader"] is gttf_pyg.NeighborLoader
    assert names["DataLoader"] is torch_geometric.loader.DataLoader


def test_install_reaches_modules_that_have_imported_already(data):
    host, user = torch_geometric.loader, type(sys)("colleague")
    before, user.NeighborLoader = host.NeighborLoader, host.NeighborLoader
    sys.modules["colleague"] = user
    try:
        with gttf_pyg.installed():
            gttf_pyg.install()  # twice is once
            assert host.NeighborLoader is gttf_pyg.NeighborLoader
            assert user.NeighborLoader is gttf_pyg.NeighborLoader
            assert issubclass(user.NeighborLoader, before)
            loader = user.NeighborLoader(data, [5, 5], batch_size=10)
            assert len(list(loader)) == 5
            assert len(list(host.LinkNeighborLoader(data, [5], batch_size=100))) == 3
            parts = host.ClusterData(data, num_parts=2, log=False)
            assert len(list(host.ClusterLoader(parts))) == 2
            model = torch_geometric.nn.GraphSAGE(4, 8, 2).eval()
            full = host.NeighborLoader(data, [-1], batch_size=10)
            assert model.inference(full).shape == (50, 8)
        assert host.NeighborLoader is before
        assert user.NeighborLoader is before
    finally:
        del sys.modules["colleague"]


def test_install_leaves_out_what_the_host_has_not(monkeypatch):
    """PyG 2.6 has no BidirectionalNeighborSampler."""
    host = torch_geometric.sampler
    monkeypatch.delattr(host, "BidirectionalNeighborSampler", raising=False)
    with gttf_pyg.installed():
        assert host.NeighborSampler is gttf_pyg.sampler.NeighborSampler
        assert not hasattr(host, "BidirectionalNeighborSampler")


LATER = """
from torch_geometric.loader import NeighborLoader, ZipLoader
class Mine(NeighborLoader):
    pass
"""


def test_uninstall_reaches_modules_that_came_since(tmp_path, monkeypatch):
    theirs, ours = torch_geometric.loader.NeighborLoader, gttf_pyg.NeighborLoader
    (tmp_path / "came_later.py").write_text(LATER)
    (tmp_path / "asked_for_ours.py").write_text("from gttf_pyg import NeighborLoader")
    (tmp_path / "had_ours.py").write_text("from gttf_pyg import NeighborLoader")
    monkeypatch.syspath_prepend(tmp_path)
    had = importlib.import_module("had_ours")
    try:
        with gttf_pyg.installed():
            later = importlib.import_module("came_later")
            asked = importlib.import_module("asked_for_ours")
            made = type(sys)("made_by_hand")
            made.NeighborLoader = torch_geometric.loader.NeighborLoader
            sys.modules["made_by_hand"] = made
            assert later.NeighborLoader is made.NeighborLoader is ours
        assert later.NeighborLoader is made.NeighborLoader is theirs
        assert asked.NeighborLoader is had.NeighborLoader is ours
        assert issubclass(later.Mine, ours)  # classes stay what they were made of
    finally:
        for name in ("had_ours", "came_later", "asked_for_ours", "made_by_hand"):
            sys.modules.pop(name, None)


def test_uninstall_without_install_is_nothing():
    before = torch_geometric.loader.NeighborLoader
    gttf_pyg.uninstall()
    assert torch_geometric.loader.NeighborLoader is before


SCRIPT = """
import sys
from torch_geometric.loader import NeighborLoader
if __name__ == "__main__":
    print(NeighborLoader.__module__, sys.argv[1:], __file__.endswith("script.py"))
"""


@pytest.mark.process
def test_script_runs_with_our_classes(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "gttf_pyg"]
    paths = {"PYTHONPATH": ":".join(sys.path)}

    def run(*words):
        return subprocess.run(
            [*command, *words], cwd=tmp_path, env=paths, capture_output=True, text=True
        )

    done = run("script.py", "--epochs", "3")
    assert done.stdout == "gttf_pyg.loader ['--epochs', '3'] True\n", done.stderr
    assert run("-m", "script").stdout == "gttf_pyg.loader [] True\n"


@pytest.mark.parametrize(("words", "told"), [([], "usage: "), (["none.py"], "no file")])
def test_script_that_is_not_there(words, told):
    with pytest.raises(SystemExit, match=told):
        run_as_main(words, "python -m gttf_pyg")
