"""Every method of `examples/reproduce` for a few steps, and the parts it is made of."""

import json
import os
import pathlib
import subprocess
import sys
import warnings
from dataclasses import replace

import pytest
import torch

import gttf_sampler
from exact import SIGMAS
from exact import one_thread as one_thread

pytest.importorskip("torch_geometric")
pytest.importorskip("tqdm")
# behind an installed package, which is the one to test
sys.path.append(str(pathlib.Path(__file__).parents[2]))

from torch_geometric.data import Data
from torch_geometric.nn import GATConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from examples.reproduce import chart, host_pyg, pages, runner, samplers, table, tasks
from examples.reproduce.attention import Attention
from examples.reproduce.config import METHODS, WAYS
from examples.reproduce.data import load, planted
from examples.reproduce.runner import method_of
from examples.reproduce.store import Store
from examples.reproduce.tasks import Task
from examples.reproduce.weights import HostWeights
from gttf_pyg import GTTFLoader
from gttf_sampler import CompactAdj

ROOT = pathlib.Path(__file__).parents[2]
PYG = tasks.tasks(["planted"], hosts=["pyg"], seeds=1)
DGL = tasks.tasks(["planted"], hosts=["dgl"], seeds=1)


def few_steps(task):
    reason = runner.impossible(task)
    if reason is not None:
        assert task.way == "neighbor"
        assert "needs" in reason
        return
    points = []
    result = runner.run(task, report=lambda *point: points.append(point), epochs=2)
    fewer = METHODS[task.method].kind == "links" and task.way == "gttf"
    epochs = 1 if fewer else 2  # a seed that branches stands for three
    assert result["epochs"] == epochs
    assert points[-1][0] == epochs
    assert 0 < result["test"] <= 100
    assert result["seconds"] >= result["train seconds"] > 0
    assert 40 < result["nodes per step"] <= 240
    assert json.loads(json.dumps(result)) == result


@pytest.mark.parametrize("task", PYG, ids=str)
def test_reproduce_pyg(task):
    few_steps(task)


@pytest.mark.parametrize("task", DGL, ids=str)
def test_reproduce_dgl(task):
    pytest.importorskip("dgl")
    few_steps(task)


def test_reproduce_covers_the_paper():
    assert set(METHODS) == {
        *("gcn", "gat", "gcnii", "mixhop", "sgc", "sage"),
        *("dgi", "deepwalk", "node2vec", "wys"),
    }
    assert {task.method for task in DGL} == {"gcn", "gat", "gcnii", "sgc", "sage"}
    ways = {(task.method, task.way) for task in PYG + DGL}
    for name in METHODS:
        assert (name, "gttf") in ways
        assert {(name, "full"), (name, "walks")} & ways
    assert len(METHODS["mixhop"].fanouts) == 4  # 2 layers × 2 hops
    assert len(METHODS["sgc"].fanouts) == 2


@pytest.mark.parametrize("host", ["pyg", "dgl"])
def test_reproduce_gttf_learns_what_the_full_batch_learns(host):
    if host == "dgl":
        pytest.importorskip("dgl")
    found = {
        way: runner.run(Task("sgc", "planted", host, way, 0))["test"]
        for way in ("full", "gttf")
    }
    assert min(found.values()) > 85
    assert abs(found["full"] - found["gttf"]) < 6


def test_features_are_rows_with_dropout():
    data = planted()
    dense = data.features.rows().to_dense()
    assert len(data.features) == len(dense) == 240
    node = torch.tensor([7, 0, 7, 239])
    assert torch.equal(data.features.rows(node).to_dense(), dense[node])
    torch.manual_seed(0)
    every = torch.arange(240).repeat(20)
    dropped = data.features.rows(every, 0.3).to_dense()
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], dense[every][kept] / 0.7)
    entries = (dense[every] != 0).sum()
    share = kept.sum() / entries
    assert abs(share - 0.7) < SIGMAS * (0.7 * 0.3 / entries) ** 0.5


