"""`gttf bench embedding`: its graph, its models and its tables."""

import types
from importlib import import_module

import numpy as np
import pytest
import torch

from gttf_sampler.bench import embedding, machine, report
from gttf_sampler.bench.hosts import EmbeddingSetting
from gttf_sampler.bench.machine import ChildError, Missing
from gttf_sampler.cli import bench as command


def silent(what, share):
    pass


def known():
    """Everyone who is here, but gensim."""
    found = embedding.embedders(Missing())
    return {name: who for name, who in found.items() if name != embedding.GENSIM}


@pytest.fixture
def small(monkeypatch):
    """A graph, vectors and epochs that take no time; jobs run in this process."""
    for name, value in (("NODES", 300), ("EDGES", 3000), ("SIZE", 8), ("TINY", 40)):
        monkeypatch.setattr(embedding, name, value)
    few = {name: m._replace(epochs=2) for name, m in embedding.METHODS.items()}
    monkeypatch.setattr(embedding, "METHODS", few)

    def run_job(job, report):
        module, _, name = job.pop("run").partition(":")
        return getattr(import_module(module), name)(**job, report=silent)

    monkeypatch.setattr(machine, "run_job", run_job)
    return run_job


def setting():
    split = embedding.hide(embedding.planted(300, 3000, 0), 0)
    return EmbeddingSetting(split.train, 300, 8, 1, 0)


def test_planted_graph_has_communities():
    nodes, edges = 5_000, 70_000
    adj = embedding.planted(nodes, edges, seed=1)
    assert adj.num_rows == nodes
    assert adj.num_edges == pytest.approx(edges, rel=0.02)
    assert adj.max_degree > 5 * adj.num_edges / nodes  # few nodes have many edges
    again, other = (embedding.planted(nodes, edges, seed=seed) for seed in (1, 2))
    assert torch.equal(again.col, adj.col)
    assert not torch.equal(other.col[:100], adj.col[:100])
    # what two ends of an edge have in common: more than two strangers have
    source, target = adj.to_edge_index()
    reach = torch.zeros(nodes, nodes, dtype=torch.bool)
    reach[source, target] = True
    ends, strangers = adj.to_edge_index()[:, ::140], torch.randint(nodes, (2, 500))
    common = [(reach[a] & reach[b]).sum(1).float().mean() for a, b in (ends, strangers)]
    assert common[0] > 3 * common[1]
    assert (ends[0] - ends[1]).abs().float().mean() > nodes / 5  # ids are in disguise


@pytest.mark.parametrize("name", list(known()))
def test_models_learn(name, small):
    trained = known()[name].train(setting()._replace(epochs=3))
    assert trained.epochs[0].pairs > 0
    assert trained.epochs[-1].seconds > 0
    assert trained.epochs[-1].loss < trained.epochs[0].loss
    pairs = torch.tensor([[0, 1], [2, 3]])
    assert trained.score(pairs).shape == (2,)


def test_gensim_has_as_many_walks(monkeypatch):
    seen = []

    class Vectors:
        def __init__(self, size):
            self.size = size

        def __getitem__(self, names):
            return np.zeros((len(names), self.size), np.float32)

    def word2vec(words, vector_size, **how):
        seen.append((words, how))
        return types.SimpleNamespace(wv=Vectors(vector_size))

    models = types.SimpleNamespace(Word2Vec=word2vec)
    monkeypatch.setattr(embedding, "import_module", lambda name: models)
    trained = embedding._gensim(setting())
    words, how = seen[0]
    assert len(words) == 300 * embedding.WALKS
    assert {len(walk) for walk in words} == {embedding.LENGTH}
    assert (how["sg"], how["negative"], how["window"]) == (1, 5, 10)
    assert trained.score(torch.tensor([[0], [1]])).tolist() == [0.0]


def test_a_table_per_method(small):
    pytest.importorskip("matplotlib")
    options = command.options_of("embedding", {"rounds": 1, "tmp": "/tmp"})
    found = command.measure("embedding", options, silent)
    methods = dict.fromkeys(who.method for who in known().values())
    assert [group["title"] for group in found["groups"]][: len(methods)] == list(
        methods
    )
    for group in found["groups"]:
        assert all(row["ratio"] > 0 for row in group["rows"][1:])
        assert all(0 <= row["auc"] <= 1 for row in group["rows"])
    assert found["graph"]["nodes"] == 300
    assert "M pairs/s" in report.render(found)
    assert len(report.draw(found).axes) == len(found["groups"])


def test_a_peer_that_fails_is_left_out(small, monkeypatch):
    def run_job(job, report):
        if job["name"] == failing:
            raise ChildError("the process failed\nRuntimeError: not today")
        return small(job, report)

    ours = known()["gttf DeepWalk.fit"]
    both = {"gttf DeepWalk.fit": ours, "PyG": ours}
    monkeypatch.setattr(machine, "run_job", run_job)
    monkeypatch.setattr(embedding, "embedders", lambda missing: both)
    failing, options = "PyG", command.options_of("embedding", {"rounds": 1})
    found = embedding.measure(options, silent)
    assert found["left_out"] == [{"peer": "PyG", "why": "RuntimeError: not today"}]
    failing = "gttf DeepWalk.fit"
    with pytest.raises(ChildError, match="not today"):
        embedding.measure(options, silent)
