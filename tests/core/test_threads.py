"""The fast backend among threads, forks, spawned workers and closing interpreters."""

import gc
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from gttf_sampler import CompactAdj, sample_rooted, traverse
from gttf_sampler._backends import threads

pytest.importorskip("numba", reason="numba is missing")

ROOT = Path(__file__).parents[2]


def make_graph(edges: int = 60_000) -> CompactAdj:
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(0, 3000, (2, edges), generator=generator)
    return CompactAdj.from_edge_index(edge_index, 3000)


def draw(adj: CompactAdj, number: int) -> list[int]:
    """One batch, large enough for threads to share it."""
    seeds = torch.arange(number, number + 2000)
    found = sample_rooted(adj, seeds, [5, 5], generator=number)
    forest = traverse(adj, seeds, [4, 4], generator=number)
    return [int(found.edge.sum()), int(found.row.sum()), int(forest.nodes[2].sum())]


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


class Batches(torch.utils.data.Dataset):
    """Numbers of batches; a worker turns each into a sample of the graph."""

    def __init__(self, adj: CompactAdj) -> None:
        self.adj = adj

    def __len__(self) -> int:
        return 6

    def __getitem__(self, number: int) -> list[int]:
        return [*draw(self.adj, number), torch.get_num_threads(), os.getpid()]


@pytest.mark.process
@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(("method", "workers"), [("fork", 2), ("spawn", 1)])
def test_workers_give_the_same_batches(method, workers):
    """After this process has used its threads; workers persist over two epochs."""
    adj = make_graph()
    expected = [draw(adj, number) for number in range(6)]
    assert threads.KERNELS.started
    loader = DataLoader(
        Batches(adj),
        batch_size=None,
        num_workers=workers,
        persistent_workers=True,
        multiprocessing_context=method,
        timeout=120,
    )
    for _ in range(2):
        batches = list(loader)
        assert [batch[:3] for batch in batches] == expected
        assert {batch[3] for batch in batches} == {1}  # one thread in a worker
        assert os.getpid() not in {batch[4] for batch in batches}
    assert [draw(adj, number) for number in range(6)] == expected


@pytest.mark.usefixtures("two_threads")
def test_concurrent_calls_give_the_same_batches():
    adj = make_graph()
    expected = [draw(adj, number) for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda number: draw(adj, number), range(24))) == expected


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )


PROGRAM = """
    import torch
    from gttf_sampler import CompactAdj, sample_rooted, traverse
    torch.set_num_threads(2)
    edge_index = torch.randint(0, 3000, (2, 60_000))
    adj = CompactAdj.from_edge_index(edge_index, 3000)
"""


@pytest.mark.process
def test_interpreter_may_exit_in_the_middle():
    """While kernels run: torch's own calls abort in a daemon thread at exit."""
    done = run(
        PROGRAM
        + """
    import threading, time
    from gttf_sampler._backends import threads
    from gttf_sampler._backends.numba import rows
    ids = torch.zeros(10**9, dtype=torch.int8).expand(10**9).numpy()
    counts = torch.zeros(1, dtype=torch.int64).numpy()
    import numpy as np
    def busy(lo, hi):
        for _ in range(3):
            rows.count_buckets(lo, hi, ids, np.uint64(0), counts)
    sample_rooted(adj, torch.arange(3000), [10, 10])
    work = lambda: threads.parallel(busy, 10**9, 10**9)
    threading.Thread(target=work, daemon=True).start()
    time.sleep(1)
    print("leaving")
    """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "leaving\n"


@pytest.mark.process
def test_kernels_release_the_gil():
    """A Python loop in another thread goes on while a kernel runs."""
    done = run(
        PROGRAM
        + """
    import threading, time
    torch.set_num_threads(1)
    traverse(adj, torch.arange(3000), [10, 10], generator=0)
    longest, stop = 0.0, False
    def watch():
        global longest
        last = time.perf_counter()
        while not stop:
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
            time.sleep(0.0005)
    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    traverse(adj, torch.arange(3000), [20, 20, 10], generator=0)
    taken, stop = time.perf_counter() - start, True
    watcher.join()
    print(longest < taken / 2, longest, taken)
    """
    )
    assert done.stdout.startswith("True"), done.stdout + done.stderr


@pytest.mark.process
@pytest.mark.compile
def test_missing_cache_directory_only_means_compiling(tmp_path):
    """The package in a place where nothing can be written, no other place either."""
    frozen = tmp_path / "site"
    package, python = frozen / "gttf_sampler", shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "gttf_sampler", package, ignore=python)
    nowhere = package / "_backends" / "numba" / "__pycache__"
    nowhere.write_text("not a directory")
    program = """
    import torch
    from gttf_sampler import backend_info
    from gttf_sampler._backends import ops
    none, one = torch.zeros(1, dtype=torch.int64), torch.ones(1, dtype=torch.int64)
    print(ops.draw_uniform(none, one, 1, True).tolist(), backend_info().split()[0])
    """
    (temporary := tmp_path / "tmp").mkdir()  # what earlier runs have left is elsewhere
    homes = dict.fromkeys(("HOME", "XDG_CACHE_HOME"), str(nowhere))
    homes["TMPDIR"] = str(temporary)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        cwd=frozen,
        env={**os.environ, **homes},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.stdout == "[[0]] numba\n", done.stderr
    assert done.stderr.count("compiling the CPU kernels") == 1


def test_parts_are_waited_for_when_the_caller_fails(two_threads):
    """Kernels read memory by its address: nobody may leave while they run."""
    begun, ended, go_on = [], [], threading.Event()

    def slow(lo, hi):
        begun.append(lo)
        go_on.wait(10)
        ended.append(lo)

    def interrupted():
        with threads.Calls([partial(slow, lo, lo + 1) for lo in range(8)]):
            while not begun:
                time.sleep(0.001)
            threading.Timer(0.05, go_on.set).start()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert begun == ended
    assert len(begun) < 8  # the others were never begun


def test_calls_are_waited_for_when_another_fails(two_threads):
    begun, ended = threading.Event(), []

    def fail():
        begun.wait(10)
        raise MemoryError

    def slow():
        begun.set()
        time.sleep(0.05)
        ended.append(1)

    with pytest.raises(MemoryError):
        threads.run([fail, slow])
    assert ended == [1]


def test_nobody_waits_for_a_thread_to_wake_up(two_threads):
    """As long as the other thread is busy, the caller makes all calls."""
    go_on, made = threading.Event(), []

    class Owner:
        pass

    def note(owner, number):
        made.append(number)

    threads.KERNELS.summon(lambda: go_on.wait(30))
    owner = Owner()
    alive = weakref.ref(owner)
    threads.run([partial(note, owner, number) for number in range(5)])
    assert made == [0, 1, 2, 3, 4]
    del owner
    assert alive() is None  # not even though somebody is still to wake up for it
    go_on.set()


def test_calls_hold_the_owners_of_what_they_read(two_threads):
    """An interrupt may end the caller before it waits for anybody."""

    class Owner:
        pass

    owner, seen, go_on = Owner(), [], threading.Event()
    alive = weakref.ref(owner)

    def slow(lo, hi):
        go_on.wait(10)
        seen.append(alive() is not None)

    calls = [partial(slow, lo, lo + 1) for lo in range(2)]
    with threads.Calls(calls, owners=owner) as parts:
        del owner
        gc.collect()
        go_on.set()
        parts.wait(1)
    assert seen == [True, True]


@pytest.mark.process
def test_child_of_a_process_that_compiles_can_compile():
    """The compiler's lock is not left with a thread that the child does not have."""
    pytest.importorskip("numba")
    code = """if True:
        import os, threading, time
        from numba.core.compiler_lock import global_compiler_lock as lock
        import gttf_sampler._backends.numba.rng

        def hold():
            with lock:
                time.sleep(0.5)

        threading.Thread(target=hold).start()
        time.sleep(0.1)
        child = os.fork()
        if not child:
            with lock:
                os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "7", done.stderr
