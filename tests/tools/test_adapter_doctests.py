"""The examples in the docstrings of the adapters, where their host is installed."""

import doctest
import importlib
import pkgutil
from importlib.util import find_spec

import pytest

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
HOSTS = {"gttf_pyg": "torch_geometric", "gttf_dgl": "dgl"}


@pytest.mark.parametrize("name", HOSTS)
def test_docstrings_of(name):
    pytest.importorskip(HOSTS[name], reason=f"{name} needs {HOSTS[name]}")
    package = importlib.import_module(name)
    modules = {m.name for m in pkgutil.iter_modules(package.__path__)}
    if not find_spec("dgl") or find_spec("dgl.graphbolt") is None:  # of DGL 2.1 only
        modules -= {"graphbolt", "_fused"}
    names = [name, *(f"{name}.{module}" for module in sorted(modules))]
    results = [
        doctest.testmod(importlib.import_module(each), optionflags=FLAGS)
        for each in names
    ]
    assert sum(result.failed for result in results) == 0
