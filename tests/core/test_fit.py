"""`fit`: torch's optimizers row by row, on any threads, with breaks or without."""

import copy
import math
import os
import re
import signal
import threading
import time
from importlib import import_module

import pytest
import torch

from all_pairs import all_pairs
from exact import graph
from gttf_sampler import CompactAdj, use_backend
from gttf_sampler._backends.pairs import RowGradients, Rule
from gttf_sampler._backends.torch import pairs as torch_pairs
from gttf_sampler.embedding import DeepWalk, Node2Vec, WatchYourStep, split_links
from gttf_sampler.embedding import fit as fitting
from gttf_sampler.embedding.base import in_blocks, near_order
from gttf_sampler.random import FIT, fold, new_key
from strategies import BACKENDS

# Two triangles and a bridge, a leaf, and a node alone.
ROWS = [[1, 2], [0, 2], [0, 1, 3], [2, 4, 5], [3, 5], [3, 4, 6], [5], []]
MODELS = {
    "partition": lambda adj, **how: DeepWalk(adj, 20, 2, [2, 1, 2], **how),
    "logistic": lambda adj, **how: DeepWalk(adj, 20, 2, contrast="logistic", **how),
    "halves": lambda adj, **how: DeepWalk(
        *(adj, 20, 2), halves=True, contrast="logistic", negative_weight=0.3, **how
    ),
    "both ways": lambda adj, **how: DeepWalk(
        adj, 20, 2, [1, 2], halves=True, symmetric=True, **how
    ),
    "node2vec": lambda adj, **how: Node2Vec(adj, 20, 2, p=0.5, q=2.0, **how),
    "trained": lambda adj, **how: Node2Vec(
        adj, 20, 2, [2, 2], p=0.5, q=2.0, trainable=True, contrast="logistic", **how
    ),
    "wys": lambda adj, **how: WatchYourStep(adj, 20, [2, 1, 1], **how),
    "symmetric": lambda adj, **how: WatchYourStep(
        adj, 20, [2, 1], symmetric=True, **how
    ),
    "paper": lambda adj, **how: WatchYourStep(adj, 20, [2, 1], scheme="paper", **how),
}
NAMES = pytest.mark.parametrize("name", list(MODELS))
OPTIMIZERS = {
    "sgd": (torch.optim.SGD, torch.optim.SGD),
    "adagrad": (torch.optim.Adagrad, torch.optim.Adagrad),
    "adam": (torch.optim.SparseAdam, torch.optim.Adam),
}


def make(name, **how):
    torch.manual_seed(0)
    return MODELS[name](graph(ROWS), **how)


