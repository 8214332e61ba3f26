"""The fast backend gives the bits of the reference, function by function and whole."""

import contextlib
import dataclasses
import inspect
import os
from importlib import import_module

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gttf_sampler
import strategies as own
from all_pairs import all_pairs
from gttf_sampler import (
    EdgeWeightBias,
    ExcludeBias,
    Node2VecBias,
    NoRevisitBias,
    TemporalBias,
    sample_rooted,
    traverse,
    use_backend,
)
from gttf_sampler._backends import ops
from gttf_sampler._backends.memory import NodeTable
from gttf_sampler._backends.torch import draw as torch_draw
from gttf_sampler._backends.torch import gather as torch_gather
from gttf_sampler._backends.torch import rows as torch_rows
from gttf_sampler._backends.torch.draw import WeightedRows
from gttf_sampler._backends.torch.forest import ForestSpec
from gttf_sampler._backends.torch.gather import Move, Moves, Reads
from gttf_sampler._backends.torch.node2vec import Envelope, SecondOrder
from gttf_sampler.graph import tables
from gttf_sampler.random import FOREST, new_key, stream

pytest.importorskip("numba", reason="there is nothing to compare without numba")
numba_ops = import_module("gttf_sampler._backends.numba")
numba_disk = import_module("gttf_sampler._backends.numba.gather")
numba_rows = import_module("gttf_sampler._backends.numba.rows")
numba_rooted = import_module("gttf_sampler._backends.numba.batch")

CPU, TOP = torch.device("cpu"), (1 << 63) - 1


def ones(path, node, neighborhood):
    return torch.ones_like(neighborhood.neighbor, dtype=torch.float64)


def make_bias(name: str, adj, seeds):
    time = torch.arange(len(seeds)) % 7 - 2
    choices = {
        "uniform": lambda: None,
        "no revisit": NoRevisitBias,
        "node2vec": lambda: Node2VecBias(0.25, 4.0),
        "stubborn": lambda: Node2VecBias(1e4, 1e-3),
        "user": lambda: ones,
        "product": lambda: Node2VecBias(3.0, 0.5) * NoRevisitBias(),
    }
    if adj.edge_weight is not None:
        choices["weight"] = EdgeWeightBias
        choices["node2vec weight"] = lambda: Node2VecBias(0.5, 2.0, weighted=True)
    if adj.edge_time is not None:
        choices["temporal"] = lambda: TemporalBias(time, window=3)
        choices["last"] = lambda: TemporalBias(time, strategy="last")
        if adj.edge_weight is not None:
            choices["both"] = lambda: TemporalBias(time, weighted=True)
    return choices.get(name, lambda: None)()


NAMES = ["uniform", "no revisit", "node2vec", "stubborn", "user", "product", "weight"]
NAMES += ["node2vec weight", "temporal", "last", "both"]


def both(call):
    """The results of `call` under both backends."""
    results = []
    for name in ("torch", "numba"):
        with use_backend(name):
            results.append(call())
    return results


def all_ways(call):
    """The same for rooted sampling, which numba also does in parts, on all threads."""
    few, part = numba_rooted.FEW_EDGES, numba_rooted.PART
    numba_rooted.FEW_EDGES, numba_rooted.PART = 0, 3
    try:
        with use_backend("numba"):
            in_parts = call()
    finally:
        numba_rooted.FEW_EDGES, numba_rooted.PART = few, part
    reference, at_once = both(call)
    assert same(in_parts, reference)
    return reference, at_once


def same(left, right) -> bool:
    """True if two results are equal in every tensor and number."""
    if isinstance(left, torch.Tensor):
        return left.shape == right.shape and left.tolist() == right.tolist()
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


