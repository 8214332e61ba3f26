"""Every task on a tiny graph: who takes part, and that the work is the same."""

import json
import os
import pathlib
import subprocess
import sys
from dataclasses import asdict
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gttf_sampler import CompactAdj, sample_rooted
from gttf_sampler.bench import (
    disk,
    distributed,
    embedding,
    graphs,
    loader,
    machine,
    memory,
    models,
    report,
    step,
)
from gttf_sampler.bench.hosts import LoaderSetting, Stepper, StepSetting
from gttf_sampler.bench.measure import Options

DGL, PYG = find_spec("dgl") is not None, find_spec("torch_geometric") is not None
HOSTS = DGL + PYG
ROOT = pathlib.Path(__file__).parents[2]


def silent(what, share):
    pass


def small(**others):
    """The options of a job, as it gets them."""
    usual = {"fanouts": [5, 3], "batch": 64, "batches": 6, "rounds": 1, "features": 8}
    return asdict(Options(**{**usual, **others}))


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench") / "graph"
    graphs.make(folder, 4000, 80_000)
    return str(folder)


@pytest.fixture
def nobody(monkeypatch):
    """There is no host here."""
    for module in (loader, step, embedding, memory):
        monkeypatch.setattr(module, "hosts", lambda missing: [])


def check(found, groups):
    """All peers did the same work, and those without a ratio are the first ones."""
    assert len(found["groups"]) == groups
    for group in found["groups"]:
        first, *rest = group["rows"]
        assert first["peer"].startswith("gttf")
        assert first["ratio"] is None
        for row in rest:
            assert row["differs"] is None, row
            assert row["ratio"] > 0
    return [[row["peer"] for row in group["rows"]] for group in found["groups"]]


def test_missing_says_how_to_install():
    missing = machine.Missing()
    assert missing.load("no_such_module", "somebody", "no-such") is None
    why = "no-such is not installed; install it with: pip install no-such"
    assert missing == [{"peer": "somebody", "why": why}]
    assert missing.load("torch", "somebody") is torch


