"""Every task on a tiny graph: who takes part, and that the work is the same."""

import json
import os
import pathlib
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from gttf_sampler import CompactAdj, sample_rooted, use_backend
from gttf_sampler.bench import (
    disk_rows,
    graphs,
    in_memory,
    machine,
    model,
    peers,
    plots,
    tables,
    task_build,
    task_chunks,
    task_disk,
    task_distributed,
    task_gcn,
    task_loader,
    task_memory,
    task_sampling,
    task_scale,
    task_train,
    task_walks,
    walk_training,
)
from gttf_sampler.features import read

DGL, PYG = find_spec("dgl") is not None, find_spec("torch_geometric") is not None
SMALL = {"batch": 64, "batches": 6, "rounds": 1, "seed": 0}


def silent(what, share):
    pass


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench") / "graph"
    graphs.make(folder, 4000, 80_000)
    return str(folder)


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


HOSTS = ("torch_geometric", "dgl")


@pytest.fixture
def without(monkeypatch):
    """Hides packages from the benchmarks, as if they were not installed."""
    find, ask = peers.load, peers.version

    def hide(*names):
        monkeypatch.setattr(peers, "load", lambda n: None if n in names else find(n))
        monkeypatch.setattr(peers, "version", lambda n: None if n in names else ask(n))

    return hide


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("torch_geometric", "pip install torch-geometric"),
        ("dgl", "pip install 'dgl<2' packaging"),
        ("numba", "pip install numba"),
        ("psutil", "pip install psutil"),
        ("torch_cluster", "pip install --no-build-isolation torch-cluster"),
        ("torch_sparse", "pip install --no-build-isolation torch-sparse"),
        ("pyg_lib", "from its own wheel index or source"),
    ],
)
def test_missing_says_how_to_install(module, said, without, monkeypatch):
    without(*peers.PACKAGES)
    monkeypatch.setattr(peers.sys, "version_info", (3, 11))
    missing = peers.Missing()
    assert not missing.needs(module, "somebody")
    name = peers.PACKAGES[module]
    assert missing == [
        {"peer": "somebody", "why": f"{name} is not installed; {peers.cure(module)}"}
    ]
    assert said in peers.cure(module)


def test_missing_dgl_where_pypi_has_none(monkeypatch):
    """The extra 'bench' leaves DGL out there, too."""
    monkeypatch.setattr(peers.sys, "version_info", (3, 12))
    assert "from its own wheel index or source" in peers.cure("dgl")
    assert "[dgl]" not in peers.cure("dgl")


