"""Everything stays on the graph's device, and the host hardly ever waits for it."""

import pytest
import torch

from all_pairs import all_pairs
from gttf_sampler import (
    AttentionBias,
    CompactAdj,
    EdgeWeightBias,
    Node2VecBias,
    NoRevisitBias,
    RootedAdjAcc,
    StratifiedBias,
    TemporalBias,
    TransitionAcc,
    _check,
    sample_rooted,
    traverse,
)
from gttf_sampler._backends.torch import draw
from gttf_sampler.bias.node2vec import ROUNDS
from simulated import CUDA, DeviceMixError

SEEDS = torch.tensor([3, 1, 3, 0, 7])


def ones(path, node, neighborhood):
    return torch.ones_like(neighborhood.neighbor, dtype=torch.float64)


def make_graph() -> CompactAdj:
    """A random graph with weights and times, self-loops and an isolated node."""
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(0, 29, (2, 150), generator=generator)
    weight = torch.rand(150, generator=generator)
    weight[edge_index[1] == 7] = 0  # a row without weight
    time = torch.randint(0, 9, (150,), generator=generator)
    return CompactAdj.from_edge_index(
        edge_index, 30, edge_weight=weight, edge_time=time
    )


def make_bias(name: str):
    seed_time = torch.tensor([3, 5, 8, 0, 8])
    return {
        "uniform": lambda: None,
        "weight": EdgeWeightBias,
        "no revisit": NoRevisitBias,
        "temporal": lambda: TemporalBias(seed_time, window=4, weighted=True),
        "last": lambda: TemporalBias(seed_time, strategy="last"),
        "node2vec": lambda: Node2VecBias(0.5, 2.0),
        "user": lambda: ones,
        "product": lambda: NoRevisitBias() * Node2VecBias(0.3, 3.0, weighted=True),
        "attention": lambda: AttentionBias(lambda node, to: (node + to + 1).double()),
    }[name]()


BIASES = ["uniform", "weight", "no revisit", "temporal", "last", "node2vec", "user"]
BIASES += ["product", "attention"]


@pytest.fixture(scope="module")
def moved(device) -> CompactAdj:
    """The graph on the accelerator, with what is made once per graph already made."""
    with device():
        adj = make_graph().to("cuda")
        traverse(adj, SEEDS, [1, 1], make_bias("temporal"))
        traverse(adj, SEEDS, [1, 1], make_bias("node2vec"))
    return adj


def ready(name: str):
    """A bias whose own tensors are on the accelerator."""
    bias = make_bias(name)
    if hasattr(bias, "seed_time"):
        bias.seed_time = bias.seed_time.to("cuda")
    return bias


@pytest.mark.parametrize("words", [(), (None,), (0,), ("cuda:0",), (CUDA, True)])
def test_graph_has_the_words_of_a_tensor(device, words):
    with device():
        there = make_graph().cuda(*words)
        assert all(array.is_cuda for array in there.arrays().values())
        assert not any(array.is_cuda for array in there.cpu().arrays().values())


@pytest.mark.parametrize(
    ("fanouts", "replace", "disjoint"),
    [
        ([3, 2], False, False),
        ([3, 2], True, True),
        ([-1, 3], False, True),
        ([2, -1], True, False),
        ([0, 2], False, False),
        ([], False, False),
    ],
)
@pytest.mark.parametrize("bias", BIASES)
def test_rooted_gives_the_same_subgraph_on_a_device(
    device, moved, bias, fanouts, replace, disjoint
):
    options = {"replace": replace, "disjoint": disjoint, "generator": 5}
    how = make_bias(bias)
    expected = sample_rooted(make_graph(), SEEDS, fanouts, bias=how, **options)
    with device():
        found = sample_rooted(moved, SEEDS, fanouts, bias=make_bias(bias), **options)
        arrays = {name: getattr(found, name) for name in ("node", "row", "col", "edge")}
        assert all(array.is_cuda for array in arrays.values())
        arrays = {name: array.cpu() for name, array in arrays.items()}
        for scheme in ("unbiased", "paper", "sampled"):
            found.to_sparse(found.gcn_weight(moved, scheme))
        assert found.induced(moved).row.is_cuda
        assert found.bidirectional().row.is_cuda
    for name, array in arrays.items():
        assert array.tolist() == getattr(expected, name).tolist()


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize(
    "bias", ["uniform", "weight", "no revisit", "temporal", "last"]
)
def test_forest_never_waits(device, moved, bias, replace):
    with device() as gpu:
        seeds, how = SEEDS.to("cuda"), ready(bias)
        gpu.syncs.clear()
        traverse(moved, seeds, [3, 2, 2], how, RootedAdjAcc(), replace=replace)
    assert gpu.syncs == []


