"""FeatureFile: what is read is what was written, in any order and from anywhere."""

import pickle
import threading
from functools import partial
from importlib import import_module
from multiprocessing import get_context

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from all_pairs import all_pairs
from apart import forks
from gttf_sampler import FeatureFile, use_backend
from gttf_sampler.features import read, write
from gttf_sampler.features.write import is_features

disk_queue = import_module("gttf_sampler._backends.numba.gather")

BACKENDS = ("numba", "torch")


@pytest.fixture(params=["warm", "cold", "direct"])
def direct(request, monkeypatch):
    """True to read around the system's cache; else with and without its rows.

    What was just written is there.
    """
    if request.param == "cold":
        monkeypatch.setattr(read, "NOWAIT", 0)
    return request.param == "direct"


def numbers(dtype, *shape):
    """Values of any dtype that differ from row to row."""
    count = torch.Size(shape).numel()
    return (torch.arange(count) % 251).to(dtype).view(shape)


def same(left, right):
    """Bit for bit, also what torch cannot compare."""
    assert left.dtype == right.dtype
    assert left.shape == right.shape
    bits = [x.contiguous().view(-1).view(torch.uint8) for x in (left, right)]
    return torch.equal(*bits)


@pytest.mark.parametrize("dtype", list(write.NUMPY), ids=str)
@pytest.mark.parametrize("shape", [(40,), (40, 5), (40, 3, 2)], ids=str)
def test_read_gives_what_was_written(tmp_path, dtype, shape):
    values = numbers(dtype, *shape)
    file = FeatureFile.from_array(tmp_path / "x.npy", values)
    assert file.shape == values.shape
    assert file.dtype == dtype
    ids = torch.tensor([39, 0, 7, 7, 8, 0])
    assert same(file.read(ids), values[ids.tolist()])
    plain = np.load(tmp_path / "x.npy")
    assert plain.shape == shape
    assert plain.tobytes() == values.view(-1).view(torch.uint8).numpy().tobytes()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_read_any_ids(tmp_path_factory, data):
    """Any width and dtype, duplicates, order, around the system's cache or not."""
    width = data.draw(st.sampled_from([1, 3, 128, 200, 1025]))
    rows = data.draw(st.integers(1, 300))
    dtype = data.draw(st.sampled_from([torch.uint8, torch.float32, torch.float64]))
    values = torch.rand(rows, width).mul(255).to(dtype)
    place = tmp_path_factory.mktemp("any") / "x.npy"
    FeatureFile.from_array(place, values)
    ids = data.draw(st.lists(st.integers(0, rows - 1), max_size=400))
    want = values[ids] if ids else values[:0]
    kind = data.draw(st.sampled_from([torch.int32, torch.int64]))
    with use_backend(data.draw(st.sampled_from(BACKENDS))):
        file = FeatureFile(place, direct=data.draw(st.booleans()))
        assert same(file.read(torch.tensor(ids, dtype=kind)), want)


@pytest.mark.parametrize("width", [128, 37])
@pytest.mark.parametrize("stored", [None, "float16"])
def test_rows_to_places(tmp_path, backend, direct, stored, width):
    """More than one burst of reads, and rows of `out` that nobody asked for."""
    generator = torch.Generator().manual_seed(0)
    values = torch.rand(60_000, width, generator=generator).half().float()
    FeatureFile.from_array(tmp_path / "x.npy", values, stored=stored)
    file = FeatureFile(tmp_path / "x.npy", direct=direct)
    ids = torch.randint(0, 60_000, (3000,), generator=generator)
    place = torch.randperm(4000, generator=generator)[:3000]
    out = torch.full((4000, width), -1.0)
    want = out.clone()
    want[place] = values[ids]
    assert file.rows(ids, out, place) is out
    assert torch.equal(out, want)
    out.fill_(-1)
    file.cache(4 * 60_000 + 20_000, ids[:50])
    assert torch.equal(file.rows(ids, out, place), want)


