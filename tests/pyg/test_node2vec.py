"""Node2Vec keeps PyG's contract, line by line, and draws the walks it should."""

import copy
import inspect
import pickle
import sys
from itertools import chain, pairwise
from types import SimpleNamespace

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch_geometric import EdgeIndex
from torch_geometric.datasets import KarateClub
from torch_geometric.nn.models import node2vec as host

from exact import assert_frequencies, paths, second_order
from exact import one_thread as one_thread
from gttf_pyg import Node2Vec
from gttf_sampler.embedding import split_links
from gttf_sampler.embedding.fit import SEEDS
from gttf_sampler.random import FIT, fold, new_key
from strategies import graphs

RING = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
# A triangle 0-1-2, a path 2-3-4 to a leaf, 1-3 twice, a self-loop at 3; 5 is alone.
UNDIRECTED = [[1, 2], [0, 2, 3, 3], [0, 1, 3], [2, 1, 1, 3, 4], [3], []]
# 3 leads to 0 (twice), 0 does not lead to 3; 2 has a loop; 4 is a dead end.
DIRECTED = [[1, 2], [2, 3], [0, 2, 1], [0, 0, 1, 4], []]


def edges_of(rows):
    return torch.tensor([[u, v] for u, row in enumerate(rows) for v in row]).t()


def karate(**options):
    options = {"walk_length": 6, "context_size": 4, **options}
    return Node2Vec(KarateClub()[0].edge_index, 8, **options)


def batches(model, epochs=1, **options):
    """All batches as lists; the training loop uses torch's generator, too."""
    torch.manual_seed(12)
    loader, found = model.loader(batch_size=9, **options), []
    for _ in range(epochs):
        for pos, neg in loader:
            torch.rand(3)
            found.append((pos.tolist(), neg.tolist()))
    return found


@pytest.fixture
def pyg_node2vec(monkeypatch):
    """PyG's own class, made to believe that its libraries are there."""
    stub = SimpleNamespace(random_walk=None)
    for name, flag in (
        ("pyg", "WITH_PYG_LIB"),
        ("torch_cluster", "WITH_TORCH_CLUSTER"),
    ):
        monkeypatch.setattr(host, flag, True, raising=False)
        monkeypatch.setattr(torch.ops, name, stub, raising=False)
    return host.Node2Vec


def test_node2vec_arguments_are_those_of_pyg():
    theirs = list(inspect.signature(host.Node2Vec).parameters.values())
    ours = list(inspect.signature(Node2Vec).parameters.values())
    for a, b in zip(theirs, ours, strict=False):
        assert (a.name, a.default, a.kind) == (b.name, b.default, b.kind)
    extra = ours[len(theirs) :]
    assert [e.name for e in extra] == ["edge_weight", "generator"]
    assert all(e.kind is e.KEYWORD_ONLY and e.default is None for e in extra)


def test_node2vec_has_the_state_of_pyg(pyg_node2vec):
    arguments = (RING, 16, 7, 4, 3, 0.5, 2.0, 5, 9, True)
    torch.manual_seed(0)
    theirs = pyg_node2vec(*arguments)
    torch.manual_seed(0)
    ours = Node2Vec(*arguments)
    assert isinstance(ours, host.Node2Vec)
    assert repr(ours) == repr(theirs) == "Node2Vec(9, 16)"
    assert list(ours.state_dict()) == list(theirs.state_dict()) == ["embedding.weight"]
    assert torch.equal(ours.embedding.weight, theirs.embedding.weight)
    assert ours.embedding.sparse
    for name, value in vars(theirs).items():
        if isinstance(value, int | float):
            assert getattr(ours, name) == value, name
    assert ours.rowptr.tolist() == theirs.rowptr.tolist()
    assert ours.col.tolist() == theirs.col.tolist()
    theirs.reset_parameters()
    ours.load_state_dict(theirs.state_dict())
    assert torch.equal(ours(), theirs())
    assert torch.equal(ours(torch.tensor([2, 0])), theirs()[[2, 0]])
    walks = ours.sample([0, 1, 2])
    torch.testing.assert_close(ours.loss(*walks), theirs.loss(*walks))


def test_node2vec_inherits_whatever_needs_no_walks():
    for name in ("reset_parameters", "forward", "pos_sample", "test"):
        assert getattr(Node2Vec, name) is getattr(host.Node2Vec, name)