def test_missing_says_what_is_broken(tmp_path, monkeypatch):
    """A package that is there but made for another torch is not "not installed"."""
    (tmp_path / "torch_odd.py").write_text("raise OSError('odd symbol\\nmore')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(machine, "version", lambda package: "1.6")
    missing = machine.Missing()
    assert missing.load("torch_odd", "walks", "torch-odd") is None
    why = missing[0]["why"]
    assert why.startswith("torch-odd 1.6 cannot be imported (odd symbol); install")


def test_missing_backend_of_pyg_says_how_to_install(graph, monkeypatch):
    typing = pytest.importorskip("torch_geometric.typing")
    monkeypatch.setattr(typing, "WITH_PYG_LIB", False)
    monkeypatch.setattr(typing, "WITH_TORCH_SPARSE", False)
    found = loader.load(graph, small(), silent)
    (entry,) = (e for e in found["left_out"] if e["peer"].startswith("PyG"))
    for said in ("pyg-lib", "from its own wheel index or source", "torch-sparse"):
        assert said in entry["why"]


def test_tasks_without_any_host(graph, nobody):
    assert step.run(graph, small(only=["sage", "gcn"]), silent)["groups"] == []
    assert loader.load(graph, small(), silent)["groups"] == []


def test_loader_of_every_host(graph):
    firsts = [group[0] for group in check(loader.load(graph, small(), silent), HOSTS)]
    assert ("gttf_pyg.GTTFLoader" in firsts) == PYG
    assert ("gttf_dgl.GTTFSampler" in firsts) == DGL


@pytest.mark.skipif(HOSTS == 0, reason="neither host is installed")
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
def test_step_of_all_hosts(graph):
    """They stand in one group per model, beside the products that all need."""
    only = ["gat-602", "typed", "inference"][: 3 if PYG else 2]
    found = step.run(graph, small(scale=0.001, batches=2, only=only), silent)
    assert [group["name"] for group in found["groups"]] == only
    for group, peers in zip(found["groups"], check(found, len(only)), strict=True):
        trained = group["name"] != "inference"
        width = {"gat-602": 602, "typed": 32, "inference": 602}[group["name"]]
        assert f", {width} features; " in group["title"]
        assert ("gttf_pyg.fused" in peers) == (PYG and trained)
        assert any(name.startswith("DGL") for name in peers) == (DGL and trained)
        assert (step.PRODUCTS in peers) == trained
        assert all(row["MB"] >= 0 for row in group["rows"])
    result = {"task": "step", "machine": machine.describe(), **found}
    assert step.PRODUCTS in report.render(result)
    pytest.importorskip("matplotlib")
    assert len(report.draw({**result, "groups": found["groups"] * 3}).axes) == 3 * len(
        only
    )


@pytest.mark.skipif(not DGL, reason="dgl is not installed")
def test_step_refuses_other_outputs(graph, monkeypatch):
    import gttf_dgl

    fused = gttf_dgl.fused
    monkeypatch.setattr(gttf_dgl, "fused", lambda model: fused(_halved(model)))
    found = step.run(graph, small(only=["sage"], batches=2), silent)
    rows = {row["peer"]: row for row in found["groups"][0]["rows"]}
    row = rows["gttf_dgl.fused"]
    assert row["differs"].startswith("its outputs are ")
    assert row["ratio"] is None


def _halved(model):
    with torch.no_grad():
        for weight in model.parameters():
            weight /= 2
    return model


@pytest.mark.skipif(HOSTS == 0, reason="neither host is installed")
def test_step_served_to_another_process(graph):
    """A row, asked for by its name, tells the work of its rounds and its memory."""
    host, row = ("PyG", "gttf_pyg.fused") if PYG else ("DGL", "gttf_dgl.fused")
    job = step.serve(graph, small(only=["sage"], batches=2), silent)
    question = {"model": "sage", "host": host, "row": row}
    assert next(job) is None
    first, second = job.send(dict(question))
    assert min(first.edges, second.edges) > 64 * 5
    assert job.send({**question, "what": "memory"}) >= 0
    more = job.send({**question, "what": "sizes"})
    assert len(more) + 2 == step.COUNTED
    assert min(work.edges for work in more) > 64 * 5


@pytest.mark.parametrize(
    ("layer", "found"),
    [
        ("gcn", [(9, 5, 8, False), (4, 8, 3, True)]),
        ("sage", [(9, 5, 8, False)] * 2 + [(4, 8, 3, True)] * 2),
        ("gat", [(9, 5, 2, True)] * 4 + [(9, 8, 3, True)]),
        ("gatv2", [(9, 5, 8, False), (11, 5, 8, False), (4, 8, 3, True)]),
    ],
)
def test_products_of_a_batch(layer, found, monkeypatch):
    """Of 4 seeds, 5 neighbours and 2 of theirs."""
    sizes = SimpleNamespace(num_sampled_nodes=[4, 5, 2])
    monkeypatch.setattr(models, "sample_rooted", lambda *how: sizes)
    batches = LoaderSetting(None, None, None, [2, 2], torch.zeros(1, 4))
    wanted = models.products(StepSetting(layer, (5, 8, 3), {}, batches))
    assert list(map(tuple, wanted))[: len(found)] == found
    alone = models.Products(wanted, torch.device("cpu"))
    before = [weight.clone() for weight in alone.weights]
    alone.step(None)
    for old, new in zip(before, alone.weights, strict=True):
        assert not torch.equal(old, new)


def test_steps_learn():
    x, y = loader.made_features(50, 4, 0)
    model = torch.nn.Linear(4, loader.CLASSES)
    row = Stepper([None], lambda _: model(x), lambda _: y, model)
    train, losses = models.step_of(row), []
    for _ in range(30):
        losses.append(torch.nn.functional.cross_entropy(row.logits(None), y).item())
        train(None)
    assert losses[-1] < losses[0] - 0.01


@pytest.fixture
def torch_sparse(monkeypatch):
    """A stand-in for torch-sparse, with the signature that PyG calls."""
    typing = pytest.importorskip("torch_geometric.typing")
    if typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE:
        pytest.skip("there is a real one")
    library = torch.library.Library("torch_sparse", "FRAGMENT")
    library.define(
        "neighbor_sample(Tensor colptr, Tensor row, Tensor input_node, "
        "int[] num_neighbors, bool replace, bool directed) "
        "-> (Tensor, Tensor, Tensor, Tensor)"
    )

    def sample(colptr, row, input_node, num_neighbors, replace, directed):
        adj = CompactAdj.from_csr(colptr, row)
        sub = sample_rooted(adj, input_node, num_neighbors, replace=replace)
        return sub.node, sub.row, sub.col, sub.edge

    library.impl("neighbor_sample", sample, "CPU")
    monkeypatch.setattr(typing, "WITH_TORCH_SPARSE", True)
    yield "torch-sparse"
    library._destroy()


@pytest.mark.filterwarnings("ignore:Using 'NeighborSampler' without a 'pyg-lib'")
def test_pyg_takes_part_where_it_has_a_backend(graph, torch_sparse):
    names = check(loader.load(graph, small(batches=12), silent), 1 + DGL)
    assert names[0][1].endswith(f"NeighborLoader ({torch_sparse})")


def test_walks(graph):
    found = embedding.walk(graph, small(length=5), silent)
    names = check(found, 2)
    assert [group[0] for group in names] == ["gttf", "gttf"]
    assert any(name.startswith("DGL") for name in names[1]) == DGL
    for group in found["groups"]:
        for row in group["rows"]:
            assert row["edges"] == 64 * 5
            assert row["rate"] == pytest.approx(row["edges"] / row["best"] / 1e3)


@pytest.mark.filterwarnings("ignore:Using 'NeighborSampler' without a 'pyg-lib'")
def test_memory_of_every_sampler(graph, tmp_path):
    file = str(tmp_path / "edges.npy")
    facts = memory.write_edges(graph, file, 0, silent)
    assert np.load(file).shape == (2, facts["edges"])
    names = list(memory.samplers(machine.Missing()))
    assert len(names) == 2 + 2 * PYG + 2 * DGL
    for name in names:
        row = memory.run(name, small(), file, **facts, report=silent)
        assert row["peer"] == name
        assert row["input"] == 16 * facts["edges"]
        assert row["per_edge"] == row["held"] / facts["edges"]


def test_scale(graph):
    row = memory.run_scale(graph, small(rounds=2), silent)
    assert row["edges"] == CompactAdj.open(graph).num_edges
    assert row["drawn"] > 64 * 5
    assert 0 < row["best"] <= row["median"]
    assert row["gather"] > 0
    assert row["per_edge"] == pytest.approx(4.4, abs=0.2)


def test_scale_makes_one_graph_after_the_other(monkeypatch):
    made = []
    monkeypatch.setattr(memory, "run_job", lambda job, report: {"best": len(made)})

    def make(options):
        made.append(options.scale)
        return {"place": "there"}

    found = memory.measure_scale(Options(graph=memory.GRAPH, scale=0.01), make, silent)
    assert made == memory.steps(0.01)
    assert [row.get("ratio") for row in found["groups"][0]["rows"]] == [None, 2.0]


@pytest.mark.parametrize(
    ("size", "count"), [(0.0001, 1), (0.01, 2), (0.1, 3), (1.0, 4)]
)
def test_scale_steps(size, count):
    steps = memory.steps(size)
    assert len(steps) == count
    assert steps[-1] == size
    assert steps == sorted(steps)


def test_distributed(graph, monkeypatch):
    """Parts move messages and hold half; what is read from files moves none."""
    monkeypatch.setattr(distributed, "WORLDS", (2,))
    monkeypatch.setattr(distributed, "WAYS", distributed.WAYS[:4])
    found = distributed.run(graph, small(fanouts=[3, 2], features=5), silent)
    ((whole, near, parts, kept),) = [group["rows"] for group in found["groups"]]
    assert (whole["messages"], whole["share"], whole["ratio"]) == (0, 1, None)
    assert near["messages"] == 0
    assert 4 <= parts["messages"] <= 6
    assert parts["share"] == pytest.approx(0.5, abs=0.02)
    assert parts["ratio"] == pytest.approx(whole["best"] / parts["best"])
    assert 0 < kept["MB"] < parts["MB"]
    assert parts["nodes"] == pytest.approx(whole["nodes"], rel=0.1)


needs_linux = pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="needs Linux")


