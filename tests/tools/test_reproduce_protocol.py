"""The statistics of `examples/reproduce`, how it trains, and what its pages show."""

import json
import pathlib
import sys
from dataclasses import replace

import pytest
import torch

from exact import SIGMAS
from exact import one_thread as one_thread

pytest.importorskip("torch_geometric")
# behind an installed package, which is the one to test
sys.path.append(str(pathlib.Path(__file__).parents[2]))

from torch.nn import functional as F
from torch_geometric.nn import GATConv, GCN2Conv, MixHopConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from examples.reproduce import (
    curve,
    host_pyg,
    models_pyg,
    pages,
    provenance,
    runner,
    search,
    sparse,
    student,
    train,
)
from examples.reproduce.compare import compare, paired
from examples.reproduce.config import METHODS
from examples.reproduce.data import planted
from examples.reproduce.protocol import MARGIN
from examples.reproduce.store import Store
from examples.reproduce.tasks import Task

ROOT = pathlib.Path(__file__).parents[2]
RESULTS = ROOT / "examples" / "reproduce" / "results"

SEARCHES = [
    path
    for name in search.GRIDS
    for path in sorted((RESULTS / "search").glob(f"{name}-*.json"))
]

# statistics


def test_student_agrees_with_scipy():
    stats = pytest.importorskip("scipy.stats")
    for degrees in (1, 3, 9, 50, 400):
        for t in (-80.0, -3.0, -0.2, 0.0, 1e-3, 1.5, 9.0):
            assert student.cdf(t, degrees) == pytest.approx(
                stats.t.cdf(t, degrees), rel=1e-9
            )
        for p in (1e-4, 0.05, 0.4, 0.95, 0.999):
            assert student.quantile(p, degrees) == pytest.approx(
                stats.t.ppf(p, degrees), rel=1e-9
            )
    assert (student.cdf(float("inf"), 3), student.cdf(-float("inf"), 3)) == (1, 0)
    with pytest.raises(ValueError, match=r"'probability' must be between.*got 1"):
        student.quantile(1, 3)


def test_compare_agrees_with_scipy():
    stats = pytest.importorskip("scipy.stats")
    ours, theirs = [81.9, 82.4, 81.0, 82.2, 81.5], [82.0, 82.1, 81.6, 82.5, 81.2]
    found = compare(ours, theirs)
    whole = stats.ttest_rel(ours, theirs)
    low, high = whole.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((low, high))
    raised = [score + MARGIN for score in ours]
    lowered = [score - MARGIN for score in ours]
    worse = stats.ttest_rel(raised, theirs, alternative="greater").pvalue
    better = stats.ttest_rel(lowered, theirs, alternative="less").pvalue
    assert (found.p_worse, found.p_better) == pytest.approx((worse, better))


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ((0.1, 0.0, -0.1, 0.1), "equal"),
        ((-0.2, -0.2, -0.2, -0.2), "equal"),  # no spread at all
        ((1.0, 1.2, 0.9, 1.1), "better"),
        ((1.5, -0.1, 1.2, 0.1), "no worse"),
        ((-1.0, -1.2, -0.9, -1.1), "worse"),
        ((3.0, -3.0, 2.0, -2.5), "undecided"),
        ((-0.5, -0.5, -0.5, -0.5), "worse"),  # the margin itself is a loss
    ],
)
def test_compare_says_what_the_pairs_say(differences, verdict):
    theirs = [80.0, 70.0, 75.0, 81.0]  # spread between seeds does not matter
    ours = [a + b for a, b in zip(theirs, differences, strict=True)]
    found = compare(ours, theirs)
    assert found.verdict == verdict
    assert found.difference == pytest.approx(sum(differences) / 4)
    assert found.low <= found.difference <= found.high


def test_compare_refuses_what_has_no_pairs():
    for ours, theirs in (([1.0], [1.0]), ([1.0, 2.0], [1.0])):
        with pytest.raises(ValueError, match="the same two or more seeds"):
            compare(ours, theirs)


def test_paired_leaves_out_seeds_of_one_way():
    def runs(way, scores):
        return [{"way": way, "seed": s, "test": x} for s, x in scores.items()]

    full, ours = runs("full", {0: 80, 1: 81, 2: 99}), runs("gttf", {1: 82, 0: 80})
    found = paired(full + ours)
    assert (found.pairs, found.difference) == (2, 0.5)
    assert paired(full + ours[:1]) is None


# training