@pytest.mark.parametrize("cache", [0, 10**4])
@pytest.mark.parametrize("stored", [None, "float16", "bfloat16", "int8"])
def test_rows_of_no_ids_leave_out_as_it_is(tmp_path, stored, cache):
    made = FeatureFile.from_array(tmp_path / "x.npy", torch.rand(9, 3), stored=stored)
    none, out = torch.arange(0), torch.full((2, 3), 7.0)
    assert made.cache(cache).rows(none, out, none) is out
    assert out.tolist() == [[7.0] * 3] * 2
    assert made.rows(none).shape == (0, 3)


def test_rows_in_memory_are_copied_and_others_read(tmp_path, monkeypatch):
    """Whatever the clock says meanwhile, the rows are right."""
    values = torch.rand(20_000, 16)
    file = FeatureFile.from_array(tmp_path / "x.npy", values)
    ids = torch.randperm(20_000)
    assert torch.equal(file.read(ids), values[ids])
    if not read.in_page_cache(file._handle, ids):
        pytest.skip("the system does not tell what it has in memory")
    assert file.reads == 0
    monkeypatch.setattr(read, "PIECE", 3000)
    monkeypatch.setattr(read, "SLOW", -1.0)  # so the first piece is slow
    assert torch.equal(file.read(ids), values[ids])
    assert file.reads > 0
    monkeypatch.setattr(read.os, "preadv", lambda *how: 1 / 0)
    assert torch.equal(file.read(ids[: read.FEW - 1]), values[ids[: read.FEW - 1]])


@pytest.mark.process
def test_queues_are_used_again_and_not_inherited(tmp_path):
    values = torch.rand(5000, 16)
    FeatureFile.from_array(tmp_path / "x.npy", values)
    file = FeatureFile(tmp_path / "x.npy", direct=True)
    if not file.direct:
        pytest.skip("this file system has no reads around the cache")
    with disk_queue.queue() as own, disk_queue.queue() as other:
        assert own is None or own.number != other.number
    kept = len(disk_queue._idle.items)
    for _ in range(3):
        assert torch.equal(file.read([7, 4000]), values[[7, 4000]])
    assert len(disk_queue._idle.items) == kept
    context = get_context("fork")
    with context.Pool(1) as pool:
        found = pool.apply(_read_in_child, (file, [7, 4000]))
    assert torch.equal(found, values[[7, 4000]])


def _read_in_child(file, ids):
    assert not disk_queue._idle.items
    return file.read(ids).clone()


def test_reads_without_a_queue(tmp_path, monkeypatch):
    """As where the system gives no more, or a container forbids it."""
    monkeypatch.setattr(disk_queue, "_known", lambda: False)
    values = torch.rand(5000, 16)
    FeatureFile.from_array(tmp_path / "x.npy", values)
    ids = torch.randperm(5000)
    assert torch.equal(
        FeatureFile(tmp_path / "x.npy", direct=True).read(ids), values[ids]
    )


