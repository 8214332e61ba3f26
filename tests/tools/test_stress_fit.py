"""Some of the interrupts of `stress_fit`, which tries all of them."""

from importlib.util import find_spec

import pytest

import stress_fit
from gttf_sampler._loading.prefetch import PrefetchIterator

HOSTS = {"forests": "torch", "pyg": "torch_geometric", "dgl": "dgl"}
HOSTS |= {"cluster": "pymetis", "padded": "torch"}
NAMES = [name for name, host in HOSTS.items() if find_spec(host)]


def test_interrupts_that_change_results_are_seen():
    calls = []

    def work():
        made = stress_fit.model()
        calls.append(made)
        return len(calls)

    assert stress_fit.interrupted(work, 50)["other results"] > 0


@pytest.mark.parametrize("hogwild", [False, True])
def test_fit_can_be_interrupted(hogwild):
    ((_, _, seen),) = stress_fit.fit(2503 if not hogwild else 101, 7, hogwild)
    assert seen == "0 errors, 0 other results, 0 threads left, 0 drafts"


@pytest.mark.parametrize("name", NAMES)
def test_loaders_can_be_interrupted(name):
    for _, _, seen in stress_fit.loading(name, 401, 5):
        assert seen == "0 errors, 0 other results, 0 threads left, 0 drafts"


def test_iterators_that_were_never_made_are_forgotten():
    object.__new__(PrefetchIterator).__del__()
