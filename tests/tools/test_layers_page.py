"""The tables of docs/normalise.md are those of the code and of the last measurement."""

import json

import pytest

from docs import layers

pytest.importorskip("torch_geometric")
pytest.importorskip("dgl")


def test_tables_of_the_page_are_those_of_the_code():
    page, found = layers.PAGE.read_text("utf-8"), json.loads(layers.RESULTS.read_text())
    for mark, table in layers.tables(found).items():
        assert f"<!-- begin: {mark} -->\n\n{table}\n\n<!-- end: {mark} -->" in page
    assert layers.written(page, found) == page


def test_results_bear_out_what_the_tables_say():
    found = json.loads(layers.RESULTS.read_text())
    for host in layers.TABLES:
        for case in layers.cases(host).CASES:
            if case.status in ("exact", "ratio"):
                plain, cured = found[host][case.name]
                assert max(cured) <= max(plain)
                assert case.status == "ratio" or cured == [0.0, 0.0], case.name


def test_a_layer_that_is_off_would_be_seen():
    found = json.loads(layers.RESULTS.read_text())
    assert min(found["pyg"]["GINConv"][0]) > 0.4
    assert layers._percent([0.554, 0.0]) == "55 / 0 %"
