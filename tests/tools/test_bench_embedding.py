"""`gttf bench embedding`: its graph, its subjects, its tables and pictures."""

import json
import sys
import types
from importlib import import_module

import numpy as np
import pytest
import torch

from gttf_sampler.bench import (
    embedders,
    learning,
    peers,
    planted,
    plots,
    runs,
    tables,
    task_embedding,
    word2vecs,
)
from gttf_sampler.bench.children import ChildError
from gttf_sampler.bench.learning import Setting
from gttf_sampler.cli.main import main
from gttf_sampler.embedding import split_links


def silent(what, share):
    pass


@pytest.fixture
def small(monkeypatch):
    """A graph, vectors and walks that take no time; jobs run in this process."""
    monkeypatch.setattr(task_embedding, "NODES", 300)
    monkeypatch.setattr(task_embedding, "EDGES", 3000)
    monkeypatch.setattr(task_embedding, "SIZE", 8)
    monkeypatch.setattr(learning, "WALKS", 2)
    monkeypatch.setattr(
        embedders, "PACE", dict.fromkeys(embedders.PACE, (2, 64, 0.1, {}))
    )

    def run_job(job, progress):
        module, _, name = job.pop("run").partition(":")
        return getattr(import_module(module), name)(**job, report=silent)

    monkeypatch.setattr(task_embedding, "run_job", run_job)


def setting():
    adj = planted.planted(300, 3000, 0).adj
    split = split_links(adj.to_edge_index(), 300, generator=0)
    return Setting(split, 8, 1, 0)


def test_planted_graph_has_communities():
    nodes, edges = 5_000, 70_000
    adj, split = planted.planted(nodes, edges, seed=1)
    assert adj.num_rows == nodes
    assert adj.num_edges + 2 * split.positive.shape[1] == pytest.approx(edges, rel=0.02)
    assert split.positive.shape == split.negative.shape
    assert adj.max_degree > 5 * adj.num_edges / nodes  # few nodes have many edges
    again, other = (planted.planted(nodes, edges, seed=seed) for seed in (1, 2))
    assert torch.equal(again.adj.col, adj.col)
    assert not torch.equal(other.adj.col[:100], adj.col[:100])
    source, target = adj.to_edge_index()
    # what two ends of an edge have in common: more than two strangers have
    reach = torch.zeros(nodes, nodes, dtype=torch.bool)
    reach[source, target] = True
    ends = split.positive[:, :500]
    strangers = torch.randint(nodes, (2, 500))
    common = [(reach[a] & reach[b]).sum(1).float().mean() for a, b in (ends, strangers)]
    assert common[0] > 3 * common[1]
    assert (ends[0] - ends[1]).abs().float().mean() > nodes / 5  # ids are in disguise


def test_steps_go_down_to_ten_thousand():
    assert planted.steps(1.0) == [4847, 48475, 484757, 4847571]
    assert planted.steps(0.02) == [9695, 96951]
    assert planted.edges_of(planted.NODES) == planted.EDGES


@pytest.mark.parametrize("name", list(embedders.subjects()))
def test_our_subjects_learn(name, small):
    subject = embedders.subjects()[name]
    for package in subject.needs:
        pytest.importorskip(package)
    first, *_, last = [*subject.train(setting()), *subject.train(setting())]
    assert first.seconds > 0
    assert first.pairs > 0
    assert 0 <= last.auc <= 1


def test_subjects_of_a_method_do_the_same_work(small):
    pytest.importorskip("torch_geometric")
    work = {}
    for subject in embedders.subjects().values():
        pairs = subject.train(setting())[0].pairs
        work.setdefault(subject.method, set()).add(pairs)
    assert all(len(pairs) == 1 for pairs in work.values()), work