@pytest.mark.parametrize("batch", [[3], [0, 4, 4], []])
@pytest.mark.parametrize(
    ("length", "context", "walks", "negatives"),
    [(2, 2, 1, 1), (5, 3, 1, 1), (5, 3, 2, 3), (4, 4, 3, 2), (9, 2, 1, 4)],
)
def test_node2vec_shapes(length, context, walks, negatives, batch):
    model = Node2Vec(RING, 2, length, context, walks, num_negative_samples=negatives)
    assert model.walk_length == length - 1
    pos, neg = model.sample(batch)
    rows = (length - context + 1) * len(batch) * walks
    assert pos.shape == (rows, context)
    assert neg.shape == (rows * negatives, context)
    assert pos.dtype == neg.dtype == torch.int64


def test_node2vec_windows_come_one_after_the_other():
    model = Node2Vec(RING, 2, walk_length=5, context_size=3, walks_per_node=2)
    pos = model.pos_sample(torch.tensor([3, 0]))
    walks = [[(start + step) % 5 for step in range(5)] for start in (3, 0, 3, 0)]
    assert pos.tolist() == [walk[j : j + 3] for j in range(3) for walk in walks]


def test_node2vec_negatives_have_the_windows_of_pyg(pyg_node2vec):
    arguments = (RING, 2, 6, 3, 2, 1.0, 1.0, 3)
    batch = torch.tensor([3, 0, 0])
    torch.manual_seed(0)
    theirs = pyg_node2vec(*arguments).neg_sample(batch)
    torch.manual_seed(0)
    ours = Node2Vec(*arguments).neg_sample(batch)
    assert torch.equal(ours, theirs)


def test_node2vec_negatives_are_uniform():
    model = Node2Vec(RING, 2, 3, 2, walks_per_node=4000, num_nodes=7)
    torch.manual_seed(1)
    neg = model.neg_sample(torch.arange(5))
    assert neg[:20_000, 0].tolist() == list(range(5)) * 4000  # the starts
    exact = {(a,): 1 / 7 for a in range(7)}
    assert_frequencies(neg[:20_000, 1:], exact)
    pairs = {(a, b): 1 / 49 for a in range(7) for b in range(7)}
    assert_frequencies(neg[20_000:], pairs)


@pytest.mark.parametrize(
    ("rows", "p", "q", "weighted"),
    [(UNDIRECTED, 0.25, 4, True), (DIRECTED, 4, 0.25, False)],
)
def test_node2vec_walks_have_second_order_probabilities(rows, p, q, weighted):
    """p, q and weights are handed on; core/test_distributions_node2vec has the rest."""
    each, edge_index = 8_000, edges_of(rows)
    size = edge_index.shape[1]
    weights = [0.5 + (7 * i) % 5 if weighted else 1.0 for i in range(size)]
    model = Node2Vec(
        edge_index,
        *(2, 4, 4, each, p, q),
        num_nodes=len(rows),
        edge_weight=torch.tensor(weights) if weighted else None,
        generator=torch.Generator().manual_seed(3),
    )
    walks = model.pos_sample(torch.arange(len(rows))).view(each, len(rows), 4)
    step = second_order(rows, weights, p, q)
    for start in range(len(rows)):
        assert_frequencies(walks[:, start], paths(step, start, 3))


def test_node2vec_follows_edges_and_stays_at_dead_ends():
    model = Node2Vec(torch.tensor([[0, 1], [1, 2]]), 2, 4, 4, num_nodes=4)
    expected = [[0, 1, 2, 2], [1, 2, 2, 2], [2, 2, 2, 2], [3, 3, 3, 3]]
    assert model.pos_sample(torch.arange(4)).tolist() == expected


@pytest.mark.parametrize("p", [1.0, 3.0])
def test_node2vec_stays_where_all_weights_are_zero(p):
    ends = torch.tensor([[0, 0, 1], [1, 2, 2]])
    weight = torch.tensor([2, 0, 0])
    model = Node2Vec(ends, 2, 4, 4, p=p, edge_weight=weight)
    walks = model.pos_sample(torch.arange(3)).tolist()
    assert walks == [[0, 1, 1, 1], [1, 1, 1, 1], [2, 2, 2, 2]]


def test_node2vec_p_and_q_may_be_set_later():
    model = Node2Vec(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 2, 3, 3)
    model.p = 1e9  # hardly ever turns round
    assert model.pos_sample(torch.tensor([0, 2])).tolist() == [[0, 1, 2], [2, 1, 0]]


