"""The reference answers while another process compiles, with the same bits."""

import errno
import inspect
import json
import multiprocessing
import os
import subprocess
import sys
import time
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from threading import Event

import pytest
import torch

import digests
from gttf_sampler import CompactAdj, sample_rooted, use_backend
from gttf_sampler._backends import cache, compiling, ops
from gttf_sampler.aggregate import aggregate, receivers_of

pytest.importorskip("numba")
SEEDS = torch.arange(600)


@pytest.fixture
def aside(tmp_path, monkeypatch):
    """A process that has no kernels yet and may have them compiled aside."""
    monkeypatch.delenv("GTTF_COMPILE", raising=False)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(cache.tempfile, "tempdir", None)
    for name in ("_ready", "_failed", "_broken"):
        monkeypatch.setattr(compiling, name, set())
    for name in ("_children", "_asked"):
        monkeypatch.setattr(compiling, name, {})
    monkeypatch.setattr(compiling, "_loading", None)
    import_module(compiling.BACKEND)
    forget_folders()
    yield tmp_path
    forget_folders()


def forget_folders():
    cache.kernel_folder.cache_clear()
    cache.kernel_folders.cache_clear()


def test_groups_are_pending_until_they_are_on_disk(aside, monkeypatch):
    """Also those that nobody asks for again."""
    monkeypatch.setattr(compiling, "_start", lambda group, folder: None)
    assert not compiling.ready("relabel")
    assert compiling.pending() == ["rows"]
    cache.mark_compiled("rows")
    assert compiling.pending() == []


def graph():
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(600, (2, 6000), generator=generator)
    return CompactAdj.from_edge_index(ends, 600)


def batches(adj, count=6):
    for number in range(count):
        seeds = SEEDS[number * 7 : number * 7 + 9]
        yield sample_rooted(adj, seeds, [5, 4], generator=number)


def same(found, expected):
    pairs = zip(found, expected, strict=True)
    return all(
        torch.equal(one.edge_index, two.edge_index) and torch.equal(one.node, two.node)
        for one, two in pairs
    )


def test_groups_are_operations_and_have_work():
    kernels = import_module("gttf_sampler._backends.numba")
    warm = import_module("gttf_sampler.cli.warm")
    groups = {**compiling.GROUPS, **compiling.SUMS}
    assert warm.WORK.keys() == groups.keys()
    grouped = [op for group in groups.values() for op in group]
    public = {op for op in vars(kernels) if inspect.isfunction(getattr(kernels, op))}
    assert set(grouped) == public - {"read_runs"}  # which `read_all` calls
    assert len(grouped) == len(set(grouped))
    assert not any(hasattr(kernels, op) for op in compiling.REFERENCE_ONLY)
    assert all(hasattr(ops, op) for op in [*grouped, *compiling.REFERENCE_ONLY])


@pytest.mark.compile
def test_warm_calls_every_operation(monkeypatch):
    kernels = import_module("gttf_sampler._backends.numba")
    warm = import_module("gttf_sampler.cli.warm")
    left = {}

    def noting(group, op, function):
        def call(*args, **kwargs):
            result = function(*args, **kwargs)
            if result is not None or op not in ("rooted", "walk_node2vec"):
                left[group].discard(op)
            return result

        return call

    for group, names in {**compiling.GROUPS, **compiling.SUMS}.items():
        left[group] = set(names)
        for op in names:
            monkeypatch.setattr(kernels, op, noting(group, op, getattr(kernels, op)))
    with use_backend("numba"):
        for work in warm.WORK.values():
            work()
    assert not any(left.values()), left


KNOWN = json.loads(digests.FILE.read_text())
CALLS = {name: call for name, call in digests.calls().items() if name[:5] != "large"}


