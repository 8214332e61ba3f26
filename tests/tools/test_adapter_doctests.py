"""The examples in the docstrings of the adapters, where their host is installed."""

import doctest
import importlib
import pkgutil

import pytest

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
HOSTS = {"gttf_pyg": "torch_geometric", "gttf_dgl": "dgl"}


@pytest.mark.parametrize("name", HOSTS)
def test_docstrings_of(name):
    pytest.importorskip(HOSTS[name], reason=f"{name} needs {HOSTS[name]}")
    package = importlib.import_module(name)
    names = [
        name,
        *(f"{name}.{m.name}" for m in pkgutil.iter_modules(package.__path__)),
    ]
    results = [
        doctest.testmod(importlib.import_module(each), optionflags=FLAGS)
        for each in names
    ]
    assert sum(result.failed for result in results) == 0
