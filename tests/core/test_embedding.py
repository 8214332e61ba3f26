"""The modules: loaders, losses, gradients, tests, devices."""

import pickle

import pytest
import torch

from exact import graph, one_thread  # noqa: F401
from gttf_sampler import (
    CompactAdj,
    DeepWalkAcc,
    EdgeWeightBias,
    Node2VecAcc,
    TransitionFactorizationAcc,
    WalkForest,
    WYSAcc,
    traverse,
)
from gttf_sampler.embedding import DeepWalk, Node2Vec, WatchYourStep
from gttf_sampler.plot import communities, draw_embeddings
from gttf_sampler.plot.embeddings import plane

ROWS = [[1, 2], [0, 2, 3], [0, 1], [1, 4], [3], []]
MODELS = {
    "deepwalk": lambda adj: DeepWalk(adj, 4, 2, [2, 1, 2]),
    "logistic": lambda adj: DeepWalk(adj, 4, 2, contrast="logistic", sparse=True),
    "node2vec": lambda adj: Node2Vec(adj, 4, 2, p=0.5, q=2.0),
    "trained": lambda adj: Node2Vec(adj, 4, 2, [2, 2], p=0.5, q=2.0, trainable=True),
    "wys": lambda adj: WatchYourStep(adj, 4, [2, 1, 1], sparse=True),
    "wys paper": lambda adj: WatchYourStep(adj, 4, [2, 1, 1], scheme="paper"),
}
NAMES = pytest.mark.parametrize("name", list(MODELS))


def make(name):
    torch.manual_seed(0)
    return MODELS[name](graph(ROWS))


def epoch(model, **options):
    torch.manual_seed(1)
    return [model.loss(forest).item() for forest in model.loader(**options)]


@NAMES
def test_modules_train(name):
    model = make(name)
    assert model().shape == model(torch.arange(6)).shape == (6, 4)
    assert torch.equal(model()[[5, 0]], model(torch.tensor([5, 0])))
    assert model.score(torch.tensor([[0, 1], [1, 2]])).shape == (2,)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    before, first = model().detach().clone(), None
    for _ in range(30):
        for forest in model.loader(batch_size=6):
            assert isinstance(forest, WalkForest)
            optimizer.zero_grad()
            loss = model.loss(forest)
            loss.backward()
            optimizer.step()
            first = loss.item() if first is None else first
    assert loss.item() < first
    assert not torch.equal(model(), before)
    assert bool(model().isfinite().all())


@NAMES
def test_modules_have_sparse_gradients_if_asked(name):
    model = make(name)
    for forest in model.loader(batch_size=6):
        model.loss(forest).backward()
    layouts = {
        key: value.grad.is_sparse
        for key, value in model.named_parameters()
        if value.grad is not None and key.endswith("weight")
    }
    assert layouts
    assert set(layouts.values()) == {name in ("logistic", "wys")}


@NAMES
def test_loaders_yield_the_same_with_workers(name):
    model = make(name)
    alone = epoch(model, batch_size=2, shuffle=True)
    assert len(alone) == 3
    assert len(set(alone)) == 3
    for options in ({"num_workers": 2}, {"num_workers": 1, "persistent_workers": True}):
        for thread in (None, False):
            how = {"batch_size": 2, "shuffle": True, "thread_workers": thread}
            assert epoch(model, **how, **options) == alone


def test_loaders_take_the_arguments_of_a_data_loader():
    model = make("deepwalk")
    loader = model.loader(batch_size=4, drop_last=True)
    assert len(loader) == 1
    (forest,) = loader
    assert forest.nodes[0].view(-1).tolist() == [0, 1, 2, 3]
    some = model.loader(batch_size=2, sampler=[5, 3])
    assert [f.nodes[0].view(-1).tolist() for f in some] == [[5, 3]]
    first, second = (epoch(model, batch_size=6) for _ in range(2))
    assert first == second
    own = torch.Generator().manual_seed(3)
    levels = [next(iter(model.loader(generator=own))).nodes[3] for _ in range(9)]
    assert any(not torch.equal(level, levels[0]) for level in levels)
    for option in ("dataset", "collate_fn", "batch_sampler"):
        with pytest.raises(ValueError, match=f"'{option}' must be left to this loader"):
            model.loader(**{option: None})
    with pytest.raises(ValueError, match="'batch_size' must be a number of nodes"):
        model.loader(batch_size=None)


@NAMES
def test_modules_survive_pickling(name):
    model = make(name)
    other = pickle.loads(pickle.dumps(model))
    assert epoch(other, batch_size=3) == epoch(model, batch_size=3)
    assert torch.equal(other(), model())


def test_trained_p_and_q_start_where_they_are_told():
    model = make("trained")
    assert model.p.item() == pytest.approx(0.5)
    assert model.q.item() == pytest.approx(2.0)
    assert model.bias is None
    assert isinstance(model.objective(), Node2VecAcc)
    assert not make("node2vec").log_pq.requires_grad
    for forest in model.loader(batch_size=6):
        model.loss(forest).backward()
    assert bool((model.log_pq.grad != 0).all())


def test_watch_your_step_penalty_keeps_all_distances():
    shares = {}
    for penalty in (0.0, 10.0):
        torch.manual_seed(0)
        model = WatchYourStep(graph(ROWS), 8, [1, 1, 1], penalty=penalty)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        for _ in range(100):
            for forest in model.loader(batch_size=6):
                optimizer.zero_grad()
                model.loss(forest).backward()
                optimizer.step()
        shares[penalty] = model.attention.max().item()
        assert model.attention.sum().item() == pytest.approx(1)
    assert shares[10.0] < 0.36 < 0.5 < shares[0.0]