@settings(max_examples=150, deadline=None)
@given(own.graphs(max_nodes=12, max_edges=60), st.data())
def test_sample_rooted_is_bit_identical(graph, data):
    adj = graph.adj()
    seeds = data.draw(own.seeds(adj.num_rows, max_size=8))
    fanouts = data.draw(own.fanouts())
    name = data.draw(st.sampled_from(NAMES))
    options = data.draw(
        st.fixed_dictionaries({"replace": st.booleans(), "disjoint": st.booleans()})
    )

    def call():
        how = make_bias(name, adj, seeds)
        found = sample_rooted(adj, seeds, fanouts, bias=how, generator=3, **options)
        more = found.induced(adj), found.bidirectional()
        return [
            (sub.node, sub.row, sub.col, sub.edge, sub.num_sampled_nodes)
            for sub in (found, *more)
        ]

    assert same(*all_ways(call))


@settings(max_examples=150, deadline=None)
@given(own.graphs(max_nodes=12, max_edges=60), st.data())
def test_traverse_is_bit_identical(graph, data):
    adj = graph.adj()
    seeds = data.draw(own.seeds(adj.num_rows, max_size=8))
    fanouts = data.draw(st.lists(st.integers(1, 4), max_size=4))
    name = data.draw(st.sampled_from(NAMES))
    replace = data.draw(st.booleans())
    calls = data.draw(st.sampled_from([None, lambda path, node, fanout: None]))

    def call():
        how = make_bias(name, adj, seeds)
        options = {"replace": replace, "generator": 9}
        forest = traverse(adj, seeds, fanouts, how, calls, **options)
        return forest.nodes, forest.edges

    assert same(*both(call))


@settings(max_examples=60, deadline=None)
@given(own.hetero(), st.booleans(), st.booleans())
def test_hetero_is_bit_identical(hetero, replace, disjoint):
    def call():
        found = sample_rooted(
            hetero.adjs(),
            hetero.seeds,
            [3, -1, 2],
            replace=replace,
            disjoint=disjoint,
            generator=1,
        )
        return [list(part.values()) for part in (found.node, found.row, found.edge)]

    assert same(*all_ways(call))


class LastButHidden(TemporalBias):
    """The latest neighbours that are not hidden, as only a law of one's own says."""

    def __init__(self, time, hidden):
        super().__init__(time, strategy="last")
        self.hidden = hidden

    def __call__(self, path, node, neighborhood):
        seen = ~torch.isin(neighborhood.edge, self.hidden)
        return super().__call__(path, node, neighborhood) * seen

    def law(self, adj):
        return super().law(adj)._replace(excluded_edges=self.hidden)


LAWS = {
    "uniform": lambda time, hidden: None,
    "weight": lambda time, hidden: EdgeWeightBias(),
    "time": lambda time, hidden: TemporalBias(time),
    "last": lambda time, hidden: TemporalBias(time, strategy="last"),
    "window": lambda time, hidden: TemporalBias(time, window=9),
    "time and weight": lambda time, hidden: TemporalBias(time, weighted=True),
    "hidden": lambda time, hidden: ExcludeBias(hidden),
    "hidden and time": lambda time, hidden: ExcludeBias(hidden) * TemporalBias(time),
    "window times weight": lambda time, hidden: (
        TemporalBias(time, window=9) * EdgeWeightBias()
    ),
    "hidden and weight": lambda time, hidden: EdgeWeightBias() * ExcludeBias(hidden),
    "last but hidden": lambda time, hidden: LastButHidden(time, hidden),
    "function": lambda time, hidden: ones,
}
TIMES = [torch.int32, torch.int64, torch.float32, torch.float64, torch.int16]


