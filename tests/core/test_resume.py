"""A loader that continues from a state gives the batches that were left, bit by bit."""

import random
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from all_pairs import all_pairs
from gttf_sampler import CompactAdj
from gttf_sampler._loading.seeded import SeededLoader
from gttf_sampler.embedding import DeepWalk
from gttf_sampler.embedding.base import ForestLoader
from resumed import pairs, run, through_a_file

WAYS = [
    {},
    {"num_workers": 2, "thread_workers": True},
    {"num_workers": 1, "thread_workers": False},
    {"num_workers": 2, "persistent_workers": True, "prefetch_factor": 3},
]


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_resumed_is_uninterrupted(data):
    size = data.draw(st.integers(1, 30), "size")
    batch = data.draw(st.integers(1, 9), "batch_size")
    how = {
        "batch_size": batch,
        "shuffle": data.draw(st.booleans(), "shuffle"),
        "drop_last": data.draw(st.booleans(), "drop_last"),
        **data.draw(st.sampled_from(WAYS[:2]), "way"),
    }
    own = data.draw(st.booleans(), "generator")
    draws = data.draw(st.booleans(), "draws_keys")

    class Loader(SeededLoader):
        draws_keys = draws

    def make():
        generator = torch.Generator().manual_seed(3) if own else None
        return Loader(range(size), collate_fn=pairs, generator=generator, **how)

    whole = run(make, own=own)
    if whole:
        stop = data.draw(st.integers(1, len(whole)), "stop")
        after = data.draw(st.booleans(), "after")
        assert run(make, stop, own, after) == whole


@pytest.mark.process
@all_pairs
@pytest.mark.parametrize("stop", [1, 4, 5, 9])
@pytest.mark.parametrize("way", WAYS[1:], ids=str)
@pytest.mark.parametrize("shuffle", [False, True])
def test_resumed_with_workers(way, shuffle, stop):
    def make(**how):
        return SeededLoader(
            range(9), batch_size=2, collate_fn=pairs, shuffle=shuffle, **how
        )

    whole = run(make)
    assert run(lambda: make(**way), stop) == whole
    switch = iter([way, {}])
    assert run(lambda: make(**next(switch)), stop) == whole  # other workers afterwards


class Stateful:
    """A sampler that continues by its own state, like torchdata's."""

    def __init__(self, rolls):
        self.epoch, self.given, self.rolls = 0, 0, rolls

    def __len__(self):
        return 9

    def __iter__(self):
        order = torch.randperm(9, generator=torch.Generator().manual_seed(self.epoch))
        left = order.tolist()[self.given :]
        for index in left:
            self.given += 1
            if self.rolls and self.given == 9:
                self.epoch, self.given = self.epoch + 1, 0
            yield index
        if not self.rolls:
            self.epoch, self.given = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "given": self.given}

    def load_state_dict(self, state):
        self.epoch, self.given = state["epoch"], state["given"]


class Leftover(Stateful):
    """One that starts anew by itself, and says at its end that it is there."""

    def __init__(self):
        super().__init__(False)
        self.next_given = None

    def __iter__(self):
        self.given, self.next_given = self.next_given or 0, None
        for index in list(range(9))[self.given :]:
            self.given += 1
            yield index

    def load_state_dict(self, state):
        self.next_given = state["given"]


def with_own(kind, *args, **how):
    generator = torch.Generator().manual_seed(5)
    return {"sampler": kind(*args, generator=generator, **how), "batch_size": 2}


SAMPLERS = {
    "replacement": lambda: with_own(RandomSampler, range(9), True, num_samples=70),
    "more than once": lambda: with_own(RandomSampler, range(9), num_samples=25),
    "whole batches": lambda: with_own(RandomSampler, range(8)),
    "subset": lambda: {"sampler": SubsetRandomSampler([1, 4, 2, 8]), "batch_size": 1},
    "weights": lambda: {"sampler": WeightedRandomSampler([1.0, 2.0, 3.0], 11)},
    "batches": lambda: {"batch_sampler": [[1, 2], [3], [0, 4, 5]]},
    "random batches": lambda: {
        "batch_sampler": BatchSampler(RandomSampler(range(9)), 4, True)
    },
    "distributed": lambda: {"sampler": DistributedSampler(range(9), 2, 1)},
    "none": lambda: {"sampler": SequentialSampler(range(5)), "batch_size": None},
    "state": lambda: {"sampler": Stateful(False), "batch_size": 2},
    "rolling state": lambda: {"sampler": Stateful(True), "batch_size": 2},
    "state that is left": lambda: {"sampler": Leftover(), "batch_size": 2},
    "state of batches": lambda: {"batch_sampler": BatchSampler(Leftover(), 3, False)},
}