@needs_linux
def test_disk(graph):
    """Every way gives a row, the same batches, and caches serve a part."""
    found = disk.run(graph, small(fanouts=[3, 2]), silent)
    (batches,) = (group["rows"] for group in found["groups"])
    ways = [way.label for way in (*disk.WAYS, *disk.DIRECT)]
    assert [row["peer"] for row in batches] == ways
    assert all(row["differs"] is None for row in batches)
    kept = {row["peer"]: row["share"] for row in batches}
    assert kept["gttf FeatureFile, cold"] is None
    assert 0 < kept["gttf FeatureFile, cold, 20 % cached"] < 1
    assert not (pathlib.Path(graph).parent / "features.npy").exists()
    result = {"task": "disk", "machine": machine.describe(), **found}
    assert "from the cache" in report.render(result)
    pytest.importorskip("matplotlib")
    assert len(report.draw(result).axes) == 1


@needs_linux
def test_disk_beyond_memory(graph, monkeypatch):
    """Half precision around the system's cache, and nobody to compare with."""
    monkeypatch.setattr(disk, "free_memory", lambda: 1000)
    found = disk.run(graph, small(fanouts=[3, 2]), silent)
    (batches,) = (group["rows"] for group in found["groups"])
    assert [row["peer"] for row in batches] == [disk.DIRECT[0].label]
    assert "of 0.0 GB that are left" in found["left_out"][0]["why"]