def state(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def assert_same(left, right):
    assert left.keys() == right.keys()
    for name, value in left.items():
        assert torch.equal(value, right[name]), name


def by_hand(model, optimizer, epochs, lr, batch_size, decay=0.0):
    """The loop that `fit` stands for, with torch's own optimizers."""
    tables = [m.weight for m in model.children() if isinstance(m, torch.nn.Embedding)]
    mine = {id(table) for table in tables}
    rest = [p for p in model.parameters() if id(p) not in mine and p.requires_grad]
    kinds = OPTIMIZERS[optimizer]
    steppers = [kinds[0](tables, lr=lr)]
    steppers += [kinds[1](rest, lr=lr)] if rest else []
    key, mask = int(new_key(7, torch.device("cpu"), FIT)), fitting.SEEDS
    for epoch in range(epochs):
        seed = int(fold(key, epoch)) & mask
        torch.manual_seed(seed)
        own = torch.Generator().manual_seed(int(fold(seed, 1)) & mask)
        for forest in model.loader(batch_size=batch_size, shuffle=True, generator=own):
            for stepper in steppers:
                stepper.zero_grad()
            model.loss(forest).backward()
            for table in tables if decay else ():
                owed = table.grad.coalesce()
                row = owed.indices()[0]
                value = owed.values() + decay * table.detach()[row]
                table.grad = torch.sparse_coo_tensor(row[None], value, table.shape)
            for stepper in steppers:
                stepper.step()


@all_pairs
@NAMES
@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
@pytest.mark.parametrize("backend", BACKENDS)
def test_fit_is_a_loop_with_an_optimizer_of_torch(name, optimizer, backend):
    found, expected = make(name), make(name, sparse=True)
    with use_backend(backend):
        found.fit(3, optimizer=optimizer, lr=0.02, batch_size=3, generator=7)
    with use_backend("torch"):
        by_hand(expected, optimizer, 3, 0.02, 3)
    for key, value in expected.state_dict().items():
        torch.testing.assert_close(
            found.state_dict()[key], value, rtol=1e-4, atol=1e-5, msg=key
        )


@all_pairs
@pytest.mark.parametrize("name", ["halves", "wys"])
@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
@pytest.mark.parametrize("backend", BACKENDS)
def test_fit_decays_the_rows_that_are_touched(name, optimizer, backend):
    """λ z is part of their gradient; of the context of Watch Your Step it is not."""
    decayed, expected, plain = make(name), make(name, sparse=True), make(name)
    how = {"optimizer": optimizer, "lr": 0.02, "batch_size": 3, "generator": 7}
    with use_backend(backend):
        decayed.fit(3, weight_decay=0.5, **how)
        plain.fit(3, **how)
    with use_backend("torch"):
        by_hand(expected, optimizer, 3, 0.02, 3, decay=0.5)
    for key, value in expected.state_dict().items():
        torch.testing.assert_close(
            decayed.state_dict()[key], value, rtol=1e-4, atol=1e-5, msg=key
        )
    assert float(decayed().detach().norm()) < 0.97 * float(plain().detach().norm())


@NAMES
def test_fit_does_not_depend_on_threads(name):
    threads, found = torch.get_num_threads(), []
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            torch.manual_seed(0)
            model = MODELS[name](graph(ROWS * 30))
            model.fit(2, batch_size=100, generator=1)
            found.append(state(model))
    finally:
        torch.set_num_threads(threads)
    assert_same(found[0], found[1])
    assert_same(found[0], found[2])


def test_fit_leaves_the_generator_of_torch_alone():
    model = make("logistic")
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = model.fit(1, generator=3)
    assert torch.equal(torch.get_rng_state(), before)
    again = make("logistic")
    assert again.fit(1, generator=3)[0].loss == first[0].loss
    other = make("logistic").fit(1, generator=4)
    assert other[0].loss != first[0].loss


@NAMES
@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
def test_fit_goes_on_as_if_there_had_been_no_break(name, optimizer, tmp_path):
    how = {"optimizer": optimizer, "batch_size": 3, "lr": 0.02}
    whole, part = make(name), make(name)
    epochs = whole.fit(4, generator=2, **how)
    file = tmp_path / "run"
    part.fit(2, generator=2, checkpoint=file, **how)
    torch.manual_seed(99)
    rest = MODELS[name](graph(ROWS))  # other vectors, another process as it were
    found = rest.fit(4, checkpoint=file, resume=True, **how)
    assert_same(state(rest), state(whole))
    assert [epoch.loss for epoch in found] == [epoch.loss for epoch in epochs]


def test_fit_refuses_to_go_on_with_something_else(tmp_path):
    file = tmp_path / "run"
    make("logistic").fit(1, checkpoint=file)
    with pytest.raises(ValueError, match=r"'lr' must be 0\.05, as in the checkpoint"):
        make("logistic").fit(2, lr=0.1, checkpoint=file, resume=True)
    with pytest.raises(ValueError, match=r"'weight_decay' must be 0\.0, as in the"):
        make("logistic").fit(2, weight_decay=0.1, checkpoint=file, resume=True)
    (tmp_path / "other").write_bytes(b"nothing")
    for place, why in (("other", "that 'fit' has written"), ("no", "that is there")):
        with pytest.raises(ValueError, match=f"'checkpoint' must be a file {why}"):
            make("logistic").fit(2, checkpoint=tmp_path / place, resume=True)
    with pytest.raises(ValueError, match="'resume' needs a 'checkpoint'"):
        make("logistic").fit(2, resume=True)


SPLIT = split_links([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]], 8, 0.4, generator=0)
OTHERS = {
    "window": lambda adj: DeepWalk(adj, 20, 1, [1, 1], contrast="logistic"),
    "num_negatives": lambda adj: DeepWalk(adj, 20, 2, None, 3, contrast="logistic"),
    "negative_power": lambda adj: DeepWalk(
        adj, 20, 2, contrast="logistic", negative_power=0.5
    ),
    "contrast": lambda adj: DeepWalk(adj, 20, 2),
    "fanouts": lambda adj: DeepWalk(adj, 20, 2, [2, 1], contrast="logistic"),
    "embedding": lambda adj: DeepWalk(adj, 8, 2, contrast="logistic"),
    "model": lambda adj: WatchYourStep(adj, 20, [1, 1]),
    "adj": lambda adj: DeepWalk(graph([[2, 1], *ROWS[1:]]), 20, 2, contrast="logistic"),
}