class Scripted:
    """Stands for a model: epoch after epoch, what is written down for it."""

    def __init__(self, *points):
        self.points = iter(points)

    def run(self, watched, **how):
        method = replace(METHODS["gcn"], epochs=9, every=1, **how)
        weight = torch.zeros(1, requires_grad=True)
        kept = []
        best, costs = train.run(
            method,
            torch.optim.SGD([weight], lr=0.1),
            lambda: iter([(weight.sum(), 1)]),
            lambda loss: dict(zip(("a", "b"), next(self.points), strict=True)),
            lambda epoch, point: None,
            watched,
            lambda: kept.append(1),
        )
        return best["best epoch"], costs["epochs"], len(kept)


def test_run_watches_one_number():
    points = [(3, 0), (2, 0), (4, 0), (5, 0), (1, 0), *[(9, 0)] * 4]
    assert Scripted(*points).run("a", patience=2) == (2, 4, 2)
    assert Scripted(*points).run("a", patience=3) == (5, 8, 3)
    assert Scripted(*points).run(None, patience=1) == (9, 9, 9)


def test_run_watches_two_numbers_as_the_authors_of_gat_do():
    points = [(5, 5), (4, 6), (6, 4), (4, 4), (9, 3), (9, 9), (9, 9), (9, 9), (9, 9)]
    assert Scripted(*points).run("a and b", patience=2) == (4, 7, 2)


def test_the_test_set_is_read_once_at_the_best_epoch(monkeypatch):
    data = planted()
    learner = host_pyg.learner("gcn", METHODS["gcn"], data, "full", 0)
    read, judge = [], train.judge

    def spy(learner, data, node, name):
        weight = learner.model.last.lin.weight.detach().clone()
        read.append((torch.equal(node, data.test), weight))
        return judge(learner, data, node, name)

    monkeypatch.setattr(train, "judge", spy)
    method = replace(METHODS["gcn"], epochs=6, lr=5.0)  # gets worse after a while
    result = train.fit(learner, data, method)
    assert [whole for whole, _ in read] == [False] * 6 + [True]
    assert torch.equal(read[-1][1], read[int(result["best epoch"]) - 1][1])
    assert all("test" not in point for point in result["curve"])


def test_search_never_reads_the_test_set(monkeypatch, tmp_path, capsys):
    data, judge = planted(), train.judge

    def spy(learner, given, node, name):
        assert torch.equal(node, data.val)
        return judge(learner, given, node, name)

    monkeypatch.setattr(train, "judge", spy)
    monkeypatch.setitem(search.GRIDS, "sage", {"lr": (0.5, 1e-9)})
    found = search.search("sage", data, seeds=[100], epochs=6)
    scores = [one["val"][0] for one in found["candidates"]]
    assert scores[0] > scores[1]
    assert found["chosen"] == {"lr": 0.5}
    monkeypatch.setattr(search, "search", lambda name, data: {"chosen": {"lr": 1}})
    search.main(["--only", "sage-planted", "--results", str(tmp_path / "new")])
    kept = json.loads((tmp_path / "new" / "sage-planted.json").read_text("utf-8"))
    assert kept["command"].endswith("search --root DIR --only sage-planted")
    assert kept["chosen"] == {"lr": 1}
    with pytest.raises(SystemExit):
        search.main(["--only", "gcn-cora"])
    assert "'only' must name cells of ['mixhop', 'sage']" in capsys.readouterr().err


def test_curve_shows_all_nodes(tmp_path):
    pytest.importorskip("matplotlib")
    options = ["--only", "gcn-planted", "--set", "epochs=3", "lr=0.5"]
    curve.main([*options, "--results", str(tmp_path)])
    found = json.loads((tmp_path / "gcn-planted.json").read_text("utf-8"))
    assert set(found["curves"]) == {"full", "gttf"}
    assert found["command"].endswith("--only gcn-planted --set epochs=3 lr=0.5")
    for points in found["curves"].values():
        assert [point["epoch"] for point in points] == [1, 2, 3]
        assert all(0 <= point[key] <= 100 for point in points for key in curve.COLORS)
    assert "gcn-planted, epochs 3, lr 0.5, GTTF" in (
        tmp_path / "gcn-planted.svg"
    ).read_text("utf-8")


@pytest.mark.parametrize("path", SEARCHES)
def test_settings_are_those_that_were_chosen(path):
    found = json.loads(path.read_text("utf-8"))
    name, dataset = found["cell"].split("-")
    method = METHODS[name].on(dataset)
    assert search.with_values(method, found["chosen"]) == method