@pytest.mark.parametrize("systematic", [True, False])
@pytest.mark.parametrize("weight", [None, EdgeWeightBias()])
def test_forest_of_spread_draws_never_waits(device, moved, weight, systematic):
    bias = StratifiedBias(weight, systematic=systematic)
    expected = traverse(make_graph(), SEEDS, [3, 2, 2], bias, generator=1)
    with device() as gpu:
        seeds = SEEDS.to("cuda")
        gpu.syncs.clear()
        found = traverse(moved, seeds, [3, 2, 2], bias, generator=1)
        assert gpu.syncs == []
        found = found.to("cpu")
    assert [x.tolist() for x in found.edges] == [x.tolist() for x in expected.edges]


def test_forest_with_a_user_bias_waits_once_per_depth(device, moved):
    with device.exact() as gpu:
        seeds = SEEDS.to("cuda")
        gpu.syncs.clear()
        traverse(moved, seeds, [3, 2, 2], ones)
    assert len(gpu.syncs) == 3


@all_pairs
@pytest.mark.parametrize("fanouts", [[1, 1, 1], [3, 2, 2]])
@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.5, 2), (1e3, 1), (1e-3, 1e3)])
@pytest.mark.parametrize("weighted", [True, False])
def test_forest_with_node2vec_is_the_same_on_a_device(
    device, moved, fanouts, p, q, weighted
):
    bias = Node2VecBias(p, q, weighted=weighted)
    expected = traverse(make_graph(), SEEDS, fanouts, bias, generator=1)
    with device():
        found = traverse(moved, SEEDS.to("cuda"), fanouts, bias, generator=1).to("cpu")
    assert [x.tolist() for x in found.nodes] == [x.tolist() for x in expected.nodes]
    assert [x.tolist() for x in found.edges] == [x.tolist() for x in expected.edges]


def test_forest_with_node2vec_asks_who_is_waiting(device, moved):
    """Every eighth round, and for the unlucky; the first step needs no rounds."""
    with device.exact() as gpu:
        seeds = SEEDS.to("cuda")
        gpu.syncs.clear()
        traverse(moved, seeds, [1, 1, 1], Node2VecBias(1.0, 1.0), generator=1)
    assert ROUNDS > 8
    assert gpu.syncs == ["__bool__", "nonzero"] * 2


@pytest.mark.parametrize("replace", [True, False])
def test_weights_of_rows_too_long_to_be_looked_at_whole(
    device, moved, monkeypatch, replace
):
    options = {"replace": replace, "generator": 5, "bias": EdgeWeightBias()}
    expected = sample_rooted(make_graph(), SEEDS, [3, 2], **options)
    monkeypatch.setattr(draw, "WHOLE_ROWS", 0)
    with device():
        found = sample_rooted(moved, SEEDS, [3, 2], **options).edge.cpu()
    assert found.tolist() == expected.edge.tolist()


def test_key_on_the_device_counts_as_its_number(device, moved):
    expected = traverse(make_graph(), SEEDS, [3, 2], generator=-7)
    with device() as gpu:
        key, seeds = torch.tensor(-7).to("cuda"), SEEDS.to("cuda")
        gpu.syncs.clear()
        found = traverse(moved, seeds, [3, 2], generator=key)
        assert gpu.syncs == []
        found = found.to("cpu")
        with pytest.raises(TypeError, match="'generator' must be an int64"):
            traverse(moved, seeds, [1], generator=torch.tensor(-7))
    assert found.nodes[2].tolist() == expected.nodes[2].tolist()


def test_forest_is_written_to_given_tensors(device, moved):
    with device() as gpu:
        seeds = SEEDS.to("cuda")
        out = traverse(moved, seeds, [3, 2], generator=1)
        kept = [*out.nodes, *out.edges]
        gpu.syncs.clear()
        again = traverse(moved, seeds, [3, 2], generator=2, out=out)
        assert gpu.syncs == []
        assert [id(x) for x in (*again.nodes, *again.edges)] == [id(x) for x in kept]
        fresh = traverse(moved, seeds, [3, 2], generator=2)
        for ours, theirs in zip(kept, (*fresh.nodes, *fresh.edges), strict=True):
            assert ours.tolist() == theirs.tolist()
        with pytest.raises(ValueError, match=r"'out' must be a forest of the same"):
            traverse(moved, seeds, [3, 3], out=out)
        with pytest.raises(ValueError, match=r"'out' must hold contiguous int64"):
            traverse(moved, seeds[:2], [3, 2], out=out)


def test_unchecked_seeds_cost_no_launch_and_the_cpu_looks_anyway(device, moved):
    with device() as gpu:
        seeds = SEEDS.to("cuda")
        counts = []
        for validate in (True, False):
            with gpu.counting():
                traverse(moved, seeds, [2], generator=1, validate=validate)
            counts.append(len(gpu.launches))
    assert counts[0] - counts[1] == 4
    with pytest.raises(ValueError, match="'seeds' must hold ids below"):
        traverse(make_graph(), [30], [1], validate=False)


