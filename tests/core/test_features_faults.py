"""FeatureFile when things go wrong: one clear error, nothing half written, no threads
that are stuck."""

import errno
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
import torch

from gttf_sampler import FeatureFile, use_backend
from gttf_sampler._backends import threads
from gttf_sampler._backends.torch import gather as torch_gather

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path):
    FeatureFile.from_array(tmp_path / "x.npy", torch.rand(5000, 16))
    return tmp_path / "x.npy"


@pytest.mark.parametrize("direct", [False, True])
def test_file_truncated_while_open(path, direct, backend):
    file = FeatureFile(path, direct=direct)
    file.read([4999])
    os.truncate(path, 4096 + 64 * 10)
    with pytest.raises(ValueError, match="must not change while it is open"):
        file.read([4999])


@pytest.mark.parametrize("direct", [False, True])
def test_file_truncated_while_it_is_read(path, direct, backend, monkeypatch):
    """After the first look at it: the short read itself must be noticed."""
    file = FeatureFile(path, direct=direct)
    plain = file._handle.check
    looks = []

    def check():
        if not looks:
            looks.append(plain())
            os.truncate(path, 4096 + 64 * 10)
        else:
            plain()

    monkeypatch.setattr(file._handle, "check", check)
    with pytest.raises(ValueError, match="must not change while it is open"):
        file.read(torch.arange(0, 5000, 3))


def test_file_altered_while_open(path, backend):
    file = FeatureFile(path)
    with open(path, "r+b") as other:
        other.seek(4096)
        other.write(bytes(64))
    os.utime(path)
    with pytest.raises(ValueError, match="it was written to"):
        file.read([0])


def test_file_replaced_while_open(path, backend):
    file = FeatureFile(path)
    FeatureFile.from_array(path, torch.zeros(5000, 16), overwrite=True)
    with pytest.raises(ValueError, match=r"another file was put.*open it again"):
        file.read([0])
    assert FeatureFile(path).read([0]).sum() == 0
    with pytest.raises(ValueError, match="must not change while it is open"):
        pickle.loads(pickle.dumps(file))


def test_file_removed_while_open(path, backend):
    """It is there for those who have it open, as everywhere on POSIX."""
    with FeatureFile(path) as file:
        before = file.read([3, 1])
        os.unlink(path)
        assert file.read([3, 1]).equal(before)


def test_closed_file(path):
    with FeatureFile(path) as file:
        file.read([0])
    with pytest.raises(ValueError, match="must be open"):
        file.read([0])


def test_missing_file(tmp_path):
    with pytest.raises(ValueError, match="which is not there"):
        FeatureFile(tmp_path / "none.npy")
    with pytest.raises(ValueError, match="no plain file"):
        FeatureFile(tmp_path)


def test_read_error_names_file_and_row(path, monkeypatch):
    """As of a disk that is broken in one place."""

    def broken(handle, into, offset):
        if offset <= 4096 + 3000 * 64 < offset + into.nbytes:
            raise OSError(errno.EIO, "Input/output error")
        return os.preadv(handle, [into], offset)

    file = FeatureFile(path)
    monkeypatch.setattr(torch_gather, "read_at", broken)
    with use_backend("torch"):
        assert file.read([10]).shape == (1, 16)
        with pytest.raises(OSError, match=r"x\.npy' could not be read at row 3000"):
            file.read([10, 3000, 4900])


def test_compiled_reads_notice_errors(path, monkeypatch):
    """A handle that cannot be read from: kernels note it, and Python says why."""
    file = FeatureFile(path)
    with open(path.with_name("other"), "wb") as other:  # open for writing alone
        plain, file._handle.number = file._handle.number, other.fileno()
        monkeypatch.setattr(file._handle, "check", lambda: None)
        try:
            with pytest.raises(OSError, match="could not be read at row 0"):
                file.read(torch.arange(0, 5000, 3))
        finally:
            file._handle.number = plain


def test_interrupted_reads_are_made_again(path, monkeypatch):
    """Python completes reads that a kernel left unfinished."""
    file = FeatureFile(path)
    want = file.read([0, 2500])

    def fail(reads, owner):
        reads.failed[:] = 1

    monkeypatch.setattr("gttf_sampler._backends.ops.read_all", fail)
    assert torch.equal(file.read([0, 2500]), want)


