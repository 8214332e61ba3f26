import os
import pathlib
import re
import struct
import subprocess
import sys
from importlib.util import find_spec

import pytest

import gttf_sampler

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


def run(name, *options):
    """The output of an example, which imports the tests' copy of the package."""
    home = str(pathlib.Path(gttf_sampler.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, options)],
        env={**os.environ, "PYTHONPATH": home, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    told = [
        line for line in done.stderr.splitlines() if "compiling the CPU" not in line
    ]
    assert told == []  # no warning, and no progress bar where nobody looks at it
    return done.stdout


def png_size(path):
    """Width and height, from the header of a PNG file that has some content."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data.endswith(b"IEND\xaeB`\x82")
    assert len(data) > 10_000
    return struct.unpack(">II", data[16:24])


def test_walk_forest(tmp_path):
    if find_spec("matplotlib") is None:
        assert run("walk_forest.py") == FIGURE_1
        return
    assert run("walk_forest.py", "--png", tmp_path / "figure1.png") == FIGURE_1
    width, height = png_size(tmp_path / "figure1.png")
    assert width > 3 * height > 900


def test_torch_gcn():
    pytest.importorskip("tqdm")
    lines = run("torch_gcn.py", "--epochs", 1).splitlines()
    assert lines[0].startswith("training       test accuracy  nodes per step")
    rows = dict(re.match(r"(.*?)  +(.*)", line).groups() for line in lines[1:6])
    assert list(rows)[:2] == ["no graph", "full batch"]
    nodes = {name: int(row.split()[2].replace(",", "")) for name, row in rows.items()}
    assert nodes["full batch"] == 3000
    assert nodes["GTTF [3, 3]"] < nodes["GTTF [5, 5]"] < nodes["GTTF [10, 10]"] < 3000
    accuracy = {name: float(row.split()[0]) for name, row in rows.items()}
    assert accuracy["full batch"] > accuracy["no graph"] + 10


@pytest.mark.parametrize("name", ["walk_forest", "torch_gcn"])
def test_examples_are_short(name):
    assert len((EXAMPLES / f"{name}.py").read_text("utf-8").splitlines()) <= 90
