"""Importing the engine imports no host; adapters name what is missing."""

import atexit
import json
import os
import re
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

import pytest

HOSTS = (
    "torch_geometric",
    "dgl",
    "numba",
    "matplotlib",
    "scipy",
    "tqdm",
)

# torch.hub imports tqdm where it is installed, so what torch and numpy bring is known
# beforehand and does not count.
BEFORE = """
import sys, numpy, torch
known = set(sys.modules)
"""
AFTER = f"""
new = set(sys.modules) - known
print(*sorted({{name.split(".")[0] for name in new}} & set({HOSTS!r})))
"""


# Runs every line of JSON that it reads, as code, in a fork; torch is imported once.
FORKS = """
import json, os, sys, tempfile, traceback
import numpy, torch
for line in sys.stdin:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if not child:
            os.dup2(out.fileno(), 1), os.dup2(err.fileno(), 2)
            try:
                exec(json.loads(line), {"__name__": "__main__"})
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            sys.stdout.flush()
            os._exit(0)
        status, told = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), []
        for file in (out, err):
            file.seek(0)
            told.append(file.read().decode())
        print(json.dumps([status, *told]), flush=True)
"""


class Ended(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@cache
def interpreter() -> subprocess.Popen[str]:
    """An interpreter that finds the packages of this one, and has torch and numpy."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-W", "error", "-c", FORKS]
    started = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, **pipes)
    atexit.register(started.communicate)
    return started


def run(code: str) -> Ended:
    """Runs `code` in a fork of it, which nothing has been imported into but torch."""
    asked = interpreter()
    asked.stdin.write(json.dumps(code) + "\n")
    asked.stdin.flush()
    return Ended(*json.loads(asked.stdout.readline()))


def hosts_after(code: str) -> list[str]:
    """The hosts that `code` imports in a new interpreter."""
    child = run(BEFORE + code + AFTER)
    assert child.returncode == 0, child.stderr
    return child.stdout.split()


def test_import_brings_no_host():
    """Nor does it draw a random number, or change a setting of torch."""
    state = "(torch.get_rng_state().tolist(), torch.get_num_threads())"
    code = f"before = {state}\nfrom gttf_sampler import *\nassert before == {state}"
    assert hosts_after(code) == []


def test_sampling_brings_no_plotting_and_no_graph_library():
    used = hosts_after(
        "import gttf_sampler as gs\n"
        "adj = gs.CompactAdj.from_edge_index([[0, 1], [1, 0]])\n"
        "gs.traverse(adj, [0], [1, 1], gs.Node2VecBias(2.0, 0.5))\n"
        "gs.sample_rooted(adj, [0], [1, -1])\n"
    )
    assert set(used) <= {"numba", "scipy"}  # numba may run, and bring scipy with it


def test_import_check_can_fail():
    """The check above sees a host that is imported beside the engine."""
    pytest.importorskip("scipy")
    assert "scipy" in hosts_after("from gttf_sampler import *\nimport scipy.sparse")


def test_import_all_is_complete():
    import gttf_sampler

    assert sorted(gttf_sampler.__all__) == list(gttf_sampler.__all__)
    for name in gttf_sampler.__all__:
        assert getattr(gttf_sampler, name).__doc__, name


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            "torch.__version__ = type(torch.__version__)('2.1.12')",
            r"'torch' must be 2\.2 or newer \(got 2\.1\.12\); .*'torch>=2\.2'",
        ),
        ("torch.from_numpy = refuse", r"'numpy' must be .*\(got numpy .*'numpy<2'"),
    ],
)
def test_import_with_a_torch_that_does_not_do(change, told):
    code = (
        "import torch\ndef refuse(array):\n"
        "    raise RuntimeError('Numpy is not available')\n"
        f"{change}\n"
        "try:\n    import gttf_sampler\n"
        "except ImportError as error:\n    print(error)\n"
    )
    child = run(code)
    assert child.returncode == 0, child.stderr
    assert re.match(told, child.stdout), child.stdout


def test_import_of_the_stage_for_graphbolt_without_it():
    pytest.importorskip("dgl")
    if find_spec("dgl.graphbolt"):
        pytest.skip("this dgl cannot be imported without its GraphBolt")
    child = run(
        "import sys\nsys.modules['dgl.graphbolt'] = None\n"
        "try:\n    import gttf_dgl.graphbolt\n"
        "except ImportError as error:\n    print(error)\n"
    )
    assert child.returncode == 0, child.stderr
    assert re.match("'gttf_dgl.graphbolt' needs dgl 2\\.1\\.0 ", child.stdout)
    assert "from a checkout with: pip install '.[graphbolt]'" in child.stdout


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        ("FileNotFoundError('no libgraphbolt\\nfor it')", "FileNotFoundError: no lib"),
        ("OSError('libcudart is missing')", "OSError: libcudart is missing"),
        ("ModuleNotFoundError('no torchdata')", "ModuleNotFoundError: no torchdata"),
        ("ImportError()", "ImportError: no reason"),
    ],
)
def test_import_of_dgl_that_fails(tmp_path, failure, told):
    """An error of a dgl for another torch or Python becomes one sentence."""
    (tmp_path / "dgl").mkdir()
    (tmp_path / "dgl" / "__init__.py").write_text(f"raise {failure}\n")
    child = run(
        f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n"
        f"try:\n    import gttf_dgl\n"
        f"except ImportError as error:\n    print(error, repr(error.__cause__))\n"
    )
    assert child.returncode == 0, child.stderr
    assert len(child.stdout.splitlines()) == 1
    assert "'gttf_dgl' needs a dgl that can be imported (got " in child.stdout
    assert told in child.stdout
    assert "pip install 'dgl<2' packaging" in child.stdout
    assert "Python before 3.12" in child.stdout


@pytest.mark.parametrize(
    ("adapter", "host", "package"),
    [("gttf_pyg", "torch_geometric", "torch-geometric"), ("gttf_dgl", "dgl", "dgl")],
)
def test_import_of_an_adapter_without_its_host(adapter, host, package):
    child = run(
        f"import sys\nsys.modules[{host!r}] = None\n"
        f"try:\n    import {adapter}\n"
        f"except ImportError as error:\n    print(error)\n"
    )
    assert child.returncode == 0, child.stderr
    assert f"'{adapter}' needs" in child.stdout
    assert f"pip install '{package}" in child.stdout
