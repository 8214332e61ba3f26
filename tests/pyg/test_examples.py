"""Every PyG example runs for an epoch, offline, and learns something in it."""

import pathlib
import re

import pytest
import torch
import torch_geometric.datasets
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from apart import joins_a_group
from exact import one_thread as one_thread

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
NAMES = sorted(  # tests/pyg/test_relational.py has the one that needs RelBench
    path.stem for path in EXAMPLES.glob("pyg_*.py") if path.stem != "pyg_relational"
)
# The accuracy or AUC in % that one epoch reaches at least; what guessing gives is less.
LEARNED = {
    "pyg_models": 30,
    "pyg_models --model gat": 30,
    "pyg_models --model gcnii": 20,
    "pyg_hetero": 40,
    "pyg_link_prediction": 70,
    "pyg_node2vec": 15,
    "pyg_ddp": 30,
    "pyg_distributed": 60,
}


def test_pyg_examples_are_all_tested():
    assert {name.split()[0] for name in [*LEARNED, "pyg_sage"]} == set(NAMES)


@pytest.mark.parametrize("name", LEARNED)
def test_pyg_example_learns(name, example):
    epoch, expected = example(*name.split(), "--epochs", 1)
    found = re.fullmatch(r"epoch  1  loss \d+\.\d+  test \w+ (\d+\.\d) %", epoch)
    assert found, epoch
    assert float(found[1]) > LEARNED[name]
    assert re.match(r"Expected after \d+ epochs.*: \d\d %", expected)


def test_pyg_sage_shows_both_side_by_side(example):
    lines = example("pyg_sage", "--epochs", 1)
    table = lines.index("") + 1
    title = r"training +test accuracy +nodes per step +seconds"
    assert re.fullmatch(title, lines[table])
    cells = [re.split(r"  +", line) for line in lines[table + 1 : -2]]
    names, right, nodes, _ = zip(*cells, strict=True)
    assert names == ("full batch", "GTTF [5, 5]", "GTTF [10, 10]")
    full, few, more = (int(number.replace(",", "")) for number in nodes)
    assert few < more < full == 6_000
    assert all(float(share.removesuffix(" %")) > 30 for share in right)
    assert re.fullmatch(r"GTTF \[5, 5\] tested on .* samples: \d+\.\d %", lines[-2])
    assert lines[-1].startswith("Expected on the made graph: full batch 98 %")


@pytest.mark.parametrize("name", NAMES)
def test_pyg_example_says_how(name):
    text = (EXAMPLES / f"{name}.py").read_text("utf-8")
    assert "--root" in text
    assert re.search(r"; \d+ seconds\.\n", text[:100])


@pytest.mark.parametrize(
    "name", [name for name in NAMES if not joins_a_group(EXAMPLES / f"{name}.py")]
)
def test_pyg_example_takes_planetoid(name, example, monkeypatch, tmp_path):
    """`--root` asks PyG for Cora; here it gets a small graph that looks like it."""
    asked = []

    def planetoid(root, name, transform=None):
        asked.append((root, name))
        return [data if transform is None else transform(data)]

    y, part = torch.arange(280) % 7, torch.arange(280) // 94
    data = Data(
        x=torch.rand(280, 20).less(0.2).float(),
        y=y,
        edge_index=to_undirected(torch.randint(280, (2, 600))),
        **{
            f"{kind}_mask": part == i for i, kind in enumerate(("train", "val", "test"))
        },
    )
    monkeypatch.setattr(torch_geometric.datasets, "Planetoid", planetoid)
    lines = example(name, "--epochs", 1, "--root", tmp_path)
    assert asked == [(str(tmp_path), "Cora")]
    assert "epoch  1" in lines[0]
