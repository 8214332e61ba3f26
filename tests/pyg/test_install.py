"""Every import line of PyG, and our classes in the place of its own."""

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
from gttf_sampler._swap import run_as_main

ROOMS = [
    (torch_geometric.loader, gttf_pyg.loader),
    (torch_geometric.sampler, gttf_pyg.sampler),
    (torch_geometric.nn, gttf_pyg.nn),
]


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