class FullDisk:
    """A file that takes so many bytes and no more."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def __getattr__(self, name):
        return getattr(self.file, name)

    def write(self, data):
        self.room -= len(data)
        if self.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.file.write(data)


@pytest.mark.parametrize("room", [100, 5000, 400_000])
def test_full_disk_leaves_what_was_there(path, room, monkeypatch):
    before = path.read_bytes()
    plain = open
    monkeypatch.setattr(
        "gttf_sampler._files.open",
        lambda *how: _entered(plain(*how), room),
        raising=False,
    )
    with pytest.raises(OSError, match="No space left"):
        FeatureFile.from_array(path, torch.rand(9000, 16), overwrite=True)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["x.npy"]


class _entered:  # noqa: N801 - in the place of a function
    def __init__(self, file, room):
        self.file, self.full = file, FullDisk(file, room)

    def __enter__(self):
        return self.full

    def __exit__(self, *error):
        self.file.close()


def test_broken_chunks_leave_nothing(tmp_path):
    def chunks():
        yield torch.rand(100, 4)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FeatureFile.from_chunks(tmp_path / "x.npy", chunks())
    assert not list(tmp_path.iterdir())


@pytest.mark.process
def test_interrupt_in_the_middle_of_a_read(tmp_path):
    """Ctrl-C ends a read; afterwards nothing runs, and the next read is right."""
    program = """
    import os, signal, sys, threading, time, torch
    from gttf_sampler import FeatureFile
    from gttf_sampler._backends import threads
    from gttf_sampler._backends.torch import gather as torch_gather
    from gttf_sampler import set_backend
    set_backend("torch")
    from gttf_sampler.features import read
    read.NOWAIT = 0
    file = FeatureFile(sys.argv[1])
    plain, began = torch_gather.read_at, threading.Event()
    busy = set()
    def slow(*how):
        me = threading.get_ident()
        busy.add(me)
        began.set()
        try:
            time.sleep(0.02)
            return plain(*how)
        finally:
            busy.discard(me)
    torch_gather.read_at = slow
    def press():
        began.wait()
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=press).start()
    start = time.perf_counter()
    try:
        file.read(torch.arange(0, 500_000, 100))
        print("not interrupted")
    except KeyboardInterrupt:
        print("interrupted", time.perf_counter() - start < 10)
    torch_gather.read_at = plain
    time.sleep(0.2)
    print(len(busy), torch.equal(file.read([7, 3]), file[0:8][[7, 3]]))
    """
    FeatureFile.from_array(tmp_path / "x.npy", torch.rand(500_000, 64))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "x.npy")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.splitlines() == ["interrupted True", "0 True"], done.stderr


@pytest.mark.process
def test_interpreter_may_exit_in_the_middle_of_a_read(path):
    program = """
    import sys, threading, time, torch
    from gttf_sampler import FeatureFile
    file = FeatureFile(sys.argv[1])
    ids = torch.randint(0, 5000, (4000,))  # torch's own work may abort at exit
    def work():
        while True:
            file.read(ids)
    for _ in range(3):
        threading.Thread(target=work, daemon=True).start()
    time.sleep(0.5)
    print("leaving")
    """
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(program), str(path)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
        )
        # Python ends daemon threads that come back from torch, whose C++ may abort then
        if "terminate called without an active exception" not in done.stderr:
            break
    assert (done.returncode, done.stdout) == (0, "leaving\n"), done.stderr


@pytest.mark.process
def test_killed_writer_leaves_no_file(tmp_path):
    """SIGTERM through the command, in the middle of writing."""
    np.save(tmp_path / "in.npy", np.zeros((1_000_000, 64), np.float32))
    program = "import sys; from gttf_sampler.cli.main import main; sys.exit(main())"
    files = [str(tmp_path / name) for name in ("in.npy", "out.npy")]
    process = subprocess.Popen(
        [sys.executable, "-c", program, "features", *files],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(2000):
            if any(file.name.startswith(".gttf-") for file in tmp_path.iterdir()):
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (130, 0)
    finally:
        process.kill()
    names = {file.name for file in tmp_path.iterdir()}
    assert names in ({"in.npy"}, {"in.npy", "out.npy"})


def test_threads_are_as_many_as_reads_in_flight(path, backend):
    file = FeatureFile(path)
    before = threads.READERS.started, threading.active_count()
    for _ in range(3):
        file.read(torch.arange(0, 5000, 200))
    assert threads.READERS.started <= threads.READS - 1
    made = threads.READERS.started - before[0]
    assert threading.active_count() - before[1] <= made
