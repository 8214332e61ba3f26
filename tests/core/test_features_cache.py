"""Caches of a FeatureFile: the same rows, fewer reads."""

import os
import signal
import threading
from itertools import chain

import pytest
import torch

from all_pairs import all_pairs
from gttf_sampler import CompactAdj, FeatureFile, use_backend
from gttf_sampler._backends import memory
from gttf_sampler.features import most_reached, most_sampled
from gttf_sampler.features.file import PROFILED
from interrupted import at_every_line

ROWS = 2000


@pytest.fixture(autouse=True)
def cold(monkeypatch):
    """Evicts a file just written from the system's cache, which would answer reads."""
    monkeypatch.setattr("gttf_sampler.features.read.NOWAIT", 0)


@pytest.fixture
def values():
    return torch.arange(ROWS * 32.0).view(ROWS, 32)


@pytest.fixture
def path(tmp_path, values):
    FeatureFile.from_array(tmp_path / "x.npy", values)
    return tmp_path / "x.npy"


def skewed(batches, size, seed=0):
    """Ids of which the low ones come often, each once in a batch."""
    generator = torch.Generator().manual_seed(seed)
    weight = 1 / torch.arange(1, ROWS + 1.0)
    for _ in range(batches):
        yield torch.multinomial(weight, size, generator=generator)


@all_pairs
@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("stored", [None, "float16", "int8"])
@pytest.mark.parametrize("kind", ["named", "profiled"])
def test_cache_changes_no_bit(tmp_path, values, kind, stored, backend):
    with use_backend(backend):
        file = FeatureFile.from_array(tmp_path / "x.npy", values / 7, stored=stored)
        plain = FeatureFile(tmp_path / "x.npy")
        rows = torch.arange(150) if kind == "named" else None
        file.cache(4 * ROWS + 200 * 170, rows)
        for ids in skewed(40, 300):
            ids = torch.cat([ids, ids[:50]])
            assert torch.equal(file.read(ids), plain.read(ids))
    assert file.hit_rate > 0.2
    assert file.bytes_read < plain.bytes_read
    assert "rows in memory for" in repr(file)


def test_kept_rows_are_not_read_again(path, values):
    file = FeatureFile(path).cache(4 * ROWS + 10 * 128, [7, 3, 3, *range(100, 200)])
    file.reads = 0
    assert torch.equal(file.read([3, 7, 100]), values[[3, 7, 100]])
    assert file.reads == 0
    file.read([199])  # which did not fit
    assert file.reads == 1
    assert file.hit_rate == 0.75


def test_cache_takes_no_more_than_it_may(path):
    for rows in (None, torch.arange(ROWS)):
        file = FeatureFile(path).cache(4 * ROWS + 100 * 128, rows)
        for ids in skewed(PROFILED, 300):
            file.read(ids)
        assert file._cached == 100
    whole = FeatureFile(path).cache(1 << 28, range(ROWS))
    whole.reads = 0
    whole.read(torch.arange(ROWS))
    assert whole.reads == 0
    assert whole.cache(0)._cached == 0


def test_profiled_cache_keeps_what_is_read_most(path, values):
    """As good as a cache of the rows that another profile has named."""
    file, named = (FeatureFile(path) for _ in range(2))
    nbytes = 4 * ROWS + ROWS // 10 * 128
    file.cache(nbytes)
    for number, ids in enumerate(skewed(PROFILED, 300)):
        assert file._cached == 0, number
        assert torch.equal(file.read(ids), values[ids])
    assert file._cached == ROWS // 10
    assert file.hit_rate != file.hit_rate  # nan: nothing was asked of it yet
    named.cache(nbytes, most_sampled(skewed(PROFILED, 300, seed=1)))
    for ids in skewed(50, 300, seed=2):
        assert torch.equal(file.read(ids), named.read(ids))
    assert file.hit_rate > 0.9 * named.hit_rate > 0.3


def test_cache_that_ends_while_it_is_asked(path, values, monkeypatch):
    """As when another thread ends it."""
    file = FeatureFile(path).cache(1 << 20, [1, 2])
    monkeypatch.setattr(file._handle, "check", lambda: file.cache(0))
    assert torch.equal(file.read([3, 1]), values[[3, 1]])


def test_cache_from_many_threads(path, values):
    file, wrong = FeatureFile(path).cache(4 * ROWS + 200 * 170), []

    def ask(seed):
        for ids in skewed(30, 200, seed):
            if not torch.equal(file.read(ids), values[ids]):
                wrong.append(seed)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("rows", [None, [2]])
