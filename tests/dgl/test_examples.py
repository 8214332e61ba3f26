"""Every DGL example runs offline, briefly, and keeps to its format."""

import pathlib
import re
import sys

import pytest

from apart import check_restart
from exact import one_thread

__all__ = ["one_thread"]

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
NAMES = "sage", "models", "link_prediction", "node2vec", "ddp", "distributed"


@pytest.mark.parametrize("command", [*NAMES, "models --model gcnii"])
def test_example(example, command):
    name, *words = command.split()
    lines = example(f"dgl_{name}", "--epochs", 1, *words)
    assert len(lines) == 2
    found = re.match(r"epoch  1  loss (\d\.\d+)  .* (\d+\.\d) %", lines[0])
    assert found, lines[0]
    assert 0 < float(found[1]) < 5
    assert 0 < float(found[2]) <= 100
    assert lines[1].startswith("Expected after")


def test_sage_takes_the_sampler_of_dgl(example):
    assert len(example("dgl_sage", "--epochs", 1, "--sampler", "dgl")) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX, gloo on Linux")
def test_restarted_run_ends_like_one_that_was_not(tmp_path):
    check_restart(EXAMPLES / "dgl_ddp.py", tmp_path)


def test_examples_are_all_tested():
    assert {f"dgl_{name}" for name in NAMES} == {
        path.stem for path in EXAMPLES.glob("dgl_*.py")
    }