@all_pairs
@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("disjoint", [True, False])
@pytest.mark.parametrize(
    ("fanouts", "waits"),
    [([5], 1), ([3, 2], 2), ([3, 2, 4], 3), ([3, -1, 2], 3), ([-1, -1], 3), ([], 0)],
)
@pytest.mark.parametrize("bias", ["uniform", "weight", "temporal"])
def test_rooted_waits_once_per_hop(
    device, moved, bias, fanouts, waits, disjoint, replace
):
    """And once more at the start if the first hop takes all, to learn how many."""
    with device.exact() as gpu:
        seeds, how = SEEDS.to("cuda"), ready(bias)
        gpu.syncs.clear()
        options = {"replace": replace, "disjoint": disjoint}
        sample_rooted(moved, seeds, fanouts, bias=how, **options)
    assert len(gpu.syncs) == waits


def test_hetero_waits_once_per_hop_for_all_relations(device, moved):
    with device.exact() as gpu:
        kinds = [("a", "r", "a"), ("b", "s", "a"), ("a", "t", "b")]
        adjs = dict.fromkeys(kinds, moved)
        seeds = {"a": SEEDS.to("cuda")}
        gpu.syncs.clear()
        sample_rooted(adjs, seeds, [3, 2])
    assert len(gpu.syncs) == 2


def test_accumulators_stay_on_the_device(device, moved):
    with device():
        rooted, transition = RootedAdjAcc(), TransitionAcc(2)
        traverse(moved, SEEDS, [3, 2], NoRevisitBias(), [rooted, transition])
        assert rooted.result().node.is_cuda
        transition.result()


def test_seeds_on_the_device_are_checked_there(device, moved):
    sentence = r"'seeds' must hold ids in \[0, 30\)"
    with device(), pytest.raises(RuntimeError, match=sentence):
        traverse(moved, torch.tensor([30]).to("cuda"), [1])


def test_generator_on_another_device_is_welcome(device, moved):
    with device():
        generator = torch.Generator().manual_seed(1)
        found = traverse(moved, SEEDS, [2], generator=generator).to("cpu")
    expected = traverse(
        make_graph(), SEEDS, [2], generator=torch.Generator().manual_seed(1)
    )
    assert found.nodes[1].tolist() == expected.nodes[1].tolist()


def test_simulation_can_fail(device):
    with device.exact() as gpu:
        there, here = torch.arange(3, device="cuda"), torch.arange(3)
        with pytest.raises(DeviceMixError):
            there + here
        with pytest.raises(DeviceMixError):
            there[here]
        assert (there + torch.tensor(1)).is_cuda
        there[there > 1]
        there.sum().item()
        torch.repeat_interleave(there, there)
    assert gpu.syncs == ["__getitem__ by mask", "item", "repeat_interleave"]


def test_seeds_are_checked_there_whatever_the_number_of_nodes(device):
    """None of them is a node of no nodes; and numbers of nodes need 64 bits."""
    if device.real:
        pytest.skip("a device that has raised is of no use to later tests")
    with device():
        there = torch.device("cuda")
        known = torch.tensor([0, 1], dtype=torch.int32).to(there)
        assert _check.seeds(known, 1 << 33, there).tolist() == [0, 1]
        with pytest.raises(ValueError, match="'seeds' must be empty where there are"):
            _check.seeds(torch.tensor([-1]).to(there), 0, there)
        for wrong, upper in ((-1, 1 << 33), (3, 3)):
            with pytest.raises(RuntimeError, match=r"'seeds' must hold ids in \[0"):
                _check.seeds(torch.tensor([wrong]).to(there), upper, there)


def test_edges_are_read_in_memory_of_the_host(device):
    """The same batches; where rows start is copied, and nothing else."""
    here = make_graph()
    expected = sample_rooted(here, SEEDS, [3, 2], bias=EdgeWeightBias(), generator=5)
    with device() as gpu:
        adj = here.uva("cuda")
        assert all(array.is_cuda for array in adj.arrays().values())
        if not device.real:
            assert gpu.streams.notes.count("map") == len(adj.arrays()) - 1
        seeds = SEEDS.to("cuda")
        found = sample_rooted(adj, seeds, [3, 2], bias=EdgeWeightBias(), generator=5)
        assert found.edge.cpu().equal(expected.edge)
        assert found.node.cpu().equal(expected.node)
        with pytest.raises(ValueError, match="'device' must be a GPU that reads"):
            adj.uva("cuda")
    with pytest.raises(ValueError, match="'device' must be a GPU that reads memory"):
        here.uva("cpu")
