"""Scripts that join a process group run apart from the tests.

What gloo leaves behind in a process, its forked children cannot clean up: the collector
ends them.
"""

import faulthandler
import multiprocessing
import os
import runpy
import socket
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from multiprocessing import forkserver
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

ROOT = Path(__file__).parents[2]


def forks() -> Any:
    """Starts processes as forks of one that has imported torch and the hosts.

    Each is as clean as a new one, and begins seconds earlier.
    """
    context = multiprocessing.get_context("forkserver")
    hosts = {"torch_geometric": "gttf_pyg", "dgl": "gttf_dgl"}
    found = [adapter for host, adapter in hosts.items() if find_spec(host)]
    context.set_forkserver_preload(["torch.distributed", "gttf_sampler", *found])
    # it looks for them where pytest does, and not where another checkout is installed
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path))):
        forkserver.ensure_running()
    return context


def joins_a_group(script: Path) -> bool:
    """True if a script is one of these."""
    return "from processes import" in script.read_text()


def start_script(script: Path, *words: object, out: Path, **env: object) -> Any:
    """A fork that runs a script, as Python does it; `out` gets what it prints.

    What it says of errors is in another file, whose name ends in `.err`.
    """
    env = {name: str(value) for name, value in env.items()}
    args = (str(script), *map(str, words)), str(out), env
    run = forks().Process(target=_script, args=args)
    run.start()
    return run


def _script(words: tuple[str, ...], out: str, env: dict[str, str]) -> None:
    faulthandler.enable()
    os.environ.update(env)
    for number, name in ((1, out), (2, f"{out}.err")):
        with open(name, "wb") as file:
            os.dup2(file.fileno(), number)
    sys.stdout.reconfigure(encoding="utf-8", line_buffering=True)
    sys.argv = list(words)
    sys.path.insert(0, str(Path(words[0]).parent))
    torch.set_num_threads(1)
    runpy.run_path(words[0], run_name="__main__")


def run_script(script: Path, *words: object) -> list[str]:
    """The lines that a script prints in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        run = start_script(script, *words, out=out)
        run.join(300)
        assert run.exitcode == 0, Path(f"{out}.err").read_text("utf-8")
        return out.read_text("utf-8").splitlines()


def fork_twice(script: Path, *words: object, restarts: int = 0) -> list[str]:
    """The output of two processes of a script, in torchrun's environment."""
    lines: list[str] = []
    for attempt in range(restarts + 1):
        with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free.getsockname()[1]}
            free.close()
            env |= {"WORLD_SIZE": 2, "TORCHELASTIC_RESTART_COUNT": attempt}
            out = [Path(folder, str(rank)) for rank in range(2)]
            runs = [
                start_script(script, *words, out=out[rank], RANK=rank, **env)
                for rank in range(2)
            ]
            while all(run.exitcode is None for run in runs):
                wait([run.sentinel for run in runs], 300)
            for run in runs:  # where one has died, the others are ended
                run.join(0 if any(other.exitcode for other in runs) else 300)
                run.kill()
                run.join()
            lines += out[0].read_text("utf-8").splitlines()
            if not any(run.exitcode for run in runs):
                return lines
            said = Path(f"{out[0]}.err").read_text("utf-8")
    raise AssertionError(said)


def run_apart(*words: object, **environment: str) -> list[str]:
    """The lines that Python, called with these words, prints in another process."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "adapters"), *sys.path])
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def run_twice(*words: object, restarts: int = 0) -> list[str]:
    """The lines that two processes of a script print, started as users start them."""
    run = "-m", "torch.distributed.run", "--nproc-per-node", 2, "--standalone"
    return run_apart(*run, "--max-restarts", restarts, *words, OMP_NUM_THREADS="1")


def check_restart(script: Path, folder: Path, twice: Any = fork_twice) -> list[str]:
    """Two processes; the second is killed in an epoch: the same parameters.

    Returns what is told of the epochs.
    """
    files = folder / "whole", folder / "killed"
    whole = twice(script, "--epochs", 2, "--checkpoint", files[0])
    how = ("--epochs", 2, "--checkpoint", files[1], "--kill", 14)
    killed = twice(script, *how, restarts=1)
    assert whole == killed
    assert [line.split()[0] for line in whole] == ["epoch", "epoch", "Expected"]
    one, other = (torch.load(file, weights_only=True) for file in files)
    assert len(one["processes"]) == 2
    for name, value in one["model"].items():
        assert torch.equal(value, other["model"][name]), name
    assert str(one["processes"]) == str(other["processes"])
    return whole[:-1]
