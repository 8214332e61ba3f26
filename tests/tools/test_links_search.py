"""The search of settings of embeddings: what it hides, keeps, and chooses."""

import json
import pathlib
import sys

import pytest
import torch

pytest.importorskip("torch_geometric")
pytest.importorskip("tqdm")
sys.path.append(str(pathlib.Path(__file__).parents[2]))

from examples.reproduce import links, links_search
from examples.reproduce.config import METHODS
from examples.reproduce.data import Graph, planted
from examples.reproduce.links_settings import CHOSEN, FIRST, SPACE, as_fields
from examples.reproduce.links_table import kept, lines
from examples.reproduce.store import Store

RESULTS = pathlib.Path(links.__file__).parent / "results"
CELLS = [f"{method}-{data}" for method in CHOSEN for data in CHOSEN[method]]
SMALL = {
    "depth": [2, 3],
    "num_negatives": [2],
    "lr": [0.01, 0.1],
    "weight_decay": [0.0],
    "epochs": [1, 2],
    "batch": [100],
}


def graph():
    data = planted()
    return Graph("planted", data.edge_index, data.num_nodes)


def codes(edge, nodes):
    low, high = edge.min(0).values, edge.max(0).values
    return set((low * nodes + high).tolist())


def test_search_never_sees_the_edges_of_the_test(monkeypatch):
    data, seen = graph(), []

    def train(name, split, *rest):
        seen.append(split)
        return FakeModel(), {"train seconds": 0.0}

    monkeypatch.setattr(links, "train", train)
    settings = links_search.drawn("wys", 0)
    links_search.trial("wys-planted", data, settings, seed=1)
    hidden = codes(links.halved(data, 1).positive, 240)
    (split,) = seen
    training, valid = codes(split.train, 240), codes(split.positive, 240)
    assert not hidden & training
    assert not hidden & valid
    assert not training & valid
    assert len(valid) == pytest.approx(0.1 * len(training | valid), abs=1)


class FakeModel:
    def score(self, edge):
        return edge.sum(0).double()


def test_search_chooses_by_the_mean_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setitem(SPACE, "wys", SMALL)
    monkeypatch.delitem(FIRST, "wys")
    tried = []

    def trial(cell, data, settings, seed):
        tried.append(seed)
        lucky = 30 if settings["epochs"] == 1 and seed == 100 else 0
        score = 50 + lucky + settings["depth"] + 5 * settings["lr"]
        kept = {"valid": score, "train seconds": 0.0}
        return {"settings": settings, "split": seed, **kept}

    monkeypatch.setattr(links_search, "trial", trial)
    monkeypatch.setattr(links_search, "FINAL", 8)
    path = tmp_path / "new" / "wys-planted.json"
    won = links_search.search("wys-planted", graph(), 30, path)
    assert won["settings"]["depth"] == 3
    assert won["settings"]["lr"] == 0.1
    assert won["settings"]["epochs"] == 1  # lucky once of three times: 10 in the mean
    assert set(tried) == {100, 101, 102}  # which are in no table
    assert len(tried) == 3 * 8  # each of the settings once per split
    kept = json.loads(path.read_text("utf-8"))
    assert kept["chosen"] == won
    assert "--only wys-planted --trials 30" in kept["command"]
    before = len(tried)
    assert links_search.search("wys-planted", graph(), 30, path) == won
    assert len(tried) == before


def test_branching_walks_have_as_many_steps_and_walks():
    data, method = graph(), METHODS["deepwalk"]
    assert method.fanouts[0] == 3
    split = links.halved(data, 0)
    costs = {}
    for way in ("walks", "gttf"):
        small = {**method.options, "batch": 60}
        own = as_fields({**CHOSEN["deepwalk"]["ppi"], "epochs": 3})
        own["options"] = small
        changed = type(method)(kind="links", hidden=8, **own)
        model, costs[way] = links.train("deepwalk", split, changed, way, 0)
        assert model().shape == (240, 8)
        assert bool(torch.isfinite(model()).all())
    assert (costs["walks"]["epochs"], costs["gttf"]["epochs"]) == (3, 1)
    assert costs["walks"]["nodes per step"] == 3 * costs["gttf"]["nodes per step"]
    assert costs["gttf"]["pairs"] < costs["walks"]["pairs"]


@pytest.mark.parametrize("cell", CELLS)
def test_settings_are_those_that_the_search_has_chosen(cell):
    method, data = cell.split("-")
    kept = json.loads((RESULTS / "search" / f"{cell}.json").read_text("utf-8"))
    assert CHOSEN[method][data] == kept["chosen"]["settings"]
    every = links_search.best(kept["trials"], len(links_search.SPLITS))
    assert kept["chosen"] == every[0]
    assert "dirty" not in kept["commit"]
    for run in json.loads((RESULTS / f"{cell}.json").read_text("utf-8")):
        fields = as_fields(CHOSEN[method][data])
        assert run["settings"]["options"] == fields["options"]
        assert run["settings"]["fanouts"] == list(fields["fanouts"])


def test_docs_have_the_table_of_the_runs_that_are_kept():
    page = (RESULTS.parents[2] / "docs" / "embeddings.md").read_text("utf-8")
    _, _, rest = page.partition("<!-- begin: reproduce links -->\n")
    block, _, _ = rest.partition("<!-- end: reproduce links -->")
    assert block.split() == "\n".join(lines(kept(Store(RESULTS)))).split()
    assert len(block.split("\n")) > 6
