"""Scripts that join a process group run apart from the tests.

What gloo leaves behind in a process, its forked children cannot clean up: the collector
ends them.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def joins_a_group(script: Path) -> bool:
    """Whether a script is one of these."""
    return "torch.distributed" in script.read_text()


def run_apart(script: Path, *options: object) -> list[str]:
    """The lines that a script prints in a process of its own."""
    paths = [str(ROOT), str(ROOT / "adapters"), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, str(script), *map(str, options)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