def test_gensim_is_given_our_walks(monkeypatch):
    """A stub in the place of gensim, which need not be here."""
    seen = []

    class Word2Vec:
        def __init__(self, words, vector_size, **how):
            seen.append((words, how))
            self.wv = self
            self.size = vector_size

        def __getitem__(self, names):
            return np.ones((len(names), self.size), np.float32)

    models = types.SimpleNamespace(Word2Vec=Word2Vec)
    monkeypatch.setitem(sys.modules, "gensim", types.SimpleNamespace(models=models))
    monkeypatch.setitem(sys.modules, "gensim.models", models)
    (epoch,) = word2vecs.subjects()["gensim Word2Vec, our walks"].train(setting())
    words, how = seen[0]
    assert len(words) == 300 * learning.WALKS
    assert {len(walk) for walk in words} == {learning.LENGTH}
    assert (how["sg"], how["negative"], how["window"]) == (1, 5, 10)
    assert epoch.auc == 0.5


def test_compare_makes_a_table_per_method(small, monkeypatch):
    pytest.importorskip("torch_geometric")
    pytest.importorskip("matplotlib")
    for name in ("gensim", "pecanpy"):
        monkeypatch.setitem(sys.modules, name, None)
    peers.attempt.cache_clear()
    options = {"graph": None, "scale": None, "rounds": 1, "seed": 0, "tmp": "/tmp"}
    found = runs.measure("embedding", {**runs.defaults("embedding"), **options}, silent)
    peers.attempt.cache_clear()
    assert [len(group["rows"]) for group in found["groups"]] == [4, 3, 3, 4]
    assert {entry["peer"] for entry in found["left_out"]} == set(word2vecs.subjects())
    assert all("pip install" in entry["why"] for entry in found["left_out"])
    for group in found["groups"][:3]:
        assert all(row["ratio"] > 0 for row in group["rows"][1:])
    assert found["graph"]["nodes"] <= 300
    text = tables.render(found)
    assert "PyG" in text
    assert "M pairs/s" in text
    assert len(plots.draw(found).axes) == 2


def test_a_peer_that_fails_is_left_out(small, monkeypatch):
    plain = task_embedding.run_job

    def run_job(job, progress):
        if job["subject"].startswith("PyG"):
            raise ChildError("the process failed\nRuntimeError: not today")
        if job["subject"].startswith("gttf DeepWalk.fit") and broken:
            raise ChildError("ours")
        return plain(job, progress)

    def everyone():
        names = ("gttf DeepWalk.fit", "gttf WatchYourStep.fit")
        ours = {name: embedders.subjects()[name] for name in names}
        return {**ours, "PyG": ours[names[0]]._replace(method="word2vec")}

    monkeypatch.setattr(task_embedding, "run_job", run_job)
    monkeypatch.setattr(task_embedding, "everyone", everyone)
    options, broken = {"graph": None, "rounds": 1, "seed": 0}, False
    found = task_embedding.compare(options, silent)
    assert found["left_out"] == [{"peer": "PyG", "why": "RuntimeError: not today"}]
    broken = True
    with pytest.raises(ChildError, match="ours"):
        task_embedding.compare(options, silent)


def test_reached_is_the_first_time_within_the_slack():
    rows = [
        {"peer": "gttf", "curve": [(1.0, 1, 0.5), (2.0, 2, 0.899)], "total": 2.0},
        {"peer": "gensim", "curve": [(9.0, 1, 0.9)], "total": 9.0, "auc": 0.9},
    ]
    found = task_embedding._trained(rows, rows[1:])
    assert [row["reached"] for row in found["rows"]] == [2.0, 9.0]
    assert found["rows"][1]["ratio"] == 4.5


