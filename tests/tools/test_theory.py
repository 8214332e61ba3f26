"""The propositions' command runs, and docs/paper.md says what it has found."""

import json
import pathlib
import sys

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")

from docs import theory, theory_tables
from examples.theory import __main__ as command
from examples.theory import gradients, powers
from examples.theory.objectives import BIASED

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "paper.md"


def test_theory_runs_and_is_drawn(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(gradients, "COPIES", 4)  # numbers are those of other tests
    monkeypatch.setattr(powers, "SEEDS", 8)
    file = tmp_path / "theory.json"
    argv = ["theory", "--rounds", "2", "--json", str(file)]
    monkeypatch.setattr(sys, "argv", argv)
    command.main()
    assert capsys.readouterr().out.startswith("Largest bias of a gradient")
    found = theory.read(file)
    assert found["command"] == "python -m examples.theory --rounds 2"
    assert found.keys() == theory.read().keys()
    theory.draw(found, tmp_path)
    assert len(list(tmp_path.glob("paper_*.svg"))) == 6
    for table in theory_tables.tables(found).values():
        lines = table.splitlines()
        assert {line.count("|") for line in lines} == {lines[0].count("|")}


def test_theory_tables_of_the_page_are_those_of_the_results():
    page, found = PAGE.read_text("utf-8"), theory.read()
    for name, table in theory_tables.tables(found).items():
        assert f"<!-- begin: {name} -->\n\n{table}" in page
    assert found["command"] in page


def test_theory_results_bear_out_what_the_page_says():
    found = theory.read()
    assert json.loads(theory.RESULT.read_text("utf-8"))["task"] == "theory"
    for row in found["gradients"]:
        if row["objective"] in BIASED:
            assert row["bias"] > 4 * row["chance"]
        else:
            assert row["bias"] < 2 * row["chance"]
    for rows in found["spread"].values():
        cost = {(row["k"], row["fanout"]): row["cost"] for row in rows}
        assert 0.55 < cost[4, 2] < 0.75
        assert cost[4, 5] > 1
        for row in rows:
            assert row["measured"] == pytest.approx(row["exact"], rel=0.1)
            assert row["paper"] * 0.999 <= row["exact"] <= row["ours"] * 1.001
    for rows in found["layers"].values():
        for row in rows:
            if row["scheme"] == "unbiased":
                assert row["bias"] < 1.5 * row["chance"]
            elif row["fanout"] <= 2:
                assert row["bias"] > 2 * row["chance"]
    for rows in found["minimizers"].values():
        off = {(row["way"], row["fanout"]): row["off"] for row in rows}
        assert off["unbiased, one sample", 2] > 3 * off["unbiased, two samples", 2]
    last = {row["way"]: row for row in found["strata"] if row["fanout"] == 16}
    assert last["without replacement"]["bias"] > 3 * last["systematic"]["bias"]
    assert last["systematic"]["error"] < 0.75 * last["independent"]["error"]
    few = {row["way"]: row["nodes"] for row in found["labor"] if row["fanout"] == 4}
    assert few["LABOR-*"] < few["LABOR-0"] < 0.4 * few["each row its own draws"]