@given(graphs(), st.sampled_from([1.0, 0.5]), st.data())
def test_node2vec_steps_are_edges(graph, p, data):
    assume(graph.num_nodes)
    weight = graph.weight
    model = Node2Vec(
        graph.edge_index, 2, 4, 4, 2, p, num_nodes=graph.num_nodes, edge_weight=weight
    )
    heavy = [True] * graph.edge_index.shape[1] if weight is None else weight > 0
    pairs = zip(*graph.edge_index.tolist(), strict=True)
    steps = {pair for pair, there in zip(pairs, heavy, strict=True) if there}
    dead = set(range(graph.num_nodes)) - {u for u, _ in steps}
    some = st.lists(st.integers(0, graph.num_nodes - 1), max_size=5)
    batch = data.draw(some)
    pos, neg = model.sample(batch)
    assert pos[:, 0].tolist() == neg[:, 0].tolist() == batch * 2
    for walk in pos.tolist():
        for u, v in pairwise(walk):
            assert (u, v) in steps or (u == v and u in dead)


@pytest.mark.parametrize(
    "edge_index",
    [
        RING.to(torch.int32),
        RING.t().contiguous().t(),
        EdgeIndex(RING, sparse_size=(5, 5)),
        RING.flip(1),
    ],
    ids=["int32", "strided", "EdgeIndex", "unsorted"],
)
def test_node2vec_takes_any_edge_index(edge_index):
    model = Node2Vec(edge_index, 2, 3, 3)
    assert model.num_nodes == 5
    assert type(model.col) is torch.Tensor
    walks = model.pos_sample(torch.tensor([3, 3], dtype=torch.int32))
    assert walks.tolist() == [[3, 4, 0]] * 2


def test_node2vec_without_an_edge():
    model = Node2Vec(torch.empty(2, 0, dtype=torch.long), 2, 3, 2, num_nodes=3)
    pos, neg = model.sample([2, 0])
    assert pos.tolist() == [[2, 2], [0, 0]] * 2
    assert neg.shape == (4, 2)


def test_node2vec_loader_is_a_loader_of_all_nodes():
    model = Node2Vec(RING, 2, 2, 2, num_nodes=7)
    loader = model.loader(batch_size=3, shuffle=True)
    assert isinstance(loader, torch.utils.data.DataLoader)
    assert loader.dataset == range(7)
    assert loader.batch_size == 3
    assert len(loader) == 3
    starts = [pos[:, 0].tolist() for pos, _ in loader]
    assert [len(start) for start in starts] == [3, 3, 1]
    assert sorted(chain(*starts)) == list(range(7))
    assert len(model.loader(batch_size=3, drop_last=True)) == 2
    once = [pos[:, 0].tolist() for pos, _ in model.loader(batch_size=None)]
    assert once == [[node] for node in range(7)]
    chosen = model.loader(batch_sampler=[[5, 1], [2]])
    assert [pos[:, 0].tolist() for pos, _ in chosen] == [[5, 1], [2]]
    assert loader.collate_fn([4, 0])[0][:, 0].tolist() == [4, 0]


@pytest.mark.process
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("p", [1.0, 0.5])
def test_node2vec_batches_do_not_depend_on_workers(shuffle, p):
    model = karate(p=p)
    alone = batches(model, epochs=2, shuffle=shuffle)
    assert batches(model, epochs=2, shuffle=shuffle) == alone
    for workers, thread in ((1, None), (2, None), (2, False)):
        how = {"num_workers": workers, "thread_workers": thread}
        assert batches(model, epochs=2, shuffle=shuffle, **how) == alone
    half = len(alone) // 2
    assert all(a != b for a, b in zip(alone[:half], alone[half:], strict=True))


def test_node2vec_batches_differ_within_an_epoch():
    model = Node2Vec(RING, 2, 9, 9)
    loader = model.loader(batch_sampler=[[1, 2]] * 20)
    assert len({str(neg.tolist()) for _, neg in loader}) == 20


def test_node2vec_own_generator_governs_alone():
    def run(seed):
        model = karate(generator=torch.Generator().manual_seed(seed))
        first = [walks.tolist() for walks in model.sample([1, 2, 3])]
        direct = model.pos_sample(torch.arange(9)).tolist()
        order = [pos.tolist() for pos, _ in model.loader(batch_size=5, shuffle=True)]
        return first, direct, order

    before = torch.get_rng_state()
    expected = run(5)
    torch.manual_seed(77)
    assert run(5) == expected
    assert all(a != b for a, b in zip(run(6), expected, strict=True))
    torch.set_rng_state(before)
    karate(generator=torch.Generator())  # draws the embedding
    after = torch.get_rng_state()
    torch.set_rng_state(before)
    model = karate(generator=torch.Generator())
    model.sample([1])
    assert torch.equal(torch.get_rng_state(), after)