def test_missing_says_what_is_broken(tmp_path, monkeypatch):
    """A package that is there but made for another torch is not "not installed"."""
    (tmp_path / "torch_cluster.py").write_text("raise OSError('odd symbol\\nmore')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(peers, "version", lambda module: "1.6")
    peers.attempt.cache_clear()
    missing = peers.Missing()
    assert not missing.needs("torch_cluster", "walks")
    why = missing[0]["why"]
    assert why.startswith("torch-cluster 1.6 cannot be imported (odd symbol); install")
    peers.attempt.cache_clear()


def test_missing_backend_of_pyg_says_how_to_install(without, monkeypatch):
    typing = pytest.importorskip("torch_geometric.typing")
    monkeypatch.setattr(typing, "WITH_PYG_LIB", False)
    monkeypatch.setattr(typing, "WITH_TORCH_SPARSE", False)
    missing = peers.Missing()
    assert not missing.needs_pyg_backend("NeighborLoader")
    for said in ("pyg-lib", "from its own wheel index or source", "torch-sparse"):
        assert said in missing[0]["why"]
    without("pyg_lib", "torch_sparse")
    _, missing = task_memory.subjects()
    assert "its own wheel index" in missing[0]["why"]


@pytest.mark.parametrize("subjects", [task_memory.subjects, task_gcn.subjects])
def test_missing_subjects_say_how_to_install(subjects, without):
    without(*HOSTS)
    names, missing = subjects()
    assert all(name.startswith("gttf") for name in names)
    assert len(missing) == 2
    assert all("install it" in entry["why"] for entry in missing)


@pytest.mark.parametrize("workers", [0, 2])
def test_loader_without_any_host(graph, without, workers):
    """Our own way is measured, the same batches as those of the rooted sampler."""
    without(*HOSTS)
    options = {"features": 8, "workers": workers, "report": silent, **SMALL}
    found = task_loader.run(graph, [5, 3], **options)
    assert check(found, 1) == [["gttf sample_rooted, gather_rows"]]
    (row,) = found["groups"][0]["rows"]
    seeds = task_loader.draw_seeds(4000, SMALL["batches"], SMALL["batch"], 0)
    adj = CompactAdj.open(graph)
    edges = [sample_rooted(adj, part, [5, 3]).num_edges for part in seeds]
    assert row["edges"] == pytest.approx(np.mean(edges), rel=0.05)
    assert row["best"] > 0
    assert all("install it" in entry["why"] for entry in found["left_out"])
    assert len(found["left_out"]) == 2


def test_plain_loader_has_the_features_of_its_nodes(graph):
    adj = CompactAdj.open(graph)
    x = torch.arange(4000.0)[:, None].repeat(1, 3)
    y = torch.arange(4000)
    seeds = task_loader.draw_seeds(4000, 2, 16)
    known = set(map(tuple, adj.to_edge_index().T.tolist()))
    (loader,) = task_loader.plain_loaders(adj, x, y, [3, 2], seeds).values()
    for part, made in zip(seeds, loader, strict=True):
        assert torch.equal(made.x[:16, 0].long(), part)
        assert torch.equal(made.y[:16], part)
        ends = made.x[made.edge_index, 0].long()  # [2, edges]
        assert set(map(tuple, ends.T.tolist())) <= known


def test_train_without_any_host(graph, without):
    without(*HOSTS)
    found = task_train.run(graph, [5, 3], features=8, report=silent, **SMALL)
    (group,) = found["groups"]
    ours, *others = group["rows"]
    assert ours["peer"] == "gttf sample_rooted, gather_rows"
    assert 0 < ours["sampling"] < ours["best"]
    assert all(row["peer"].startswith("full batch") for row in others)


def test_train_has_a_full_batch_with_either_host(graph, without, monkeypatch):
    pytest.importorskip("dgl")
    monkeypatch.setattr(task_train, "_free_memory", lambda: 1 << 40)
    without("torch_geometric")
    found = task_train.run(graph, [5, 3], features=8, report=silent, **SMALL)
    names = [row["peer"] for row in found["groups"][0]["rows"]]
    assert names[0] == "gttf_dgl.GTTFSampler"
    assert names[-1] == "full batch, one step"


def test_train_tells_a_guess_of_memory(without, graph):
    """Without psutil nobody knows how much memory is free."""
    without("psutil")
    missing = peers.Missing()
    adj, x = CompactAdj.open(graph), torch.zeros(4000, 1)
    assert task_train.full_batch(adj, x, x, 10**6, missing) == {}
    assert "psutil" in missing[0]["why"]
    assert "install it" in missing[0]["why"]


def test_sampling_without_numba_has_no_row_twice(graph):
    """'gttf' is on torch itself there."""
    with use_backend("torch"):
        found = task_sampling.run(graph, [5, 3], report=silent, **SMALL)
    for names in check(found, 5):
        assert "gttf without numba" not in names
    (entry,) = (e for e in found["left_out"] if e["peer"] == "gttf without numba")
    assert "'gttf' is that already" in entry["why"]
    assert "pip install numba" in entry["why"]


def test_sampling(graph):
    found = task_sampling.run(graph, [5, 3], report=silent, **SMALL)
    names = check(found, 5)
    ours = ["gttf", "gttf without numba", "reading as many edges"]
    assert names[0][:3] == (ours if find_spec("numba") else [ours[0], ours[2]])
    if DGL:
        label = peers.label("dgl", "NeighborSampler")
        assert names[2] == names[3] == ["gttf", "gttf_dgl.GTTFSampler", label]
        assert names[4] == ["gttf", label]
    missing = {entry["peer"].split()[0] for entry in found["left_out"]}
    assert ("DGL" in missing) == (not DGL)


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
    few = {**SMALL, "batches": 12}
    found = task_sampling.run(graph, [5, 3], report=silent, **few)
    names = check(found, 5)
    assert names[0][-1].endswith(f"NeighborSampler ({torch_sparse})")
    assert names[1][-1] == names[0][-1]
    options = {"features": 4, "workers": 0, "report": silent, **few}
    names = check(task_loader.run(graph, [5, 3], **options), 1 + DGL)
    assert names[0][1].endswith(f"NeighborLoader ({torch_sparse})")


def test_walks(graph):
    found = task_walks.run(graph, length=5, report=silent, **SMALL)
    *others, modules = found["groups"]
    names = check({"groups": others}, 4)
    assert [group[0] for group in names] == ["gttf"] * 2 + ["gttf traverse"] * 2
    assert len(names[0]) >= 1 + DGL
    for group in found["groups"][2:]:
        assert group["columns"] == "training"
        for row in group["rows"]:
            seconds = SMALL["batches"] * row["edges"] / row["rate"] / 1e6
            assert row["best"] == pytest.approx(seconds)
    assert ("gttf_pyg.Node2Vec" in names[3]) == PYG
    ours = ["gttf DeepWalk", "gttf Node2Vec", "gttf WatchYourStep"]
    assert [row["peer"] for row in modules["rows"]] == ours
    assert all(row["ratio"] is None for row in modules["rows"])


def test_walks_train_the_same_model(graph):
    """As many pairs and the same loss as PyG's Node2Vec, whose embeddings they take."""
    pytest.importorskip("torch_geometric")
    from gttf_pyg import Node2Vec

    adj = CompactAdj.open(graph)
    theirs = Node2Vec(adj.to_edge_index(), 64, 6, 4, num_nodes=4000, sparse=True)
    ours = walk_training.SkipGram(4000, length=5, window=3)
    torch.nn.init.normal_(theirs.embedding.weight, std=0.1)
    ours.embedding = theirs.embedding
    positive, negative = theirs.sample(torch.arange(50))
    mine = ours.batch(lambda seeds: seeds[:, None].repeat(1, 6), list(range(50)))
    assert [part.shape for part in mine] == [positive.shape, negative.shape]
    assert torch.equal(ours.windows(torch.arange(6)[None]).T[0], torch.arange(3))
    expected = theirs.loss(positive, negative)
    torch.testing.assert_close(ours.loss(positive, negative), expected)


@pytest.mark.parametrize(
    "name", ["gttf DeepWalk", "gttf Node2Vec", "gttf WatchYourStep"]
)
def test_walk_training_counts_every_pair(graph, name):
    adj = CompactAdj.open(graph)
    along = CompactAdj(adj.rowptr, adj.col, adj.num_cols, "out")
    seeds = task_walks.draw_seeds(4000, 3, 16)
    peer = walk_training.modules(along, seeds, 4, 2, 0.5, 2.0)[name]
    made = list(peer.run(seeds))
    for forest, part in zip(made, seeds, strict=True):
        assert torch.equal(forest.nodes[0].flatten(), part)
    pairs = 4 if name.endswith("Step") else 4 + 3
    assert [peer.work(batch).edges for batch in made] == [16 * pairs] * 3


def test_walk_training_learns(graph):
    """Epoch after epoch the loss gets smaller."""
    adj = CompactAdj.open(graph)
    model = walk_training.SkipGram(4000, length=4, window=2)
    batch = model.batch(
        lambda seeds: adj.col[adj.rowptr[seeds]][:, None].repeat(1, 5).long(),
        list(range(64)),
    )
    peer = walk_training._epoch(model, [batch] * 30, lambda made: model.loss(*made))
    before = model.loss(*batch).item()
    assert len(list(peer.run(None))) == 30
    assert model.loss(*batch).item() < 0.8 * before


def test_build(graph):
    found = task_build.run(graph, rounds=1, seed=0, report=silent)
    (names,) = check(found, 1)
    assert len(names) == 1 + DGL + PYG
    edges = CompactAdj.open(graph).num_edges
    assert all(row["edges"] == edges for row in found["groups"][0]["rows"])


def test_loader(graph):
    found = task_loader.run(
        graph, [5, 3], features=8, workers=0, report=silent, **SMALL
    )
    names = check(found, DGL + PYG)
    firsts = [group[0] for group in names]
    assert ("gttf_pyg.GTTFLoader" in firsts) == PYG
    assert ("gttf_dgl.GTTFSampler" in firsts) == DGL


def test_train(graph):
    found = task_train.run(graph, [5, 3], features=8, report=silent, **SMALL)
    assert len(found["groups"]) == DGL + PYG
    for group in found["groups"]:
        for row in group["rows"]:
            assert row["differs"] is None
            parts = row["sampling"] + row["gather"] + row["compute"]
            assert parts == pytest.approx(row["best"])
            assert row["share"] == pytest.approx(row["sampling"] / row["best"])
            assert row["compute"] > 0
            assert row["peer"].startswith("full batch") or row["sampling"] > 0


def test_model_is_the_mean_of_neighbours():
    """Against the dense formula, from a whole neighbourhood."""
    adj = CompactAdj.from_edge_index([[1, 2, 3, 0, 3], [0, 0, 1, 2, 2]])
    x = torch.rand(4, 3, generator=torch.Generator().manual_seed(0))
    net = model.SAGE(3, 5, 2)
    A = torch.zeros(4, 4)
    source, target = adj.to_edge_index()
    A[target, source] = 1.0
    A /= A.sum(1, keepdim=True).clamp(min=1)
    hidden = (net.own[0](x) + net.near[0](A @ x)).relu()
    exact = net.own[1](hidden) + net.near[1](A @ hidden)
    sub = sample_rooted(adj, [0], [-1, -1])
    nodes, edges = sub.num_sampled_nodes, sub.num_sampled_edges
    layers = [
        model.Layer(
            sub.row[: sum(edges[:h])], sub.col[: sum(edges[:h])], sum(nodes[:h])
        )
        for h in (2, 1)
    ]
    torch.testing.assert_close(net(x[sub.node], layers), exact[:1])


@pytest.mark.filterwarnings("ignore:Using 'NeighborSampler' without a 'pyg-lib'")
def test_memory_of_every_subject(graph, tmp_path):
    file = str(tmp_path / "edges.npy")
    facts = task_memory.write_edges(graph, file, 0, silent)
    assert np.load(file).shape == (2, facts["edges"])
    names, missing = task_memory.subjects()
    assert len(names) == 2 + 2 * (DGL + PYG)
    backend = any(map(find_spec, ("pyg_lib", "torch_sparse")))
    assert len(missing) == 2 - DGL - PYG + (PYG and not backend)
    for name in names:
        row = task_memory.measure(
            name, file, facts["nodes"], [5, 3], 64, 2, 0, report=silent
        )
        assert row["input"] == 16 * facts["edges"]
        assert row["held"] < 200 * facts["edges"]


@pytest.mark.parametrize("subject", list(task_gcn.SUBJECTS))
def test_gcn_memory(subject, tmp_path, monkeypatch):
    if subject != "gttf":
        pytest.importorskip({"pyg": "torch_geometric", "dgl": "dgl"}[subject])
    monkeypatch.setattr(task_gcn, "MADE_SIZE", (300, 2000, 12))
    task_gcn.write_dataset(task_gcn.MADE, None, str(tmp_path), silent)
    row = task_gcn.measure(subject, str(tmp_path), silent)
    assert row["nodes"] == 300
    assert row["peak"] >= 0


def test_scale_measures_what_is_mapped(graph):
    row = task_scale.measure(graph, [5, 3], report=silent, **SMALL)
    adj = CompactAdj.open(graph)
    assert (row["edges"], row["nodes"]) == (adj.num_edges, adj.num_rows)
    assert row["per_edge"] == adj.nbytes / adj.num_edges
    assert 0 < row["best"] <= row["median"]
    assert 64 * 5 * 0.5 < row["drawn"] <= 64 * (5 + 15)


@pytest.mark.parametrize("mode", ["typed", "temporal"])
def test_scale_of_typed_graphs(mode):
    row = task_scale.measure_typed(100_000, mode, [5, 3], report=silent, **SMALL)
    assert row["edges"] == pytest.approx(100_000, rel=0.05)
    assert 0 < row["best"] <= row["median"]
    adjs = in_memory.database(100_000 / in_memory.DATABASE_EDGES).rows(timed=False)
    everything = sample_rooted(adjs, {"user": range(64)}, [5, 3]).row.values()
    most = 2 * sum(part.numel() for part in everything)
    assert 64 < row["drawn"] < most
    timed = mode == "temporal"  # 8 bytes of every edge to an order, a review or a user
    assert (row["per_edge"] > 14) == timed


def test_scale_with_times_draws_less():
    """The same seeds: who must not look ahead has fewer neighbours to take."""
    drawn = [
        task_scale.measure_typed(50_000, mode, [9, 9], report=silent, **SMALL)["drawn"]
        for mode in ("typed", "temporal")
    ]
    assert drawn[1] < drawn[0]


@pytest.mark.parametrize(
    ("scale", "sizes"),
    [
        (None, [10**5, 10**6, 10**7]),
        (1.0, [10**5, 10**6, 10**7, 10**8]),
        (0.0005, [50_000]),
    ],
)
def test_scale_steps_of_typed_graphs(scale, sizes):
    assert task_scale.typed_steps(scale) == sizes


@pytest.mark.parametrize(
    ("scale", "count"), [(0.0001, 1), (0.01, 2), (0.1, 3), (1.0, 4)]
)
def test_scale_steps(scale, count):
    steps = task_scale.steps(scale)
    assert len(steps) == count
    assert steps[-1] == scale
    assert steps == sorted(steps)


def test_bench_distributed(graph, monkeypatch):
    """Parts move messages and hold half; what is read from files moves none."""
    monkeypatch.setattr(task_distributed, "WORLDS", (2,))
    monkeypatch.setattr(task_distributed, "WAYS", task_distributed.WAYS[:4])
    found = task_distributed.run(graph, [3, 2], **SMALL, features=5, report=silent)
    ((whole, near, parts, kept),) = [group["rows"] for group in found["groups"]]
    assert (whole["messages"], whole["share"], whole["ratio"]) == (0, 1, None)
    assert near["messages"] == 0
    assert 4 <= parts["messages"] <= 6
    assert parts["share"] == pytest.approx(0.5, abs=0.02)
    assert parts["ratio"] == pytest.approx(whole["best"] / parts["best"])
    assert 0 < kept["bytes"] < parts["bytes"]
    assert parts["nodes"] == pytest.approx(whole["nodes"], rel=0.1)


needs_disk = pytest.mark.skipif(
    not (PYG and hasattr(os, "posix_fadvise")), reason="needs PyG, and Linux"
)


@needs_disk
def test_bench_disk(graph):
    """Every way gives a row; caches serve a part, and the model waits for a part."""
    found = task_disk.run(
        graph, [3, 2], **SMALL, features=5, memory=None, sweep=False, report=silent
    )
    rows, batches, epochs = (group["rows"] for group in found["groups"])
    assert rows[0]["ratio"] == 1
    assert {row["peer"] for row in batches} == {way.label for way in task_disk.WAYS}
    kept = {row["peer"]: row["share"] for row in batches}
    assert kept["gttf FeatureFile, cold"] is None
    assert 0 < kept["gttf FeatureFile, cold, 20 % cached"] < 1
    assert all(0 <= row["share"] <= 1 for row in epochs)
    assert not (pathlib.Path(graph).parent / "features.npy").exists()
    result = {"task": "disk", "settings": {}, "machine": machine.describe(), **found}
    assert "waiting" in tables.render(result)
    plots.draw({**result, "notes": []})


@needs_disk
def test_bench_disk_beyond_memory(graph, monkeypatch):
    """Half precision around the system's cache, and nobody to compare with."""
    monkeypatch.setattr(task_disk, "free_memory", lambda: 1000)
    found = task_disk.run(
        graph, [3, 2], **SMALL, features=5, memory=None, sweep=False, report=silent
    )
    _, batches, _ = (group["rows"] for group in found["groups"])
    assert [row["peer"] for row in batches] == ["gttf FeatureFile"]
    assert "of 0.0 GB that are left" in found["left_out"][0]["why"]


@needs_disk
def test_bench_disk_sweep(graph):
    """Other sizes than the usual ones, which are the usual ones again afterwards."""
    usual = read.GAP, read.LONGEST
    how = {**SMALL, "features": 5, "memory": None, "sweep": True}
    found = task_disk.run(graph, [3, 2], **how, report=silent)
    assert usual == (read.GAP, read.LONGEST)
    assert len(found["groups"]) == 4
    for group in found["groups"]:
        assert len(group["rows"]) == len(disk_rows.GAPS) * len(disk_rows.LONGEST)
        assert max(row["ratio"] for row in group["rows"]) == 1
        assert all(row["cpu"] >= 0 for row in group["rows"])


def test_bench_chunks(tmp_path):
    """All edges become rows, by the end that is anywhere."""
    told = []
    size = {"nodes": 4000, "edges": 80_000, "memory": None, "seed": 0}
    found = task_chunks.run(
        str(tmp_path), **size, report=lambda what, share: told.append((what, share))
    )
    (row,) = found["groups"][0]["rows"]
    law = graphs.Law(4000, 80_000, 0)
    assert row["edges"] == law.count()
    assert row["differs"] is None
    assert row["peak"] > 0
    assert 0 < row["first"] <= row["best"]
    made = CompactAdj.open(tmp_path / "rows")
    want = torch.from_numpy(np.concatenate(list(law.col(lambda share: None))))
    assert made.rowptr.diff().equal(torch.bincount(want, minlength=4000))
    assert told[-1][1] == 1.0


def test_docs_show_what_was_read_from_a_disk(graph, tmp_path, monkeypatch):
    """Four reports go to four places of a page, and two of them are drawn."""
    pytest.importorskip("matplotlib")
    pictures = pytest.importorskip("docs.pictures")
    monkeypatch.setattr(pictures, "HERE", tmp_path)
    monkeypatch.setattr(pictures, "IMAGES", tmp_path)
    page = (pathlib.Path(__file__).parents[2] / "docs" / "disk.md").read_text("utf-8")
    (tmp_path / "disk.md").write_text(page, "utf-8")
    rows = [{"peer": "a row", "rate": 5e4, "median": 4e4, "cpu": 1.5, "ratio": 2.0}]
    times = {"best": 2.0, "median": 2.5, "share": 0.2, "batch": 9.0, "ratio": 1.0}
    files = []
    for name in ("gttf, all in memory", "gttf FeatureFile", None, "chunks"):
        groups = [{"title": "rows", "columns": "disk rows", "rows": rows}]
        if name == "chunks":
            entry = {"peer": "gttf", "rate": 3.0, "edges": 77, "best": 1.0}
            groups = [{"title": "a stream", "columns": "chunks", "rows": [entry]}]
        elif name is not None:
            entry = {"peer": name, **times}
            groups.append({"title": "b", "columns": "disk batches", "rows": [entry]})
            groups.append({"title": "e", "columns": "disk epochs", "rows": [entry]})
        task = "chunks" if name == "chunks" else "disk"
        report = {"task": task, "settings": {"sweep": name is None}, "groups": groups}
        report |= {"command": f"gttf bench {task} {name}", "notes": [], "left_out": []}
        report["machine"] = machine.describe()
        files.append(tmp_path / f"{len(files)}.json")
        files[-1].write_text(json.dumps(report))
    pictures.take(list(map(str, files)))
    text = (tmp_path / "disk.md").read_text("utf-8")
    for mark, _ in pictures.DISK.values():
        begin, end = pictures.marks(mark)
        assert "| " in text.partition(begin)[2].partition(end)[0]
    assert (tmp_path / "disk.svg").exists()
    assert (tmp_path / "disk_large.svg").exists()
    pictures.take(list(map(str, files)))
    assert (tmp_path / "disk.md").read_text("utf-8") == text
