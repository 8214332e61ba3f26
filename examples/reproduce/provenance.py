"""The origin of a result: the commit, the versions."""

import importlib.metadata
import platform
import subprocess
import sys
from pathlib import Path

PACKAGES = ("torch", "torch-geometric", "dgl", "numpy", "numba")
ROOT = Path(__file__).parents[2]


def provenance() -> dict[str, object]:
    """The commit and versions that a record is signed with."""
    return {"commit": commit(), "versions": versions()}


def commit() -> str | None:
    """The commit of this tree, "-dirty" behind it if files differ; None without git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=60
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def versions() -> dict[str, str]:
    """Of Python and of the packages that are installed."""
    found = {"python": platform.python_version(), "system": sys.platform}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