def test_scale_measures_every_size(small, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(planted, "steps", lambda scale: [200, 400])
    options = {"graph": None, "scale": 0.01, "rounds": 1, "seed": 0, "tmp": "/tmp"}
    found = runs.measure("embedding", {**runs.defaults("embedding"), **options}, silent)
    (group,) = found["groups"]
    assert [row["nodes"] for row in group["rows"]] == [200, 400] * 2
    assert all(row["per_node"] > 0 and row["rank"] >= 1 for row in group["rows"])
    assert not any("no peer" in note for note in found["notes"])
    assert "µs a node" in tables.render(found)
    assert len(plots.draw(found).axes) == 2


def test_scale_tells_what_the_memory_did_not_hold(small, monkeypatch):
    plain, told = task_embedding.run_job, []

    def run_job(job, progress):
        if job["nodes"] == 400:
            raise ChildError("the process was ended by signal 9\nlast words")
        return plain(job, progress)

    monkeypatch.setattr(task_embedding, "run_job", run_job)
    monkeypatch.setattr(planted, "steps", lambda scale: [200, 400])
    options = {"scale": 0.01, "rounds": 2, "seed": 0}
    found = task_embedding.grow(options, silent)
    assert [row["nodes"] for row in found["groups"][0]["rows"]] == [200, 200]
    left = [(entry["peer"], entry["why"]) for entry in found["left_out"]]
    why = "the process was ended by signal 9"
    assert left == [(f"{name}, 400 nodes", why) for name in task_embedding.SETTINGS]
    task_embedding.measure_size(200, "DeepWalk", 1, 0, lambda *what: told.append(what))
    assert told[-1][0].startswith("DeepWalk on 200 nodes: loss")
    assert told[-1][1] == 1.0


def test_docs_show_what_was_measured(small, tmp_path, monkeypatch):
    """Reports → tables of the page and a picture, and nothing else is touched."""
    pytest.importorskip("matplotlib")
    pictures = pytest.importorskip("docs.pictures")
    monkeypatch.setattr(pictures, "HERE", tmp_path)
    monkeypatch.setattr(pictures, "IMAGES", tmp_path)
    monkeypatch.setattr(planted, "steps", lambda scale: [200])
    monkeypatch.setattr(
        task_embedding,
        "everyone",
        lambda: {
            name: embedders.subjects()[name]
            for name in ("gttf DeepWalk.fit", "gttf WatchYourStep.fit")
        },
    )
    names = pictures.EPOCHS, pictures.GROWTH, pictures.AUC
    page = "".join(f"{''.join(pictures.marks(name))}kept\n" for name in names)
    (tmp_path / "embeddings.md").write_text(page)
    options = {**runs.defaults("embedding"), "seed": 0, "tmp": "/tmp", "rounds": 1}
    curve = {"Watch Your Step": [[[1.0, 1, 80.0]], [[1.0, 1, 82.0]]]}
    auc = [{"graph": g, "curves": curve, "degrees": [50.0, 50.0]} for g in ("a", "b")]
    reports = [
        *(
            runs.measure("embedding", {**options, "scale": scale}, silent)
            for scale in (None, 0.01)
        ),
        *auc,
    ]
    files = [tmp_path / f"{number}.json" for number in range(len(reports))]
    for file, report in zip(files, reports, strict=True):
        command = "gttf bench embedding --graph /a/place/of/b.txt --rounds 1"
        file.write_text(json.dumps({"command": command, **report}))
    pictures.take(list(map(str, files)))
    text = (tmp_path / "embeddings.md").read_text()
    assert text.count("kept\n") == 3
    assert "| Watch Your Step | 81.0 ± 1.0 | 81.0 ± 1.0 | 90.5 / 93.5 |" in text
    assert "| gttf WatchYourStep.fit |" in text
    assert "µs a node" in text
    assert "--graph b.txt --rounds 1" in text
    assert "images/embedding.svg" in text
    assert "AUC of hidden edges" in (tmp_path / "embedding.svg").read_text()
    pictures.take(list(map(str, files)))
    assert (tmp_path / "embeddings.md").read_text() == text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--graph", "reddit-like"], "'--graph' must be a file for 'embedding'"),
        (["--graph", "nowhere"], "or a file that is there"),
        (["--scale", "0.0001"], r"'--scale' must lie in [0.002, 10]"),
        (["--keep", "x"], "'--keep' is for graphs on disk"),
        (["--rounds", "0"], "'--rounds' must be 1 or more"),
    ],
)
def test_embedding_validate(words, message, capsys):
    assert main(["bench", "embedding", *words]) == 2
    assert message in capsys.readouterr().err
