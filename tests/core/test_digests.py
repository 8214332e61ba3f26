"""The draws of noted seeds stay what they were."""

import json

import pytest
import torch

import digests
from digests import (
    BACKENDS,
    CORE,
    FILE,
    all_in_parts,
    calls,
    digest,
    digests_of,
)
from gttf_sampler import use_backend
from gttf_sampler.distributed import PartitionedGraph
from gttf_sampler.verify import backends_on
from worlds import World

KNOWN = json.loads(FILE.read_text()) if FILE.exists() else {}
CALLS = calls()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CALLS)
def test_digests_are_what_they_were(name, backend):
    names = {name, f"{name} floats"} & KNOWN.keys()
    with use_backend(backend):
        assert digests_of(name, CALLS[name]()) == {each: KNOWN[each] for each in names}


def drawn_in_two_parts(rank, groups, folder, name):
    """The digests of a draw that reads the other part's files, or asks for its rows."""
    found = []
    with PartitionedGraph.open(folder / name, timeout=120, direct=rank == 0) as graph:
        for backend in BACKENDS:
            with use_backend(backend):
                found.append(digests_of(name, all_in_parts()[name].draw(graph)))
    return found


@pytest.mark.process
def test_digests_of_two_parts(tmp_path):
    world = World(2, tmp_path)
    for name, call in all_in_parts().items():
        call.cut(tmp_path / name, 2)
        drawn = world.run(drawn_in_two_parts, tmp_path, name)
        assert drawn == [[{name: KNOWN[name]}] * len(BACKENDS)] * 2
    world.close()


@pytest.mark.compile
@pytest.mark.parametrize("name", CORE)
def test_digests_on_a_device(name, device, monkeypatch):
    """On every backend that it has."""
    monkeypatch.setattr(digests, "PLACE", "cuda")
    with device():
        for backend in backends_on(torch.device("cuda")):
            with use_backend(backend):
                assert digest(CORE[name]()) == KNOWN[name]


SAME = [  # workers, parts and what is the default change nothing
    {"pyg", "pyg workers"},
    {"dgl", "dgl workers"},
    {"pyg binary", "pyg parts of links"},
    {"pyg node time", "pyg disjoint time"},
    {"pyg PPR floats", "dgl PPR floats"},
]


def test_digests_tell_results_apart():
    groups = {}
    for name, found in KNOWN.items():
        groups.setdefault(found, set()).add(name)
    alike = [group for group in groups.values() if len(group) > 1]
    assert sorted(map(sorted, alike)) == sorted(map(sorted, SAME))