@pytest.mark.parametrize("name", list(OTHERS))
def test_fit_goes_on_with_the_same_model_only(name, tmp_path):
    """The error names the setting, its value then and now; nothing has changed."""
    file = tmp_path / "run"
    make("logistic").fit(1, checkpoint=file, generator=0)
    model = OTHERS[name](graph(ROWS))
    before = state(model)
    sentence = rf"'{name}' must be .*, as in the checkpoint \(got .*\)"
    with pytest.raises(ValueError, match=sentence):
        model.fit(2, checkpoint=file, resume=True)
    assert_same(state(model), before)


@pytest.mark.parametrize(
    ("name", "value", "then"),
    [
        ("order", "near", "'random'"),
        ("batch_size", 3, "512"),
        ("schedule", "linear", "'constant'"),
        ("optimizer", "sgd", "'adam'"),
        ("hogwild", True, "False"),
        ("valid", SPLIT, "None"),
        ("generator", 1, "0"),
    ],
)
def test_fit_goes_on_with_the_same_arguments_only(name, value, then, tmp_path):
    file = tmp_path / "run"
    make("logistic").fit(1, checkpoint=file, generator=0)
    sentence = rf"'{name}' must be {then}, as in the checkpoint"
    with pytest.raises(ValueError, match=sentence):
        make("logistic").fit(2, checkpoint=file, resume=True, **{name: value})


def test_fit_goes_on_with_the_same_bias_only(tmp_path):
    file = tmp_path / "run"
    make("node2vec").fit(1, checkpoint=file)
    other = Node2Vec(graph(ROWS), 20, 2, p=0.5, q=3.0)
    with pytest.raises(ValueError, match=r"'bias' must be 'Node2VecBias\(p=0.5, q=2\)"):
        other.fit(2, checkpoint=file, resume=True)


@pytest.mark.parametrize(
    "name", ["key", "model", "optimizer", "history", "settings", "generator", "best"]
)
@pytest.mark.parametrize("value", [None, "wrong", {"a": torch.zeros(3)}])
def test_fit_refuses_checkpoints_with_wrong_content(name, value, tmp_path):
    file, other = tmp_path / "run", tmp_path / "other"
    make("logistic").fit(1, checkpoint=file, generator=0)
    content = torch.load(file, weights_only=True)
    del content[name]
    if value is not None:
        content[name] = value
    if name == "generator" and value is not None:
        return  # which nobody reads, unless the key is another one
    torch.save(content, other)
    model = make("logistic")
    before = state(model)
    with pytest.raises(ValueError, match=r"'(checkpoint|adj|a|model)' must be "):
        model.fit(2, checkpoint=other, resume=True)
    assert_same(state(model), before)
    torch.save({**content, "version": 1}, other)
    with pytest.raises(ValueError, match="'checkpoint' must have version 2"):
        model.fit(2, checkpoint=other, resume=True)


def test_fit_looks_for_the_folder_of_a_checkpoint_first(tmp_path):
    model = make("logistic")
    before = state(model)
    with pytest.raises(ValueError, match="'checkpoint' must be in a directory that is"):
        model.fit(1, checkpoint=tmp_path / "no" / "run")
    with pytest.raises(ValueError, match="'checkpoint' must be a file"):
        model.fit(1, checkpoint=tmp_path)
    with pytest.raises(TypeError, match="'checkpoint' must be a path"):
        model.fit(1, checkpoint=3)
    assert_same(state(model), before)


def test_fit_needs_nodes():
    model = DeepWalk(graph([]), 8, 2)
    for how in ({}, {"order": "near"}, {"hogwild": True}):
        with pytest.raises(
            ValueError, match="'num_nodes' must be at least 1 for 'fit'"
        ):
            model.fit(1, **how)


def test_fit_stops_when_hidden_edges_are_found_no_better(tmp_path):
    edges = torch.tensor([(u, v) for u, row in enumerate(ROWS) for v in row]).T
    split = split_links(edges, len(ROWS), hide=0.25, generator=0)
    model = make("logistic")
    aucs = iter([0.6, 0.8, 0.7, 0.75, 0.9])
    kept = []

    def auc(score, given):
        assert given is split
        assert score(split.positive).shape == split.positive.shape[1:]
        kept.append(state(model))
        return next(aucs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "link_auc", auc)
        found = model.fit(9, valid=split, patience=2, batch_size=4)
    assert [epoch.auc for epoch in found] == [0.6, 0.8, 0.7, 0.75]
    assert_same(state(model), kept[1])
    real = model.fit(1, valid=split)
    assert 0 <= real[0].auc <= 1
    assert model.fit(1)[0].auc is None


