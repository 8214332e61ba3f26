"""Rounds, equal work, memory, tables and pictures."""

import pytest
import torch

from gttf_sampler.bench import measure, peak, plots, tables
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
        ([Work(1000)] * 4, [Work(1010)] * 4, "1,010 edges where 1,000"),
        ([Work(9, 1000)] * 4, [Work(9, 800)] * 4, "800 nodes where 1,000"),
        ([Work(1000, None)], [Work(None, 7)], None),
        ([Work(1000)], [Work(500)], "500 edges"),
    ],
)
def test_disagreement(ours, theirs, found):
    said = disagreement(ours, theirs)
    assert said is None if found is None else said.startswith(found)


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
    with peak.PeakMemory() as first:
        block = torch.ones(size, dtype=torch.uint8)
        del block
    with peak.PeakMemory() as second:
        torch.ones(size // 8, dtype=torch.uint8)
    assert 0.9 * size < first.beyond < 1.5 * size
    assert second.beyond < 0.5 * size
    assert peak.private() <= peak.resident()


ODD = "50 edges where 100 are expected"
MACHINE = {"cpu": "CPU", "cores": 2, "backend": "numba"}
GRAPH = {"name": "made", "nodes": 10, "edges": 20}
TIMED = {"best": 1.234, "median": 2.0, "nodes": 12.0, "edges": 3456.0, "ratio": None}
EPOCH = {"best": 2.0, "median": 2.5, "sampling": 0.1, "gather": 0.4, "compute": 1.5}
HELD = {"held": 4e6, "per_edge": 8.4, "making": 9e6, "sampling": 1e6, "input": 7e6}
GROWN = {
    **{"edges": 10**6, "nodes": 10**5, "best": 1.0, "median": 1.5, "drawn": 5e4},
    **{"ns_per_edge": 20.0, "gather": 0.5, "bytes": 4.5e6, "per_edge": 4.5},
    "private": 6e7,
}


def result(task):
    """A made-up result of every kind."""
    mode = TIMED | {"mode": "gttf", "host": "PyG", "peer": "PyG 1", "ratio": 3.21}
    mode |= {"theirs": 3.96, "best_alone": 1.0, "theirs_alone": 2.0}
    odd = mode | {"mode": "odd", "ratio": None, "differs": ODD}
    rows = {
        "modes": [mode, odd],
        "workers": [mode, odd],
        "train": [EPOCH | {"peer": "gttf", "share": 0.05}] * 2,
        "memory": [HELD | {"peer": "gttf"}, HELD | {"peer": "PyG", "ratio": 3.9}],
        "scale": [GROWN, GROWN | {"edges": 10**7, "private": 9e7, "ratio": 1.2}],
    }
    usual = [
        TIMED | {"peer": "gttf", "rate": 5.0},
        TIMED | {"peer": "DGL 1", "ratio": 3.21, "rate": 2.0},
        TIMED | {"peer": "odd", "differs": ODD, "rate": 1},
    ]
    title = "PyG: a title" if task == "modes" else "a title"
    groups = [{"title": title, "rows": rows.get(task, usual)}]
    if task == "walks":
        epochs = {"title": "epochs", "columns": "training", "rows": usual}
        groups.append(epochs)
    if task == "disk":
        rates = [{"peer": "gttf", "rate": 9e4, "ratio": 20.0}] * 2
        epochs = [TIMED | {"peer": "gttf", "batch": 4.0, "share": 0.2}]
        groups = [
            {"title": "a title", "columns": "disk rows", "rows": rates},
            {"title": "batches", "columns": "disk batches", "rows": usual},
            {"title": "epochs", "columns": "disk epochs", "rows": epochs},
        ]
    if task == "train":
        gcn = [{"peer": "gttf", "peak": 9e6, "input": 4e7}]
        groups.append({"title": "GCN", "columns": "gcn", "rows": gcn})
    return {
        **{"task": task, "groups": groups, "machine": MACHINE, "graph": GRAPH},
        **{"settings": {"batch": 4, "fanouts": [2]}, "notes": ["busy"]},
        "left_out": [{"peer": "other", "why": "it is not there"}],
    }


@pytest.mark.parametrize("rich", [True, False], ids=["rich", "plain"])
@pytest.mark.parametrize("task", [t for t in tables.COLUMNS if t != "gcn"])
def test_tables(task, rich, monkeypatch):
    if rich:
        pytest.importorskip("rich")
    else:
        monkeypatch.setattr(tables, "load", lambda module: None)
    text = tables.render(result(task))
    assert "10 nodes, 20 edges" in text
    assert "left out: other: it is not there" in text
    assert "note: busy" in text
    for column in tables.COLUMNS[task]:
        assert column.head in text
    if task in ("sampling", "loader", "walks", "build", "modes", "workers"):
        assert "1.23" in text
        assert "3.21 ×" in text
        assert "odd: no ratio, 50 edges where 100 are expected" in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_heading_names_the_graphs_of_the_tables():
    """Not one that no table is about."""
    found = result("train")
    assert tables.heading(found).startswith("gttf bench train: made, 10 nodes")
    cora = {"name": "Cora", "nodes": 2708, "edges": 10556}
    found["groups"][1]["graph"] = cora
    both = "made, 10 nodes, 20 edges; Cora, 2,708 nodes, 10,556 edges"
    assert tables.heading(found).splitlines()[0] == f"gttf bench train: {both}"
    del found["groups"][0]
    only = "gttf bench train: Cora, 2,708 nodes, 10,556 edges"
    assert tables.heading(found).splitlines()[0] == only
    pytest.importorskip("matplotlib")
    title = plots.draw(found).get_suptitle()
    assert "Cora, 2,708 nodes" in title
    assert "made" not in title


# the pictures of "embedding" are drawn in its own tests
@pytest.mark.parametrize("task", [t for t in plots.TITLES if t != "embedding"])
def test_plots(task, tmp_path):
    pytest.importorskip("matplotlib")
    figure = plots.draw(result(task))
    words = [
        text.get_text() for text in figure.findobj(lambda a: hasattr(a, "get_text"))
    ]
    said = "\n".join(words)
    assert plots.TITLES[task] in said
    assert "CPU, 2 cores" in said
    if task == "modes":
        assert {"gttf", " PyG: a title", "beside PyG"} <= set(words)
        assert " 3.2 ×    1.23 ms, peer 3.96 ms" in words
    elif task != "scale":
        assert {"gttf", "a title"} <= set(words)
    plots.save(result(task), str(tmp_path / "out.svg"))
    assert (tmp_path / "out.svg").stat().st_size > 5000
