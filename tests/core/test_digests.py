"""The draws of noted seeds stay what they were."""

import json

import pytest
import torch

import digests
from digests import BACKENDS, CORE, FILE, calls, digest
from gttf_sampler import use_backend
from gttf_sampler.verify import backends_on

KNOWN = json.loads(FILE.read_text()) if FILE.exists() else {}
CALLS = calls()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CALLS)
def test_digests_are_what_they_were(name, backend):
    with use_backend(backend):
        assert digest(CALLS[name]()) == KNOWN[name]


@pytest.mark.compile
@pytest.mark.parametrize("name", CORE)
def test_digests_on_a_device(name, device, monkeypatch):
    """On every backend that it has."""
    monkeypatch.setattr(digests, "PLACE", "cuda")
    with device():
        for backend in backends_on(torch.device("cuda")):
            with use_backend(backend):
                assert digest(CORE[name]()) == KNOWN[name]


def test_digests_tell_results_apart():
    assert len(set(KNOWN.values())) >= len(KNOWN) - 2  # workers change nothing
    assert KNOWN["pyg"] == KNOWN["pyg workers"]
    assert KNOWN["dgl"] == KNOWN["dgl workers"]
