import pathlib
import re
import struct
from importlib.util import find_spec

import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"

FIGURE_1 = """\
(a) Graph G and its edge_index

    0 ─── 1 ─── 2      0 1 1 1 1 2 3 3 4 4
         ╱ ╲           1 0 2 3 4 1 1 4 1 3
        3 ─ 4

(b) Adjacency matrix   (c) CompactAdj: Â and δ

    · 1 · · ·              1 · · ·    1
    1 · 1 1 1              0 2 3 4    4
    · 1 · · ·              1 · · ·    1
    · 1 · · 1              1 4 · ·    2
    · 1 · 1 ·              1 3 · ·    2

(d) Walk forest: seeds [4, 0], fanouts [2, 2]

    4
    ├─ 3
    │  ├─ 4
    │  └─ 1
    └─ 1
       ├─ 2
       └─ 0
    0
    ├─ 1
    │  ├─ 0
    │  └─ 2
    └─ 1
       ├─ 4
       └─ 2

The forest of the paper's figure: True (expected: True)
"""


def png_size(path):
    """Width and height, from the header of a PNG file that has some content."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data.endswith(b"IEND\xaeB`\x82")
    assert len(data) > 10_000
    return struct.unpack(">II", data[16:24])


def test_walk_forest(example, tmp_path):
    if find_spec("matplotlib") is None:
        assert example("walk_forest") == FIGURE_1.splitlines()
        return
    picture = tmp_path / "figure1.png"
    assert example("walk_forest", "--png", picture) == FIGURE_1.splitlines()
    width, height = png_size(picture)
    assert width > 3 * height > 900


def test_torch_gcn(example):
    pytest.importorskip("tqdm")
    lines = example("torch_gcn", "--epochs", 1)
    assert lines[0].startswith("training       test accuracy  nodes per step")
    rows = dict(re.match(r"(.*?)  +(.*)", line).groups() for line in lines[1:6])
    assert list(rows)[:2] == ["no graph", "full batch"]
    nodes = {name: int(row.split()[2].replace(",", "")) for name, row in rows.items()}
    assert nodes["full batch"] == 3000
    assert nodes["GTTF [3, 3]"] < nodes["GTTF [5, 5]"] < nodes["GTTF [10, 10]"] < 3000
    accuracy = {name: float(row.split()[0]) for name, row in rows.items()}
    assert accuracy["full batch"] > accuracy["no graph"] + 10


LONG = ("bench_embedding", "shop")  # a benchmark, and the tables of another script


def test_examples_are_short():
    for path in EXAMPLES.glob("*.py"):
        most = 200 if path.stem in LONG else 90
        assert len(path.read_text("utf-8").splitlines()) <= most, path.stem