def test_read_from_many_threads_at_once(tmp_path, backend, direct):
    values = torch.rand(20_000, 16)
    FeatureFile.from_array(tmp_path / "x.npy", values)
    file = FeatureFile(tmp_path / "x.npy", direct=direct)
    wrong = []

    def ask(seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(5):
            ids = torch.randint(0, 20_000, (3000,), generator=generator)
            if not torch.equal(file.read(ids), values[ids]):
                wrong.append(seed)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert not any(thread.is_alive() for thread in threads)


def test_runs_join_what_is_near():
    ids = np.array([0, 1, 1, 2, 17, 18, 10_000])
    gap = read.GAP // 512
    assert read.runs_of(ids, 512).tolist() == [0, 6, 7]
    assert read.runs_of(np.array([0, gap + 1]), 512).tolist() == [0, 2]
    assert read.runs_of(np.array([0, gap + 2]), 512).tolist() == [0, 1, 2]
    whole = np.arange(3 * read.LONGEST // 512)
    assert read.runs_of(whole, 512).size == 4
    assert read.runs_of(np.zeros(9, np.int64), read.LONGEST * 2).tolist() == [0, 9]


def test_duplicates_are_read_once(tmp_path):
    file = FeatureFile.from_array(tmp_path / "x.npy", torch.rand(1000, 2048))
    file.read([5] * 50 + [900] * 3)
    assert (file.reads, file.bytes_read) == (2, 2 * 8192)
    assert "2 reads" in repr(file)


def test_read_writes_to_out(tmp_path, backend):
    values = torch.rand(100, 4)
    file = FeatureFile.from_array(tmp_path / "x.npy", values)
    out = torch.empty(3, 4)
    assert file.read([1, 2, 1], out=out) is out
    assert torch.equal(out, values[[1, 2, 1]])
    half = FeatureFile.from_array(tmp_path / "h.npy", values, stored="float16")
    assert half.read([1], out=out[:1]) is not None
    assert torch.equal(out[0], values[1].half().float())


def test_memory_is_used_again(tmp_path):
    file = FeatureFile.from_array(tmp_path / "x.npy", torch.rand(4096, 128))
    ids = torch.arange(4096)
    first = file.read(ids)
    where = first.data_ptr()
    del first
    assert file.read(ids).data_ptr() == where


def test_getitem_like_a_tensor(tmp_path):
    values = torch.rand(10, 2)
    file = FeatureFile.from_array(tmp_path / "x.npy", values)
    mask = torch.arange(10) % 3 == 0
    assert torch.equal(file[3], values[3])
    assert torch.equal(file[2:7:2], values[2:7:2])
    assert torch.equal(file[mask], values[mask])
    assert torch.equal(file[[9, 0]], values[[9, 0]])
    assert len(file) == 10


@pytest.mark.parametrize("shape", [(0, 4), (5, 0), (0,)], ids=str)
def test_empty(tmp_path, shape, backend):
    file = FeatureFile.from_array(tmp_path / "x.npy", torch.empty(shape))
    assert file.shape == shape
    assert file[:].shape == shape
    assert file.read([]).shape == (0, *shape[1:])
    file.validate()


def test_from_chunks_is_from_array(tmp_path):
    values = torch.rand(1000, 3)
    one = FeatureFile.from_array(tmp_path / "a.npy", values)
    FeatureFile.from_chunks(tmp_path / "b.npy", iter(values.split([1, 0, 599, 400])))
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()
    assert torch.equal(one[:], values)


def test_from_array_streams_a_memory_map(tmp_path):
    """No more than a piece of it is in memory, and nothing is written to it."""
    values = np.random.default_rng(0).random((5000, 7))
    np.save(tmp_path / "in.npy", values)
    mapped = np.load(tmp_path / "in.npy", mmap_mode="r")
    done = []
    report = lambda what, more: done.append(more)  # noqa: E731
    file = FeatureFile.from_array(tmp_path / "x.npy", mapped, report=report)
    assert np.array_equal(file[:].numpy(), values)
    assert sum(done) == values.nbytes


def test_checksums_cover_all_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("gttf_sampler.features.write.BLOCK", 1000)
    path = tmp_path / "x.npy"
    FeatureFile.from_array(path, torch.rand(1000, 3)).validate()
    whole = path.read_bytes()
    for place in (4096, 4096 + 999, 4096 + 1000, 4096 + 11_999):
        broken = bytearray(whole)
        broken[place] ^= 1
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="checksum of its rows"):
            FeatureFile(path).validate()


@pytest.mark.parametrize("stored", write.ENCODINGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_stored_smaller_within_its_error(tmp_path, stored, dtype, backend):
    """Errors stay within the promise of docs/disk.md, for all magnitudes."""
    torch.manual_seed(0)
    values = torch.randn(2000, 33, dtype=dtype)
    values *= 10.0 ** torch.randint(-3, 4, (2000, 1))
    values[7] = 0
    file = FeatureFile.from_array(tmp_path / "x.npy", values, stored=stored)
    got = file[:]
    assert got.dtype == dtype
    error = (got.double() - values.double()).abs()
    if stored == "int8":
        bound = values.abs().amax(1, keepdim=True).double() / 254 * (1 + 1e-6)
        assert file.nbytes == 2000 * (33 + 4)
    else:
        share = {"float16": 2.0**-11, "bfloat16": 2.0**-8}[stored]
        bound = values.abs().double() * share + 2.0**-25
        assert file.nbytes == 2000 * 33 * 2
    assert bool((error <= bound).all())
    assert bool(error.max() > 0)
    ids = torch.randint(0, 2000, (500,))
    assert torch.equal(file.read(ids), got[ids])
    file.validate()
    assert file.stored == stored
    assert f"stored as {stored}" in repr(file)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5])
