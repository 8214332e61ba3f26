"""DGL on two processes with the whole graph each: DDP, and a process that dies."""

import sys

import pytest

from apart import ROOT, check_restart

EXAMPLES = ROOT / "examples"


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX, gloo on Linux")
def test_restarted_run_ends_like_one_that_was_not(tmp_path):
    check_restart(EXAMPLES / "dgl_ddp.py", tmp_path)
