"""`gttf convert`, and names that stay end to end."""

from itertools import pairwise

import numpy as np
import pytest

from gttf_sampler import CompactAdj
from gttf_sampler.cli.main import main
from gttf_sampler.graph import read_graph

LINES = "buyer,item,price\nann,tea,2\nbo,tea,3\nbo,pot,30\nann,pot,31\n"


def test_convert_through_every_format(tmp_path, capsys):
    pytest.importorskip("pyarrow")
    (tmp_path / "a.csv").write_text(LINES)
    named = ["--columns", "buyer", "item", "price"]
    chain = ["a.csv", "b.tsv.gz", "c.npz", "d.parquet", "e", "f.csv"]
    for number, (source, out) in enumerate(pairwise(chain)):
        words = ["convert", str(tmp_path / source), str(tmp_path / out)]
        assert main(words + (named if number == 0 else [])) == 0
    assert "wrote" in capsys.readouterr().out
    first = read_graph(tmp_path / "a.csv", ["buyer", "item", "price"])
    last = read_graph(tmp_path / "f.csv")
    assert last.node_id.tolist() == first.node_id.tolist()
    assert last.edge_weight.tolist() == first.edge_weight.tolist()
    assert CompactAdj.open(tmp_path / "e").node_id.tolist() == first.node_id.tolist()


def test_convert_refuses(tmp_path, capsys):
    file = tmp_path / "a.csv"
    file.write_text(LINES)
    assert main(["convert", str(file), str(file)]) == 2
    assert "'out' must not be the graph itself" in capsys.readouterr().err
    (tmp_path / "b.csv").write_text("mine")
    assert main(["convert", str(file), str(tmp_path / "b.csv")]) == 2
    assert (tmp_path / "b.csv").read_text() == "mine"
    assert main(["convert", str(file), str(tmp_path / "b.csv"), "--force"]) == 0
    assert main(["convert", str(file), str(tmp_path / "b.xlsx")]) == 2


@pytest.mark.parametrize("end", ["parquet", "npz"])
def test_embed_keeps_names(tmp_path, end):
    if end == "parquet":
        pytest.importorskip("pyarrow")
    (tmp_path / "a.csv").write_text("source,target\nann,bo\nbo,cy d\ncy d,ann\n")
    table = str(tmp_path / f"a.{end}")
    assert main(["convert", str(tmp_path / "a.csv"), table]) == 0
    out = str(tmp_path / "vectors.npz")
    short = ["--dim", "4", "--epochs", "1", "--window", "2"]
    assert main(["embed", table, out, *short]) == 0
    with np.load(out) as found:
        assert found["node_id"].tolist() == ["ann", "bo", "cy d"]
        assert found["embedding"].shape == (3, 4)
