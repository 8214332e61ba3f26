"""The stage for GraphBolt's pipelines, where there is a GraphBolt."""

import math
from collections import Counter

import dgl
import pytest
import torch
from torch import nn

pytest.importorskip("dgl.graphbolt", reason="GraphBolt comes with DGL 2.1")

from dgl import graphbolt as gb

from gttf_dgl.graphbolt import GTTFNeighborSampler
from gttf_sampler import FractionBias

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
TYPES = [("user", "buys", "item"), ("item", "of", "user"), ("user", "knows", "user")]


def one_type(nodes=40, edges=300, **data):
    torch.manual_seed(0)
    g = dgl.rand_graph(nodes, edges)
    g.edata.update(data)
    return g, gb.from_dglgraph(g, is_homogeneous=True, include_original_edge_id=True)


def many_types():
    torch.manual_seed(1)
    sizes = {"user": 20, "item": 30}
    ends = {
        kind: (
            torch.randint(sizes[kind[0]], (90,)),
            torch.randint(sizes[kind[2]], (90,)),
        )
        for kind in TYPES
    }
    g = dgl.heterograph(ends, sizes)
    return g, gb.from_dglgraph(g, include_original_edge_id=True)


def pipeline(graph, seeds, fanouts, stage="sample_gttf", batch_size=8, **how):
    if isinstance(seeds, dict):
        items = gb.ItemSetDict(
            {name: gb.ItemSet(ids, names="seed_nodes") for name, ids in seeds.items()}
        )
    else:
        items = gb.ItemSet(seeds, names="seed_nodes")
    start = gb.ItemSampler(items, batch_size=batch_size)
    return getattr(start, stage)(graph, fanouts, **how)


def edges_of(batch):
    """Per layer and edge type, the edges by their ids elsewhere, with both ends."""
    layers = []
    for layer in batch.sampled_subgraphs:
        parts = layer.sampled_csc, layer.original_column_node_ids
        parts = *parts, layer.original_row_node_ids, layer.original_edge_ids
        if not isinstance(parts[0], dict):
            parts = {"a:b:a": parts[0]}, {"a": parts[1]}, {"a": parts[2]}
            parts = *parts, {"a:b:a": layer.original_edge_ids}
        csc, column, row, eids = parts
        found = {}
        for kind, edges in csc.items():
            source, _, target = kind.split(":")
            ends = column[target].repeat_interleave(edges.indptr.diff())
            names = row[source][edges.indices], ends, eids[kind]
            found[kind] = sorted(zip(*(part.tolist() for part in names), strict=True))
        layers.append(found)
    return layers


@pytest.mark.parametrize("typed", [False, True])
def test_stage_gives_what_theirs_gives_where_all_is_taken(typed):
    _, graph = many_types() if typed else one_type()
    seeds = torch.arange(16)
    seeds = {"user": seeds, "item": seeds + 3} if typed else seeds
    ours = pipeline(graph, seeds, [-1, -1])
    theirs = pipeline(graph, seeds, [-1, -1], stage="sample_neighbor")
    for one, other in zip(ours, theirs, strict=True):
        assert edges_of(one) == edges_of(other)
        for mine, other_layer in zip(
            one.sampled_subgraphs, other.sampled_subgraphs, strict=True
        ):
            column = mine.original_column_node_ids
            row, expected = (
                mine.original_row_node_ids,
                other_layer.original_row_node_ids,
            )
            if not typed:
                column, row, expected = {"": column}, {"": row}, {"": expected}
            for name in row:
                assert sorted(row[name].tolist()) == sorted(expected[name].tolist())
                assert row[name][: len(column[name])].equal(column[name])
        inputs = one.input_nodes if typed else {"": one.input_nodes}
        assert inputs.keys() == ({"user", "item"} if typed else {""})
        assert [b.num_edges() for b in one.blocks] == [
            b.num_edges() for b in other.blocks
        ]