@all_pairs
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("way", WAYS[:2], ids=str)
@pytest.mark.parametrize("name", SAMPLERS)
def test_resumed_with_a_sampler(name, way, after):
    """Also where it draws while it goes on, and somebody has asked it for more."""

    def make(seed=3):
        generator = torch.Generator().manual_seed(seed)
        how = {"generator": generator, **way, **SAMPLERS[name]()}
        return SeededLoader(range(9), collate_fn=pairs, **how)

    whole = run(make, own=True)
    for stop in range(1, len(whole) + 1):
        assert run(make, stop, True, after) == whole, stop


@pytest.mark.parametrize("way", WAYS[:2], ids=str)
def test_resumed_again_and_again(way):
    """After every batch, from a state that no batch has moved as well."""

    def make():
        return SeededLoader(range(11), 2, shuffle=True, collate_fn=pairs, **way)

    whole = run(make)
    torch.manual_seed(7)
    seen, loader = [], make()
    while len(seen) < len(whole):
        iterator = iter(loader)
        state = through_a_file(loader.state_dict())  # begun, nothing is handed out
        for batch in iterator:
            seen.append((state["epoch"], batch, torch.rand(()).item()))
            state = through_a_file(loader.state_dict())
            break
        else:
            state = through_a_file(loader.state_dict())
        torch.manual_seed(99)
        loader = make()
        loader.load_state_dict(state)
        assert str(loader.state_dict()) == str(state)  # as long as nothing happens
    assert seen == whole


def test_resumed_before_the_first_batch():
    def make():
        return SeededLoader(range(9), 2, shuffle=True, collate_fn=pairs)

    torch.manual_seed(3)
    loader = make()
    state = loader.state_dict()
    whole = [list(loader), list(loader)]
    torch.manual_seed(4)
    again = make()
    again.load_state_dict({})
    again.load_state_dict(state)
    assert [list(again), list(again)] == whole
    loader.load_state_dict(state)  # in the same process, after it was used
    assert [list(loader), list(loader)] == whole


def test_state_of_an_epoch():
    loader = SeededLoader(range(6), 2, collate_fn=pairs)

    def where():
        state = loader.state_dict()
        return state["epoch"], state["position"]

    assert where() == (0, 0)
    iterator = iter(loader)
    assert where() == (0, 0)
    for position in (1, 2, 3):
        next(iterator)
        assert where() == (0, position)
    assert next(iterator, None) is None
    assert where() == (1, 0)
    iter(loader)
    next(iter(loader))  # one that was given up counts like any other
    assert where() == (2, 1)


def test_end_inside_the_loop_leaves_an_empty_rest():
    loader = SeededLoader(range(4), 2, collate_fn=pairs)
    for _ in loader:
        state = loader.state_dict()
    loader.load_state_dict(state)
    assert list(loader) == []
    assert len(list(loader)) == 2


def test_generators_of_the_user_are_left_where_they_are():
    """To go on with a pass draws nothing from where the user has set it."""
    loader = SeededLoader(range(20), 2, shuffle=True, collate_fn=pairs)
    iterator = iter(loader)
    next(iterator)
    state, rest = loader.state_dict(), list(iterator)
    loader.load_state_dict(state)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    assert list(loader) == rest
    assert torch.equal(torch.rand(3), expected)


class Failing:
    """A `collate_fn` that fails at some batch as often as it is told."""

    def __init__(self, times):
        self.times = times

    def __call__(self, batch):
        if 4 in batch.index and self.times:
            self.times -= 1
            raise RuntimeError("no memory")
        return pairs(batch)


