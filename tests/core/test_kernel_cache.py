"""Machine code on disk: what is damaged is compiled anew."""

import os
import pathlib
import random
import subprocess
import sys
from importlib import import_module

import pytest

pytest.importorskip("numba")
kernel_cache = import_module("gttf_sampler._backends.kernel_cache")

CALL = """
import sys
import numpy as np, numba
from gttf_sampler._backends import kernel_cache
@numba.njit(cache=True)
def twice(x):
    return 2 * x
kernel_cache.guard(twice, sys.argv[1])
print(twice(21), sum(twice.stats.cache_hits.values()))
"""


def run(folder: pathlib.Path, stamp: str = "1") -> str:
    script = folder / "kernel.py"
    if not script.exists():  # numba looks at when a file was written
        script.write_text(CALL)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, sys.path))
    done = subprocess.run(
        [sys.executable, script, stamp], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout.strip()


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flip(data: bytes) -> bytes:
    at = random.Random(0).randrange(len(data))
    return data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :]


@pytest.mark.parametrize("damage", [cut, flip, lambda data: b""])
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_damaged_kernel_is_compiled_anew(tmp_path, damage, ending):
    assert run(tmp_path) == "42 0"
    assert run(tmp_path) == "42 1"
    (file,) = (tmp_path / "cache").rglob(f"*.{ending}")
    file.write_bytes(damage(file.read_bytes()))
    assert run(tmp_path) == "42 0"
    assert run(tmp_path) == "42 1"  # and kept


def test_kernel_is_compiled_anew_with_another_stamp(tmp_path):
    assert run(tmp_path) == "42 0"
    assert run(tmp_path, "2") == "42 0"
    assert run(tmp_path, "2") == "42 1"


def test_stamp_changes_with_any_file(tmp_path):
    files = [tmp_path / name for name in "ab"]
    for file in files:
        file.write_text("1")
    before = kernel_cache.stamp_of(files)
    files[1].write_text("2")
    assert kernel_cache.stamp_of(files) != before


def test_kernels_say_once_that_they_are_compiled(tmp_path):
    code = (
        "import torch\n"
        "from gttf_sampler import CompactAdj, traverse\n"
        "adj = CompactAdj.from_edge_index([[0, 1], [1, 0]])\n"
        "traverse(adj, [0], [1], lambda path, node, hood: hood.neighbor + 1)\n"
        "traverse(adj, [0], [2], replace=False)\n"
        "from gttf_sampler._backends import ops\n"
        "ops.draw_uniform(torch.zeros(1).long(), torch.ones(1).long(), 1, True)\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, sys.path))
    told = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        told.append("compiling the CPU kernels" in done.stderr)
    assert told == [True, False]