@pytest.mark.parametrize("fanouts", [[3, 3], [-1, -1], [2]])
def test_host_weights_survive_the_normalisation_of_pyg(fanouts):
    data = planted()
    graph = Data(edge_index=data.edge_index, num_nodes=240)
    adj = CompactAdj.from_edge_index(data.edge_index, 240)
    how = {"batch_size": 20, "normalize": "unbiased", "seed": 1}
    plain = next(iter(GTTFLoader(graph, fanouts, **how)))
    ours = next(iter(GTTFLoader(graph, fanouts, transform=HostWeights(adj), **how)))
    assert torch.equal(plain.n_id, ours.n_id)
    index, weight = gcn_norm(ours.edge_index, ours.edge_weight, ours.num_nodes)
    matrix, expected = (torch.zeros(ours.num_nodes, ours.num_nodes) for _ in range(2))
    matrix[index[1], index[0]] = weight
    expected[plain.edge_index[1], plain.edge_index[0]] = plain.edge_weight
    opened = sum(plain.num_sampled_nodes[:-1])  # the others have nothing but a loop
    torch.testing.assert_close(matrix[:opened], expected[:opened])
    leaves = torch.eye(ours.num_nodes)[opened:]
    torch.testing.assert_close(matrix[opened:], leaves)


def test_layer_sampling_of_all_is_the_full_gcn():
    """So many draws that factors are nearly one: the GCN of the whole graph, nearly."""
    data, method = planted(), METHODS["gcn"]
    index, weight = samplers.with_loops(
        data.edge_index,
        torch.bincount(data.edge_index[1], minlength=240),
        torch.ones(data.edge_index.shape[1]),
    )
    norm = gcn_norm(data.edge_index, None, 240)
    torch.testing.assert_close((index, weight), norm)
    method = replace(method, options={"layer": 400_000})
    learner = host_pyg.learner("gcn", replace(method, dropout=0.0), data, "ladies", 0)
    (step,) = learner.steps()
    exact = learner.logits()[data.train]
    assert (step.logits - exact).abs().max() < 0.05 * exact.abs().max()
    assert torch.equal(step.seeds, data.train)


def test_saint_steps_see_the_walks():
    data, method = planted(), METHODS["gcn"]
    drawn = samplers.batches(method, data, "saint", 0)
    first, second = next(drawn), next(drawn)
    assert torch.equal(first.node[: first.size], data.train)
    assert not torch.equal(first.node, second.node)
    adj = CompactAdj.from_edge_index(data.edge_index, 240)
    ends = first.node[first.edge_index]
    assert first.edge_index.shape[1] == adj.edges_between(*ends)[1].numel()


def test_dgl_scale_makes_the_layers_unbiased():
    dgl = pytest.importorskip("dgl")
    from examples.reproduce import host_dgl, models_dgl

    data, method = planted(), METHODS["sgc"]
    graph = host_dgl.whole_graph(data, loops=True)
    degree = graph.in_degrees().float()
    sampler = host_dgl.sampler_of("sgc", method, "gttf", seed=3)
    node, _, batch = sampler.sample(graph, data.train)
    batch = models_dgl.closed(batch, degree[node])
    model = models_dgl.MODELS["sgc"](data.features.width, 3, method)
    found = model(batch, data.features.rows(node))
    source, target = batch.edges()
    mean = torch.zeros(len(node), len(node))
    mean[target, source] = 1 / batch.in_degrees().float()[target]
    root = degree[node].sqrt()
    matrix = root[:, None] * mean / root  # D^½ T D^-½
    x = matrix @ matrix @ data.features.rows(node).to_dense()
    torch.testing.assert_close(found, x @ model.conv.fc.weight.T)
    assert isinstance(batch, dgl.DGLGraph)


def guide(data):
    torch.manual_seed(0)
    conv = GATConv(data.features.width, 4, heads=2, dropout=0.0)
    return conv, Attention([conv], data, fanout=4)


def test_attention_of_an_exact_sample_is_the_full_attention():
    """Each neighbour as often as is expected in four draws."""
    data = planted()
    conv, attention = guide(data)
    attention.chance = torch.tensor([0.5, 0.25, 0.25])
    attention.place = torch.arange(3)
    attention.use(torch.tensor([0, 0, 1, 2]), num_nodes=4)
    x = torch.randn(4, data.features.width)
    drawn = torch.tensor([[1, 1, 2, 3], [0, 0, 0, 0]])
    found = conv(x, drawn)[0]
    attention.use(None)
    expected = conv(x, torch.tensor([[1, 2, 3], [0, 0, 0]]))[0]
    torch.testing.assert_close(found, expected)
    uncorrected = conv(x, drawn)[0]
    assert (uncorrected - expected).abs().max() > 1e-3