def test_int8_of_one_row(tmp_path, width):
    values = torch.randn(3, width)
    file = FeatureFile.from_array(tmp_path / "x.npy", values, stored="int8")
    for i in range(3):
        assert torch.equal(file[i], file[:][i])
        assert torch.allclose(file[i], values[i], atol=float(values.abs().max()) / 250)


def test_int8_of_large_doubles(tmp_path):
    values = torch.tensor([[1e40, -3e39, 0.0]], dtype=torch.float64)
    file = FeatureFile.from_array(tmp_path / "x.npy", values, stored="int8")
    assert bool(((file[:] - values).abs() <= 1e40 / 254 * (1 + 1e-6)).all())


def test_int8_is_readable_by_numpy(tmp_path):
    values = torch.randn(6, 3)
    FeatureFile.from_array(tmp_path / "x.npy", values, stored="int8")
    plain = np.load(tmp_path / "x.npy")
    back = plain["values"] * plain["scale"][:, None]
    assert np.allclose(back, values, atol=0.02)


def test_pickle_opens_the_file_again(tmp_path):
    values = torch.rand(50, 4)
    file = FeatureFile.from_array(tmp_path / "x.npy", values)
    other = pickle.loads(pickle.dumps(file))
    assert torch.equal(other.read([4]), values[[4]])


def total(file, ids):
    """The sum that a worker makes of some rows."""
    return file.read(ids).sum().item()


@pytest.mark.process
@pytest.mark.parametrize(
    ("start", "workers"), [(partial(get_context, "fork"), 2), (forks, 1)]
)
def test_workers_read_too(tmp_path, start, workers):
    """After this process has started its own threads."""
    values = torch.arange(40_000.0).view(10_000, 4)
    file = FeatureFile.from_array(tmp_path / "x.npy", values)
    ids = torch.arange(0, 10_000, 17)
    assert total(file, ids) == values[ids].sum().item()
    with start().Pool(workers) as pool:
        found = pool.starmap(total, [(file, ids)] * 4)
    assert found == [values[ids].sum().item()] * 4


def test_is_features(tmp_path):
    FeatureFile.from_array(tmp_path / "x.npy", torch.rand(3, 2))
    np.save(tmp_path / "y.npy", np.zeros((3, 2)))
    assert is_features(tmp_path / "x.npy")
    assert not is_features(tmp_path / "y.npy")
    assert not is_features(tmp_path)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda f: f.read([3]), ValueError, "'ids' must hold ids below .* rows 3"),
        (lambda f: f.read([-1]), ValueError, "'ids' must not hold negative"),
        (lambda f: f.read([0.5]), TypeError, "'ids' must have dtype int32 or int64"),
        (lambda f: f.read([[0]]), ValueError, "'ids' must have 1 dimension"),
        (lambda f: f[torch.ones(2, dtype=torch.bool)], ValueError, "'ids' must have"),
        (lambda f: f.read([0], torch.empty(2, 2)), ValueError, "'out' must have shape"),
        (
            lambda f: f.read([0], torch.empty(1, 2).int()),
            TypeError,
            "'out' must have d",
        ),
        (
            lambda f: f.read([0, 1], torch.empty(2, 2).t()),
            ValueError,
            "'out' must be con",
        ),
        (lambda f: f.read([0], [0]), TypeError, "'out' must be a tensor"),
    ],
)
def test_read_validate(tmp_path, call, error, match):
    file = FeatureFile.from_array(tmp_path / "x.npy", torch.rand(3, 2))
    with pytest.raises(error, match=match):
        call(file)


