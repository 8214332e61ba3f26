"""The Triton backend gives the bits of the reference, in Triton's interpreter.

It takes a second for what a GPU does in microseconds: graphs and blocks are small, and
the sizes of blocks are drawn, so that there are several of them all the same.
"""

from contextlib import contextmanager

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies as own

pytest.importorskip("triton", reason="there is nothing to compare without Triton")

import interpreted  # noqa: F401 (for its effect)

from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    ExcludeBias,
    Node2VecBias,
    TemporalBias,
    sample_rooted,
    traverse,
    use_backend,
)
from gttf_sampler._backends import triton_launch as how


@contextmanager
def blocks(lanes: int, widest: int):
    """Small blocks, so that few walkers fill several."""
    before = how.LANES, how.WIDEST, how.ENTRIES, how.WALKERS, how.SEEDS, how.SPAN
    how.LANES, how.WIDEST, how.SEEDS = lanes, widest, 2
    how.ENTRIES = how.WALKERS = how.SPAN = 8
    try:
        yield
    finally:
        how.LANES, how.WIDEST, how.ENTRIES, how.WALKERS, how.SEEDS, how.SPAN = before


def plain(value):
    """Tensors as lists, however deep they are."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


def both(call, lanes=64, widest=1024):
    """What `call` returns from the reference and from the kernels."""
    with use_backend("torch"):
        expected = plain(call())
    with use_backend("triton"), blocks(lanes, widest), how.counting() as names:
        found = plain(call())
    return expected, found, names


def rooted_arrays(sub):
    names = ("node", "row", "col", "edge", "batch")
    counts = sub.num_sampled_nodes, sub.num_sampled_edges
    return [getattr(sub, name) for name in names], counts


def make_bias(name: str, adj: CompactAdj, seeds: list[int]):
    time = torch.arange(len(seeds)) % 7 - 2
    return {
        "uniform": lambda: None,
        "weight": EdgeWeightBias,
        "window": lambda: TemporalBias(time, window=3),
        "temporal": lambda: TemporalBias(time),
        "last": lambda: TemporalBias(time, strategy="last"),
        "both": lambda: TemporalBias(time, weighted=True),
        "hidden": lambda: ExcludeBias(torch.arange(0, adj.num_edges, 3)),
        "late and hidden": lambda: (
            TemporalBias(time) * ExcludeBias(torch.arange(0, adj.num_edges, 2))
        ),
    }[name]()


LAWS = ["uniform", "weight", "window", "temporal", "last", "both", "hidden"]
LAWS += ["late and hidden"]


@settings(max_examples=6, deadline=None)
@given(
    graph=own.graphs(max_nodes=10, max_edges=50, weighted=True, timed=True),
    fanouts=own.fanouts(2),
    replace=st.booleans(),
    disjoint=st.booleans(),
    data=st.data(),
)
@pytest.mark.parametrize("law", LAWS)
def test_sample_rooted_is_bit_identical(
    law, graph, fanouts, replace, disjoint, data
):
    adj = graph.adj()
    seeds = data.draw(own.seeds(adj.num_rows, max_size=6))
    options = {"replace": replace, "disjoint": disjoint, "generator": 3}

    def call():
        how = make_bias(law, adj, seeds)
        return rooted_arrays(sample_rooted(adj, seeds, fanouts, bias=how, **options))

    lanes, widest = data.draw(st.sampled_from([(64, 1024), (32, 2)]))
    if law in ("weight", "both"):
        widest = 1024
    expected, found, names = both(call, lanes, widest)
    assert expected == found
    assert "enter" in names  # the kernels did it
