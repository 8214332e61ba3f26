"""PyG's loaders on a partitioned graph yield the batches of the whole one."""

import pytest
import torch

from gttf_pyg import partition
from pyg_tasks import (
    cut,
    link_batches,
    node_batches,
    refused,
    some_data,
    typed_data,
)
from worlds import World


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    found = World(2, tmp_path_factory.mktemp("world"))
    yield found
    found.close()


@pytest.mark.parametrize(
    "options",
    [{}, {"replace": True}, {"disjoint": True}, {"subgraph_type": "bidirectional"}],
)
def test_batches_of_nodes(world, tmp_path, options):
    data = some_data()
    partition(data, tmp_path, 2, method="hash")
    assert sum(world.run(node_batches, tmp_path, data, None, options)) >= 14


def test_batches_by_times_of_edges(world, tmp_path):
    data = some_data()
    data.w = torch.arange(900) % 7
    partition(data, tmp_path, 2, time_attr="w")
    assert sum(world.run(node_batches, tmp_path, data, None, {"time_attr": "w"})) >= 14


@pytest.mark.parametrize(
    "options", [{"exclude_edges": True}, {"neg_sampling": "binary"}]
)
def test_batches_of_links(world, tmp_path, options):
    data = some_data()
    partition(data, tmp_path, 2)
    pairs = data.edge_index[:, :100]
    assert sum(world.run(link_batches, tmp_path, data, pairs, options)) >= 8


@pytest.mark.parametrize(
    ("options", "left_out"),
    [
        ({}, "left out      w"),
        ({"weight_attr": "w"}, ""),
        ({"time_attr": "time"}, "left out      w"),
    ],
)
def test_command_cuts_a_saved_data(world, tmp_path, capsys, options, left_out):
    data, words = some_data(), []
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", value]
    assert cut(tmp_path, data, *words) == 0
    told = capsys.readouterr().out
    assert "x, y, train_mask, time" in told
    assert left_out in told
    assert ("left out" in told) == bool(left_out)
    made = world.run(node_batches, tmp_path / "out", data, None, options)
    assert sum(made) >= 14


@pytest.mark.parametrize("options", [{}, {"weight_attr": "w"}])
def test_command_cuts_a_saved_typed_data(world, tmp_path, capsys, options):
    words = ["--weight-attr", "w"] if options else []
    assert cut(tmp_path, typed_data(), *words) == 0
    told = capsys.readouterr().out
    assert "author.x, paper.x, paper.y" in told
    assert ("paper.cites.paper.w" in told) == (not options)
    made = world.run(node_batches, tmp_path / "out", typed_data(), "paper", options)
    assert sum(made) >= 8


def test_validate(world, tmp_path):
    partition(some_data(), tmp_path, 2)
    assert world.run(refused, tmp_path) == [True, True]
