"""The examples about embeddings run, and end with the numbers they promise."""

import json
import re

import pytest

from exact import one_thread  # noqa: F401


@pytest.mark.parametrize(
    ("method", "options", "least"),
    [
        ("deepwalk", ["--epochs", 3], 60),
        ("node2vec", ["--epochs", 2, "--train-pq"], 52),
        ("wys", ["--epochs", 8], 55),
    ],
)
def test_embedding_examples(example, tmp_path, method, options, least):
    pytest.importorskip("matplotlib")
    picture = ["--png", tmp_path / "z.png"]
    printed = "\n".join(example("embeddings", "--method", method, *options, *picture))
    found = re.findall(r"epoch +\d+  loss .*  ROC-AUC ([\d.]+) %", printed)
    assert len(found) == options[1]
    assert least < float(found[-1]) <= 100
    assert ("  p " in printed) == (method == "node2vec")
    assert ("  distances " in printed) == (method == "wys")
    assert (tmp_path / "z.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_custom_objective(example):
    printed = "\n".join(example("custom_objective"))
    found = re.findall(r"accuracy of the community ([\d.]+) %", printed)
    assert float(found[-1]) > 95
    home, inside = re.findall(r"after two steps: ([\d.]+) %", printed)
    assert 3 < float(home) < 8
    assert 64 < float(inside) < 74


def test_bench_embedding(example, tmp_path):
    pytest.importorskip("tqdm")
    pytest.importorskip("matplotlib")
    ring = [f"{u} {(u + step) % 60}" for u in range(60) for step in (1, 2, 3)]
    (tmp_path / "ring.txt").write_text("\n".join(ring))
    options = ["--edges", tmp_path / "ring.txt", "--seconds", 0.2, "--dim", 8]
    files = ["--json", tmp_path / "a.json", "--png", tmp_path / "a.png"]
    printed = "\n".join(example("bench_embedding", *options, *files))
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


def test_gradient_variance(example, tmp_path):
    printed = "\n".join(
        example("gradient_variance", "--batches", 4, "--json", tmp_path / "v.json")
    )
    assert printed.count("best fanout of the first step") == 2
    for one in json.loads((tmp_path / "v.json").read_text()).values():
        cost, between, within = zip(*one["measured"], strict=True)
        assert min(cost) > 0
        assert within[0] > within[1] > within[2] > within[4]  # fewer walkers vary more
        assert abs(between[0]) < within[0]
