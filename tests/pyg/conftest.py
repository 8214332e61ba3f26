"""Leaves these tests out where there is no torch-geometric, and says so."""

from importlib.util import find_spec

MISSING = find_spec("torch_geometric") is None

if MISSING:
    collect_ignore_glob = ["*.py"]


def pytest_report_header() -> list[str]:
    """The reason, at the top of the report."""
    reason = "gttf_pyg is not tested: torch-geometric is not installed"
    return [reason] if MISSING else []
