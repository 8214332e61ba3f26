"""save and open: what comes back, what is refused, and what a crash leaves behind."""

import json
import multiprocessing
import os
import pathlib
import shutil
from contextlib import suppress

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gttf_sampler import CompactAdj, EdgeWeightBias, _arrays, _files, sample_rooted
from gttf_sampler.graph import storage
from strategies import graphs
from test_compact import same, with_everything

HEADER = "header.json"
DTYPES = ["float16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64"]


def other_graph() -> CompactAdj:
    """A graph that nobody takes for `with_everything()`."""
    return CompactAdj.from_edge_index([[0, 1, 2], [2, 0, 1]], direction="out")


def stored(folder: pathlib.Path) -> dict:
    """The header of a saved graph."""
    return json.loads((folder / HEADER).read_text())


def array_file(folder: pathlib.Path, name: str) -> pathlib.Path:
    """The path of an array."""
    return folder / stored(folder)["arrays"][name]["file"]


def strays(folder: pathlib.Path) -> set[str]:
    """Files in the directory that the header does not know."""
    named = {entry["file"] for entry in stored(folder)["arrays"].values()}
    return {file.name for file in folder.iterdir()} - named - {HEADER}


@pytest.fixture
def folder(tmp_path):
    """A directory with a saved graph that has all optional arrays."""
    with_everything().save(tmp_path / "graph")
    return tmp_path / "graph"


@given(
    graph=graphs() | graphs(bipartite=True),
    mmap=st.booleans(),
    verify=st.booleans(),
)
def test_storage_round_trip(tmp_path_factory, graph, mmap, verify):
    path, adj = tmp_path_factory.mktemp("graph"), graph.adj()
    adj.save(path)
    assert same(CompactAdj.open(path, mmap, verify=verify).validate(), adj)
    assert not strays(path)
    shutil.rmtree(path)


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_storage_keeps_dtypes(tmp_path, dtype, mmap):
    values = torch.tensor([3, 1, 2]).to(getattr(torch, dtype))
    adj = CompactAdj.from_csr(
        [0, 1, 3],
        torch.tensor([1, 0, 0]),
        edge_id=torch.tensor([2, 0, 1]),
        edge_weight=values,
        edge_time=values,
    )
    adj.save(str(tmp_path))  # a plain string is a path, too
    assert same(CompactAdj.open(str(tmp_path), mmap), adj)


def test_storage_of_a_dtype_that_numpy_lacks(tmp_path):
    weight = torch.ones(1, dtype=torch.bfloat16)
    adj = CompactAdj.from_csr([0, 1], [0], edge_weight=weight)
    try:
        adj.save(tmp_path)
    except TypeError as error:  # one that says which array is meant
        assert str(error).startswith("'edge_weight' must ")  # noqa: PT017
        assert list(tmp_path.iterdir()) == []
    else:
        assert same(CompactAdj.open(tmp_path), adj)


@pytest.mark.parametrize("mmap", [True, False])
def test_storage_keeps_int64_columns(tmp_path, mmap):
    adj = CompactAdj.from_csr([0, 2], torch.tensor([0, 1 << 40]), 1 << 41)
    adj.save(tmp_path)
    opened = CompactAdj.open(tmp_path, mmap)
    assert same(opened, adj)
    assert opened.col.dtype == torch.int64


def test_storage_of_arrays_made_piece_by_piece(tmp_path):
    rowptr = _arrays.Pieces(
        np.dtype(np.int64), 4, (np.array(part) for part in ([0, 2], [3, 5]))
    )
    col = _arrays.Pieces(
        np.dtype(np.int32), 5, (np.array(part) for part in ([1, 2, 0], [], [1, 2]))
    )
    facts = {"num_cols": 3, "direction": "in"}
    storage.save(tmp_path / "g", {"rowptr": rowptr, "col": col}, facts)
    adj = CompactAdj.open(tmp_path / "g", verify=True).validate()
    assert adj.rowptr.tolist() == [0, 2, 3, 5]
    assert adj.col.tolist() == [1, 2, 0, 1, 2]
    assert adj.col.dtype == torch.int32


