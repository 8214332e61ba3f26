"""Runs the tests with other versions of Python, torch and the hosts.

`make test-matrix` makes an environment per Python and torch in `--dir`, puts the rest
of a row into it, and prints version × result as a Markdown table. torch is installed
without its CUDA libraries (see `matrix_stubs`), and the tests run on the CPU.

    make test-matrix ARGS="--only torch=2.3.0"           # some rows of the table
    make test-matrix ARGS="--row 3.12 2.9.1 2.3.5 - 2.7.0 -"  # a row of your own
"""

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from matrix_stubs import make_stubs

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = ("Python", "torch", "numpy", "numba", "PyG", "DGL")
ROWS = """
3.11 2.2.1  1.26.4 0.60.0 2.6.1 2.1.0
3.11 2.3.0  1.26.4 0.60.0 2.6.1 1.1.2
3.11 2.3.0  2.2.6  0.68.1 2.6.1 1.1.3
3.11 2.6.0  2.2.6  0.68.1 2.7.0 1.1.3
3.11 2.13.0 2.4.6  0.68.1 2.8.1 1.1.3
3.11 2.13.0 2.4.6  -      2.8.1 1.1.3
3.11 2.13.0 1.26.4 0.68.1 2.6.1 1.1.2
3.11 2.15.0 2.4.6  0.68.1 2.8.1 1.1.3
3.10 2.13.0 2.2.6  0.68.1 2.8.1 1.1.3
3.12 2.13.0 2.4.6  0.68.1 2.8.1 -
3.13 2.13.0 2.4.6  0.68.1 2.8.1 -
"""
PACKAGES = {"numba": "numba", "PyG": "torch-geometric", "DGL": "dgl"}
OF_TORCH = "filelock fsspec jinja2 networkx setuptools sympy typing-extensions"
OF_TESTS = "hypothesis matplotlib packaging psutil pytest rich scipy tqdm"
# What every row runs, in two minutes or so: what another version can break. The rest is
# left to `make test`.
CORE = "backends digests forest random traverse"
HOSTS = {
    "PyG": "errors hosts install link_loader loader node2vec semantics stores temporal "
    "workers",
    "DGL": "blocks compact install loader walks",
}
# GraphBolt of DGL 2.1.0 imports these without asking for them. Its torchdata asks for
# torch, and with that for all of CUDA, so it is installed without what it asks for.
OF_GRAPHBOLT = "pandas<3 pydantic pyyaml requests"
DATAPIPES = "torchdata==0.7.1"
LONG = "20000 or memory"


def interpreter(version: str) -> str | None:
    """The path of a Python, on the PATH or of pyenv; None if there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    known = [shutil.which(f"python{version}")]
    known += map(str, sorted(pyenv.glob(f"{version}.*/bin/python")))
    for path in filter(None, known):
        if subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return path
    return None


def run(log: Path, *command: str | Path, **variables: str) -> None:
    """Runs a command with its output in `log`; raises if it fails."""
    with log.open("a") as file:
        env = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **variables}
        child = subprocess.Popen(command, cwd=ROOT, env=env, stdout=file, stderr=file)
        if child.wait():
            raise subprocess.CalledProcessError(child.returncode, command)


def environment(row: dict[str, str], folder: Path, log: Path) -> Path:
    """The interpreter of an environment that has what a row names."""
    place = folder / f"python{row['Python']}-torch{row['torch']}"
    python = place / "bin" / "python"
    if not (place / "ready").exists():
        base = interpreter(row["Python"])
        if base is None:
            raise LookupError(f"no Python {row['Python']} here")
        run(log, base, "-m", "venv", "--clear", place)
        torch = f"torch=={row['torch']}"
        run(log, python, "-m", "pip", "install", "--no-deps", torch)
        run(log, python, "-m", "pip", "install", *OF_TORCH.split())
        (libraries,) = place.glob("lib/python*/site-packages/torch/lib")
        try:
            run(log, python, "-c", "import torch")
        except subprocess.CalledProcessError:
            make_stubs(libraries)
            run(log, python, "-c", "import torch")
        (place / "ready").touch()
    pins = [f"numpy=={row['numpy']}"]
    for column, package in PACKAGES.items():
        if row[column] == "-":
            run(log, python, "-m", "pip", "uninstall", "-y", package)
        else:
            pins.append(f"{package}=={row[column]}")
    if row["DGL"] == "2.1.0":
        pins += OF_GRAPHBOLT.split()
        run(log, python, "-m", "pip", "install", "--no-deps", DATAPIPES, "dgl==2.1.0")
        pins.remove("dgl==2.1.0")
    run(log, python, "-m", "pip", "install", *pins, *OF_TESTS.split())
    return python


def files(row: dict[str, str]) -> list[str]:
    """The modules of tests that a row runs."""
    found = [f"tests/core/test_{name}.py" for name in CORE.split()]
    found.append("tests/tools/test_imports.py")
    for host, names in HOSTS.items():
        if row[host] != "-":
            found += [f"tests/{host.lower()}/test_{name}.py" for name in names.split()]
    if row["DGL"] == "2.1.0":
        found.append("tests/dgl/test_graphbolt.py")
    return found


def result(row: dict[str, str], folder: Path) -> str:
    """The outcome of a row's tests, or the reason why there is none."""
    log = folder / ("-".join(row.values()) + ".log")
    log.unlink(missing_ok=True)
    try:
        python = environment(row, folder, log)
    except LookupError as error:
        return f"not tried: {error}"
    except (OSError, subprocess.CalledProcessError):
        return f"not installed, see {log.name}"
    cache = str(python.parent.parent / "numba")
    options = ["-q", "-p", "no:cacheprovider", "--tb=short", "-k", f"not ({LONG})"]
    with contextlib.suppress(subprocess.CalledProcessError):
        command = (python, "-m", "pytest", *options, *files(row))
        run(log, *command, NUMBA_CACHE_DIR=cache)
    last = log.read_text(errors="replace").strip().splitlines()[-1]
    return re.sub(r" in [\d.]+s.*|=+ ?", "", last)


def main() -> int:
    """Prints the table; 1 if a test failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", type=Path, default=ROOT / ".matrix")
    parser.add_argument("--only", nargs="*", default=[], metavar="torch=2.3.0")
    parser.add_argument("--row", nargs=len(COLUMNS), action="append", metavar="VERSION")
    options = parser.parse_args()
    options.dir.mkdir(parents=True, exist_ok=True)
    found = options.row or [line.split() for line in ROWS.strip().splitlines()]
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in found]
    for column, _, version in (text.partition("=") for text in options.only):
        rows = [row for row in rows if row[column] == version]
    print("|", " | ".join(COLUMNS), "| result |")
    print("|---" * (len(COLUMNS) + 1) + "|", flush=True)
    failed = False
    for row in rows:
        start = time.monotonic()
        outcome = result(row, options.dir.resolve())
        failed |= "passed" not in outcome or "failed" in outcome or "error" in outcome
        cells = ["–" if version == "-" else version for version in row.values()]
        print("|", " | ".join([*cells, outcome]), "|")
        print(f"{time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
