"""Resolves every set-up against the package index alone, for each Python that is here.

`make test-resolve` asks pip what it would install (`--dry-run --ignore-installed`) with
an empty configuration and no local files, as on a machine that has nothing of ours, and
prints Python × set-up as a Markdown table. It needs the network and installs nothing.

    make test-resolve ARGS="--python 3.12 3.13"
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from matrix import ROOT, interpreter

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
PINNED = ("-c", "constraints.txt")
SETUPS = {
    "`make demo`, `make test`": (*PINNED, ".[dev]"),
    "`make bench`, `make docs`": (*PINNED, ".[dev,bench,docs]"),
    "`pip install '.[pyg,fast]'`": (".[pyg,fast]",),
    "`pip install '.[dgl,fast]'`": (".[dgl,fast]",),
    "`pip install '.[metis]'`": (".[metis]",),
    "`pip install '.[graphbolt]'`": (".[graphbolt]",),
}
NO_WHEELS = {("3.12", ".[graphbolt]"), ("3.13", ".[graphbolt]")}  # of DGL 2.1.0
SHOWN = ("torch", "triton", "torch-geometric", "dgl")


def index_alone() -> dict[str, str]:
    """The environment without anything that points pip at other places."""
    places = ("FIND_LINKS", "INDEX_URL", "EXTRA_INDEX_URL", "NO_INDEX", "CONSTRAINT")
    hidden = {f"PIP_{name}" for name in places}
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return {**kept, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def new_pip(version: str, folder: Path) -> Path | None:
    """A Python with today's pip, which reads metadata without downloading wheels."""
    base = interpreter(version)
    if base is None:
        return None
    python = folder / version / "bin" / "python"
    subprocess.run([base, "-m", "venv", python.parents[1]], check=True)
    upgrade = [python, "-m", "pip", "install", "-q", "--upgrade", "pip"]
    subprocess.run(upgrade, check=True, env=index_alone())
    return python


def resolved(python: Path, wanted: tuple[str, ...]) -> tuple[bool, str]:
    """Success, and versions of what matters or pip's own reason."""
    ask = (python, "-m", "pip", "install", "--dry-run", "--ignore-installed", *wanted)
    child = subprocess.run(
        ask, cwd=ROOT, env=index_alone(), capture_output=True, text=True
    )
    if child.returncode:
        said = (child.stdout + child.stderr).splitlines()
        depends = [line.strip() for line in said if " depends on " in line]
        errors = [line for line in said if line.startswith("ERROR")]
        return False, "; ".join(depends[:3] or errors[:1] or said[-1:])
    *_, last = child.stdout.strip().splitlines()
    found = dict(
        word.rpartition("-")[::2]
        for word in last.removeprefix("Would install ").split()
    )
    names = {name.lower().replace("_", "-"): value for name, value in found.items()}
    return True, ", ".join(f"{name} {names[name]}" for name in SHOWN if name in names)


def main() -> int:
    """Prints the table; 1 if pip found no way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", nargs="+", default=PYTHONS, metavar="3.12")
    options = parser.parse_args()
    print("| Python | set-up | pip would install |\n|---|---|---|", flush=True)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for version in options.python:
            python = new_pip(version, Path(folder))
            for name, wanted in SETUPS.items():
                if python is None:
                    ok, said = True, "no such Python here"
                elif (version, wanted[-1]) in NO_WHEELS:
                    ok, said = True, "left out: DGL has no wheel for this Python"
                else:
                    ok, said = resolved(python, wanted)
                failed |= not ok
                said = said if ok else f"NOTHING: {said}"
                print(f"| {version} | {name} | {said} |", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