def test_storage_of_too_few_pieces_leaves_nothing(tmp_path):
    col = _arrays.Pieces(np.dtype(np.int32), 3, iter([np.array([0, 1], np.int32)]))
    arrays = {"rowptr": torch.tensor([0, 3]), "col": col}
    with pytest.raises(ValueError, match="'pieces' must hold 3 numbers in all"):
        storage.save(tmp_path / "g", arrays, {"num_cols": 3, "direction": "in"})
    assert list((tmp_path / "g").iterdir()) == []


def test_storage_takes_any_layout(tmp_path):
    spread = torch.arange(20.0)[::2]
    adj = CompactAdj.from_csr([0, 10], torch.zeros(10).int(), edge_weight=spread)
    adj.save(tmp_path)
    assert torch.equal(CompactAdj.open(tmp_path).edge_weight, spread)


def test_storage_makes_parents_and_replaces(tmp_path):
    path = tmp_path / "deep" / "er"
    with_everything().save(path)
    other_graph().save(path)
    assert same(CompactAdj.open(path), other_graph())
    assert not strays(path)


@pytest.mark.parametrize("mmap", [True, False])
def test_storage_sampling_from_an_opened_graph(folder, mmap):
    opened, built = (
        sample_rooted(adj, [0, 3], [2, 2], bias=EdgeWeightBias(), generator=1)
        for adj in (CompactAdj.open(folder, mmap), with_everything())
    )
    assert torch.equal(opened.node, built.node)
    assert torch.equal(opened.edge, built.edge)


def test_storage_mapped_arrays_do_not_write_through(folder):
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    adj = CompactAdj.open(folder, mmap=True)
    for array in adj.arrays().values():
        array.fill_(1)
    assert adj.col.tolist() == [1] * 5
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_storage_saving_onto_the_mapped_directory(folder):
    adj = CompactAdj.open(folder, mmap=True)
    adj.save(folder)
    assert same(CompactAdj.open(folder), with_everything())
    other_graph().save(folder)
    assert same(adj, with_everything())  # what is mapped stays as it was
    assert same(CompactAdj.open(folder), other_graph())
    assert not strays(folder)


def test_storage_leaves_files_of_others_alone(tmp_path):
    precious = tmp_path / "model.bin"
    precious.write_text("three weeks of training")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="'path' must be an empty directory, or hold"):
        with_everything().save(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"model.bin", "notes.txt"}
    with_everything().save(tmp_path, overwrite=True)
    other_graph().save(tmp_path)  # over a graph of ours
    assert precious.exists()
    assert strays(tmp_path) == {"model.bin", "notes.txt"}


@pytest.mark.parametrize(
    ("path", "error", "match"),
    [
        ("", ValueError, r"'path' must be a path .* \(got ''\)"),
        (3, TypeError, "'path' must be a path"),
        (pathlib.Path(__file__), ValueError, "'path' must name a directory .*, a file"),
    ],
)
def test_storage_validate_path(path, error, match):
    with pytest.raises(error, match=match):
        other_graph().save(path)


def test_storage_does_not_take_a_header_of_others_for_its_own(tmp_path):
    (tmp_path / "header.json").write_text('{"format": "something else"}')
    with pytest.raises(ValueError, match="'path' must be an empty directory"):
        other_graph().save(tmp_path)
    assert "something else" in (tmp_path / "header.json").read_text()


def _save_again_and_again(folder, which, turns, start):
    graph = [with_everything, other_graph][which]()
    start.wait()
    for _ in range(turns):
        graph.save(folder)