@pytest.mark.parametrize("way", ["full", "gttf"])
@pytest.mark.parametrize("method", ["gat", "gcnii", "mixhop"])
def test_the_same_seed_gives_the_same_digits(method, way):
    first, again, other = (
        runner.run(Task(method, "planted", "pyg", way, seed), epochs=2)
        for seed in (3, 3, 4)
    )
    assert first["curve"] == again["curve"]
    assert first["curve"] != other["curve"]


# layers


def test_product_has_the_gradient_of_a_dense_one():
    torch.manual_seed(0)
    index = torch.tensor([[0, 1, 2, 2, 0], [1, 2, 0, 1, 1]])
    weight = torch.rand(5)
    matrix = sparse.Matrix.of(index, weight, 3)
    dense = torch.zeros(3, 3).index_put_((index[1], index[0]), weight, accumulate=True)
    x = torch.randn(3, 4, requires_grad=True)
    grad = torch.randn(3, 4)
    out = sparse.Product.apply(matrix.forward, matrix.backward, x)
    torch.testing.assert_close(out, dense @ x)
    (found,) = torch.autograd.grad(out, x, grad)
    torch.testing.assert_close(found, dense.T @ grad)


@pytest.mark.parametrize("chance", [0.3, 0.5, 0.9])
def test_dropout_drops_with_its_chance(chance):
    torch.manual_seed(0)
    x = torch.ones(301, 333, requires_grad=True)
    out = sparse.dropout(x, chance)
    kept = out != 0
    share, count = kept.double().mean().item(), x.numel()
    assert abs(share - (1 - chance)) < SIGMAS * (chance * (1 - chance) / count) ** 0.5
    scale = torch.full_like(out[kept], 1 / (1 - chance))
    torch.testing.assert_close(out[kept], scale, rtol=1e-4, atol=0)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())
    assert sparse.dropout(x, chance, training=False) is x
    assert sparse.dropout(x, 0.0) is x


def test_deep_conv_is_the_layer_of_pyg():
    data = planted()
    index, weight = gcn_norm(data.edge_index, None, data.num_nodes)
    ours = models_pyg.DeepConv(8, 0.1, 0.5, 3, normalize=False)
    assert ours.weight1.abs().max() <= 8**-0.5
    theirs = GCN2Conv(8, 0.1, 0.5, 3, normalize=False)
    theirs.load_state_dict(ours.state_dict())
    matrix = sparse.Matrix.of(index, weight, data.num_nodes)
    ours.transpose = matrix.backward
    x, start = torch.randn(2, data.num_nodes, 8)
    torch.testing.assert_close(
        ours(x, start, matrix.forward), theirs(x, start, index, weight)
    )


def test_mix_is_the_layer_of_pyg():
    data = planted()
    x = data.features.rows()
    norm = gcn_norm(data.edge_index, None, data.num_nodes)
    ours = models_pyg.Mix(data.features.width, [5, 5, 5])
    theirs = MixHopConv(data.features.width, 5, [0, 1, 2], bias=False)
    theirs.load_state_dict(ours.state_dict())
    expected = theirs(x.to_dense(), data.edge_index)
    torch.testing.assert_close(ours(x, *norm), expected)
    fewer = models_pyg.Mix(data.features.width, [0, 5, 3])
    for power in (1, 2):
        own = ours.lins[power].weight[: fewer.units[power]]
        fewer.lins[power].weight.data.copy_(own)
    torch.testing.assert_close(fewer(x, *norm), expected[:, 5:13])


def test_unit_rows_keep_directions():
    x = planted().features.rows()
    expected = F.normalize(x.to_dense())
    torch.testing.assert_close(models_pyg.unit_rows(x).to_dense(), expected)


def test_gat_drops_messages_once_more():
    """No other model drops there; in evaluation it is PyG's GATConv twice."""
    data = planted()
    torch.manual_seed(0)
    model = models_pyg.GAT(data.features.width, 4, METHODS["gat"])
    x = data.features.rows()
    model.eval()
    layers = (GATConv(data.features.width, 8, 8), GATConv(64, 4))
    for ours, theirs in zip((model.first, model.last), layers, strict=True):
        theirs.load_state_dict(ours.state_dict())
    expected = layers[1](F.elu(layers[0](x, data.edge_index)), data.edge_index)
    torch.testing.assert_close(model(x, data.edge_index, None), expected)
    model.train()
    conv = model.first
    conv.dropout = 0.0  # of the attention
    outs = [conv(x, data.edge_index) for _ in range(3)]
    assert not torch.equal(outs[0], outs[1])