@pytest.mark.parametrize("way", WAYS[:2], ids=str)
def test_batch_that_failed_is_made_again(way):
    torch.manual_seed(0)
    whole = list(SeededLoader(range(8), 2, collate_fn=pairs))
    torch.manual_seed(0)
    loader = SeededLoader(range(8), 2, collate_fn=Failing(1), **way)
    iterator, seen = iter(loader), []
    with pytest.raises(RuntimeError, match="no memory"):
        seen.extend(iterator)
    again = SeededLoader(range(8), 2, collate_fn=pairs)
    again.load_state_dict(loader.state_dict())
    seen = [next(iter(again))]
    assert seen == whole[2:3]
    assert next(iterator) == whole[3]  # who goes on has lost it
    assert loader.state_dict()["position"] == 4


class Any:
    """A sampler of which nothing can be put back."""

    def __len__(self):
        return 50

    def __iter__(self):
        order = list(range(50))
        random.SystemRandom().shuffle(order)
        return iter(order)


class Shrinking:
    """A sampler that gives less and less."""

    def __init__(self):
        self.left = 9

    def __len__(self):
        return 9

    def __iter__(self):
        self.left -= 3
        return iter(range(self.left))


@pytest.mark.process
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("kind", [Any, Shrinking])
def test_order_that_is_another_one_is_noticed(kind, way):
    sampler, how = kind(), {"batch_size": 1, "collate_fn": pairs}
    loader = SeededLoader(range(50), sampler=sampler, **how)
    iterator = iter(loader)
    for _ in range(5):
        next(iterator)
    again = SeededLoader(range(50), sampler=sampler, **how, **way)
    again.load_state_dict(loader.state_dict())
    state, before = again.state_dict(), torch.get_rng_state()
    with pytest.raises(ValueError, match="'sampler' must give the order that it gave"):
        iter(again)
    assert torch.equal(torch.get_rng_state(), before)
    assert str(again.state_dict()) == str(state)  # and may be tried again


def test_sampler_of_another_rank_is_noticed():
    """Every process has a state of its own."""

    def make(rank):
        sampler = DistributedSampler(range(20), 2, rank)
        return SeededLoader(range(20), 2, sampler=sampler, collate_fn=pairs)

    loader, other = make(0), make(1)
    iterator = iter(loader)
    next(iterator)
    other.load_state_dict(loader.state_dict())
    with pytest.raises(ValueError, match="'sampler' must give the order"):
        iter(other)


def test_epoch_of_a_distributed_sampler_is_put_back():
    def make():
        sampler = DistributedSampler(range(20), 2, 0)
        return SeededLoader(range(20), 2, sampler=sampler, collate_fn=pairs)

    loader = make()
    loader.sampler.set_epoch(6)
    iterator = iter(loader)
    next(iterator)
    again = make()
    again.load_state_dict(loader.state_dict())
    assert again.sampler.epoch == 6
    assert list(again) == list(iterator)


def ring(nodes=13):
    ends = torch.arange(nodes)
    both = torch.stack([ends, (ends + 1) % nodes])
    return CompactAdj.from_edge_index(torch.cat([both, both.flip(0)], 1), nodes)


@pytest.mark.process
@all_pairs
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("seeded", [False, True])
def test_forests(way, seeded, after):
    adj = ring()

    class Plain(ForestLoader):
        def __iter__(self):
            for forest in super().__iter__():
                yield [nodes.tolist() for nodes in forest.nodes]

    def make():
        generator = torch.Generator().manual_seed(3) if seeded else None
        how = {"shuffle": True, "generator": generator, **way}
        return Plain(adj, (2, 2), batch_size=4, **how)

    whole = run(make, own=seeded)
    for stop in (1, 4, 6, 12):
        assert run(make, stop, seeded, after) == whole


