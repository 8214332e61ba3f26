"""Leaves these tests out where there is no dgl, and says so."""

from importlib.util import find_spec

MISSING = find_spec("dgl") is None

if MISSING:
    collect_ignore_glob = ["*.py"]
elif find_spec("torch_geometric") is None:
    collect_ignore = ["test_with_pyg.py"]


def pytest_report_header() -> list[str]:
    """The reason, at the top of the report."""
    reason = "gttf_dgl is not tested: dgl is not installed"
    return [reason] if MISSING else []