@settings(max_examples=150, deadline=None)
@given(own.hetero(), st.data(), st.booleans(), st.booleans())
def test_relations_of_all_laws_are_bit_identical(hetero, data, replace, disjoint):
    adjs, biases = {}, {}
    seeds = sum(len(ids) for ids in hetero.seeds.values())
    dtype = data.draw(st.sampled_from(TIMES))
    time = (torch.arange(seeds) * 7 % 23).to(dtype)
    for kind, adj in hetero.adjs().items():
        number = torch.arange(adj.num_edges)
        columns = {"edge_time": number.to(dtype), "edge_weight": number % 4 / 3}
        adjs[kind] = dataclasses.replace(adj, **columns).trusted()
        law = data.draw(st.sampled_from(sorted(LAWS)))
        biases[kind] = LAWS[law](time, number[::3])
    fanouts = data.draw(st.lists(st.integers(-1, 4), max_size=3))
    how = {"replace": replace, "disjoint": disjoint, "generator": 1}

    def call():
        found = sample_rooted(adjs, hetero.seeds, fanouts, bias=biases, **how)
        parts = found.node, found.row, found.col, found.edge, found.batch or {}
        return [list(part.values()) for part in parts]

    assert same(*all_ways(call))


@settings(max_examples=60, deadline=None)
@given(own.graphs(max_nodes=12, max_edges=60))
def test_building_is_bit_identical(graph):
    def call():
        adj = graph.adj()
        arrays = list(adj.arrays().values())
        if adj.edge_weight is not None:
            arrays.append(tables.weight_table(adj))
        return arrays

    assert same(*both(call))