def test_node2vec_follows_manual_seed():
    model = karate(p=2.0)
    first, again, other = (
        (torch.manual_seed(seed), model.sample([1, 2, 3]))[1] for seed in (4, 4, 5)
    )
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("q", [1.0, 0.5])
def test_node2vec_walks_where_the_module_is(device, q, weighted):
    model = karate(q=q, edge_weight=torch.rand(156) if weighted else None)
    torch.manual_seed(2)
    expected = [walks.tolist() for walks in model.sample([0, 5, 5])]
    with device():
        assert model.to("cuda") is model
        assert model.rowptr.is_cuda
        assert model.col.is_cuda
        torch.manual_seed(2)
        pos, neg = model.sample([0, 5, 5])
        assert pos.is_cuda
        assert neg.is_cuda
        assert [pos.cpu().tolist(), neg.cpu().tolist()] == expected
        first = next(iter(model.loader(batch_size=4)))
        assert all(walks.is_cuda for walks in first)
        beside = model.loader(batch_size=4, num_workers=2).collate_fn
        assert not any(walks.is_cuda for walks in beside([0, 5, 5]))
        assert not model.to("cpu").col.is_cuda
    torch.manual_seed(2)
    assert [walks.tolist() for walks in model.sample([0, 5, 5])] == expected


def test_node2vec_graph_stays_when_only_numbers_change():
    model = karate()
    adj = model.adj
    assert model.double().adj is adj
    assert model.embedding.weight.dtype == torch.float64
    assert model.to("meta").adj is adj


@pytest.mark.parametrize(
    "change", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy, copy.copy]
)
def test_node2vec_can_be_copied(change):
    model = karate(p=0.5, edge_weight=torch.rand(156))
    model.sample([0])  # what is made once is there
    other = change(model)
    assert torch.equal(other(), model())
    torch.manual_seed(1)
    expected = model.sample([3, 4])
    torch.manual_seed(1)
    found = other.sample([3, 4])
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_node2vec_of_a_user_is_asked():
    class Reversed(Node2Vec):
        def pos_sample(self, batch):
            return super().pos_sample(batch).flip(1)

    model = Reversed(RING, 2, 3, 3)
    assert next(iter(model.loader(batch_size=2)))[0].tolist() == [[2, 1, 0], [3, 2, 1]]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("negatives", [1, 3])
def test_node2vec_loss_is_that_of_pyg(sparse, negatives):
    """The value and the gradient, 1e-5 of the largest entry; saturated scores, too."""
    model = karate(walks_per_node=3, num_negative_samples=negatives, sparse=sparse)
    for scale in (0.1, 1.0, 30.0):
        torch.manual_seed(0)
        torch.nn.init.normal_(model.embedding.weight, std=scale)
        pos, neg = model.sample(torch.arange(34))
        found = []
        for loss in (model.loss, super(Node2Vec, model).loss):
            model.embedding.weight.grad = None
            value = loss(pos, neg)
            value.backward()
            assert model.embedding.weight.grad.is_sparse == sparse
            found.append((value.detach(), model.embedding.weight.grad.to_dense()))
        for ours, theirs in zip(*found, strict=True):
            most = 1e-5 * float(theirs.abs().max())
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=most)


def test_node2vec_loss_takes_any_windows():
    model = karate()
    host_loss = super(Node2Vec, model).loss
    for pos, neg in (((5, 4), (5, 4)), ((7, 2), (4, 3))):
        windows = torch.randint(34, pos), torch.randint(34, neg)
        torch.testing.assert_close(model.loss(*windows), host_loss(*windows))
    with pytest.raises(IndexError):
        model.loss(torch.tensor([[0, 34]]), torch.tensor([[0, 1]]))


@pytest.mark.parametrize("sparse", [False, True])
def test_node2vec_learns_two_communities(sparse):
    inside = torch.combinations(torch.arange(8)).t()
    one_way = torch.cat([inside, inside + 8, torch.tensor([[0], [8]])], dim=1)
    torch.manual_seed(0)
    model = Node2Vec(
        torch.cat([one_way, one_way.flip(0)], dim=1),
        8,
        6,
        4,
        4,
        2.0,
        0.5,
        sparse=sparse,
    )
    kind = torch.optim.SparseAdam if sparse else torch.optim.Adam
    optimizer = kind(list(model.parameters()), lr=0.05)
    for _ in range(20):
        for pos, neg in model.loader(batch_size=8, shuffle=True):
            optimizer.zero_grad()
            model.loss(pos, neg).backward()
            assert model.embedding.weight.grad.is_sparse == sparse
            optimizer.step()
    z = torch.nn.functional.normalize(model().detach())
    alike, block = z @ z.t(), torch.arange(16) // 8
    same = block[:, None] == block
    assert alike[same].mean() > alike[~same].mean() + 0.5


