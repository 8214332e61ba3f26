"""Kills and stops processes of a partitioned graph at random moments, again and again.

    PYTHONPATH=.:adapters:tests/core python tests/tools/stress_distributed.py --times 50

Every time three processes draw batches and compare them with the whole graph's, and one
of them, any, gets SIGKILL or SIGSTOP. The others must raise an error that names it, in
time; a wrong batch, a hang or another error ends the run.
"""

import argparse
import os
import random
import signal
import tempfile
import time

import torch

from distributed_tasks import until_failure
from gttf_sampler import CompactAdj
from gttf_sampler.distributed import partition
from worlds import World

SIZE, TIMEOUT = 3, 4.0


def once(world, adj, path, choice):
    """One process is hurt; what was done to whom, and how long others took to tell."""
    victim, number = (
        choice.randrange(SIZE),
        choice.choice([signal.SIGKILL, signal.SIGSTOP]),
    )
    resting = [choice.randrange(SIZE)] if choice.random() < 0.5 else []
    for pipe in world.pipes:
        pipe.send((until_failure, (path, adj, TIMEOUT, resting, False)))
    began = time.monotonic()
    while not all(os.path.exists(f"{path}-{rank}") for rank in range(SIZE)):
        assert time.monotonic() < began + 120, "no batches"
        early = [pipe.recv() for pipe in world.pipes if pipe.poll()]
        assert not early, early  # an error before anybody was hurt
        time.sleep(0.05)
    time.sleep(choice.random())
    os.kill(world.processes[victim].pid, number)
    hurt = time.monotonic()
    others = [rank for rank in range(SIZE) if rank != victim]
    for kind, value in world.collect(others):
        assert kind == "ok", value
        assert f"rank {victim} " in value[1], value
    seconds = time.monotonic() - hurt
    assert seconds < 3 * TIMEOUT, seconds
    os.kill(world.processes[victim].pid, signal.SIGKILL)
    for rank in range(SIZE):
        os.remove(f"{path}-{rank}")
    return number.name, victim, bool(resting), seconds


def main():
    parser = argparse.ArgumentParser(description="Hurts processes at random moments.")
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    choice, generator = random.Random(args.seed), torch.Generator().manual_seed(0)
    ends = torch.randint(0, 100, (2, 1000), generator=generator)
    adj = CompactAdj.from_edge_index(ends, 100)
    took: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "cut")
        partition(adj, path, SIZE, method="hash")
        worlds = [World(SIZE, tempfile.mkdtemp(dir=tmp))]
        for number in range(args.times):
            worlds.append(World(SIZE, tempfile.mkdtemp(dir=tmp)))  # starts meanwhile
            world = worlds.pop(0)
            what, victim, rests, seconds = once(world, adj, path, choice)
            world.close()
            took.setdefault(what, []).append(seconds)
            idle = ", one process had no batches" if rests else ""
            print(f"{number + 1:3} {what} rank {victim}: told in {seconds:.2f} s{idle}")
        worlds.pop().close()
    for what, times in took.items():
        print(f"{what}: {len(times)} times, told in at most {max(times):.2f} s")


if __name__ == "__main__":
    main()