@pytest.mark.parametrize("name", CALLS)
def test_backend_changes_over_at_any_operation(monkeypatch, name):
    """At the first one, in the middle and at the last one, in loaders of both hosts."""
    gated = {op for group in compiling.GROUPS.values() for op in group}
    expected = {each: KNOWN[each] for each in (name, f"{name} floats") if each in KNOWN}
    asked, change = 0, 1 << 62

    def ready(op, size=0):
        nonlocal asked
        asked += op in gated
        return op not in gated or asked > change

    monkeypatch.setattr(ops, "ready", ready)
    assert digests.digests_of(name, CALLS[name]()) == expected
    for number in {1, asked // 2, asked - 1}:
        asked, change = 0, number
        assert digests.digests_of(name, CALLS[name]()) == expected


@pytest.mark.parametrize("change", range(7))
def test_backend_changes_over_at_any_batch(monkeypatch, change):
    with use_backend("torch"):
        expected = list(batches(graph()))
    done = 0
    monkeypatch.setattr(ops, "ready", lambda *about: done >= change)
    found = []
    for batch in batches(graph()):
        found.append(batch)
        done += 1
    assert same(found, expected)


def test_failed_compiler_is_one_warning_and_the_reference(aside, monkeypatch, caplog):
    monkeypatch.setattr(compiling.sys, "executable", "/bin/false")
    monkeypatch.setattr(compiling, "RETRY", 0.0)
    with use_backend("torch"):
        expected = list(batches(graph()))
    assert same(batches(graph()), expected)
    for child in compiling._children.values():
        child.wait()
    assert same(batches(graph()), expected)
    assert len(caplog.records) == 1
    assert "gttf warm" in caplog.text


def test_compiler_without_kernels_is_one_warning(aside, monkeypatch, caplog):
    monkeypatch.setattr(compiling.sys, "executable", "/bin/true")
    assert not compiling.ready("rooted")
    compiling._children["rooted"].wait()
    assert not compiling.ready("rooted")
    assert not compiling.ready("rooted")
    assert len(caplog.records) == 1
    assert "gttf warm" in caplog.text


@pytest.mark.process
@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.11 has safe paths")
def test_compiler_does_not_import_files_of_the_user(aside, monkeypatch):
    (aside / "random.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(aside)
    started = {}
    with monkeypatch.context() as patch:
        patch.setattr(
            compiling.subprocess, "Popen", lambda *about, **how: started.update(how)
        )
        compiling._start("gather", cache.kernel_folder())
    command = [sys.executable, "-m", "gttf_sampler.cli", "warm", "--help"]
    done = subprocess.run(command, env=started["env"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_missing_program_is_one_warning_and_the_reference(aside, monkeypatch, caplog):
    monkeypatch.setattr(compiling.sys, "executable", str(aside / "none"))
    assert not compiling.ready("rooted")
    assert not compiling.ready("gather")
    assert len(caplog.records) == 1


def test_no_folder_is_one_warning_and_the_reference(aside, monkeypatch, caplog):
    (aside / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(aside / "file"))
    monkeypatch.setattr(cache.tempfile, "tempdir", str(aside / "file"))
    forget_folders()
    assert not compiling.ready("rooted")
    assert "NUMBA_CACHE_DIR" in caplog.text


def test_kernels_that_are_there_are_taken(aside):
    cache.mark_compiled("rooted")
    assert compiling.ready("rooted")


def test_one_process_compiles_for_all(aside):
    folder = cache.kernel_folder()
    held = os.open(folder / "rooted.lock", os.O_CREAT | os.O_RDWR)
    assert compiling._locked(held)
    assert not compiling.ready("rooted")
    assert compiling._children == {}
    os.close(held)


def test_disk_without_locks_compiles(aside, monkeypatch):
    def refuse(*about):
        raise OSError(errno.ENOLCK, "no locks available")

    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(fcntl, "flock", refuse)
    held = os.open(aside / "lock", os.O_CREAT | os.O_RDWR)
    assert compiling._locked(held)
    os.close(held)


def test_sums_of_floats_do_not_wait_for_a_process(aside):
    """They would not have the same bits, so that a run would depend on the clock."""
    for names in compiling.SUMS.values():
        assert all(compiling.ready(op) for op in names)
    assert compiling._asked == {}


def test_kernels_on_disk_are_used_once_a_thread_has_imported_numba(aside, monkeypatch):
    loaded = Event()
    monkeypatch.setattr(compiling, "BACKEND", "a.module.not.yet.there")
    monkeypatch.setattr(compiling, "_load", loaded.wait)
    cache.mark_compiled("build")
    cache.mark_compiled("rooted")
    try:
        assert not compiling.ready("rooted")
        assert not compiling.ready("group_by_row", 10)
        assert compiling.ready("group_by_row", compiling.MANY)  # worth an import
    finally:
        loaded.set()
    compiling._loading.join()
    assert compiling.ready("rooted")


def test_thread_that_loads_reads_a_kernel(aside):
    compiling._load()
    assert import_module(f"{compiling.BACKEND}.rng").mix.signatures


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_fork_waits_for_the_thread_that_imports(aside, monkeypatch):
    """A child would inherit the locks of modules that the thread imports."""
    monkeypatch.setattr(compiling, "BACKEND", "a.module.not.yet.there")
    monkeypatch.setattr(compiling, "_load", lambda: time.sleep(0.2))
    cache.mark_compiled("rooted")
    assert not compiling.ready("rooted")
    child = os.fork()
    if not child:
        os._exit(int(compiling._loading.is_alive()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not compiling._loading.is_alive()


def broken(*args, **kwargs):
    """An operation whose kernel numba cannot compile."""
    rng = import_module(f"{compiling.BACKEND}.rng")
    return rng.compiled(lambda x: x.there_is_no_such_thing())(1)


def test_kernels_that_do_not_compile_are_one_warning(aside, monkeypatch, caplog):
    monkeypatch.setenv("GTTF_COMPILE", "here")
    kernels, x = import_module(compiling.BACKEND), torch.arange(6.0).view(3, 2)
    edges = receivers_of(torch.tensor([0, 1, 2]), torch.tensor([0, 0, 1]), 2)
    with use_backend("torch"):
        expected, rows = list(batches(graph())), aggregate(x, edges)
    for names in (*compiling.GROUPS.values(), *compiling.SUMS.values()):
        for op in names:
            monkeypatch.setattr(kernels, op, broken)
    assert same(batches(graph()), expected)
    assert torch.equal(aggregate(x, edges), rows)
    assert len(caplog.records) == 1
    assert "a kernel does not compile: TypingError: " in caplog.text
    tried = []
    monkeypatch.setattr(kernels, "rooted", lambda *given: tried.append(given))
    list(batches(graph()))
    assert not tried  # what has failed is not tried again
    with use_backend("numba"), pytest.raises(ImportError, match="TypingError"):
        aggregate(x, edges)


def test_home_without_caches_leaves_temporary_files(aside, monkeypatch, tmp_path):
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    (tmp_path / "home").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(cache.tempfile, "tempdir", str(tmp_path))
    assert cache.kernel_folder().is_relative_to(tmp_path)


@pytest.mark.parametrize("home", ["", "home"])
@pytest.mark.parametrize("temporary", [True, False])
def test_user_without_home(aside, monkeypatch, tmp_path, home, temporary):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    def nowhere():
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", home and str(tmp_path / home))
    monkeypatch.setattr(cache.sys, "platform", "linux")
    monkeypatch.setattr(cache.Path, "home", homeless)
    found = (lambda: str(tmp_path)) if temporary else nowhere
    monkeypatch.setattr(cache.tempfile, "gettempdir", found)
    folder = cache.kernel_folder()
    if home or temporary:
        assert folder.is_relative_to(tmp_path / home)
    else:
        assert folder is None


def test_numba_without_metadata_is_no_error(aside, monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(cache, "version", missing)
    assert cache.kernel_folder() is None


COLD = """
import sys, time, torch
from gttf_sampler import CompactAdj, sample_rooted, use_backend
generator = torch.Generator().manual_seed(0)
ends = torch.randint(600, (2, 6000), generator=generator)
adj = CompactAdj.from_edge_index(ends, 600)
seeds, number, until = torch.arange(9), 0, time.monotonic() + 300
first = "numba" in sys.modules
while "numba" not in sys.modules and time.monotonic() < until:
    batch = sample_rooted(adj, seeds, [5, 4], generator=number)
    with use_backend("torch"):
        expected = sample_rooted(adj, seeds, [5, 4], generator=number)
    assert torch.equal(batch.edge_index, expected.edge_index)
    number += 1
    time.sleep(0.02)
print(first, "numba" in sys.modules, number > 1)
"""


@pytest.mark.process
@pytest.mark.compile
def test_first_batch_does_not_wait_and_later_ones_are_compiled(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, sys.path))
    del environment["GTTF_COMPILE"]
    done = subprocess.run(
        [sys.executable, "-c", COLD], env=environment, capture_output=True, text=True
    )
    assert done.stdout.split() == ["False", "True", "True"], done.stderr
    assert done.stderr == ""


WORKERS = """
import sys, torch
from torch.utils.data import DataLoader
from gttf_sampler import CompactAdj, sample_rooted, use_backend
from gttf_sampler._backends import compiling

asked = 0

def compiled_after_some_batches(group):
    global asked
    asked += 1
    return asked > 40

compiling.is_compiled = compiled_after_some_batches
compiling._have_compiled = lambda *about: None

class Batches(torch.utils.data.Dataset):
    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        ends = torch.randint(600, (2, 6000), generator=generator)
        self.adj = CompactAdj.from_edge_index(ends, 600)

    def __len__(self):
        return 60

    def __getitem__(self, number):
        batch = sample_rooted(self.adj, torch.arange(9), [5, 4], generator=number)
        loading = compiling._loading
        return batch.node, batch.edge_index, loading is not None

if __name__ == "__main__":
    data = Batches()
    how = {"num_workers": 2, "multiprocessing_context": sys.argv[1]}
    found = list(DataLoader(data, batch_size=None, **how))
    assert not found[0][2] and found[-1][2]  # the reference, and then the kernels
    with use_backend("torch"):
        for number, (node, edge_index, _) in enumerate(found):
            expected = data[number]
            assert torch.equal(node, expected[0]), number
            assert torch.equal(edge_index, expected[1]), number
"""


@pytest.mark.process
@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_workers_change_over_while_they_draw(tmp_path, start):
    """Each worker process starts without kernels, whoever has some by then."""
    if start not in multiprocessing.get_all_start_methods():
        pytest.skip(f"processes do not {start} here")
    (tmp_path / "workers.py").write_text(WORKERS)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    environment.pop("GTTF_COMPILE", None)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "workers.py"), start],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_command_compiles_a_group_and_refuses_others(aside, capsys):
    main = import_module("gttf_sampler.cli.main").main
    assert main(["warm", "gather"]) == 0
    assert "compiled for gather, kept in" in capsys.readouterr().out
    assert compiling.ready("gather")
    assert main(["warm", "tea"]) == 2
    assert (
        "'group' must be one of 'aggregate', 'build', 'dropout'"
        in capsys.readouterr().err
    )


def test_doctor_draws_the_same_batch_on_every_backend(capsys):
    main = import_module("gttf_sampler.cli.main").main
    assert main(["doctor"]) == 0
    lines = dict(
        line.split(None, 1) for line in capsys.readouterr().out.splitlines() if line
    )
    assert "first batch" in lines["torch"]
    assert "first batch" in lines["numba"]
    assert lines["same"].split() == ["bits", "yes"]