@pytest.mark.parametrize("most", [None, {"buys": 2, "of": 0, "knows": 3}])
def test_typed_fanouts_are_for_all_edges_or_per_type(most):
    g, graph = many_types()
    seeds = {"user": torch.arange(20), "item": torch.arange(30)}
    fanout = 4
    if most:
        numbers = graph.edge_type_to_id
        names = sorted(numbers, key=numbers.get)
        fanout = torch.tensor([most[name.split(":")[1]] for name in names])
    (batch,) = pipeline(graph, seeds, [fanout], batch_size=50)
    (layer,) = edges_of(batch)
    drawn, there = Counter(), Counter()
    for kind in TYPES:
        edges = layer[":".join(kind)]
        source, target = g.edges(etype=kind)
        for sender, receiver, eid in edges:
            assert (source[eid], target[eid]) == (sender, receiver)
        assert len(set(edges)) == len(edges)
        group = kind[1] if most else None
        drawn += Counter((group, kind[2], receiver) for _, receiver, _ in edges)
        there += Counter((group, kind[2], receiver) for receiver in target.tolist())
    for (group, *node), degree in there.items():
        limit = most[group] if most else 4
        assert drawn[(group, *node)] == min(limit, degree)


def test_layers_are_drawn_from_what_the_next_one_reads():
    _, graph = one_type()
    for batch in pipeline(graph, torch.arange(40), [3, 2]):
        far, near = batch.sampled_subgraphs
        assert far.original_column_node_ids.equal(near.original_row_node_ids)
        assert near.original_column_node_ids.equal(batch.seed_nodes)
        assert batch.input_nodes.equal(far.original_row_node_ids)
        assert int(near.sampled_csc.indptr.diff().max()) <= 2
        assert int(far.sampled_csc.indptr.diff().max()) <= 3


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_follow_the_seed(workers):
    _, graph = one_type(200, 4000)
    features = gb.TorchBasedFeature(torch.randn(200, 3))
    store = gb.BasicFeatureStore({("node", None, "x"): features})

    def epochs(seed):
        torch.manual_seed(seed)
        pipe = pipeline(graph, torch.arange(200), [3, 3], batch_size=32)
        loader = gb.DataLoader(pipe.fetch_feature(store, ["x"]), num_workers=workers)
        return [[edges_of(batch) for batch in loader] for _ in range(2)]

    here = epochs(5)
    assert epochs(5) == here
    assert epochs(6) != here
    assert here[0] != here[1]


def test_seed_makes_draws_independent_of_torch():
    _, graph = one_type()

    def drawn(seed):
        pipe = pipeline(graph, torch.arange(40), [2], seed=seed)
        return [edges_of(batch) for batch in pipe]

    assert drawn(3) == drawn(3)
    assert drawn(3) != drawn(4)


@pytest.mark.parametrize("kind", ["weights", "mask", "uniform"])
def test_draws_have_the_chances_they_should(kind):
    """One of four edges, 4,000 times, within four standard errors."""
    weight = torch.tensor([1.0, 2.0, 5.0, 0.0])
    indptr, indices = torch.tensor([0, 4, 4, 4, 4, 4]), torch.tensor([1, 2, 3, 4])
    data = {"w": weight, "m": weight > 1.5}
    graph = gb.fused_csc_sampling_graph(indptr, indices, edge_attributes=data)
    name = {"weights": "w", "mask": "m", "uniform": None}[kind]
    stage = pipeline(graph, torch.zeros(1, dtype=torch.int64), [1], prob_name=name)
    torch.manual_seed(0)
    count, chances = torch.zeros(4), {"w": weight, "m": (weight > 1.5).float()}
    chance = chances.get(name, torch.ones(4))
    chance = chance / chance.sum()
    for _ in range(4000):
        _, (layer,) = stage.sample_subgraphs(torch.tensor([0]))
        (sender,) = layer.original_row_node_ids[1:].tolist()
        count[sender - 1] += 1
    for seen, true in zip(count.tolist(), chance.tolist(), strict=True):
        error = math.sqrt(true * (1 - true) / 4000)
        assert abs(seen / 4000 - true) <= 4 * error


def test_stage_takes_a_bias():
    g, graph = one_type()
    stage = pipeline(graph, torch.arange(40), [-1], bias=FractionBias([0.5]))
    _, (layer,) = stage.sample_subgraphs(torch.arange(40))
    drawn = layer.sampled_csc.indptr.diff()
    assert drawn.sum() < 0.8 * g.num_edges()
    assert drawn.sum() > 0.2 * g.num_edges()