def test_forked_child_has_the_cache(path, values, rows):
    file = FeatureFile(path).cache(4 * ROWS + 200 * 170, rows)
    for _ in range(PROFILED - 1):
        file.read([1, 2, 3])
    child = os.fork()
    if child == 0:
        right = [torch.equal(file.read([2, 5]), values[[2, 5]]) for _ in range(3)]
        os._exit(0 if all(right) and file.hit_rate > 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_changed_file_is_noticed_behind_a_cache(path):
    file = FeatureFile(path).cache(1 << 20, [1])
    os.truncate(path, 5000)
    with pytest.raises(ValueError, match="must not change while it is open"):
        file.read([1])


def test_most_reached_and_most_sampled():
    adj = CompactAdj.from_edge_index([[4, 4, 4, 1, 1, 0], [0, 1, 2, 2, 3, 3]], 6)
    assert most_reached(adj).tolist() == [4, 1, 0, 2, 3, 5]
    batches = [torch.tensor([5, 1]), torch.tensor([5, 2, 2]), torch.tensor([0])]
    assert most_sampled(batches).tolist() == [5, 0, 1, 2]
    assert most_sampled(iter(batches), n=1).tolist() == [1, 5]
    assert most_sampled([(batches[0], None)]).tolist() == [1, 5]


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda f: f.cache(-1), "'nbytes' must not be negative"),
        (lambda f: f.cache(100), "'nbytes' must be at least"),
        (lambda f: f.cache(100, [0]), "'nbytes' must be at least"),
        (lambda f: f.cache(1 << 20, [ROWS]), "'rows' must hold ids below"),
        (lambda f: most_sampled([]), "'batches' must hold at least one"),
        (lambda f: most_sampled([torch.zeros(1).long()], n=0), "'n' must be at least"),
    ],
)
def test_cache_validate(path, call, match):
    with pytest.raises(ValueError, match=match):
        call(FeatureFile(path))


FEATURES = (f"gttf_sampler{os.sep}features",)


@pytest.fixture
def no_longer_than():
    """Ends a test whose code does not."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def ended(*_):
        raise TimeoutError("a read does not end")

    before = signal.signal(signal.SIGALRM, ended)
    signal.alarm(300)  # a busy machine takes its time
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


BATCHES = [[0, 1, 2, 0], [1, 3], [0, 1, 5, 6], [8, 9, 10, 11, 12, 13, 14], [5, 1, 20]]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("kind", ["named", "profiled"])
def test_interrupt_at_every_line_changes_no_row(tmp_path, no_longer_than, kind, error):
    """Whatever line a read or the making of a cache was interrupted at."""
    truth = torch.arange(1.0, 65).view(32, 2)
    FeatureFile.from_array(tmp_path / "x.npy", truth)

    def make():
        memory.FEATURES.idle.items.clear()
        return FeatureFile(tmp_path / "x.npy")

    def cached():
        file = make().cache(4 * 32 + 6 * 8, [1, 3] if kind == "named" else None)
        for number in range(PROFILED - 1):  # the next read chooses what is kept
            file.read(BATCHES[number % 4])
        return file

    def ask(file):
        file.read(BATCHES[-1])

    places = 0
    for place, file in chain(
        at_every_line(make, lambda file: file.cache(200, [4, 5]), FEATURES, error),
        at_every_line(cached, ask, FEATURES, error),
    ):
        places += 1
        for ids in (*BATCHES, range(32), *BATCHES[::-1]):
            assert torch.equal(file.read(ids), truth[list(ids)]), place
    assert places > 50


@all_pairs
@pytest.mark.parametrize(
    "place", [[0, 9], [-1, 0], [0, 1 << 40], [0, 0], [0], [[0, 1]]]
)
@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("stored", [None, "int8"])
@pytest.mark.parametrize("cached", [False, True])
def test_places_outside_of_the_output(tmp_path, place, stored, backend, cached):
    values = torch.arange(8.0).view(4, 2)
    with use_backend(backend):
        file = FeatureFile.from_array(tmp_path / "x.npy", values, stored=stored)
        file.cache(1 << 12 if cached else 0)
        out = torch.full((9, 2), -7.0)
        with pytest.raises(ValueError, match="'place' must"):
            file.rows(torch.tensor([2, 1]), out, torch.tensor(place))
        assert bool((out == -7).all())
        file.rows(torch.tensor([2, 1]), out, torch.tensor([8, 3]))
        assert torch.equal(file.read([1, 2]), out[[3, 8]])


def test_places_of_another_kind(path):
    file, ids = FeatureFile(path), torch.tensor([2, 1])
    out = torch.empty(4, 32)
    with pytest.raises(TypeError, match="'place' must have dtype int64"):
        file.rows(ids, out, torch.tensor([0, 1], dtype=torch.int32))
    with pytest.raises(ValueError, match="'place' must come with 'out'"):
        file.rows(ids, None, torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="'ids' must have 1 dimension"):
        file.rows(ids[None])
    with pytest.raises(TypeError, match="'ids' must have dtype int64"):
        file.rows(ids.int())