def test_watch_your_step_score_has_a_direction():
    model = make("wys")
    pair, back = torch.tensor([[0], [1]]), torch.tensor([[1], [0]])
    forth = model.score(pair, directed=True)
    assert forth != model.score(back, directed=True)
    torch.testing.assert_close(model.score(pair), model.score(back))


@pytest.mark.parametrize("name", ["partition", "logistic", "node2vec", "wys", "power"])
def test_losses_stay_on_the_device(device, name):
    """Everything is made where the graph is; the simulation refuses to mix."""
    with device():
        adj, ones = graph(ROWS).to("cuda"), torch.ones(6, 2).to("cuda")
        acc = {
            "partition": lambda: DeepWalkAcc(ones, 2),
            "logistic": lambda: DeepWalkAcc(ones, 2, contrast="logistic"),
            "node2vec": lambda: Node2VecAcc(ones, 2, 0.5, 2.0),
            "wys": lambda: WYSAcc(ones, ones, torch.zeros(3).to("cuda")),
            "power": lambda: TransitionFactorizationAcc(ones, ones, [1.0, 1.0, 1.0]),
        }[name]()
        forest = traverse(adj, torch.arange(6).to("cuda"), [2, 1, 2], generator=0)
        moved = acc.loss(forest)
        assert moved.device.type == "cuda"
        assert moved.cpu().isfinite()


def test_modules_take_the_graph_along(monkeypatch):
    moves = []
    monkeypatch.setattr(
        CompactAdj, "to", lambda self, device: moves.append(device) or self
    )
    model = make("deepwalk")
    model.double()
    assert not moves  # it is there already
    monkeypatch.setattr(
        CompactAdj, "device", property(lambda self: torch.device("cuda"))
    )
    model.to("cpu")
    assert moves == [torch.device("cpu")]


def test_probe_learns_a_linear_rule():
    torch.manual_seed(0)
    z = torch.randn(300, 5)
    y = (z @ torch.randn(5, 3)).argmax(1)
    found = DeepWalk.test(z[:200], y[:200], z[200:], y[200:])
    assert found > 0.9
    noise = DeepWalk.test(z[:200], y[:200].flip(0), z[200:], y[200:])
    assert noise < 0.6


def test_communities_of_two_cliques():
    pairs = [
        (u, v) for u in range(12) for v in range(12) if u != v and u // 6 == v // 6
    ]
    edges = torch.tensor([*pairs, (0, 6), (6, 0)]).T
    label = communities(CompactAdj.from_edge_index(edges, direction="out"), generator=0)
    assert len(set(label[:6].tolist())) == len(set(label[6:].tolist())) == 1
    assert label[0] != label[6]


def test_plane_keeps_most_of_the_variance():
    torch.manual_seed(0)
    z = torch.randn(50, 2, dtype=torch.float64) @ torch.randn(2, 7, dtype=torch.float64)
    point, centred = plane(z + 3), z - z.mean(0)
    torch.testing.assert_close(point @ point.T, centred @ centred.T)
    assert point[:, 0].var() >= point[:, 1].var()
    assert plane(z[:, :1]).shape == (50, 2)


def test_draw_embeddings():
    pytest.importorskip("matplotlib")
    label = torch.arange(30) % 3
    figure = draw_embeddings(torch.randn(30, 4), label, method="pca", title="Title")
    (axes,) = figure.axes
    assert axes.get_title() == "Title: principal components"
    assert len(axes.collections) == 3
    assert [text.get_text() for text in axes.get_legend().texts] == ["0", "1", "2"]
    assert not draw_embeddings(torch.randn(3, 1), method="pca").axes[0].get_legend()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: DeepWalk(a, 0), "'embedding_dim' must be at least 1"),
        (lambda a: DeepWalk(a, 4, 0), "'window' must be at least 1"),
        (lambda a: DeepWalk(a, 4, 2, [0]), "'fanouts' must hold positive integers"),
        (lambda a: DeepWalk(a, 4, contrast="x"), "'contrast' must be one of"),
        (lambda a: DeepWalk([[0], [1]], 4), "'adj' must be a CompactAdj"),
        (lambda a: DeepWalk(a, 5, halves=True), "'embedding_dim' must be even"),
        (lambda a: DeepWalk(a, 4, halves=1), "'halves' must be True or False"),
        (lambda a: DeepWalk(a, 4, symmetric=True), "'symmetric' must be False of one"),
        (lambda a: Node2Vec(a, 4, p=0.0), "'p' must be finite and greater than 0"),
        (lambda a: WatchYourStep(a, 5), "'embedding_dim' must be even"),
        (lambda a: WatchYourStep(a, 4, penalty=float("inf")), "'penalty' must be fini"),
        (
            lambda a: draw_embeddings(torch.ones(3, 2), [0, 1]),
            "'label' must have one entry per node",
        ),
        (
            lambda a: draw_embeddings(torch.ones(3, 2), method="x"),
            "'method' must be on",
        ),
    ],
)
def test_modules_validate(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(graph(ROWS))


@pytest.mark.parametrize("kind", [DeepWalk, WatchYourStep])
def test_walks_by_weight_if_told_to(kind):
    """From 0 to 1 and 2, of which 2 weighs nothing."""
    edges = [[0, 0, 1, 2], [1, 2, 0, 0]]
    weight = [1.0, 0.0, 1.0, 1.0]
    adj = CompactAdj.from_edge_index(edges, edge_weight=weight, direction="out")
    model = kind(adj, 4, fanouts=[1, 1])
    seeds = torch.zeros(60, dtype=torch.long)

    def reached():
        (forest,) = model.loader(sampler=seeds.tolist(), batch_size=60)
        return set(forest.nodes[1].view(-1).tolist())

    assert reached() == {1, 2}
    model.bias = EdgeWeightBias()
    assert reached() == {1}