def test_model_trains_on_links_without_the_edges_asked_about():
    g, graph = one_type(60, 400)
    pairs = torch.stack(g.edges(), 1)
    items = gb.ItemSet(pairs, names="node_pairs")
    pipe = gb.ItemSampler(items, batch_size=50)
    pipe = pipe.sample_uniform_negative(graph, 1).sample_gttf(graph, [-1, -1])
    pipe = pipe.transform(gb.exclude_seed_edges)
    conv = nn.ModuleList([dgl.nn.SAGEConv(8, 8, "mean") for _ in range(2)])
    x = torch.randn(60, 8)
    for batch in gb.DataLoader(pipe):
        asked = set(zip(*(end.tolist() for end in batch.node_pairs), strict=True))
        for layer in edges_of(batch):
            assert not asked & {edge[:2] for edge in layer["a:b:a"]}
        h = x[batch.input_nodes]
        for layer, block in zip(conv, batch.blocks, strict=True):
            h = layer(block, h)
        pairs, labels = batch.node_pairs_with_labels
        score = (h[pairs[0]] * h[pairs[1]]).sum(-1)
        loss = nn.functional.binary_cross_entropy_with_logits(score, labels.float())
        loss.backward()
    assert all(layer.fc_neigh.weight.grad.isfinite().all() for layer in conv)


def test_page_runs_and_prints_what_it_says():
    from test_docs import ROOT, run

    assert run(ROOT / "docs" / "graphbolt.md")[1] == 1


def test_ids_of_32_bits_stay_so():
    graph = gb.fused_csc_sampling_graph(
        torch.tensor([0, 2, 3, 3]), torch.tensor([1, 2, 0], dtype=torch.int32)
    )
    seeds = torch.tensor([0, 1], dtype=torch.int32)
    (batch,) = pipeline(graph, seeds, [-1, -1])
    assert batch.input_nodes.dtype == torch.int32
    assert sorted(batch.input_nodes.tolist()) == [0, 1, 2]
    assert batch.blocks[0].num_edges() == 3


def test_empty_and_repeated_seeds():
    _, graph = many_types()
    stage = pipeline(graph, {"user": torch.arange(4)}, [2, 2])
    nodes, layers = stage.sample_subgraphs({})
    assert {name: len(ids) for name, ids in nodes.items()} == {"user": 0, "item": 0}
    assert all(len(csc.indices) == 0 for csc in layers[0].sampled_csc.values())
    seeds = {"user": torch.tensor([3, 3])}
    _, (layer,) = pipeline(graph, seeds, [-1]).sample_subgraphs(seeds)
    csc = layer.sampled_csc["user:knows:user"]
    first, second = csc.indptr.diff().tolist()
    assert first == second
    assert csc.indices[:first].equal(csc.indices[first:])


def test_validate():
    g, graph = one_type()
    _, typed = many_types()
    seeds = torch.arange(8)
    wrong = [
        (TypeError, "'graph' must be a Fused", lambda: pipeline(g, seeds, [2])),
        (TypeError, "'fanouts' must be a list", lambda: pipeline(graph, seeds, 2)),
        (ValueError, "'fanouts' must have one", lambda: pipeline(graph, seeds, [])),
        (ValueError, "'fanouts' must hold int", lambda: pipeline(graph, seeds, [-2])),
        (
            ValueError,
            "'fanouts' must hold one number per layer, or one for each of 3 types",
            lambda: pipeline(typed, {"user": seeds}, [torch.tensor([1, 2])]),
        ),
        (
            ValueError,
            "'prob_name' must name an edge attribute",
            lambda: pipeline(graph, seeds, [2], prob_name="no"),
        ),
        (
            ValueError,
            "'deduplicate' must be True",
            lambda: pipeline(graph, seeds, [2], deduplicate=False),
        ),
    ]
    stage, by_type = GTTFNeighborSampler, pipeline(typed, {"user": seeds}, [2])
    one = pipeline(graph, seeds, [2])
    assert isinstance(one, stage)
    wrong += [
        (ValueError, "'seeds' must", lambda: one.sample_subgraphs(torch.tensor([40]))),
        (TypeError, "'seeds' must hold", lambda: by_type.sample_subgraphs(seeds)),
        (
            ValueError,
            "'seeds' must name node types",
            lambda: by_type.sample_subgraphs({"shop": seeds}),
        ),
        (
            ValueError,
            "'seeds' must",
            lambda: by_type.sample_subgraphs({"user": torch.tensor([20])}),
        ),
        (
            ValueError,
            "'timestamp' must be absent",
            lambda: one.sample_subgraphs(seeds, seeds),
        ),
    ]
    for error, words, call in wrong:
        with pytest.raises(error, match=words):
            call()
