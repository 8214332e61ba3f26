"""Same key, same batch: whatever else goes on."""

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gttf_sampler import (
    AttentionBias,
    CompactAdj,
    EdgeWeightBias,
    Node2VecBias,
    NoRevisitBias,
    TemporalBias,
    sample_rooted,
    traverse,
    use_backend,
)
from strategies import BACKENDS, graphs, seeds

NODES, BATCH = 3000, 400


def large() -> CompactAdj:
    """Large enough for torch to use its threads."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(NODES, (2, 40_000), generator=generator)
    weight = torch.rand(40_000, generator=generator)
    time = torch.randint(100, (40_000,), generator=generator)
    return CompactAdj.from_edge_index(edges, NODES, edge_weight=weight, edge_time=time)


ADJ = large()


def fresh() -> CompactAdj:
    """The same arrays without the tables that were made from them."""
    return ADJ.to("cpu")


SEEDS = torch.arange(0, NODES, NODES // BATCH)[:BATCH]


def forest_of(bias: Callable[[], Any], **options: Any) -> Callable[..., list]:
    def draw(adj: CompactAdj, generator: Any = None) -> list:
        forest = traverse(adj, SEEDS, [5, 4], bias(), generator=generator, **options)
        return [*forest.nodes, *forest.edges]

    return draw


def rooted_of(bias: Callable[[], Any], **options: Any) -> Callable[..., list]:
    def draw(adj: CompactAdj, generator: Any = None) -> list:
        sub = sample_rooted(
            adj, SEEDS, [5, 4], bias=bias(), generator=generator, **options
        )
        return [sub.node, sub.row, sub.col, sub.edge]

    return draw


def nothing() -> None:
    return None


def node2vec() -> Node2VecBias:
    return Node2VecBias(0.5, 2.0)


def temporal() -> TemporalBias:
    return TemporalBias(torch.full((BATCH,), 60, device="cpu"), window=50)


def attention() -> AttentionBias:
    return AttentionBias(lambda here, there: (1 + (here ^ there) % 7).double())


CALLS = {
    "forest": forest_of(nothing),
    "forest-distinct": forest_of(nothing, replace=False),
    "forest-weight": forest_of(EdgeWeightBias),
    "forest-weight-distinct": forest_of(EdgeWeightBias, replace=False),
    "forest-node2vec": forest_of(node2vec),
    "forest-no-revisit": forest_of(NoRevisitBias),
    "forest-attention": forest_of(attention),
    "rooted": rooted_of(nothing),
    "rooted-replace": rooted_of(nothing, replace=True),
    "rooted-disjoint": rooted_of(nothing, disjoint=True),
    "rooted-weight": rooted_of(EdgeWeightBias),
    "rooted-node2vec": rooted_of(node2vec),
    "rooted-temporal": rooted_of(temporal),
    "rooted-attention": rooted_of(attention),
}
every_call = pytest.mark.parametrize("draw", CALLS.values(), ids=CALLS.keys())


def same(left: list, right: list) -> bool:
    return len(left) == len(right) and all(map(torch.equal, left, right))


@every_call
def test_reproducible_by_seed(draw):
    for make in (
        lambda seed: seed,
        lambda seed: torch.Generator().manual_seed(seed),
        lambda seed: torch.manual_seed(seed) and None,
    ):
        first, again, other = draw(ADJ, make(7)), draw(ADJ, make(7)), draw(ADJ, make(8))
        assert same(first, again)
        assert not same(first, other)


@every_call
def test_reproducible_default_generator_moves_on(draw):
    torch.manual_seed(1)
    assert not same(draw(ADJ), draw(ADJ))


@every_call
def test_reproducible_on_any_number_of_threads(draw):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = draw(ADJ, 3)
        torch.set_num_threads(2)
        assert same(alone, draw(ADJ, 3))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("backend", BACKENDS)
@every_call
def test_reproducible_under_another_default_device(draw, backend):
    """A CPU graph stays on the CPU when the script's default is a GPU."""
    with use_backend(backend):
        expected, adj = draw(ADJ, 3), fresh()
        with torch.device("meta"):
            assert same(draw(adj, 3), expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@every_call
def test_reproducible_under_another_default_dtype(draw, dtype):
    expected, adj = draw(ADJ, 3), fresh()
    torch.set_default_dtype(dtype)
    try:
        assert same(draw(adj, 3), expected)
    finally:
        torch.set_default_dtype(torch.float32)


COLLECTED = """
import gc, torch
from gttf_sampler import CompactAdj, sample_rooted, traverse
generator = torch.Generator().manual_seed(0)
edges = torch.randint(3000, (2, 60_000), generator=generator)
adj, seeds = CompactAdj.from_edge_index(edges, 3000), torch.arange(1000)

class Node:
    pass

gc.collect()
gc.freeze()
for call in (traverse, sample_rooted):
    for wait in range(1, 300):
        gc.disable()
        node = Node()
        node.itself, node.result = node, call(adj, seeds, [4, 4], generator=1)
        del node
        gc.set_threshold(gc.get_count()[0] + wait, 10**6, 10**6)
        gc.enable()
        call(adj, seeds, [4, 4], generator=1)
"""


@pytest.mark.process
def test_reproducible_whenever_garbage_is_collected():
    """A batch in a cycle goes at any allocation, also in the middle of a call."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    env = {**os.environ, "PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", COLLECTED], env=env, check=True, timeout=60)


@every_call
def test_reproducible_in_concurrent_calls(draw):
    """Threads share a graph whose tables are not made yet, and its scratch."""
    keys = range(8)
    serial = [draw(ADJ, key) for key in keys]
    shared = fresh()
    with ThreadPoolExecutor(4) as pool:
        parallel = list(pool.map(lambda key: draw(shared, key), keys))
    assert all(map(same, serial, parallel))


@every_call
def test_reproducible_uses_one_draw_per_call(draw):
    """Later draws from the same generator do not depend on what was sampled."""
    for calls in (1, 2):
        used, reference = torch.Generator().manual_seed(5), torch.Generator()
        reference.manual_seed(5)
        for _ in range(calls):
            draw(ADJ, used)
            torch.randint(-(1 << 63), (1 << 63) - 1, (), generator=reference)
        assert torch.equal(used.get_state(), reference.get_state())


def test_reproducible_integer_leaves_all_generators_alone():
    before = torch.random.get_rng_state()
    sample_rooted(ADJ, [0], [2], generator=3)
    traverse(ADJ, [0], [2], generator=3)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_reproducible_generator_leaves_the_default_alone():
    before = torch.random.get_rng_state()
    sample_rooted(ADJ, [0], [2], generator=torch.Generator().manual_seed(3))
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("key", [0, 1, -1, 2**63, 2**64 - 1, -(2**63), 2**100])
def test_reproducible_any_integer_is_a_key(key):
    first, again = (CALLS["rooted"](ADJ, key) for _ in range(2))
    assert same(first, again)


def test_reproducible_same_key_in_another_order_of_calls():
    expected = {key: CALLS["rooted"](ADJ, key) for key in range(4)}
    for key in reversed(range(4)):
        assert same(CALLS["rooted"](ADJ, key), expected[key])


BIASES = [None, EdgeWeightBias(), Node2VecBias(0.5, 2.0)]


def neighbours(sub: Any, seed: int) -> list[int]:
    """The edges of the first copy of a seed."""
    place = sub.node.tolist().index(seed)
    return sub.edge[sub.col == place].tolist()


@given(
    graph=graphs(weighted=True, max_edges=40),
    bias=st.sampled_from(BIASES),
    fanout=st.sampled_from([1, 2, 3]),
    replace=st.booleans(),
    key=st.integers(0, 1 << 40),
    data=st.data(),
)
def test_reproducible_whoever_else_is_in_the_batch(
    graph, bias, fanout, replace, key, data
):
    adj, others = graph.adj(), data.draw(seeds(graph.num_nodes))
    options = {"bias": bias, "replace": replace, "generator": key}
    together = sample_rooted(adj, others, [fanout], **options)
    for seed in others:
        alone = sample_rooted(adj, [seed], [fanout], **options)
        assert neighbours(together, seed) == neighbours(alone, seed)


def test_reproducible_seed_alone_or_behind_others():
    alone = sample_rooted(ADJ, [17], [4], generator=2)
    behind = sample_rooted(ADJ, [5, 99, 17], [4], generator=2)
    assert len(neighbours(alone, 17)) == 4
    assert neighbours(alone, 17) == neighbours(behind, 17)


def test_reproducible_hops_draw_differently():
    """The same node draws anew at another hop: the key knows the hop."""
    loop = CompactAdj.from_edge_index(
        torch.stack([torch.arange(1, 201), torch.zeros(200, dtype=torch.int64)])
    )
    chain = CompactAdj.from_edge_index(
        torch.stack(
            [
                torch.cat([torch.arange(1, 201), torch.zeros(1, dtype=torch.int64)]),
                torch.cat([torch.zeros(200, dtype=torch.int64), torch.tensor([201])]),
            ]
        )
    )
    at_once = sample_rooted(loop, [0], [5], generator=1)
    later = sample_rooted(chain, [201], [1, 5], generator=1)
    assert set(at_once.node[1:].tolist()) != set(later.node[2:].tolist())


def test_reproducible_trees_draw_differently():
    """Walkers at the same node are independent: the key knows the slot."""
    forest = traverse(ADJ, torch.zeros(50, dtype=torch.int64), [4], generator=0)
    assert len({tuple(row) for row in forest.nodes[1].tolist()}) > 25
