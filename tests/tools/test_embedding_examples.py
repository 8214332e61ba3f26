"""The examples about embeddings run, and end with the numbers they promise."""

import json
import pathlib
import re
import runpy
import sys

import pytest

from exact import one_thread  # noqa: F401

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
SHORT = ["embeddings", "custom_objective", "planted", "gradient_variance"]


@pytest.fixture
def run(capsys, monkeypatch):
    """Runs an example in this process, where torch is imported already."""
    monkeypatch.syspath_prepend(str(EXAMPLES))  # where a script is, as Python does it

    def call(name, *options):
        monkeypatch.setattr(sys, "argv", [name, *map(str, options)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return call


@pytest.mark.parametrize(
    ("method", "options", "least"),
    [
        ("deepwalk", ["--epochs", 3], 60),
        ("node2vec", ["--epochs", 2, "--train-pq"], 52),
        ("wys", ["--epochs", 8], 55),
    ],
)
def test_embedding_examples(run, tmp_path, method, options, least):
    pytest.importorskip("matplotlib")
    picture = ["--png", tmp_path / "z.png"]
    printed = run("embeddings.py", "--method", method, *options, *picture)
    found = re.findall(r"epoch +\d+  loss .*  ROC-AUC ([\d.]+) %", printed)
    assert len(found) == options[1]
    assert least < float(found[-1]) <= 100
    assert ("  p " in printed) == (method == "node2vec")
    assert ("  distances " in printed) == (method == "wys")
    assert (tmp_path / "z.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_custom_objective(run):
    printed = run("custom_objective.py")
    found = re.findall(r"accuracy of the community ([\d.]+) %", printed)
    assert float(found[-1]) > 95
    home, inside = re.findall(r"after two steps: ([\d.]+) %", printed)
    assert 3 < float(home) < 8
    assert 64 < float(inside) < 74


def test_bench_embedding(run, tmp_path):
    pytest.importorskip("tqdm")
    pytest.importorskip("matplotlib")
    ring = [f"{u} {(u + step) % 60}" for u in range(60) for step in (1, 2, 3)]
    (tmp_path / "ring.txt").write_text("\n".join(ring))
    options = ["--edges", tmp_path / "ring.txt", "--seconds", 0.2, "--dim", 8]
    files = ["--json", tmp_path / "a.json", "--png", tmp_path / "a.png"]
    printed = run("bench_embedding.py", *options, *files)
    found = json.loads((tmp_path / "a.json").read_text())
    curves = found["curves"]
    assert (found["graph"], len(found["degrees"]), len(curves)) == ("ring", 1, 6)
    for name, (curve,) in curves.items():
        assert f"\n{name} " in printed
        seconds, epochs, auc = curve[-1]
        assert seconds >= 0.2
        assert epochs >= 1
        assert 0 <= auc <= 100
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_gradient_variance(run, tmp_path):
    printed = run("gradient_variance.py", "--batches", 4, "--json", tmp_path / "v.json")
    assert printed.count("best fanout of the first step") == 2
    for one in json.loads((tmp_path / "v.json").read_text()).values():
        cost, between, within = zip(*one["measured"], strict=True)
        assert min(cost) > 0
        assert within[0] > within[1] > within[2] > within[4]  # fewer walkers vary more
        assert abs(between[0]) < within[0]


@pytest.mark.parametrize("name", SHORT)
def test_embedding_examples_are_short(name):
    assert len((EXAMPLES / f"{name}.py").read_text("utf-8").splitlines()) <= 90