@pytest.mark.process
def test_storage_of_two_who_save_at_once(tmp_path):
    """One of the two, whole, at every moment; nothing is left behind."""
    context = multiprocessing.get_context("fork")
    folder, start = tmp_path / "graph", context.Barrier(3)
    expected = [with_everything(), other_graph()]
    expected[0].save(folder)
    writers = [
        context.Process(target=_save_again_and_again, args=(folder, i, 25, start))
        for i in range(2)
    ]
    for writer in writers:
        writer.start()
    start.wait()
    reads = 0
    while any(writer.is_alive() for writer in writers):
        opened = CompactAdj.open(folder, mmap=reads % 2 == 0)
        assert any(same(opened, graph) for graph in expected)
        reads += 1
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert reads
    opened = CompactAdj.open(folder)
    files = {array_file(folder, name).name for name in opened.arrays()}
    assert {file.name for file in folder.iterdir()} == files | {"header.json"}


def test_storage_of_one_who_was_killed_is_cleaned_up(tmp_path):
    """By the next who saves; what a living process writes is left alone."""
    folder = tmp_path / "graph"
    with_everything().save(folder)
    (folder / f"col.{'0' * 12}.bin").write_bytes(b"half")
    (folder / f"header.json.{'0' * 12}").touch()
    busy = folder / f"header.json.{'1' * 12}"
    (folder / f"col.{'1' * 12}.bin").write_bytes(b"half")
    busy.touch()
    with _files.locked(busy):
        other_graph().save(folder)
        left = {file.name for file in folder.iterdir()}
    assert not any("0" * 12 in name for name in left)
    assert {f"col.{'1' * 12}.bin", busy.name} <= left
    assert same(CompactAdj.open(folder), other_graph())


@pytest.mark.parametrize("value", [1040, 10**9, -1])
def test_storage_checks_columns(tmp_path, value):
    """Checksums say that a file is as it was written, not that it was right."""
    wrong = CompactAdj(torch.tensor([0, 1, 2]), torch.tensor([value, 0]), 2).trusted()
    wrong.save(tmp_path / "graph")
    with pytest.raises(ValueError, match=r"graph' must hold a sound graph \(got 'col'"):
        CompactAdj.open(tmp_path / "graph")


@pytest.mark.parametrize("size", [0, 1 << 63, 10**30, -1, 1.5])
def test_storage_checks_the_number_of_columns(tmp_path, size):
    wrong = CompactAdj(torch.tensor([0, 1, 2]), torch.tensor([1, 0]), size).trusted()
    wrong.save(tmp_path / "graph")
    with pytest.raises(ValueError, match=r"^'.*graph.*' must "):
        CompactAdj.open(tmp_path / "graph")


def test_storage_unverified_still_checks_sizes_and_rows(folder):
    file = array_file(folder, "edge_weight")
    os.truncate(file, file.stat().st_size - 1)
    with pytest.raises(ValueError, match="edge_weight"):
        CompactAdj.open(folder, verify=False)
    with_everything().save(folder)
    array_file(folder, "rowptr").write_bytes(np.array([9] * 7).tobytes())
    with pytest.raises(ValueError, match=r"'rowptr' must start at 0|rowptr.*bin"):
        CompactAdj.open(folder, verify=False)


def test_storage_header_with_a_flipped_bit(folder):
    """A changed header is refused, or says the same; it never says something else."""
    other_graph().save(folder)
    good = (folder / HEADER).read_bytes()
    told = []
    for place in range(len(good)):
        for bit in (1 << place % 5, 1 << (place + 2) % 5):
            changed = bytearray(good)
            changed[place] ^= bit
            (folder / HEADER).write_bytes(changed)
            around = bytes(changed[max(place - 12, 0) : place + 4])
            try:
                opened = CompactAdj.open(folder)
            except ValueError as error:
                if str(folder) not in str(error):
                    told.append((around, f"does not name the file: {error}"))
            except Exception as error:
                told.append((around, repr(error)))
            else:
                if not same(opened, other_graph()):
                    told.append((around, f"opened as another graph: {opened}"))
    assert told == []


