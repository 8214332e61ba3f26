"""The reference answers while another process compiles, with the same bits."""

import errno
import os
import subprocess
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError

import pytest
import torch

from gttf_sampler import CompactAdj, sample_rooted, use_backend
from gttf_sampler._backends import compiling, ops

pytest.importorskip("numba")
SEEDS = torch.arange(600)


@pytest.fixture
def aside(tmp_path, monkeypatch):
    """A process that has no kernels yet and may have them compiled aside."""
    monkeypatch.delenv("GTTF_COMPILE", raising=False)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    for name in ("_ready", "_failed"):
        monkeypatch.setattr(compiling, name, set())
    for name in ("_children", "_asked"):
        monkeypatch.setattr(compiling, name, {})
    compiling.kernel_folder.cache_clear()
    yield tmp_path
    compiling.kernel_folder.cache_clear()


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
    warm = import_module("gttf_sampler.cli.machine")
    assert warm.WORK.keys() == compiling.GROUPS.keys()
    grouped = [op for group in compiling.GROUPS.values() for op in group]
    assert all(hasattr(kernels, op) for op in grouped)
    assert not any(hasattr(kernels, op) for op in compiling.REFERENCE_ONLY)
    assert all(hasattr(ops, op) for op in [*grouped, *compiling.REFERENCE_ONLY])


@pytest.mark.parametrize("change", range(7))
def test_backend_changes_over_at_any_batch(monkeypatch, change):
    with use_backend("torch"):
        expected = list(batches(graph()))
    done = 0
    monkeypatch.setattr(ops, "ready", lambda op: done >= change)
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
        compiling._start("gather", compiling.kernel_folder())
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
    compiling.kernel_folder.cache_clear()
    assert not compiling.ready("rooted")
    assert "NUMBA_CACHE_DIR" in caplog.text


def test_kernels_that_are_there_are_taken(aside):
    compiling.mark_ready("rooted")
    assert compiling.ready("rooted")


def test_one_process_compiles_for_all(aside):
    folder = compiling.kernel_folder()
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
    assert compiling.ready("pair_pass")


def test_home_without_caches_leaves_temporary_files(aside, monkeypatch, tmp_path):
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    (tmp_path / "home").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(compiling.tempfile, "tempdir", str(tmp_path))
    assert compiling.kernel_folder().is_relative_to(tmp_path)


@pytest.mark.parametrize("cache", ["", "cache"])
@pytest.mark.parametrize("temporary", [True, False])
def test_user_without_home(aside, monkeypatch, tmp_path, cache, temporary):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    def nowhere():
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", cache and str(tmp_path / cache))
    monkeypatch.setattr(compiling.sys, "platform", "linux")
    monkeypatch.setattr(compiling.Path, "home", homeless)
    found = (lambda: str(tmp_path)) if temporary else nowhere
    monkeypatch.setattr(compiling.tempfile, "gettempdir", found)
    folder = compiling.kernel_folder()
    if cache or temporary:
        assert folder.is_relative_to(tmp_path / cache)
    else:
        assert folder is None


def test_numba_without_metadata_is_no_error(aside, monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(compiling, "version", missing)
    assert compiling.kernel_folder() is None


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


def test_command_compiles_a_group_and_refuses_others(aside, capsys):
    main = import_module("gttf_sampler.cli.main").main
    assert main(["warm", "gather"]) == 0
    assert "compiled for gather, kept in" in capsys.readouterr().out
    assert compiling.ready("gather")
    assert main(["warm", "tea"]) == 2
    assert "'group' must be one of 'build', 'gather'" in capsys.readouterr().err


def test_doctor_draws_the_same_batch_on_every_backend(capsys):
    main = import_module("gttf_sampler.cli.main").main
    assert main(["doctor"]) == 0
    lines = dict(
        line.split(None, 1) for line in capsys.readouterr().out.splitlines() if line
    )
    assert "first batch" in lines["torch"]
    assert "first batch" in lines["numba"]
    assert lines["same"].split() == ["bits", "yes"]