def test_embedding_is_that_of_an_uninterrupted_run():
    def make():
        torch.manual_seed(0)
        model = DeepWalk(ring(), 4, 2, [2, 1])
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        return model, optimizer, model.loader(batch_size=3, shuffle=True, num_workers=2)

    def train(model, optimizer, loader, stop=None):
        for _ in range(loader.state_dict()["epoch"], 3):
            for number, forest in enumerate(loader):
                optimizer.zero_grad()
                model.loss(forest).backward()
                optimizer.step()
                if number == stop:
                    return
        return

    whole = make()
    train(*whole)
    model, optimizer, loader = make()
    train(model, optimizer, loader, stop=2)
    parts = model.state_dict(), optimizer.state_dict(), loader.state_dict()
    saved = through_a_file(parts)
    again = make()
    for part, state in zip(again, saved, strict=True):
        part.load_state_dict(state)
    train(*again)
    for a, b in zip(whole[0].parameters(), again[0].parameters(), strict=True):
        assert torch.equal(a, b)


def test_state_is_plain():
    """Numbers, strings and tensors, which nothing changes any more."""
    loader = SeededLoader(range(8), 2, shuffle=True, collate_fn=pairs)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    before = str(state)
    list(iterator)
    assert str(state) == before
    loader.load_state_dict(state)
    list(loader)
    assert str(state) == before

    def parts(value):
        inner = value.values() if isinstance(value, dict) else value
        nested = isinstance(value, dict | list)
        return [x for one in inner for x in parts(one)] if nested else [value]

    plain = int | str | bool | torch.Tensor | None
    assert all(isinstance(part, plain) for part in parts(state))
    assert state["version"] == 2


def test_state_validate():
    loader = SeededLoader(range(8), 2, collate_fn=pairs)
    state = loader.state_dict()

    def other(*args, **how):
        return SeededLoader(*args, collate_fn=pairs, **how).state_dict()

    class Other(SeededLoader):
        pass

    cases = [
        (other(range(9), 2), r"with size 8, like this one \(got size 9\)"),
        (other(range(8), 4), r"with batch_size 2, like this one \(got batch_size 4\)"),
        (other(range(8), 2, drop_last=True), "with drop_last False, like this one"),
        (other(range(8), 2, shuffle=True), r"\(got samplers .*'RandomSampler'\]\)"),
        (
            Other(range(8), 2).state_dict(),
            r"SeededLoader, like .* \(got loader Other\)",
        ),
        ({**state, "version": 1}, r"version 2 \(got version 1\); load it with"),
        ({"_num_yielded": 3}, r"such a loader has given \(got the keys \['_num_"),
        ({k: v for k, v in state.items() if k != "drawn"}, r"none with 'drawn'"),
        ({k: v for k, v in state.items() if k != "size"}, r"none with 'size'"),
        ({**state, "now": []}, r"with 1 generators, like these \(got 0\)"),
    ]
    for bad, match in cases:
        with pytest.raises(ValueError, match="^'state_dict' must .*" + match):
            loader.load_state_dict(bad)
    for bad in (None, 3, [state]):
        with pytest.raises(TypeError, match=r"^'state_dict' must be what"):
            loader.load_state_dict(bad)


def test_convention_of_torchdata():
    """The same calls at the same moments leave the same batches."""
    theirs = pytest.importorskip("torchdata.stateful_dataloader")

    def ours(**how):
        return SeededLoader(range(10), 3, collate_fn=lambda batch: batch.index, **how)

    def plain(**how):
        kind = theirs.StatefulDataLoader
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch, for what torchdata calls
            return kind(range(10), 3, collate_fn=list, **how)

    for make in (ours, plain):
        for stop in range(1, 5):
            loader = make()
            for number, _ in enumerate(loader, 1):
                if number == stop:
                    state = loader.state_dict()
            again = make()
            again.load_state_dict(state)
            rest = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]][stop:]
            assert list(again) == rest
            assert len(list(again)) == 4
        for state in (loader.state_dict(), make().state_dict(), {}):
            again = make()
            again.load_state_dict(state)
            assert len(list(again)) == 4


def test_samplers_of_torchdata():
    theirs = pytest.importorskip("torchdata.stateful_dataloader.sampler")

    def make():
        sampler = theirs.StatefulDistributedSampler(range(20), 2, 1, shuffle=True)
        return SeededLoader(range(20), 3, sampler=sampler, collate_fn=pairs)

    whole = run(make)
    for after in (False, True):
        for stop in range(1, len(whole) + 1):
            assert run(make, stop, False, after) == whole