@pytest.mark.parametrize("what", ["file", "missing"])
def test_storage_open_of_no_directory(tmp_path, what):
    if what == "file":
        (tmp_path / "graph").write_text("x")
    with pytest.raises(ValueError, match=r"^'.*graph.*' must "):
        CompactAdj.open(tmp_path / "graph")


class DiskError(RuntimeError):
    """The disk's error in the tests below."""


# Which graph is there when call `number` of a step fails: the first three writes are
# the two arrays and the header, the fourth fsync is that of the directory.
STEPS = [
    ("mkdir", 0, "old"),
    *(("write", number, "old") for number in range(3)),
    *(("fsync", number, "old") for number in range(3)),
    ("fsync", 3, "new"),
    ("replace", 0, "old"),
    ("replaced", 0, "new"),
    ("sync_folder", 0, "new"),
    ("unlink", 0, "new"),
    ("unlink", 3, "new"),
]


def fail_at(patch, step: str, number: int, error: BaseException) -> None:
    """Raises at call `number` of `step`: before it, or after it where it says so."""
    made: list[str] = []

    def breaking(real, name, after=False):
        def call(*args, **kwargs):
            made.append(name)
            due = made.count(name) == number + 1
            if due and not after:
                raise error
            result = real(*args, **kwargs)
            if due:
                raise error
            return result

        return call

    target = {
        "mkdir": (pathlib.Path, "mkdir", False),
        "write": (_arrays.ArrayWriter, "__init__", False),
        "fsync": (os, "fsync", False),
        "replace": (os, "replace", False),
        "replaced": (os, "replace", True),
        "sync_folder": (_files, "sync_folder", False),
        "unlink": (pathlib.Path, "unlink", False),
    }[step]
    owner, name, after = target
    patch.setattr(owner, name, breaking(getattr(owner, name), step, after))


def keep_files(patch) -> None:
    """Removes nothing, as a process that was killed."""
    for owner, name in ((pathlib.Path, "unlink"), (os, "unlink"), (os, "remove")):
        patch.setattr(owner, name, lambda *args, **kwargs: None)


@pytest.mark.parametrize("error", [DiskError(), KeyboardInterrupt(), None], ids=repr)
@pytest.mark.parametrize(("step", "number", "left"), STEPS)
def test_storage_interrupted_save(folder, step, number, left, error):
    """By an error, or, without one, killed: the next save tidies up after that."""
    with pytest.MonkeyPatch.context() as patch:
        if error is not None or step != "unlink":
            fail_at(patch, step, number, error or DiskError())
        if error is None:
            keep_files(patch)
        with suppress(DiskError, KeyboardInterrupt):
            other_graph().save(folder)
            assert (error, step) == (None, "unlink"), "it was not interrupted"
    expected = with_everything() if left == "old" else other_graph()
    assert same(CompactAdj.open(folder, verify=True), expected)
    if left == "old" and error is not None:
        assert not strays(folder)
    other_graph().save(folder)
    assert same(CompactAdj.open(folder), other_graph())
    assert not strays(folder)


@pytest.mark.parametrize("error", [DiskError(), KeyboardInterrupt()])
def test_storage_interrupted_half_way_through_a_file(folder, monkeypatch, error):
    def half(self, values):
        self._out.write(values.tobytes()[: values.nbytes // 2])
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(_arrays.ArrayWriter, "add", half)
        with pytest.raises(type(error)):
            other_graph().save(folder)
    assert same(CompactAdj.open(folder), with_everything())
    assert not strays(folder)


def test_storage_first_save_interrupted_opens_as_nothing(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        fail_at(patch, "replace", 0, DiskError())
        with pytest.raises(DiskError):
            other_graph().save(tmp_path / "new")
    with pytest.raises(ValueError, match=HEADER):
        CompactAdj.open(tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []
