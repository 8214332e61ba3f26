"""Processes that die, hang or end early: the others are told, and nothing hangs."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
import torch

from apart import run_apart, run_script
from distributed_tasks import until_failure
from gttf_sampler import CompactAdj
from gttf_sampler.distributed import partition
from worlds import World

TIMEOUT = 4.0


@pytest.fixture
def cut(tmp_path):
    """A graph and its parts."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(0, 100, (2, 1000), generator=generator)
    adj = CompactAdj.from_edge_index(ends, 100)
    partition(adj, tmp_path / "cut", 3, method="hash")
    return adj, tmp_path / "cut"


def await_files(*names):
    """Waits until all of them are there."""
    for _ in range(1000):
        if all(os.path.exists(name) for name in names):
            return
        time.sleep(0.1)
    raise AssertionError(f"no {names}")


def hurt(world, path, adj, number, direct=False):
    """Sends rank 1 a signal amid batches; what the others have found, and how soon.

    The marks of a round stay until the next one: a process that was stopped just before
    it looked for them still has to find them.
    """
    marks = [Path(f"{path}-{rank}") for rank in range(3)]
    for mark in marks:
        mark.unlink(missing_ok=True)
    for rank in range(3):  # rank 2 has nothing to ask and waits for the others
        world.pipes[rank].send((until_failure, (path, adj, TIMEOUT, [2], direct)))
    await_files(*marks)
    os.kill(world.processes[1].pid, number)
    return world.collect((0, 2))


def test_a_process_that_hangs_or_dies_is_named(tmp_path, cut):
    adj, path = cut
    world = World(3, tmp_path)
    try:
        stopped = hurt(world, path, adj, signal.SIGSTOP)
        os.kill(world.processes[1].pid, signal.SIGCONT)
        (late,) = world.collect([1])
        killed = hurt(world, path, adj, signal.SIGKILL)
    finally:
        world.close()
    for found, did in ((stopped, "does not answer within 4 s"), (killed, "is gone")):
        for kind, value in found:
            assert kind == "ok", value
            seconds, said = value
            assert f"rank 1 {did}" in said
            assert seconds < TIMEOUT + 2
        assert "neighbours in hop" in found[0][1][1]
    assert late[0] == "ok", late  # when it comes back it fails as well
    assert "does not answer" in late[1][1]


def test_a_process_that_dies_is_named_where_its_part_is_read(tmp_path, cut):
    adj, path = cut
    world = World(3, tmp_path)
    try:
        killed = hurt(world, path, adj, signal.SIGKILL, direct=True)
    finally:
        world.close()
    for kind, (seconds, said) in killed:
        assert kind == "ok"
        assert "rank 1 is gone" in said
        assert seconds < 3 * TIMEOUT


SCRIPT = """
import os, sys
import torch.distributed as dist
from gttf_sampler import sample_rooted
from gttf_sampler.distributed import PartitionedAdj

folder, path, fails = sys.argv[1:]
children = []
for rank in range(3):  # each ends as an interpreter does, and has imported torch once
    child = os.fork()
    if child == 0:
        break
    children.append(child)
else:
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    print(codes)
    os._exit(0)
out = os.open(f"{folder}/{rank}", os.O_CREAT | os.O_WRONLY)
os.dup2(out, 1), os.dup2(out, 2)
store = f"file://{folder}/store"
dist.init_process_group("gloo", init_method=store, rank=rank, world_size=3)
adj = PartitionedAdj.open(path, timeout=60, direct=False)
for number in range([5, 60, 0][rank]):
    sample_rooted(adj, [number], [3, 3], generator=number)
    if fails == "fails" and rank == 1 and number == 30:
        raise KeyError("no such key")
print("batches made")
dist.destroy_process_group()
"""


@pytest.mark.parametrize("fails", ["fails", "succeeds"])
def test_scripts_that_end_without_a_word(tmp_path, cut, fails):
    """A process that is through serves the others; one that fails says why."""
    (codes,) = map(json.loads, run_apart("-c", SCRIPT, tmp_path, cut[1], fails))
    told = [(tmp_path / str(rank)).read_text("utf-8") for rank in range(3)]
    if fails == "succeeds":
        assert codes == [0, 0, 0], told
        return
    assert codes[1] == 1
    for rank in (0, 2):
        assert "batches made" in told[rank]
        assert "rank 1 has failed: KeyError: 'no such key'" in told[rank]


CLAIM = """
import sys
import torch.distributed as dist
from gttf_sampler.distributed import PartitionedAdj, PeerError

claims, path = int(sys.argv[1]), sys.argv[2]
store = dist.TCPStore("127.0.0.1", 0, 1, True)
dist.init_process_group("gloo", store=store, rank=0, world_size=1)
dist.get_world_size = lambda group=None: 3  # the others never come
root = dist.distributed_c10d._get_default_store()
dist.PrefixStore("gttf/0/world/1", root).add("claims of 0", claims)
try:
    PartitionedAdj.open(path, timeout=1)
except PeerError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("claims", "match"),
    [(1, "rank 0 is taken: two processes"), (0, "rank 1 has not opened the graph")],
)
def test_two_jobs_on_one_port(cut, tmp_path, claims, match):
    """A rank that is taken is told at once, one that never comes within the limit."""
    script = tmp_path / "claim.py"
    script.write_text(CLAIM)
    assert match in "".join(run_script(script, claims, cut[1]))