def make_arguments(name: str, size: int) -> tuple:
    """Arguments of one function of the backends, of any size."""
    generator = torch.Generator().manual_seed(size)

    def numbers(upper: int, count: int = size) -> torch.Tensor:
        return torch.randint(0, upper, (count,), generator=generator)

    degree = numbers(9)
    rowptr = torch.cat([torch.zeros(1, dtype=torch.int64), degree.cumsum(0)])
    edges = int(rowptr[-1])
    col = numbers(max(size, 1), edges)
    ends = col.to(torch.int32)
    row_of = torch.arange(size).repeat_interleave(degree)
    order = (row_of * max(size, 1) + col).sort(stable=True).indices
    ordered = ends[order]
    bloom = numba_ops.edge_filter(rowptr, ends)
    weight = torch.rand(edges, generator=generator) * (col % 3)
    table = torch_draw.weight_table(weight, rowptr)
    words = stream(new_key(5, CPU, FOREST), torch.arange(size))
    features = torch.rand(max(size, 1), 6, generator=generator)
    places = torch.randperm(size, generator=generator)
    odd = torch.arange(max(size, 1) * 3).view(-1, 3).to(torch.int8)
    low, high = rowptr[:-1], rowptr[1:]
    zero = torch.zeros_like(low)
    node = numbers(max(size, 1)) - 1 if size else degree
    last = numbers(max(size, 1))
    if edges:  # every second walker can go back, many of them on parallel edges
        first = ends[rowptr[node.clamp(min=0)].clamp(max=edges - 1)].long()
        last = last.where(last % 2 == 0, first)
    wide, some = features.double(), last.flip(0)[: -(-size // 8)]
    if name == "gather":
        wide = wide.repeat(1, 100).view(-1, 2, 300)
    standing = (degree > 0).nonzero().view(-1)
    ahead = node.clamp(min=0)  # where there is somewhere to go
    if edges:
        ahead = standing[ahead % standing.numel()]
    back = torch_rows.group_by_row(ends, row_of.to(ends.dtype), size, size)[:2]
    cell = NodeTable(size, CPU)
    plain = SecondOrder(
        rowptr=rowptr,
        col=ends,
        sorted_col=ordered,
        order=lambda: order,
        bloom=None,
        table=None,
        weight=None,
        reverse=None,
        envelope=Envelope(1 << 60, 1 << 62, TOP, 50, 0, 1),
        rounds=5,
        alpha=(0.25, 1.0, 0.5),
        longest=9,
    )
    law = plain._replace
    every = {
        "draw_uniform": (words, degree, 4, False),
        "draw_uniform again": (words, degree, 3, True),
        "draw_weighted": (words, WeightedRows(table, low, high, zero, 9), 3, False),
        "draw_weighted again": (
            *(words, WeightedRows(table, low, high, zero, 9), 3, True),
        ),
        "weight_table": (weight, rowptr),
        "weight_table of integers": (col % 4, rowptr),
        "upper_bound": (ordered, low, high, numbers(max(size, 1)), 9),
        "has_edge": (rowptr, ordered, node.clamp(min=0), numbers(max(size, 1)), 9),
        "take_or_none": (ends, numbers(edges + 1) - 1 if edges else zero - 1),
        "both_ways": (last, node.clamp(min=0), max(size, 1)),
        "gather": (
            Moves(
                torch.device("cpu"),
                [
                    Move([features], last, torch.empty(size, 6)),
                    Move([wide], some, torch.empty(len(some), 2, 300).double()),
                    Move([odd], last, torch.empty(size, 3, dtype=torch.int8)),
                    Move(
                        *([odd[:, 0].contiguous()], last),
                        torch.empty(size).to(torch.int8),
                    ),
                    Move([features], last, torch.zeros(size + 2, 6), places + 1),
                    Move([features], None, torch.zeros(len(features), 6)),
                    Move([features[last]], None, torch.zeros(size + 2, 6), places + 2),
                    Move(features.split(3), last, torch.zeros(size, 6)),
                    Move(features.split(2), last - 1, torch.zeros(size, 6), gaps=True),
                ],
            ),
        ),
        "relabel": (last, node, cell),
        "relabel sorted": (last, node, None),
        "group_by_row": (ends, col, size, size),
        "group_by_row sorted": (ordered.sort().values, col, size, size),
        "walk_forest": (
            ForestSpec(rowptr, ends, None, [2, 1, 3], replace=True, stays=True),
            *(node.clamp(min=0), 7),
        ),
        "walk_forest bipartite": (
            ForestSpec(rowptr, ends, None, [2], replace=False, stays=False),
            *(node.clamp(min=0), 7),
        ),
        "draw_node2vec": (
            law(envelope=Envelope(TOP, 1 << 62, 1 << 60, 40, 3 << 40, 4)),
            *(node, last, words),
        ),
        "draw_node2vec filtered": (law(bloom=bloom), node, last, words),
        "draw_node2vec weighted": (
            law(order=lambda: None, bloom=bloom, table=table),
            *(node, last, words),
        ),
        "weigh_node2vec": (law(bloom=bloom), ahead, last, words),
        "weigh_node2vec reversed": (
            law(reverse=back, alpha=(1e-3, 1.0, 1e3)),
            *(ahead, last, words),
        ),
    }
    return every[name] if name else tuple(every)


def runs_of_rows(path, rows: torch.Tensor, align: int, cut: int):
    """Reads of most rows of a file, in runs with gaps, twins and rows out of order."""
    base = 2 * align
    data = b"\0" * base + rows.numpy().tobytes()
    path.write_bytes(data[: len(data) - cut] + b"\0" * (-len(data) % align))
    number = np.arange(len(rows), dtype=np.int64)
    ids = np.sort(np.concatenate([number[number % 5 != 2], number[::4]]))
    start = np.append(np.flatnonzero(np.diff(ids, prepend=-9) > 2), len(ids))
    start = np.unique(np.concatenate([start, np.searchsorted(ids, number[::7])]))
    place = np.random.default_rng(0).permutation(len(ids))
    place[: len(ids) // 2].sort()  # as they stand in the file, some of them
    handle = os.open(path, os.O_RDONLY)
    out = torch.zeros(len(ids), rows.shape[1], dtype=torch.uint8)
    failed = np.zeros(len(start) - 1, np.uint8)
    how = handle, base, rows.shape[1], align
    return Reads(CPU, *how, ids, place, start.astype(np.int64), out, failed)


@all_pairs
@pytest.mark.parametrize("cut", [0, 40])
@pytest.mark.parametrize("align", [1, 512])
@pytest.mark.parametrize("size", [1, 50, 2_000])
def test_read_all_is_bit_identical(tmp_path, size, align, cut):
    """Of a file that ends too early, too: the same runs fail."""
    rows = torch.randint(0, 256, (size, 24)).to(torch.uint8)
    found = []
    for read in (torch_gather.read_all, numba_disk.read_all, by_threads):
        reads = runs_of_rows(tmp_path / "rows", rows, align, cut)
        try:
            read(reads, None)
        finally:
            os.close(reads.handle)
        found.append((reads.out, reads.failed.tolist()))
    for each in found[1:]:
        compare(rows, cut, reads, found[0], each)


def by_threads(reads, owner):
    """As where there are no queues, and nobody can be told ahead."""
    torch_gather.spread(numba_disk.read_runs, reads, owner)


def compare(rows, cut, reads, expected, found):
    """The same reads must have failed, and all others brought the same."""
    align = reads.align
    (expected, failed), (out, also) = expected, found
    whole = torch.zeros_like(expected)
    whole[reads.place] = rows[reads.ids]
    assert cut or (whole.equal(expected) and not any(failed))
    assert not cut or align > 1 or any(failed)
    assert failed == also
    fine = np.repeat(np.array(failed) == 0, np.diff(reads.start))
    kept = torch.from_numpy(reads.place[fine])
    assert same(expected[kept], out[kept])


@pytest.mark.parametrize("size", [0, 1, 50, 20_000])
@pytest.mark.parametrize("name", make_arguments("", 3))
def test_function_is_bit_identical(name, size):
    """Large enough, too, for the threads to share the work."""
    function = name.split()[0]
    arguments = make_arguments(name, size)
    reference = getattr(ops, function).__wrapped__(*arguments)
    found = getattr(numba_ops, function)(*make_arguments(name, size))
    assert same(reference, found)


def test_every_fast_function_is_compared():
    compared = {name.split()[0] for name in make_arguments("", 3)}
    made = {n for n, f in vars(numba_ops).items() if inspect.isfunction(f)}
    fast = made & set(vars(ops))
    # compared where they are called
    whole = {"draw_for_remote", "rooted", "walk_node2vec"}
    whole |= {"read_all"}  # compared above, with files
    # compared in `test_pairs` and `test_fit`
    whole |= {"as_gradient", "draw_alias", "pair_pass"}
    whole |= {"pair_scores", "step_rows"}
    # compared in `test_aggregate`
    whole |= {"additive_gradient", "additive_score"}
    whole |= {"edge_dot", "scatter_best", "segment_best", "segment_softmax"}
    whole |= {"segment_sum", "softmax_gradient", "sound"}
    whole |= {"drop"}  # compared in `test_dropout`
    whole |= {"edge_filter"}  # the reference has none; compared by what comes of it
    assert fast == compared | whole


@pytest.mark.parametrize(("p", "q"), [(0.5, 2.0), (1e6, 1e-3), (1.0, 1.0)])
def test_walks_are_bit_identical_watched_or_not(p, q):
    """In one call, or step by step because a function watches; also when refused."""
    generator = torch.Generator().manual_seed(3)
    edge_index = torch.randint(0, 400, (2, 900), generator=generator)
    adj = gttf_sampler.CompactAdj.from_edge_index(edge_index, 500, direction="out")
    seeds, steps = torch.arange(500), [1] * 7

    def call(watch):
        how = Node2VecBias(p, q)
        return traverse(adj, seeds, steps, how, watch, generator=4).nodes

    plain, fast = both(lambda: call(None))
    watched, _ = both(lambda: call(lambda path, node, fanout: None))
    assert same(plain, fast)
    assert same(plain, watched)


def test_walks_that_are_refused_stay_in_one_call(monkeypatch):
    """At a leaf with a large p; nobody else has to go step by step for it."""
    path = [[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]
    adj = gttf_sampler.CompactAdj.from_edge_index(path, direction="out")

    def call():
        bias = Node2VecBias(p=1e6, q=1e-3)
        return traverse(adj, [0, 1, 2, 3] * 50, [1] * 6, bias, generator=0).nodes

    plain, _ = both(call)
    monkeypatch.setattr(Node2VecBias, "draw", None)
    with use_backend("numba"):
        assert same(plain, call())


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_result_does_not_depend_on_threads(threads):
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(0, 5000, (2, 100_000), generator=generator)
    adj = gttf_sampler.CompactAdj.from_edge_index(edge_index, 5000)
    seeds = torch.arange(3000)

    def call():
        found = sample_rooted(adj, seeds, [5, 5], generator=1)
        forest = traverse(adj, seeds, [3, 3], generator=1)
        walks = traverse(adj, seeds, [1, 1, 1], Node2VecBias(0.5, 2.0), generator=1)
        return found.node, found.row, found.edge, forest.nodes, walks.nodes

    before = torch.get_num_threads()
    expected = call()
    try:
        torch.set_num_threads(threads)
        assert same(call(), expected)
    finally:
        torch.set_num_threads(before)


def test_set_backend_refuses_unknown_names():
    with pytest.raises(ValueError, match=r"'name' must be one of .* \(got 'jax'\)"):
        gttf_sampler.set_backend("jax")


def test_use_backend_restores_the_choice():
    before = gttf_sampler.backend_info()
    with contextlib.suppress(KeyError), use_backend("torch"):
        assert gttf_sampler.backend_info().startswith("torch")
        raise KeyError
    assert gttf_sampler.backend_info() == before


def test_walks_from_no_seed_are_empty():
    adj = gttf_sampler.CompactAdj.from_edge_index([[0, 1], [1, 0]])
    for forest in both(lambda: traverse(adj, [], [1, 1], Node2VecBias(0.5, 2.0))):
        assert [level.shape for level in forest.nodes] == [(0, 1)] * 3


@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_fanout_no_memory_could_hold_is_refused(backend):
    adj = gttf_sampler.CompactAdj.from_edge_index([[0, 1], [1, 0]])
    with use_backend(backend):
        with pytest.raises(ValueError, match="'fanouts' must not exceed 2147483647"):
            sample_rooted(adj, [0, 1], [1 << 62], replace=True)
        with pytest.raises(
            ValueError, match="'fanouts' must ask for no more than fits"
        ):
            traverse(adj, [0, 1], [1 << 40])


class Astray:
    """A bias that draws by itself, and what it is told to."""

    def __init__(self, *drawn):
        self.drawn = torch.tensor(drawn)

    def __call__(self, path, node, neighborhood):
        return ones(path, node, neighborhood)

    def draw(self, walkers, fanout, replace):
        return self.drawn


@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("drawn", [[[10**14]], [[2]], [[-2]], [0], [[0, 0]]])
def test_bias_that_draws_astray_is_refused(backend, drawn):
    adj = gttf_sampler.CompactAdj.from_edge_index([[0, 1], [1, 0]])
    with use_backend(backend):
        for call in (sample_rooted, traverse):
            with pytest.raises(ValueError, match="'bias' must "):
                call(adj, [0], [1], bias=Astray(*drawn))


@pytest.mark.parametrize("bits", [1, 9])
def test_group_by_row_with_buckets_of_any_width(monkeypatch, bits):
    """Rows count from the start of their bucket, in two bytes if they fit."""
    monkeypatch.setattr(numba_rows, "BUCKET_BITS", bits)
    rows, generator = 300_000, torch.Generator().manual_seed(0)
    row = torch.randint(rows, (50_000,), generator=generator)
    col = torch.randint(rows, (50_000,), generator=generator)
    found = numba_ops.group_by_row(row, col, rows, rows)
    for one, other in zip(
        found, torch_rows.group_by_row(row, col, rows, rows), strict=True
    ):
        assert torch.equal(one, other)