def test_attention_guides_the_walkers():
    data = planted()
    conv, attention = guide(data)
    with torch.no_grad():
        conv.att_src.mul_(20)
    attention.refresh()
    hub = int(attention.adj.degree.argmax())
    graph = Data(edge_index=data.edge_index, num_nodes=240)
    draws = 4000
    batch = next(
        iter(
            GTTFLoader(
                graph,
                [draws],
                input_nodes=torch.tensor([hub]),
                replace=True,
                bias=attention.bias,
                seed=0,
            )
        )
    )
    count = torch.bincount(attention.place[batch.e_id], minlength=len(attention.chance))
    start, degree = (int(x) for x in attention.adj.row_range(torch.tensor([hub])))
    chance = attention.chance[start : start + degree]
    assert chance.sum().item() == pytest.approx(1)
    assert chance.max() > 1.5 * chance.min()
    share = count[start : start + degree] / draws
    assert count.sum() == draws
    assert (share - chance).abs().le(SIGMAS * (chance / draws).sqrt()).all()


def test_tasks_choose():
    def cells(**how):
        return {task.cell for task in tasks.tasks(["cora", "ppi"], **how)}

    assert "gcn-ppi" not in cells()
    assert {"wys-ppi", "gcn-cora"} <= cells()
    assert cells(only=["gcn-cora"]) == {"gcn-cora"}
    assert cells(only=["wys"]) == {"wys-cora", "wys-ppi"}
    assert {task.seed for task in tasks.tasks(["cora"], seeds=5)} == set(range(5))
    assert {task.seed for task in tasks.tasks(["cora"])} == set(range(10))
    assert {task.seed for task in tasks.tasks(["ppi"])} == set(range(5))
    pairs = tasks.tasks(["cora"], ["sgc"], ["pyg"], ["full", "gttf"])
    assert [(t.seed, t.way) for t in pairs[:3]] == [
        (0, "full"),
        (0, "gttf"),
        (1, "full"),
    ]
    assert {t.way for t in tasks.tasks(["cora"], ways=["gttf"])} == {"gttf"}
    with pytest.raises(ValueError, match=r"'only' must be one of.*got 'gcn-pubmed'"):
        cells(only=["gcn-pubmed"])


@pytest.mark.parametrize(("name", "option"), [("cora", "root"), ("ppi", "edges")])
def test_load_asks_for_the_folder(name, option):
    with pytest.raises(
        ValueError, match=f"'{option}' must name the folder.*--{option}"
    ):
        load(name)


def test_load_edge_list(tmp_path):
    (tmp_path / "ppi.edgelist").write_text("7 8\n8 9\n1 2\n", "utf-8")
    graph = load("ppi", edges=tmp_path)
    assert (graph.num_nodes, graph.edge_index.shape) == (3, (2, 2))


SETTINGS = {"epochs": 9}


def fake(method, way, seed, test, **more):
    task = Task(method, "cora", "pyg", way, seed)
    kept = {"settings": SETTINGS, "test": test, "epochs": 9, "seconds": 1.0}
    return task, {**kept, **more}


