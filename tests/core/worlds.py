"""Worlds of real processes that talk over gloo, and what tests let them do."""

import os
import traceback
from datetime import timedelta
from multiprocessing.connection import wait

import torch
import torch.distributed as dist

from apart import forks

SECONDS = 120  # more than any test takes, on a machine that is busy


class World:
    """`size` processes that run functions of test modules, all at the same time."""

    def __init__(self, size, folder, context=None):
        context = context or forks()
        self.pipes, self.processes = [], []
        store = os.path.join(folder, "store")
        for rank in range(size):
            ours, theirs = context.Pipe()
            run = context.Process(
                target=_live, args=(rank, size, store, theirs), daemon=True
            )
            run.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(run)

    def run(self, function, *args):
        """function(rank, group, *args) in all processes; what each has returned."""
        results = self.outcomes(function, *args)
        for kind, value in results:
            assert kind == "ok", value
        return [value for _, value in results]

    def outcomes(self, function, *args):
        """("ok", value), ("error", traceback) or ("dead", None) of every process."""
        for pipe in self.pipes:
            pipe.send((function, args))
        return self.collect(range(len(self.pipes)))

    def collect(self, ranks):
        """Results or deaths of processes, in the order of `ranks`."""
        found = {}
        while len(found) < len(ranks):
            left = {self.pipes[rank]: rank for rank in ranks if rank not in found}
            ready = wait(list(left), timeout=SECONDS)
            assert ready, f"ranks {sorted(left.values())} hang"
            for pipe in ready:
                try:
                    found[left[pipe]] = pipe.recv()
                except EOFError:
                    found[left[pipe]] = ("dead", None)
        return [found[rank] for rank in ranks]

    def close(self):
        for pipe, run in zip(self.pipes, self.processes, strict=True):
            try:
                pipe.send(None)
            except OSError:
                continue
            finally:
                run.join(10)
                run.kill()


def _live(rank, size, store, pipe):
    """The life of a process: it runs what it is told to run."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=SECONDS),
    )
    groups = {k: dist.new_group(range(k)) for k in range(1, size + 1)}
    while (task := pipe.recv()) is not None:
        function, args = task
        try:
            pipe.send(("ok", function(rank, groups, *args)))
        except BaseException:
            pipe.send(("error", traceback.format_exc()))
    os._exit(0)