def test_fit_follows_a_schedule():
    rates = []
    model, plain = make("logistic"), fitting.RowOptimizer.step

    def step(self, owed, dense, lr):
        rates.append(lr)
        plain(self, owed, dense, lr)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting.RowOptimizer, "step", step)
        for schedule in ("linear", "cosine", lambda share: 1 + share):
            model.fit(2, lr=0.1, batch_size=4, schedule=schedule)
    assert rates[:4] == pytest.approx([0.1, 0.075, 0.05, 0.025])
    assert rates[4:8] == pytest.approx([0.1, 0.0853553, 0.05, 0.0146447], rel=1e-5)
    assert rates[8:] == pytest.approx([0.1, 0.125, 0.15, 0.175])


@NAMES
@pytest.mark.parametrize("hogwild", [False, True])
def test_fit_makes_losses_smaller(name, hogwild):
    model = make(name)
    how = {"batch_size": 4, "lr": 0.02, "hogwild": hogwild}
    epochs = model.fit(40, generator=0, **how)
    assert epochs[-1].loss < epochs[0].loss
    assert all(bool(value.isfinite().all()) for value in state(model).values())
    assert all(epoch.pairs > 0 and epoch.seconds > 0 for epoch in epochs)


def test_hogwild_leaves_the_number_of_threads_alone():
    before, found = torch.get_num_threads(), []
    make("logistic").fit(1, hogwild=True)
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert [torch.get_num_threads(), *found] == [before, before]


def test_hogwild_ends_with_ctrl_c():
    """At once, and no thread goes on; a third of the tries showed one that did."""
    edges = torch.randint(2000, (2, 20_000), generator=torch.Generator().manual_seed(0))
    adj = CompactAdj.from_edge_index(edges, 2000, direction="out")
    model = DeepWalk(adj, 16, 2, contrast="logistic")
    model.fit(1, hogwild=True)
    for _ in range(12):
        began = []

        def press(share, loss, pairs, began=began):
            if not began and share > 0.001:
                began.append(time.perf_counter())
                os.kill(os.getpid(), signal.SIGINT)

        with pytest.raises(KeyboardInterrupt):
            model.fit(1000, hogwild=True, batch_size=64, progress=press)
        assert time.perf_counter() - began[0] < 2
        until = time.perf_counter() + 1  # for one that was about to begin, and ends
        while named := [t for t in threading.enumerate() if "hogwild" in t.name]:
            assert time.perf_counter() < until, named
        before = state(model)
        time.sleep(0.01)
        assert_same(state(model), before)


def test_hogwild_passes_on_what_goes_wrong(monkeypatch):
    model = make("logistic")

    def broken(forest):
        raise RuntimeError("no loss today")

    monkeypatch.setattr(model, "loss", broken)
    with pytest.raises(RuntimeError, match="no loss today"):
        model.fit(1, hogwild=True)