@pytest.mark.parametrize("p", [1.0, 0.5])
def test_node2vec_fit_is_the_loop_of_pyg(p):
    """With SparseAdam, on the walks and negatives of the same keys."""
    found, expected = (karate(p=p, walks_per_node=2, sparse=True) for _ in range(2))
    expected.load_state_dict(found.state_dict())
    losses = [epoch.loss for epoch in found.fit(3, batch_size=9, generator=7)]
    optimizer = torch.optim.SparseAdam(expected.parameters(), lr=0.01)
    key = int(new_key(7, torch.device("cpu"), FIT))
    for epoch in range(3):
        seed = int(fold(key, epoch)) & SEEDS
        own = torch.Generator().manual_seed(int(fold(seed, 1)) & SEEDS)
        values = []
        for pos, neg in expected.loader(batch_size=9, shuffle=True, generator=own):
            optimizer.zero_grad()
            loss = super(Node2Vec, expected).loss(pos, neg)
            loss.backward()
            optimizer.step()
            values.append(loss.item())
        assert losses[epoch] == pytest.approx(sum(values) / len(values), rel=1e-5)
    torch.testing.assert_close(found(), expected(), rtol=1e-4, atol=1e-5)


def test_node2vec_fit_stops_and_goes_on(tmp_path):
    split = split_links(KarateClub()[0].edge_index, 34, hide=0.2, generator=0)
    whole, part = (
        Node2Vec(split.train, 8, 6, 4, num_nodes=34, generator=torch.Generator())
        for _ in range(2)
    )
    part.load_state_dict(whole.state_dict())
    how = {"valid": split, "batch_size": 10, "optimizer": "adagrad"}
    epochs = whole.fit(4, **how)
    assert all(0 <= epoch.auc <= 1 for epoch in epochs)
    part.fit(2, checkpoint=tmp_path / "run", **how)
    part.fit(4, checkpoint=tmp_path / "run", resume=True, **how)
    assert torch.equal(whole(), part())
    before = whole().detach().clone()
    assert whole.fit(1, hogwild=True)[0].pairs > 0
    assert not torch.equal(whole(), before)


def test_node2vec_test_scores_a_classifier(monkeypatch):
    """`test` hands numpy arrays to scikit-learn, which need not be here."""

    class Nearest:
        def __init__(self, *, solver, **options):
            assert (solver, options) == ("lbfgs", {"max_iter": 5})

        def fit(self, x, y):
            self.x, self.y = x, y
            return self

        def score(self, x, y):
            near = ((x[:, None] - self.x) ** 2).sum(-1).argmin(1)
            return float((self.y[near] == y).mean())

    stub = SimpleNamespace(LogisticRegression=Nearest)
    monkeypatch.setitem(sys.modules, "sklearn", SimpleNamespace(linear_model=stub))
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", stub)
    model = Node2Vec(RING, 2, 3, 2)
    z, y = model(), torch.tensor([0, 1, 2, 3, 4])
    assert model.test(z, y, z[[0, 1]], torch.tensor([0, 2]), max_iter=5) == 0.5


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"walk_length": 3}, ValueError, r"'walk_length' must be at least .*4 \(got 3"),
        ({"context_size": 1}, ValueError, r"'context_size' must be at least 2"),
        ({"walk_length": 6.0}, TypeError, r"'walk_length' must be an integer"),
        ({"walks_per_node": 0}, ValueError, r"'walks_per_node' must be at least 1"),
        ({"num_negative_samples": 0}, ValueError, r"'num_negative_samples' must be"),
        ({"p": 0.0}, ValueError, r"'p' must be finite and greater than 0 \(got 0"),
        ({"q": -1.0}, ValueError, r"'q' must be finite and greater than 0"),
        ({"num_nodes": 30}, ValueError, r"'edge_index' must hold ids below .* 30"),
        ({"edge_weight": torch.ones(5)}, ValueError, r"'edge_weight' must .* 156 in"),
        ({"edge_weight": -torch.ones(156)}, ValueError, r"'edge_weight' must not hold"),
        ({"generator": 7}, TypeError, r"'generator' must be a torch.Generator or None"),
    ],
)
def test_node2vec_validate(change, error, sentence):
    with pytest.raises(error, match=sentence):
        karate(**change)


def test_node2vec_validate_batch():
    with pytest.raises(ValueError, match="'seeds' must hold ids below"):
        karate().sample([34])