def test_store_table_and_chart(tmp_path):
    store = Store(tmp_path)
    task, result = fake("gcn", "gttf", 0, 81.0, **{"nodes per step": 700.0})
    assert not store.has(task, {})
    for seed, test in enumerate((81.0, 82.0, 83.0)):
        store.add(*fake("gcn", "gttf", seed, test, **{"nodes per step": 700.0}))
    assert store.has(task, SETTINGS)
    assert not store.has(task, {**SETTINGS, "epochs": 2})
    store.add(*fake("gcn", "full", 0, 80.0))
    store.add(task._replace(way="neighbor"), {"missing": "it needs wings"})
    store.add(task, result)  # replaces
    assert len(store.all()) == 5
    assert not list(tmp_path.glob("*.part"))
    (tmp_path / "systems-cora.json").write_text("{}", "utf-8")  # of another command
    lines = table.text(store.all()).splitlines()
    assert lines[1].split()[:6] == ["gcn", "cora", "pyg", "full", "80.0", "±"]
    assert lines[2].split()[4:8] == ["82.0", "±", "1.0", "81.9"]
    assert lines[3] == "pyg neighbor: not run, it needs wings."
    assert len(pages.comparison(store.all()).splitlines()) == 2  # one pair: no row
    store.add(*fake("gcn", "full", 1, 81.5))
    row = pages.comparison(store.all()).splitlines()[2]
    assert row == (
        "| GCN, Cora, PyG | 80.8 ± 1.1 | 81.5 | 81.5 ± 0.7 | 81.9 "  # of two seeds
        "| +0.8 | −2.4 … +3.9 | undecided | 2 of 10 |"
    )
    assert pages.summary(store.all()).splitlines()[2:] == [
        "| GCN | −2.4…+3.9 undecided (n=2) |  |"
    ]
    pytest.importorskip("matplotlib")
    chart.draw(store.all(), tmp_path / "new" / "chart.png")
    assert (tmp_path / "new" / "chart.png").stat().st_size > 10_000


def test_chart_has_a_colour_for_every_way():
    assert set(chart.COLORS) == set(WAYS)
    assert len(set(chart.COLORS.values())) == len(WAYS)


def test_reproduce_is_silent_where_nobody_looks(tmp_path, capfd, monkeypatch):
    """Its progress bar is for terminals; pytest's stderr is none."""
    monkeypatch.setattr(runner, "_in_process", lambda bar, task, *rest: {"test": 1.0})
    monkeypatch.setattr(runner, "impossible", lambda task: None)
    runner.run_all(PYG[:2], Store(tmp_path))
    assert "it/s" not in capfd.readouterr().err
    assert len(Store(tmp_path).all()) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--only gcn-cora", "'root' must name the folder"),
        ("--only wys-ppi", "'edges' must name the folder"),
        ("--only gcn-planted gcm", "'only' must be one of"),
        ("--ways sideways", "invalid choice: 'sideways'"),
        ("--hosts foo", "invalid choice: 'foo'"),
    ],
)
def test_reproduce_refuses(options, message, monkeypatch, capsys):
    from examples.reproduce import __main__

    monkeypatch.setattr(sys, "argv", ["reproduce", *options.split()])
    with warnings.catch_warnings(), pytest.raises(SystemExit):
        __main__.main()
    assert message in capsys.readouterr().err


def test_reproduce_goes_on_where_it_was(tmp_path):
    """A result that is there stays as it is; the others are run."""
    kept = Task("sgc", "planted", "pyg", "full", 0)
    settings = method_of(kept, epochs=2).settings()
    known = fake("sgc", "full", 0, 12.5, settings=settings)[1]
    Store(tmp_path).add(kept, known)
    Store(tmp_path).add(kept._replace(way="gttf"), {**known, "settings": {}})
    home = str(pathlib.Path(gttf_sampler.__file__).parents[1])
    path = os.pathsep.join([home, str(ROOT / "adapters")])
    command = (
        "-m examples.reproduce --only sgc-planted --hosts pyg --seeds 1 --epochs 2"
    )
    done = subprocess.run(
        [sys.executable, *command.split(), "--results", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"},
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    runs = {run["way"]: run for run in Store(tmp_path).all()}
    assert set(runs) == {"full", "gttf", "neighbor"}
    assert runs["full"]["test"] == 12.5
    assert runs["gttf"]["epochs"] == 2
    assert runs["gttf"]["peak MB"] > 0
    assert "12.5 ± 0.0" in done.stdout


def test_full_batch_evaluation_is_the_whole_graph():
    """Whatever it was trained with, a model is judged on full neighbourhoods."""
    data, method = planted(), METHODS["gcn"]
    one, two = (host_pyg.learner("gcn", method, data, w, 5) for w in ("full", "gttf"))
    two.model.load_state_dict(one.model.state_dict())
    for learner in (one, two):
        learner.model.eval()
    torch.testing.assert_close(one.logits(), two.logits())