@pytest.mark.parametrize("name", ["logistic", "wys"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_fit_trains_bfloat16(name, backend):
    half, full = make(name, dtype=torch.bfloat16), make(name)
    for model in (half, full):
        with use_backend(backend):
            model.fit(30, lr=0.02, generator=0)
    assert half().dtype == torch.bfloat16
    off = (half().float() - full()).detach().abs().mean()
    assert float(off) < 0.1 * float(full().detach().abs().mean())
    assert half.score(torch.tensor([[0], [1]])).dtype == torch.float32


def test_bfloat16_is_rounded_without_bias():
    """Each neighbour by its share: a mean within five standard errors."""
    value = torch.tensor([[1.001, -3.3, 1e-3, 0.75]]).repeat(40_000, 1)
    row = torch.arange(40_000)
    found = torch_pairs.rounded(value, row, key=11).float()
    for column in range(4):
        exact, drawn = value[0, column], found[:, column]
        error = drawn.std() / len(drawn) ** 0.5
        assert abs(float(drawn.mean() - exact)) <= 5 * float(error) + 1e-6
        assert len(drawn.unique()) == (1 if column == 3 else 2)


@pytest.mark.parametrize("kind", ["sgd", "adagrad", "adam"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_steps_of_the_kernel_are_those_of_the_reference(kind, dtype):
    numba_optimizer = pytest.importorskip("gttf_sampler._backends.numba.optimizer")
    wide, kept = torch.promote_types(dtype, torch.float32), {"sgd": 0, "adagrad": 1}
    row, found = torch.tensor([1, 4, 9, 30]), []
    for backend in (torch_pairs, numba_optimizer):
        torch.manual_seed(1)
        table = torch.randn(40, 21).to(dtype)
        kept_rows = [torch.rand(40, 21, dtype=wide) for _ in range(kept.get(kind, 2))]
        gradient = torch.randn(4, 21, dtype=wide)
        rule = Rule(kind, 0.01, key=12345, scale=0.5, decay=0.1)
        rows = RowGradients(row, torch.tensor([3, 0, 1, 2]), gradient)
        backend.step_rows(rows, table, kept_rows, rule)
        found.append([table, *kept_rows])
    for reference, fast in zip(*found, strict=True):
        torch.testing.assert_close(fast, reference)


@pytest.mark.parametrize("name", ["logistic", "wys"])
def test_storage_changes_nothing_but_the_place(name, tmp_path):
    memory, disk = make(name), make(name, storage=tmp_path / "vectors")
    assert_same(state(memory), state(disk))
    for model in (memory, disk):
        model.fit(3, batch_size=3, generator=0)
    assert_same(state(memory), state(disk))
    files = sorted(file.name for file in (tmp_path / "vectors").iterdir())
    tables = ["embedding"] if name == "logistic" else ["left", "right"]
    expected = [f"{t}{part}" for t in tables for part in ("", ".0", ".1")]
    assert files == sorted(f"{stem}.gttf-vectors" for stem in expected)
    size = memory.state_dict()[f"{tables[0]}.weight"].nbytes
    assert all(file.stat().st_size == size for file in (tmp_path / "vectors").iterdir())
    shared = torch.from_file(
        str(tmp_path / "vectors" / f"{tables[0]}.gttf-vectors"), size=size // 4
    )
    assert torch.equal(shared, disk.state_dict()[f"{tables[0]}.weight"].view(-1))


def test_near_order_puts_communities_together():
    size, number = 30, 8
    shuffle = torch.randperm(size * number, generator=torch.Generator().manual_seed(0))
    inside = torch.combinations(torch.arange(size)).T
    parts = [inside + size * part for part in range(number)]
    parts.append(torch.arange(0, size * number, size)[None].repeat(2, 1).roll(1, 0))
    edges = shuffle[torch.cat(parts, dim=1)]
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    adj = CompactAdj.from_edge_index(edges, size * number, direction="out")
    order = near_order(adj)
    assert sorted(order.tolist()) == list(range(size * number))
    community = (shuffle.argsort() // size)[order]
    changes = int((community.diff() != 0).sum())
    assert changes <= 3 * number  # at random there would be some two hundred


@pytest.mark.parametrize(("nodes", "size"), [(0, 3), (1, 3), (9, 3), (10, 3), (2, 5)])
def test_blocks_hold_every_node_once(nodes, size):
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(nodes, generator=generator)
    found = [in_blocks(order, size, generator) for _ in range(20)]
    assert all(sorted(one.tolist()) == list(range(nodes)) for one in found)
    if nodes > size:
        assert len({tuple(one.tolist()) for one in found}) > 1
        place = order.argsort()
        for one in found:  # of a batch, nodes are beside each other in the order
            step = place[one[:size]].diff() % nodes
            assert step.tolist() == [1] * (size - 1)


def test_fit_in_another_order_has_the_same_seeds():
    model = make("logistic")
    epochs = model.fit(30, order="near", batch_size=3, lr=0.02, generator=0)
    assert epochs[-1].loss < epochs[0].loss
    assert epochs[0].pairs == make("logistic").fit(1, batch_size=3)[0].pairs
    with pytest.raises(ValueError, match="'order' must be"):
        model.fit(1, order="far")


def test_fit_shows_its_progress_if_asked(capsys):
    pytest.importorskip("tqdm")
    how = {"mininterval": 0.0}
    with pytest.MonkeyPatch.context() as patch:
        plain = import_module("tqdm").tqdm
        patch.setattr("tqdm.tqdm", lambda **given: plain(**given, **how))
        make("logistic").fit(2, batch_size=3, progress=True)
    shown = capsys.readouterr().err
    assert "epoch 1/2" in shown
    assert re.search(r"loss [-\d.e+]+, [\d.]+ M pairs/s", shown)
    make("logistic").fit(1, progress=False)
    make("logistic").fit(1)  # nobody is watching
    assert capsys.readouterr().err == ""


def test_fit_tells_a_function_how_far_it_is():
    told = []
    model = make("wys")
    epochs = model.fit(
        2, batch_size=2, generator=0, progress=lambda *what: told.append(what)
    )
    shares, losses, pairs = zip(*told, strict=True)
    each = len(told) // 2
    assert shares == pytest.approx(
        [(step + 1) / (2 * each) for step in range(2 * each)]
    )
    assert losses[each - 1] == pytest.approx(epochs[0].loss)
    assert pairs[each - 1 :: each] == tuple(epoch.pairs for epoch in epochs)


def test_fit_keeps_what_it_does_not_train():
    model = make("node2vec")
    before = model.log_pq.clone()
    model.fit(2)
    assert torch.equal(model.log_pq, before)


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"epochs": 0}, ValueError, "'epochs' must be at least 1"),
        ({"optimizer": "adamw"}, ValueError, "'optimizer' must be"),
        ({"lr": 0.0}, ValueError, "'lr' must be"),
        ({"weight_decay": -0.1}, ValueError, "'weight_decay' must not be negative"),
        ({"weight_decay": "x"}, TypeError, "'weight_decay' must be a number"),
        ({"batch_size": 0}, ValueError, "'batch_size' must be at least 1"),
        ({"schedule": "step"}, ValueError, "'schedule' must be"),
        ({"hogwild": 1}, TypeError, "'hogwild' must be"),
        ({"valid": 3}, TypeError, "'valid' must be"),
        ({"patience": 2}, ValueError, "'patience' needs 'valid' edges"),
        ({"lr": 1e30, "epochs": 3}, ValueError, "'lr' must let the loss stay finite"),
    ],
)
def test_fit_validate(options, error, sentence):
    with pytest.raises(error, match=sentence):
        make("partition").fit(**{"epochs": 1, **options})


@all_pairs
@NAMES
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("hogwild", [False, True])
def test_fit_stops_at_the_first_loss_that_is_none(name, backend, hogwild):
    """Before a step is taken by it; no row is changed."""
    model = make(name)
    table = next(iter(model.children()))
    torch.nn.init.constant_(table.weight, math.nan)
    other = state(model)
    sentence = re.escape("' must hold finite numbers (got others, too)")
    with use_backend(backend), pytest.raises(ValueError, match=sentence):
        model.fit(2, batch_size=3, hogwild=hogwild, generator=0)
    for key, value in state(model).items():
        torch.testing.assert_close(value, other[key], rtol=0, atol=0, equal_nan=True)


def test_fit_stops_when_vectors_leave_the_numbers():
    """Also in the last step of the last epoch, after which nobody asks for a loss."""
    model = make("logistic")
    with pytest.raises(ValueError, match="'lr' must let the loss stay finite"):
        model.fit(1, optimizer="sgd", lr=1e38, weight_decay=1e4, generator=0)
    model = make("logistic")
    torch.nn.init.constant_(model.embedding.weight, 1e30)
    with pytest.raises(ValueError, match="'embedding' must hold vectors whose prod"):
        model.fit(1, generator=0)


@pytest.mark.parametrize("share", [math.nan, math.inf, "half", None])
def test_fit_stops_at_a_schedule_that_is_none(share):
    model = make("logistic")
    before = state(model)
    for hogwild in (False, True):
        with pytest.raises((ValueError, TypeError), match="'schedule' must return a "):
            model.fit(1, schedule=lambda done: share, hogwild=hogwild)
    assert_same(state(model), before)


def test_fit_refuses_tables_that_do_more_than_hold_vectors():
    model = make("logistic")
    model.embedding = torch.nn.Embedding(len(ROWS), 20, max_norm=1.0)
    with pytest.raises(ValueError, match="'embedding' must be a plain torch"):
        model.fit(1)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"dtype": torch.int64}, "'dtype' must be one of"),
        ({"storage": __file__}, "'storage' must be a folder"),
    ],
)
def test_models_validate_tables(options, sentence):
    for name in ("logistic", "wys"):
        with pytest.raises(ValueError, match=sentence):
            make(name, **options)


def test_models_that_were_fitted_can_be_copied(tmp_path):
    model = make("logistic", storage=tmp_path)
    model.fit(1)
    assert_same(state(copy.deepcopy(model)), state(model))
