"""`gttf convert`, and names that stay end to end."""

import json
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


SHOP = "from_account,to_account,timestamp,amount\n" + "".join(
    f"a{i % 20},b{i % 19},2024-01-{1 + i % 28:02d}T12:00:{i % 60:02d}+02:00,{i}\n"
    for i in range(60)
)
TOLD = "heading: from_account → to_account, time 'timestamp', weight 'amount'"
FEW = ["--dim", "2", "--epochs", "1", "--window", "1"]
COMMANDS = {
    "info": [],
    "convert": ["out.npz"],
    "embed": ["out.npz", *FEW],
    "partition": ["out", "--parts", "2"],
    "show": ["--seed", "b1", "--fanouts", "1"],
}


@pytest.fixture
def shop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.csv").write_text(SHOP)
    return tmp_path / "shop.csv"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_tells_its_heading(shop, capsys, command):
    assert main([command, str(shop), *COMMANDS[command]]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[0].startswith(TOLD)
    assert "from_account" not in said.replace(TOLD, "")


def test_heading_is_no_edge(shop, capsys):
    assert main(["info", str(shop), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["nodes"], facts["edges"]) == (39, 60)
    assert facts["weights"] == "0.0 … 59.0"
    assert facts["times"] == "1704103200 … 1706436055"
    assert main(["embed", str(shop), "z.npz", *FEW]) == 0
    with np.load("z.npz") as found:
        assert len(found["node_id"]) == 39
        assert "from_account" not in found["node_id"]


# All ways to say how a table is to be read, and the file that needs them.
ODD = "31.12.2024~x~5~ann\n01.01.2025~y~6~bo\n"
HOW = ["--no-header", "--separator", "~", "--columns", "4", "2", "3", "1"]
HOW += ["--dates", "%d.%m.%Y"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_the_options_of_tables(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd.txt").write_text(ODD)
    words = ["x" if word == "b1" else word for word in COMMANDS[command]]
    assert main([command, "odd.txt", *words]) == 2
    assert main([command, "odd.txt", *words, *HOW]) == 0
    if command == "convert":
        adj = read_graph("out.npz")
        assert adj.node_id.tolist() == ["ann", "bo", "x", "y"]
        assert adj.in_caller_order(adj.edge_weight).tolist() == [5, 6]
        assert adj.in_caller_order(adj.edge_time).tolist() == [1735603200, 1735689600]


def test_build_has_the_options_of_tables(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd.txt").write_text(ODD.replace("ann", "0").replace("bo", "2"))
    text = (tmp_path / "odd.txt").read_text().replace("x", "1").replace("y", "3")
    (tmp_path / "odd.txt").write_text(text)
    assert main(["build", "odd.txt", "out", *HOW]) == 0
    adj = CompactAdj.open("out")
    assert adj.in_caller_order(adj.edge_weight).tolist() == [5, 6]
    assert adj.in_caller_order(adj.edge_time).tolist() == [1735603200, 1735689600]
    (tmp_path / "two.csv").write_text("from_id,to_id,weight\n0,1,2\n2,3,4\n")
    capsys.readouterr()
    assert main(["build", "two.csv", "two"]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[0] == "heading: from_id → to_id, weight 'weight'"
    assert CompactAdj.open("two").num_edges == 2
    assert CompactAdj.open("two").edge_weight.tolist() == [2, 4]


def test_build_names_a_command_for_words(shop, capsys):
    assert main(["build", str(shop), "out"]) == 2
    said = capsys.readouterr().err
    assert "'edges' must have two integers in every line (got ['a0', 'b0'] in" in said
    assert "gttf convert" in said
    assert "read_edge_list" not in said


@pytest.mark.parametrize("command", [*COMMANDS, "build"])
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "must hold at least one edge"),
        ("from_account,to_account\n", "must hold at least one edge (got a heading"),
        ("source,target\n1,2\n1\n", "must have two "),
        ("source,target\n1,2\n,1\n", "must have two "),
    ],
)
def test_errors_name_what_was_typed(
    tmp_path, monkeypatch, capsys, command, content, reason
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.csv").write_text(content)
    words = ["out"] if command == "build" else COMMANDS[command]
    assert main([command, "g.csv", *words]) == 2
    said = capsys.readouterr().err
    name = "edges" if command in ("build", "embed") else "graph"
    assert said.startswith(f"gttf {command}: '{name}' {reason}")
    assert len(said.splitlines()) == 1


def test_options_are_named_with_dashes(shop, capsys):
    for words, reason in (
        (["--columns", "a", "b"], "'--columns' must be two to four of the names"),
        (["--separator", "::"], "'--separator' must be one character"),
        (["--dates", "%Y"], "'graph' must have a number or a date in column 3"),
    ):
        assert main(["info", str(shop), *words]) == 2
        assert reason in capsys.readouterr().err
    assert main(["convert", str(shop), "g.npz"]) == 0
    assert main(["info", "g.npz", "--no-header"]) == 2
    assert "'--no-header' must be left out" in capsys.readouterr().err


def test_info_refuses_nan_and_tells_what_is_no_weight(tmp_path, capsys):
    file = tmp_path / "g.csv"
    file.write_text("source,target,weight\n1,2,nan\n")
    assert main(["info", str(file)]) == 2
    assert "got 'nan' in line 2" in capsys.readouterr().err
    file.write_text("1,2,-3\n2,3,4\n")
    assert main(["info", str(file)]) == 0
    assert "no weights    -3 … 4, as some are negative" in capsys.readouterr().out


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