def test_gat_of_dgl_drops_messages_once_more():
    """One node with a loop: attention keeps or drops a head, messages its entries."""
    dgl = pytest.importorskip("dgl")
    from examples.reproduce import models_dgl

    torch.manual_seed(0)
    graph = dgl.graph(([0], [0]))
    method = METHODS["gat"]
    model = models_dgl.GAT(40, 4, method)
    x = torch.rand(1, 40)
    model.first.attn_drop.graph = graph
    entries = torch.stack([model.first(graph, x)[0] for _ in range(300)])  # [300, 8, 8]
    kept = entries != 0
    both = (1 - method.dropout) ** 2
    spread = (both * (1 - both) / 300) ** 0.5
    assert (kept.float().mean(0) - both).abs().max() < SIGMAS * spread
    heads = kept.any(2) & ~kept.all(2)
    assert heads.any()  # some of a head's entries, not all
    plain = models_dgl.GAT(40, 4, replace(method, options={"heads": 8}))
    plain.load_state_dict(model.state_dict())
    outs = [one.eval()([graph] * 2, x) for one in (model, plain)]
    torch.testing.assert_close(*outs)


def test_full_batches_of_what_is_seen_are_full_batches():
    data = planted()
    ring = torch.tensor([[240, 241], [241, 240]])  # seen by no training node
    more = torch.cat([data.features.rows().to_dense(), torch.ones(2, 40)])
    data = replace(
        data,
        edge_index=torch.cat([data.edge_index, ring], dim=1),
        features=type(data.features)(more),
        y=torch.cat([data.y, torch.zeros(2, dtype=torch.int64)]),
    )
    method = replace(METHODS["gcnii"], dropout=0.0)
    learner = host_pyg.learner("gcnii", method, data, "full", 0)
    (step,) = learner.steps()
    assert step.nodes == 240
    torch.testing.assert_close(step.logits, learner.logits()[data.train])


def test_leaves_of_deep_models_do_not_fade():
    data = planted()
    batch = next(iter(host_pyg.loader_of("gcnii", METHODS["gcnii"], data, "gttf", 0)))
    opened = sum(batch.num_sampled_nodes[:-1])
    source, target = batch.edge_index
    total = torch.zeros(batch.num_nodes).index_add_(0, target, batch.edge_weight)
    assert opened < batch.num_nodes
    assert torch.equal(total[opened:], torch.ones(batch.num_nodes - opened))
    loops = (source == target) & (target < opened)
    degree = torch.bincount(data.edge_index[1])[batch.n_id[target[loops]]] + 1
    torch.testing.assert_close(batch.edge_weight[loops], 1 / degree)  # the others stay


def test_penalty_of_mixhop():
    model = models_pyg.MixHop(40, 4, METHODS["mixhop"])
    kernels = [w for n, w in model.named_parameters() if "lins" in n]
    assert len(kernels) == 6
    columns = sum(w[unit].norm() for w in kernels for unit in range(len(w)))
    expected = 5e-3 * (sum((w**2).sum() for w in kernels) + columns)
    torch.testing.assert_close(model.penalty(), expected)


# what is kept, and what is shown of it


def test_provenance_names_versions():
    found = provenance.provenance()
    told, own = (
        v.split("+")[0] for v in (found["versions"]["torch"], torch.__version__)
    )
    assert told == own  # +cu130 of the index's own build
    assert found["commit"] is None or len(found["commit"]) >= 12


@pytest.mark.parametrize(
    ("page", "text"),
    [("docs/reproduce.md", pages.comparison), ("README.md", pages.summary)],
)
def test_pages_show_the_results(page, text):
    """`python -m docs.pictures` writes them."""
    assert text(Store(RESULTS).all()) in (ROOT / page).read_text("utf-8")


def test_results_say_how_they_were_made():
    runs = [run for run in Store(RESULTS).all() if run["dataset"] in pages.CLASSIFIED]
    assert runs
    for run in runs:
        task = Task(*(run[name] for name in Task._fields))
        assert run["command"] == task.command
        assert run["settings"] == METHODS[task.method].on(task.dataset).settings()
        assert run["commit"]
        assert not run["commit"].endswith("-dirty")
        assert run["versions"]["torch"]
        assert run["seconds"] > 0
        assert all("test" not in point for point in run["curve"])
