"""PyG's loaders continue from a state, bit by bit; also after a kill."""

import signal
import time
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from apart import forks, start_script
from gttf_pyg import (
    DeepWalk,
    GTTFLinkLoader,
    GTTFLoader,
    Node2Vec,
)
from makers import (
    BESIDE,
    KARATE,
    NEIGHBORS,
    binary,
    forests,
    node_loader,
    numbers,
    shared,
    walks,
)
from resumed import run as run_of
from resumed import through_a_file

run = partial(run_of, own=True, epochs=2, told=numbers)

MAKERS = [*NEIGHBORS, binary, shared, walks, forests]
WAYS = [
    {},
    {"num_workers": 2},
    {"num_workers": 1, "thread_workers": False},
    {"num_workers": 2, "thread_workers": False, "persistent_workers": True},
]


@pytest.mark.parametrize("way", WAYS[:2], ids=str)
@pytest.mark.parametrize("make", [*MAKERS, *BESIDE])
def test_resumed_is_uninterrupted(make, way):
    whole = run(make)
    for stop in (1, len(whole) // 2, len(whole) // 2 + 1):
        assert run(lambda: make(**way), stop) == whole


@pytest.mark.process
@pytest.mark.parametrize("make", MAKERS)
def test_resumed_with_processes_is_uninterrupted(make):
    """Within the first epoch, and at its end: nothing is taken twice, nothing left."""
    whole = run(make)
    for way, stop in zip(WAYS[2:], (1, len(whole) // 2), strict=True):
        assert run(lambda way=way: make(**way), stop) == whole


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_resumed_on_any_graph(data):
    """With batches that a thread has made ahead, or not."""
    size = data.draw(st.integers(2, 20), "nodes")
    edges = torch.randint(size, (2, 3 * size))
    graph = Data(x=torch.rand(size, 2), edge_index=edges, num_nodes=size)
    how = {
        "batch_size": data.draw(st.integers(1, 7), "batch_size"),
        "shuffle": data.draw(st.booleans(), "shuffle"),
        "drop_last": data.draw(st.booleans(), "drop_last"),
        "prefetch": data.draw(st.integers(0, 3), "prefetch"),
        "seed": data.draw(st.sampled_from([None, 3]), "seed"),
    }
    whole = run(lambda: GTTFLoader(graph, [2, 2], **how))
    if whole:
        stop = data.draw(st.integers(1, len(whole)), "stop")
        assert run(lambda: GTTFLoader(graph, [2, 2], **how), stop) == whole


@pytest.mark.process
def test_spawned_workers_get_a_loader_that_has_begun():
    """The loader is sent to them while its pass is under way."""
    loader = node_loader()
    iterator = iter(loader)
    next(iterator)
    way = {"num_workers": 1, "thread_workers": False}
    again = node_loader(**way, multiprocessing_context=forks())
    again.load_state_dict(loader.state_dict())
    assert list(map(numbers, again)) == list(map(numbers, iterator))


TRAIN = """
import os, sys, torch
from torch_geometric.datasets import KarateClub
from torch_geometric.nn import GraphSAGE
from gttf_pyg import GTTFLoader

torch.set_num_threads(1)
torch.manual_seed(0)
file, out = sys.argv[1:]
model = GraphSAGE(34, 8, 2, 4, dropout=0.5)
optimizer = torch.optim.Adam(model.parameters())
loader = GTTFLoader(
    KarateClub()[0], [4, 4], batch_size=5, shuffle=True, num_workers=2
)
parts = {"model": model, "optimizer": optimizer, "loader": loader}
if os.path.exists(file):
    saved = torch.load(file, weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(saved[name])
for epoch in range(loader.state_dict()["epoch"], 8):
    for batch in loader:
        optimizer.zero_grad()
        seeds = slice(batch.batch_size)
        out_of = model(batch.x, batch.edge_index)[seeds]
        torch.nn.functional.cross_entropy(out_of, batch.y[seeds]).backward()
        optimizer.step()
        torch.save({n: part.state_dict() for n, part in parts.items()}, file + ".new")
        os.replace(file + ".new", file)
        print(epoch, flush=True)
torch.save(model.state_dict(), out)
"""


@pytest.mark.process
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals of POSIX")
def test_killed_run_ends_like_one_that_was_not(tmp_path):
    """SIGKILL within an epoch; then the same parameters, bit by bit."""
    script = tmp_path / "train.py"
    script.write_text(TRAIN)

    def start(name, out):
        words = tmp_path / f"{name}.ckpt", tmp_path / name
        return start_script(script, *words, out=tmp_path / out)

    def steps(out):
        return len((tmp_path / out).read_text().splitlines())

    killed = start("killed", "first.log")
    while killed.is_alive() and not (
        (tmp_path / "first.log").exists() and steps("first.log") >= 17
    ):
        time.sleep(0.003)
    killed.kill()
    killed.join(60)
    assert killed.exitcode == -signal.SIGKILL
    runs = start("whole", "whole.log"), start("killed", "last.log")
    for run in runs:
        run.join(300)
        assert run.exitcode == 0
    assert steps("whole.log") == 56
    assert 0 < steps("last.log") <= 56 - 17
    one, other = (torch.load(tmp_path / name) for name in ("whole", "killed"))
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name


OTHER = Data(x=KARATE.x, edge_index=KARATE.edge_index.roll(1, dims=1).flip(0))
OTHER.edge_index = torch.cat([OTHER.edge_index[:, 1:], torch.tensor([[0], [9]])], 1)
NODES = {"input_nodes": torch.arange(20), "batch_size": 4}


@pytest.mark.parametrize("begun", [0, 2])
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("num_neighbors", lambda: GTTFLoader(KARATE, [3], **NODES)),
        ("replace", lambda: GTTFLoader(KARATE, [2], replace=True, **NODES)),
        ("disjoint", lambda: GTTFLoader(KARATE, [2], disjoint=True, **NODES)),
        (
            "subgraph_type",
            lambda: GTTFLoader(KARATE, [2], subgraph_type="induced", **NODES),
        ),
        ("max_nodes", lambda: GTTFLoader(KARATE, [2], max_nodes=9, **NODES)),
        ("graph", lambda: GTTFLoader(OTHER, [2], **NODES)),
        (
            "seeds",
            lambda: GTTFLoader(
                KARATE, [2], input_nodes=torch.arange(1, 21), batch_size=4
            ),
        ),
    ],
)
def test_states_are_of_loaders_that_draw_alike(name, make, begun):
    """In the middle of an epoch and before it; the error has both values."""
    loader = GTTFLoader(KARATE, [2], **NODES)
    for _, _ in zip(range(begun), loader, strict=False):
        pass
    state = through_a_file(loader.state_dict())
    GTTFLoader(KARATE, [2], **NODES).load_state_dict(state)
    sentence = f"'state_dict' must be of a loader with {name} .* .got {name} "
    with pytest.raises(ValueError, match=sentence):
        make().load_state_dict(state)


def test_states_of_link_loaders_and_walks_are_of_those_that_draw_alike():
    links = {"batch_size": 9, "edge_label_index": KARATE.edge_index}
    state = GTTFLinkLoader(KARATE, [2], neg_sampling="binary", **links).state_dict()
    with pytest.raises(ValueError, match="with neg_sampling "):
        GTTFLinkLoader(KARATE, [2], neg_sampling="triplet", **links).load_state_dict(
            state
        )
    walks = Node2Vec(KARATE.edge_index, 8, 4, 2).loader(batch_size=4)
    other = Node2Vec(KARATE.edge_index, 8, 5, 2).loader(batch_size=4)
    with pytest.raises(ValueError, match=r"with walk_length 5, .*got walk_length 4"):
        other.load_state_dict(walks.state_dict())
    model = DeepWalk(KARATE.edge_index, 8, 4, 2)
    state = model.loader(batch_size=4).state_dict()
    other = DeepWalk(KARATE.edge_index, 8, 5, 2)
    with pytest.raises(ValueError, match=r"with fanouts \[1, 1, 1, 1\], .*got fanouts"):
        other.loader(batch_size=4).load_state_dict(state)
