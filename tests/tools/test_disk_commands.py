"""`gttf features` and `gttf build`, as a user meets them."""

import json

import numpy as np
import pytest
import torch

from gttf_sampler import CompactAdj, FeatureFile
from gttf_sampler.cli.main import main


@pytest.fixture
def values(tmp_path):
    x = np.random.default_rng(0).random((100, 6)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    return x


def test_features_writes_and_info_verifies(tmp_path, values, capsys):
    source, out = str(tmp_path / "x.npy"), str(tmp_path / "out.npy")
    assert main(["features", source, source, out]) == 0
    told = capsys.readouterr()
    assert "[200, 6]" in told.out
    assert told.err == ""
    rows = FeatureFile(out)[:].numpy()
    assert np.array_equal(rows, np.concatenate([values, values]))
    assert main(["info", out, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["rows"], facts["stored"]) == (200, "float32")
    with open(out, "r+b") as file:
        file.seek(4100)
        file.write(b"\xff")
    assert main(["info", out]) == 2
    assert "must match the checksum of its rows" in capsys.readouterr().err


def test_features_stored_smaller(tmp_path, values, capsys):
    out = str(tmp_path / "out.npy")
    words = ["features", str(tmp_path / "x.npy"), out, "--stored", "int8"]
    assert main(words) == 0
    assert FeatureFile(out).stored == "int8"
    assert main(words) == 2
    assert "'--force' overwrites it" in capsys.readouterr().err
    assert main([*words, "--force"]) == 0


def test_build_is_from_edge_index(tmp_path, capsys):
    edges = torch.randint(0, 40, (2, 300))
    np.save(tmp_path / "a.npy", edges[:, :100].numpy())
    np.save(tmp_path / "b.npy", edges[:, 100:200].t().contiguous().numpy())
    lines = [f"{a} {b}" for a, b in edges[:, 200:].t().tolist()]
    (tmp_path / "c.txt").write_text("# edges\n" + "\n".join(lines))
    files = [str(tmp_path / name) for name in ("a.npy", "b.npy", "c.txt")]
    out = str(tmp_path / "graph")
    assert main(["build", *files, out]) == 0
    assert "300 edges" in capsys.readouterr().out
    want = CompactAdj.from_edge_index(edges, int(edges.max()) + 1)
    for name, array in CompactAdj.open(out).arrays().items():
        assert torch.equal(array, getattr(want, name))
    more = ["--both", "--no-ids", "--nodes", "50", "--direction", "out"]
    assert main(["build", *files, out, *more, "--memory", "0.001"]) == 0
    both = torch.cat([edges, edges.flip(0)], 1)
    want = CompactAdj.from_edge_index(both, 50, direction="out")
    got = CompactAdj.open(out)
    assert got.edge_id is None
    assert torch.equal(got.rowptr, want.rowptr)
    rows = [x.split(want.degree.tolist()) for x in (got.col, want.col)]
    for left, right in zip(*rows, strict=True):
        assert torch.equal(left.sort().values, right.sort().values)


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["features", "none.npy", "out.npy"], "'values' must be an .npy file"),
        (["build", "none.npy", "out"], "'edges' must be files that are there"),
        (["build", "bad.npy", "out"], "must have shape [2, m] or [m, 2]"),
        (["build", "bad.txt", "out"], "must have two integers in every line"),
    ],
)
def test_disk_commands_validate(tmp_path, monkeypatch, capsys, words, match):
    monkeypatch.chdir(tmp_path)
    np.save("bad.npy", np.zeros((3, 3), np.int64))
    (tmp_path / "bad.txt").write_text("a b\n")
    assert main(words) == 2
    assert match in capsys.readouterr().err
    assert not (tmp_path / "out" / "header.json").exists()