@all_pairs
@pytest.mark.parametrize("shape", [(3, 2), (3, 0)])
@pytest.mark.parametrize("cache", [None, "kept", "lately"])
@pytest.mark.parametrize("ids", [[3], [-1], [0, 1, -1], [2, 1 << 40, 1]])
def test_rows_of_ids_out_of_range(tmp_path, shape, cache, ids, backend):
    """`rows`, which loaders call, looks at ids as well."""
    file = FeatureFile.from_array(tmp_path / "x.npy", torch.rand(shape))
    if cache is not None:
        file.cache(1 << 12, [0] if cache == "kept" else None)
    with pytest.raises(ValueError, match="'ids' must"):
        file.rows(torch.tensor(ids))


@pytest.mark.parametrize(
    ("values", "how", "error", "match"),
    [
        (torch.tensor(1.0), {}, ValueError, "must have rows"),
        ("x", {}, TypeError, "must be a tensor"),
        (torch.eye(2), {"stored": "int4"}, ValueError, "'stored' must be one of"),
        (torch.eye(2).int(), {"stored": "int8"}, ValueError, "'stored' must be None"),
        (torch.full((2, 2), 1e6), {"stored": "float16"}, ValueError, "that reaches"),
        (torch.full((2, 2), torch.inf), {"stored": "int8"}, ValueError, "finite"),
        (torch.eye(2), {"overwrite": 2}, TypeError, "'overwrite' must be True"),
    ],
)
def test_write_validate(tmp_path, values, how, error, match):
    with pytest.raises(error, match=match):
        FeatureFile.from_array(tmp_path / "x.npy", values, **how)
    assert not list(tmp_path.iterdir())


def test_chunks_validate(tmp_path):
    write = FeatureFile.from_chunks
    for chunks, match in [
        ([], "must hold at least one"),
        ([torch.rand(2, 3), torch.rand(2, 4)], "must all hold rows of"),
        ([torch.rand(2, 3), torch.zeros(2, 3).int()], "must all hold rows of"),
    ]:
        with pytest.raises(ValueError, match=match):
            write(tmp_path / "x.npy", chunks)
    with pytest.raises(TypeError, match="must be an iterable of arrays"):
        write(tmp_path / "x.npy", torch.rand(3, 2))
    FeatureFile.from_array(tmp_path / "x.npy", torch.eye(2))
    with pytest.raises(ValueError, match=r"not be there yet .* overwrite=True"):
        FeatureFile.from_array(tmp_path / "x.npy", torch.eye(3))
    FeatureFile.from_array(tmp_path / "x.npy", torch.eye(3), overwrite=True)
    assert [file.name for file in tmp_path.iterdir()] == ["x.npy"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_pin_memory_needs_a_gpu(tmp_path):
    FeatureFile.from_array(tmp_path / "x.npy", torch.eye(2))
    with pytest.raises(ValueError, match="'pin_memory' must be False"):
        FeatureFile(tmp_path / "x.npy", pin_memory=True)


def test_rows_of_ids_that_are_not_side_by_side(tmp_path, backend):
    """Also where they are copied from the system's cache."""
    values = torch.arange(4000.0).view(2000, 2)
    file = FeatureFile.from_array(tmp_path / "x.npy", values)
    ids, place = torch.arange(2000)[::2], torch.arange(2000)[1::2]
    assert file.rows(ids).equal(values[ids])
    out = torch.zeros(2000, 2)
    assert file.rows(ids, out, place)[place].equal(values[ids])