SCRIPTS = {
    "kernels": ["--scale", "0.001", "--batch", "16", "--batches", "6", "--rounds", "1"],
    "chunks": ["--scale", "0.00001"],
    "typed_scale": ["--mode", "temporal", "--scale", "0.0001", "--batches", "2"],
    "embedding_scale": ["--scale", "0.0001"],
    "disk": ["--what", "epochs", "--scale", "0.00002", "--features", "4"],
    "disk rows": ["--what", "rows", "--scale", "0.00002", "--features", "4"],
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_of_our_pages(name, tmp_path):
    """They run, and write what the pages are filled in with."""
    how, name = SCRIPTS[name], name.partition(" ")[0]
    if name in ("typed_scale", "disk"):
        pytest.importorskip("torch_geometric")
    file = tmp_path / "out.json"
    words = [sys.executable, "-W", "ignore", "-m", f"examples.bench.{name}"]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [*words, *how, "--json", str(file)],
        env={**os.environ, "PYTHONPATH": path, "OMP_WAIT_POLICY": "passive"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "gttf" in done.stdout or "edges" in done.stdout
    assert f"examples.bench.{name}" in file.read_text()


def test_docs_show_what_was_measured(tmp_path, monkeypatch):
    """Reports go to their places of the pages, and twice changes nothing."""
    pytest.importorskip("matplotlib")
    pictures = pytest.importorskip("docs.pictures")
    monkeypatch.setattr(pictures, "HERE", tmp_path)
    monkeypatch.setattr(pictures, "IMAGES", tmp_path)
    pages = {page for page, _ in pictures.PLACES.values()}
    for page in pages:
        (tmp_path / page).write_text((ROOT / "docs" / page).read_text("utf-8"), "utf-8")
    columns = {"disk large": "disk"}
    files = []
    for place in pictures.PLACES:
        kind = columns.get(place, place)
        row = {column.key: 2.0 for column in report.TABLES[kind].columns}
        row |= {"peer": "gttf, all in memory" if place == "disk" else "gttf there"}
        group = {"title": "PyG: t", "columns": kind, "rows": [row | {"mode": "gttf m"}]}
        task = place.split()[0] if place.startswith("disk") else place
        found = {"task": task, "groups": [group], "left_out": [], "notes": []}
        found |= {"command": f"gttf bench {place}", "machine": machine.describe()}
        files.append(tmp_path / f"{len(files)}.json")
        files[-1].write_text(json.dumps(found))
    curve = {"Watch Your Step": [[[1.0, 1, 80.0]], [[1.0, 1, 82.0]]]}
    for graph in "ab":
        auc = {"graph": graph, "curves": curve, "degrees": [50.0, 50.0]}
        files.append(tmp_path / f"{graph}.json")
        files[-1].write_text(json.dumps(auc))
    pictures.take(list(map(str, files)))
    texts = {page: (tmp_path / page).read_text("utf-8") for page in pages}
    for page, mark in pictures.PLACES.values():
        begin, end = pictures.marks(mark)
        part = texts[page].partition(begin)[2].partition(end)[0]
        assert "| gttf" in part, mark
    line = "| Watch Your Step | 81.0 ± 1.0 | 81.0 ± 1.0 | 90.5 / 93.5 |"
    assert line in texts["embeddings.md"]
    for image in ("step.svg", "disk.svg", "disk_large.svg", "embedding.svg"):
        assert (tmp_path / image).stat().st_size > 1000
    pictures.take(list(map(str, files)))
    assert texts == {page: (tmp_path / page).read_text("utf-8") for page in pages}
