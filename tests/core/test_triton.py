"""The Triton backend gives the bits of the reference on odd graphs; how it is chosen.

Kernels are compiled; `test_compiled.py` has larger graphs and looks for races. Fanouts
are 3 and 4 where they are drawn: others are compiled anew, for a second or two each.
"""

import os
import re
import subprocess
import sys
from itertools import cycle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies as own

pytest.importorskip("triton", reason="there is nothing to run without Triton")

import triton
import triton.language as tl

import compiled
from all_pairs import all_pairs
from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    ExcludeBias,
    Node2VecBias,
    StratifiedBias,
    TemporalBias,
    backend_info,
    sample_rooted,
    traverse,
    use_backend,
)
from gttf_sampler._backends import ops as backend
from gttf_sampler._backends.record import RelationRow
from gttf_sampler._backends.triton import batch as triton_run
from gttf_sampler._backends.triton import launch as how
from gttf_sampler._backends.triton import record as table
from gttf_sampler.gather import gather_columns
from gttf_sampler.objectives.scores import table_of


def plain(value):
    """Tensors as lists, however deep they are."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


SEEDS = cycle((1, 2))  # of interleavings: every test meets both


def both(call):
    """The results of `call` from the reference and from the kernels, without a race."""
    with use_backend("torch"):
        expected = plain(call())
    seed = next(SEEDS)
    kernels = compiled.kernels(seed, watch=True)
    with kernels as races, use_backend("triton"), how.counting() as names:
        found = plain(call())
    assert compiled.unexpected(races) == {}, seed
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


FEW = st.lists(st.sampled_from([-1, 0, 3, 4]), max_size=2)
LAWS = ["uniform", "weight", "window", "temporal", "last", "both", "hidden"]
LAWS += ["late and hidden"]


@pytest.mark.compile
@settings(max_examples=6, deadline=None)
@given(
    graph=own.graphs(max_nodes=10, max_edges=50, weighted=True, timed=True),
    fanouts=FEW,
    replace=st.booleans(),
    disjoint=st.booleans(),
    data=st.data(),
)
@pytest.mark.parametrize("law", LAWS)
def test_sample_rooted_is_bit_identical(law, graph, fanouts, replace, disjoint, data):
    adj = graph.adj()
    seeds = data.draw(own.seeds(adj.num_rows, max_size=6))
    options = {"replace": replace, "disjoint": disjoint, "generator": 3}

    def call():
        how = make_bias(law, adj, seeds)
        return rooted_arrays(sample_rooted(adj, seeds, fanouts, bias=how, **options))

    expected, found, names = both(call)
    assert expected == found
    assert "enter" in names  # the kernels did it


@pytest.mark.compile
@settings(max_examples=8, deadline=None)
@given(
    hetero=own.hetero(timed=False, weighted=True),
    fanouts=FEW,
    replace=st.booleans(),
    disjoint=st.booleans(),
    weighs=st.booleans(),
)
def test_typed_graphs_are_bit_identical(hetero, fanouts, replace, disjoint, weighs):
    adjs = hetero.adjs()
    bias = EdgeWeightBias() if weighs else None
    options = {"replace": replace, "disjoint": disjoint, "generator": 8}

    def call():
        sub = sample_rooted(adjs, hetero.seeds, fanouts, bias=bias, **options)
        return rooted_arrays(sub)

    expected, found, names = both(call)
    assert expected == found
    assert "enter" in names


@pytest.mark.compile
@settings(max_examples=8, deadline=None)
@given(
    hetero=own.hetero(timed=True, weighted=True),
    fanouts=st.lists(st.sampled_from([0, 3, 4]), max_size=2),
    replace=st.booleans(),
    disjoint=st.booleans(),
    weighs=st.booleans(),
)
def test_padded_samples_are_bit_identical(hetero, fanouts, replace, disjoint, weighs):
    adjs = hetero.adjs()
    bias = EdgeWeightBias() if weighs else None
    how = {"replace": replace, "disjoint": disjoint, "padded": True, "generator": 8}

    def call():
        first = sample_rooted(adjs, hetero.seeds, fanouts, bias=bias, **how)
        again = sample_rooted(adjs, hetero.seeds, fanouts, bias=bias, **how)
        return [rooted_arrays(sub) for sub in (first, again)]

    expected, found, names = both(call)
    assert expected == found
    assert "pad" in names


FANOUTS = [[3, 2], [1] * 4, []]


@pytest.mark.compile
@all_pairs
@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("bias", [None, EdgeWeightBias()])
@pytest.mark.parametrize("fanouts", FANOUTS)
def test_traverse_is_bit_identical(fanouts, bias, replace):
    adj = random_graph(20, 90)
    seeds = [3, 19, 3, 0, 7]

    def call():
        forest = traverse(adj, seeds, fanouts, bias, replace=replace, generator=6)
        return forest.nodes, forest.edges

    expected, found, names = both(call)
    assert expected == found
    assert len(names) <= 3
    assert bool(names) == bool(fanouts)


@pytest.mark.compile
@pytest.mark.parametrize("weight", [None, EdgeWeightBias()])
def test_spread_draws_are_bit_identical(weight):
    """They have no kernel of their own: what there is does the parts."""
    adj, bias = random_graph(20, 90), StratifiedBias(weight)

    def call():
        forest = traverse(adj, [3, 19, 3, 0], [3, 2], bias, generator=6)
        return forest.nodes, forest.edges

    expected, found, _ = both(call)
    assert expected == found


@pytest.mark.compile
@all_pairs
@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.25, 4), (4, 0.25), (1e4, 1e-3)])
@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_node2vec_is_bit_identical(p, q, undirected, weighted):
    adj = random_graph(12, 40, undirected)

    def call():
        bias, steps = Node2VecBias(p, q, weighted=weighted), [1] * 5
        forest = traverse(adj, list(range(12)), steps, bias, generator=9)
        return forest.nodes, forest.edges

    expected, found, names = both(call)
    assert expected == found
    assert names == ["node2vec"]


def random_graph(nodes: int, edges: int, undirected: bool = False) -> CompactAdj:
    """A graph with an isolated node, self-loops, parallel edges and weights."""
    generator = torch.Generator().manual_seed(nodes)
    ends = torch.randint(0, nodes - 1, (2, edges), generator=generator)
    if undirected:
        ends = torch.cat([ends, ends.flip(0)], 1)
    weight = torch.rand(ends.shape[1], generator=generator)
    weight[::5] = 0
    return CompactAdj.from_edge_index(ends, nodes, edge_weight=weight)


@pytest.mark.compile
@pytest.mark.parametrize("replace", [False, True])
def test_positions_of_edges_beyond_32_bits(tmp_path, replace):
    """The last rows of a graph whose edges are a file with holes; it takes no disk."""
    long = (1 << 31) - 1  # as long as a row may be
    rowptr = torch.tensor([0, long, 2 * long, 2 * long + 5])
    with open(tmp_path / "col", "wb") as file:
        file.truncate(4 * int(rowptr[-1]))
    col = torch.from_file(
        str(tmp_path / "col"), True, int(rowptr[-1]), dtype=torch.int32
    )
    col[-5:] = torch.tensor([1, 1, 2, 0, 2])
    adj = CompactAdj(rowptr, col, 3).trusted()

    def call():
        how = {"replace": replace, "generator": 5}
        sub = sample_rooted(adj, [2, 1], [4, 3], **how)
        forest = traverse(adj, [2, 1], [4, 3], **how)
        return [*rooted_arrays(sub), forest.nodes, forest.edges]

    expected, found, names = both(call)
    assert expected == found
    assert {"enter", "forest"} <= {*names}
    assert max(found[0][3]) >= 2 * long
    with use_backend("numba"):
        assert plain(call()) == expected


DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.uint8, torch.complex64]


@pytest.mark.compile
def test_gather_moves_all_columns_in_one_launch():
    index = torch.tensor([4, 0, 4, 2])
    columns = [
        (torch.arange(5 * width).view(5, width).to(dtype), index[:count])
        for dtype in DTYPES
        for width, count in ((3, 4), (1, 0), (8, 2))
    ]
    expected, found, names = both(lambda: gather_columns(columns))
    assert expected == found
    assert names == ["write_words", "gather_rows"]


@pytest.mark.compile
@pytest.mark.parametrize("wrong", [-1, 5])
def test_gather_refuses_rows_that_are_not_there(wrong):
    index = torch.tensor([0, wrong])
    error = pytest.raises(ValueError, match="index")
    with compiled.kernels(), use_backend("triton"), error:
        gather_columns([(torch.eye(5), index)])


@pytest.mark.compile
def test_losses_are_left_to_torch():
    """Torch computes losses of pairs: there are no kernels for them."""
    with compiled.kernels(), use_backend("triton"):
        assert table_of(torch.rand(3, 2)) is None


def test_backend_is_named_and_chosen(monkeypatch):
    monkeypatch.setattr(triton.knobs.runtime, "interpret", True)
    with use_backend("triton"):
        assert backend_info().startswith("triton's interpreter")
    with use_backend("torch"):
        assert backend_info("cuda").startswith("torch")
    assert "there is no GPU" in backend_info("cuda") or torch.cuda.is_available()


@pytest.mark.process
def test_set_backend_refuses_triton_where_nothing_can_run_it():
    """In a process of its own, as the environment may say otherwise."""
    env = {name: value for name, value in os.environ.items() if name[:6] != "TRITON"}
    env |= {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    code = "import gttf_sampler; gttf_sampler.set_backend('triton')"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1]
    assert last == (
        "ValueError: 'name' must be another where torch finds no GPU (got triton); "
        "set TRITON_INTERPRET=1 for tests on the CPU"
    )


@triton.jit
def note_counts(sums, parts, counts):
    """Every block notes a count, as kernels do in one launch."""
    block, blocks = tl.program_id(0), tl.num_programs(0)
    table.add_up(sums, parts, block, blocks, tl.load(counts + block))


@triton.jit
def look_back(sums, parts, out):
    """Every block adds up the counts before its own, as kernels do in the next."""
    block, blocks = tl.program_id(0).to(tl.int64), tl.num_programs(0)
    found = table.before_block(sums, parts, block, blocks)
    tl.store(out + block, tl.sum(found, 0))


@triton.jit
def add_before(values, out):
    tl.store(out + tl.program_id(0), tl.sum(table.before(values, tl.program_id(0)), 0))


@pytest.mark.compile
@pytest.mark.parametrize("blocks", [1, 31, 32, 33, 129, 700, 4200])
def test_blocks_add_up_those_before_them(blocks):
    """In parts of one block, of several, and of more than are read at once."""
    counts = torch.arange(blocks) % 7 * (1 << 33) + 1
    before = counts.cumsum(0) - counts
    sums, out = torch.full((blocks,), -5), torch.full((blocks,), -5)
    parts = torch.zeros(table.PARTS.value, dtype=torch.int64)
    with compiled.kernels(watch=True) as races:
        how.launch(note_counts, (blocks,), sums, parts, counts)
        how.launch(look_back, (blocks,), sums, parts, out)
        assert out.equal(before)
        how.launch(add_before, (blocks,), counts, out.zero_())
    assert out.equal(before)
    assert races == {}


def test_kernels_read_the_fields_of_a_relation_at_their_places():
    names = [name.upper() for name in RelationRow._fields]
    assert [getattr(table, name).value for name in names] == list(range(len(names)))


@pytest.fixture
def old_triton(monkeypatch):
    """A Triton that is too old by its version."""
    monkeypatch.setattr(triton, "__version__", "3.7.0+git12")
    forget = backend._triton_ops.cache_clear, backend._automatic_triton.cache_clear
    for each in forget:
        each()
    yield "triton must be 3.7.1 or newer (got 3.7.0+git12); torch 2.13 for CUDA brings"
    for each in forget:
        each()


def test_set_backend_refuses_an_old_triton(old_triton):
    with pytest.raises(ImportError, match=f"^{re.escape(old_triton)} 3.7.1$"):
        backend.set_backend("triton")
    assert old_triton in backend_info("cuda")


def test_old_triton_leaves_gpus_to_torch_and_says_so_once(
    old_triton, monkeypatch, caplog
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for _ in range(3):
        assert backend.fast_backend(torch.device("cuda")) is None
    assert caplog.messages == [f"torch samples on the GPU: {old_triton} 3.7.1"]


@pytest.mark.parametrize(
    ("version", "old"),
    [
        *((version, False) for version in ("3.7.1", "3.7.1+rocm7", "3.10.0", "4.0")),
        *((version, True) for version in ("3.7.0", "3.6.9", "2.2.0", "3.7")),
    ],
)
def test_versions_are_compared_as_numbers(monkeypatch, version, old):
    monkeypatch.setattr(triton, "__version__", version)
    assert bool(backend.no_triton()) == old


def test_missing_triton_is_named(monkeypatch):
    monkeypatch.setattr(backend, "find_spec", lambda name: None)
    assert backend.no_triton().startswith("triton 3.7.1 or newer is not installed;")


def test_counting_ends_by_itself():
    """Two lists that hold the same are two lists."""
    with how.counting() as first:
        with how.counting():
            pass
        assert how._watching == [first]
        assert how._watching[0] is first
    assert how._watching == []


@pytest.mark.compile
def test_batches_of_too_many_edges_are_refused(monkeypatch):
    """Before anything overflows: entries have numbers of 32 bits."""
    monkeypatch.setattr(triton_run, "MOST", 12)
    adj = CompactAdj.from_edge_index(torch.arange(8).view(2, 4), 8)
    with compiled.kernels(), use_backend("triton"):
        sample_rooted(adj, [4, 5], [4], replace=True, generator=1)
        with pytest.raises(ValueError, match=r"'fanouts' must take fewer than 12 .*14"):
            sample_rooted(adj, [4, 5], [6], replace=True, generator=1)
