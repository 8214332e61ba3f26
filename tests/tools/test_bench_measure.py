"""Rounds, equal work, memory, tables and pictures."""

from dataclasses import replace

import pytest
import torch

from gttf_sampler.bench import machine, measure, report
from gttf_sampler.bench.measure import Peer, Work, disagreement, each


def silent(what, share):
    pass


def test_disagreement_of_the_same_law():
    generator = torch.Generator().manual_seed(0)
    draws = torch.randint(900, 1100, (2, 40), generator=generator).tolist()
    ours, theirs = ([Work(n, n // 2) for n in row] for row in draws)
    assert disagreement(ours, theirs) is None


def test_disagreement_of_few_batches():
    """Six say little about their spread; they do tell a tenth more from nothing."""
    generator = torch.Generator().manual_seed(1)

    def batches(mean):
        counts = mean + 14 * torch.randn(6, generator=generator)
        return [Work(int(count)) for count in counts]

    pairs = [(batches(800), batches(800)) for _ in range(2000)]
    assert not any(disagreement(ours, theirs) for ours, theirs in pairs)
    spread = [Work(n) for n in (798, 801, 800, 799, 802, 800)]
    more = [Work(n) for n in (881, 879, 880, 882, 878, 880)]
    assert disagreement(spread, more) is not None


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        ([Work(1000, 10)] * 4, [Work(1000, 10)] * 4, None),
        ([Work(1000, 10)] * 4, [Work(1001, 10)] * 4, None),  # within the slack
        (
            [Work(1000)] * 4,
            [Work(1010)] * 4,
            "1,010 edges a batch where 1,000 ± 2",
        ),
        ([Work(9, 1000)] * 4, [Work(9, 800)] * 4, "800 nodes a batch where 1,000"),
        ([Work(1000, None)], [Work(None, 7)], None),
        ([Work(1000)], [Work(500)], "500 edges"),
    ],
)
def test_disagreement(ours, theirs, found):
    said = disagreement(ours, theirs)
    assert said is None if found is None else said.startswith(found)


def test_disagreement_of_two_batches_and_more_that_are_counted():
    """Two may agree on a difference that is chance; more of them tell."""
    law = torch.distributions.Normal(812, 10)
    torch.manual_seed(0)
    runs = [[Work(int(n)) for n in law.sample((20,))] for _ in range(2000)]
    pairs = list(zip(runs[::2], runs[1::2], strict=True))
    assert any(disagreement(ours[:2], theirs[:2]) for ours, theirs in pairs)
    assert not any(disagreement(ours, theirs) for ours, theirs in pairs)
    peers = {"ours": Peer(each(lambda some: 812), Work)}
    peers["theirs"] = Peer(each(lambda some: 816), Work, counted=[Work(800)])
    peers["ours"] = replace(peers["ours"], counted=[Work(815)])
    group = measure.compare("t", peers, torch.zeros(1, 1), 1, silent)
    assert group["rows"][1]["differs"] is None
    assert group["rows"][1]["edges"] == 808


def test_compare_gives_ratios_to_equals_only(monkeypatch):
    calls, clock = [], [0.0]
    monkeypatch.setattr(measure.time, "perf_counter", lambda: clock[0])

    def peer(name, seconds, edges, bound=False):
        def call(seeds):
            calls.append(name)
            clock[0] += seconds
            return edges

        return Peer(each(call), lambda made: Work(made), bound)

    peers = {
        "a": peer("a", 0.002, 100),
        "b": peer("b", 0.006, 100),
        "c": peer("c", 0.002, 50),
        "d": peer("d", 0.0, 1, bound=True),
    }
    shares = []
    seeds = torch.zeros(2, 3, dtype=torch.int64)
    group = measure.compare(
        "title", peers, seeds, 4, lambda what, share: shares.append(share)
    )
    a, b, c, d = group["rows"]
    assert a["ratio"] is None
    assert (a["best"], b["best"]) == pytest.approx((2.0, 6.0))
    assert b["ratio"] == pytest.approx(3.0)
    assert c["ratio"] is None
    assert c["differs"].startswith("50 edges")
    assert d["ratio"] == 0.0
    assert d["differs"] is None
    assert (a["edges"], c["edges"]) == (100, 50)
    assert shares[-1] == 1.0
    # a warm-up, then everyone once per round, another one first each time
    rounds = [calls[i : i + 8] for i in range(8, len(calls), 8)]
    assert calls[:8] == list("aabbccdd")
    assert [turn[0] for turn in rounds] == list("abcd")
    assert all(sorted(turn) == list("aabbccdd") for turn in rounds)


def test_draw_seeds():
    seeds = measure.draw_seeds(50, 3, 40, seed=1)
    assert seeds.shape == (3, 40)
    assert all(batch.unique().numel() == 40 for batch in seeds)
    assert torch.equal(seeds, measure.draw_seeds(50, 3, 40, seed=1))
    assert not torch.equal(seeds, measure.draw_seeds(50, 3, 40, seed=2))
    assert measure.draw_seeds(5, 2, 40).shape == (2, 5)


def test_peak_memory_sees_what_is_gone_again():
    size = 64 << 20
    with machine.PeakMemory() as first:
        block = torch.ones(size, dtype=torch.uint8)
        del block
    with machine.PeakMemory() as second:
        torch.ones(size // 8, dtype=torch.uint8)
    assert 0.9 * size < first.beyond < 1.5 * size
    assert second.beyond < 0.5 * size
    assert machine.private() <= machine.resident()


def test_compare_runs_what_is_off_the_clock(monkeypatch):
    """Before every round; a peer may have fewer, and facts of its own."""
    clock, calls = [0.0], []
    monkeypatch.setattr(measure.time, "perf_counter", lambda: clock[0])

    def before():
        clock[0] += 100.0
        calls.append("before")

    def run(seeds):
        clock[0] += 0.004
        facts["seen"] = seeds.flatten().tolist()
        return [1, 2]

    facts = {}
    slow = Peer(run, before=before, rounds=1, facts=facts)
    seeds = torch.arange(8).view(4, 2, 1)  # other ones in every round
    group = measure.compare("t", {"a": Peer(run), "b": slow}, seeds, 3, silent)
    a, b = group["rows"]
    assert calls == ["before"] * 2  # the warm-up, and one round
    assert (a["best"], b["best"]) == pytest.approx((2.0, 2.0))
    assert b["seen"] == [6, 7]
    assert "seen" not in a


ODD = "50 edges where 100 are expected"
ROW = {"best": 1.234, "median": 2.0, "nodes": 12.0, "edges": 3456.0, "ratio": None}


def result(task, columns=None):
    """A made-up result of a kind."""
    name = "mode" if task in ("modes", "workers") else "peer"
    columns = columns or task
    filled = {column.key: 2.0 for column in report.TABLES[columns].columns} | ROW
    filled["peer"] = "a peer"
    rows = [
        filled | {name: "gttf", "theirs": 3.96, "rate": 5.0},
        filled | {name: "DGL 1", "ratio": 3.21},
        filled | {name: "odd", "differs": ODD},
    ]
    graph = {"name": "made", "nodes": 10, "edges": 20}
    return {
        "task": task,
        "groups": [{"title": "a title", "columns": columns, "rows": rows}],
        "machine": {"cpu": "CPU", "cores": 2, "backend": "numba"},
        "graph": graph,
        "notes": ["busy"],
        "left_out": [{"peer": "other", "why": "it is not there"}],
    }


@pytest.mark.parametrize("columns", list(report.TABLES))
def test_tables_and_figures(columns, tmp_path):
    """All columns of a row, and a figure of the one that matters."""
    found = result("loader" if columns.startswith("disk") else columns, columns)
    text = report.render(found)
    assert "made, 10 nodes, 20 edges" in text
    assert "left out: other: it is not there" in text
    assert "note: busy" in text
    for column in report.TABLES[columns].columns:
        assert column.head in text
    if columns != "scale":
        assert "3.21 ×" in text
        assert "odd: no ratio, 50 edges where 100 are expected" in text
    assert all(line == line.rstrip() for line in text.splitlines())
    pytest.importorskip("matplotlib")
    figure = report.draw(found)
    words = {
        text.get_text() for text in figure.findobj(lambda a: hasattr(a, "get_text"))
    }
    assert "a title" in words
    assert figure.get_suptitle().endswith("made, 10 nodes, 20 edges")
    assert any("CPU, 2 cores" in word for word in words)
    if columns == "modes":
        assert {"gttf", "3.21 ×  (1.23 beside 2.00)"} <= words
    report.save(found, str(tmp_path / "out.svg"))
    assert report.is_ours(tmp_path / "out.svg")


def test_missing_values_are_empty_cells():
    table = report.Table.of("peer: | best: best ms | ratio: × first")
    assert [column.head for column in table.columns] == ["", "best ms", "× first"]
    assert table.cells({"peer": "gttf", "best": 123.4}) == ["gttf", "123", ""]
