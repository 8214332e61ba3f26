"""Blocks of GTTFSampler against plain Python and against DGL's own."""

import dgl
import pytest
import torch
from hypothesis import given, settings

from cases import Case, as_table, cases, ids
from gttf_dgl import GTTFSampler, to_compact
from gttf_sampler import (
    EdgeWeightBias,
    ExcludeBias,
    Node2VecBias,
    TemporalBias,
    sample_rooted,
)
from gttf_sampler.bias.base import Bias


def sample(case: Case, **more):
    sampler = GTTFSampler(
        case.fanouts, case.edge_dir, replace=case.replace, **case.options, **more
    )
    seeds = case.seeds
    if len(case.g.ntypes) == 1:
        seeds = seeds.get(case.g.ntypes[0], torch.empty(0, dtype=torch.int64))
    found = sampler.sample(case.g, seeds, case.exclude)
    assert found[1] is seeds
    return found[0], found[2]


def check_frame(g, block, names):
    """Ids have the graph's type, and the features of the parent are at hand."""
    for view in (block.srcnodes, block.dstnodes):
        for name in names:
            where = view[name].data[dgl.NID]
            assert where.dtype == g.idtype
            parent = g.nodes[name].data["feat"]
            assert torch.equal(view[name].data["feat"], parent[where.long()])


@settings(max_examples=30)
@given(case=cases())
def test_blocks_keep_every_promise(case):
    input_nodes, blocks = sample(case, seed=0)
    names = case.g.ntypes
    frontier = {
        n: case.seeds[n].tolist() if n in case.seeds else [] for n in case.g.ntypes
    }
    for block, fanouts in zip(reversed(blocks), reversed(case.fanouts), strict=True):
        assert block.is_block
        assert block.idtype == case.g.idtype
        assert block.srctypes == block.dsttypes == names
        assert block.canonical_etypes == [
            case.turned(kind) for kind in case.g.canonical_etypes
        ]
        senders, receivers = (ids(block, side, names) for side in ("src", "dst"))
        assert receivers == frontier
        used = {name: set() for name in names}
        for kind, fanout in fanouts.items():
            source, _, target = case.turned(kind)
            ends = senders[source], receivers[target]
            used[source] |= case.check_edges(block, kind, fanout, 0, *ends)
        for name in names:
            known = receivers[name]
            new = senders[name][len(known) :]
            assert senders[name][: len(known)] == known
            assert len({*new, *known}) == len(new) + len(set(known))
            assert set(range(len(known), len(senders[name]))) <= used[name]
        check_frame(case.g, block, names)
        frontier = senders
    if len(names) == 1:
        input_nodes = {names[0]: input_nodes}
    assert {name: x.tolist() for name, x in input_nodes.items()} == frontier


@settings(max_examples=30)
@given(case=cases(layers=3))
def test_rooted_blocks_are_parts_of_one_sample(case):
    _, blocks = sample(case, seed=0, rooted=True)
    names = case.g.ntypes
    seen = dict.fromkeys(names, 0)  # receivers whose edges were checked
    frontier = {n: case.seeds[n].tolist() if n in case.seeds else [] for n in names}
    inner = None
    for block, fanouts in zip(reversed(blocks), reversed(case.fanouts), strict=True):
        senders, receivers = (ids(block, side, names) for side in ("src", "dst"))
        assert receivers == frontier
        for kind, fanout in fanouts.items():
            source, _, target = case.turned(kind)
            ends = senders[source], receivers[target]
            case.check_edges(block, kind, fanout, seen[target], *ends)
            if inner is not None:  # an edge of the smaller block is one of this, too
                whole, part = (
                    [*b.edges(etype=case.turned(kind)), b.edges[case.turned(kind)].data]
                    for b in (block, inner)
                )
                size = len(part[0])
                assert torch.equal(whole[0][:size], part[0])
                assert torch.equal(whole[1][:size], part[1])
                assert torch.equal(whole[2][dgl.EID][:size], part[2][dgl.EID])
        for name in names:
            new = senders[name][len(receivers[name]) :]
            assert senders[name][: len(receivers[name])] == receivers[name]
            assert len({*new, *receivers[name]}) == len(new) + len({*receivers[name]})
        seen = {name: len(receivers[name]) for name in names}
        frontier, inner = senders, block


@settings(max_examples=30)
@given(case=cases(fanouts=(-1,)))
def test_full_blocks_are_those_of_dgl(case):
    """As sets. DGL's own are broken for out-edges and for repeated seeds."""
    seeds = {name: x.unique() for name, x in case.seeds.items()}
    case = case._replace(seeds=seeds, edge_dir="in", replace=False)
    own = sample(case)[1]
    peer = dgl.dataloading.NeighborSampler(case.fanouts, fused=False, **case.options)
    if not case.seeds or not any(case.g.num_edges(k) for k in case.ends):
        return  # DGL refuses these
    theirs = peer.sample(case.g, case.seeds, case.exclude)[2]
    for ours, block in zip(own, theirs, strict=True):
        for kind in case.g.canonical_etypes:
            table = []
            for b in (ours, block):
                u, v = b.edges(etype=kind)
                u = b.srcnodes[kind[0]].data[dgl.NID][u.long()]
                v = b.dstnodes[kind[2]].data[dgl.NID][v.long()]
                eid = b.edges[kind].data[dgl.EID]
                table.append(sorted(torch.stack([u, v, eid], 1).tolist()))
            assert table[0] == table[1]


@settings(max_examples=30)
@given(case=cases())
def test_blocks_of_out_edges_are_blocks_of_the_reversed_graph(case):
    back = dgl.reverse(case.g, copy_ndata=True, copy_edata=True)
    flat = [1, 2, -1][: len(case.fanouts)]
    options = {**case.options, "seed": 5, "replace": case.replace}
    turn = {k[::-1]: v for k, v in case.exclude.items()} if case.exclude else None
    left = GTTFSampler(flat, "out", **options).sample(case.g, case.seeds, case.exclude)
    right = GTTFSampler(flat, "in", **options).sample(back, case.seeds, turn)
    assert as_table(left[2]) == as_table(right[2])


def test_repeated_seeds_have_edges_of_their_own():
    g = dgl.graph(([1, 2, 3], [0, 0, 0]))
    seeds = torch.tensor([0, 3, 0])
    input_nodes, _, (block,) = GTTFSampler([2]).sample(g, seeds)
    assert block.dstdata[dgl.NID].tolist() == [0, 3, 0]
    assert block.in_degrees().tolist() == [2, 0, 2]
    assert len(input_nodes) == 3 + len(set(input_nodes.tolist()) - {0, 3})


@pytest.mark.parametrize("seeds", [[], [2]])
def test_zero_fanout_and_empty_batches(seeds):
    g = dgl.rand_graph(5, 20)
    ids = torch.tensor(seeds, dtype=torch.int64)
    input_nodes, _, blocks = GTTFSampler([0, 0]).sample(g, ids)
    assert input_nodes.tolist() == seeds
    for block in blocks:
        assert (block.num_edges(), block.num_src_nodes()) == (0, len(seeds))


def test_awkward_seeds_and_an_output_device():
    g = dgl.rand_graph(30, 300)
    plain = GTTFSampler([2, 2], seed=1).sample(g, torch.arange(0, 20, 2))
    strided = torch.arange(20)[::2]
    assert not strided.is_contiguous()
    sampler = GTTFSampler([2, 2], seed=1, output_device="cpu")
    assert as_table(sampler.sample(g, strided)[2]) == as_table(plain[2])
    listed = GTTFSampler([2, 2], seed=1).sample(g, list(range(0, 20, 2)))
    assert as_table(listed[2]) == as_table(plain[2])


def test_rooted_blocks_hold_what_the_engine_draws():
    """The same seed gives the same subgraph on every host."""
    torch.manual_seed(3)
    g = dgl.rand_graph(300, 3000)
    seeds = torch.arange(0, 40, 2)
    core = sample_rooted(to_compact(g), seeds, [4, 3, 2], generator=11)
    for given_as in ({"seed": 11}, {"generator": 11}):
        sampler = GTTFSampler([2, 3, 4], rooted=True, **given_as)
        _, _, blocks = sampler.sample(g, seeds)
        assert torch.equal(blocks[0].srcdata[dgl.NID], core.node)
        assert torch.equal(torch.stack(blocks[0].edges()), core.edge_index)
        eids = to_compact(g).original_edge(core.edge)
        assert torch.equal(blocks[0].edata[dgl.EID], eids)


class EvenTrees(Bias):
    """Neighbours of even ids, for the first seed alone."""

    separates_trees = True

    def __call__(self, path, node, neighborhood):
        first = neighborhood.root[neighborhood.walker] == 0
        return ((neighborhood.neighbor % 2 == 0) & first).double()


def test_rooted_blocks_take_biases_that_know_the_seed():
    g = dgl.graph(([0, 1, 2, 0, 1, 2], [3, 3, 3, 4, 4, 4]))
    with pytest.raises(ValueError, match=r"treat seeds differently .*pass rooted=True"):
        GTTFSampler([1], bias=EvenTrees())
    sampler = GTTFSampler([-1], bias=EvenTrees(), rooted=True)
    _, _, (block,) = sampler.sample(g, torch.tensor([3, 4]))
    assert block.edata[dgl.EID].tolist() == [0, 2]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"bias": TemporalBias(torch.tensor([5]))}, "must not need times"),
        ({"bias": Node2VecBias(0.5, 2.0)}, "must not look back .* pass rooted=True"),
        ({"bias": EdgeWeightBias()}, "needs edge weights .* with 'prob'"),
        ({"bias": EdgeWeightBias(), "prob": "w"}, "beside 'prob', which draws by them"),
        (
            {"bias": EdgeWeightBias() * ExcludeBias([0]), "prob": "w"},
            "beside 'prob', which draws by them",
        ),
        ({"normalize": "both", "prefetch_edge_feats": ["norm"]}, "'norm' are prefetch"),
    ],
)
def test_options_that_would_mean_something_else(options, match):
    with pytest.raises(ValueError, match=match):
        GTTFSampler([1], **options)


def test_layers_are_drawn_anew():
    """The seed draws other neighbours in every layer, and others for another seed."""
    g = dgl.graph((torch.arange(1, 1001), torch.zeros(1000, dtype=torch.int64)))
    found = []
    for seed in (0, 1):
        _, _, blocks = GTTFSampler([3, 3, 3], seed=seed).sample(g, torch.tensor([0]))
        found += [frozenset(block.edata[dgl.EID].tolist()) for block in blocks]
    assert len(set(found)) == 6


SMALL = dgl.heterograph(
    {("a", "r", "b"): ([0, 1], [0, 1]), ("b", "s", "a"): ([0], [1])}
)
SMALL.edges["r"].data["w"] = torch.tensor([1.0, -1.0])
SMALL.edges["r"].data["wide"] = torch.ones(2, 3)
SMALL.edges["r"].data["nan"] = torch.tensor([1.0, float("nan")])


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        ({"fanouts": 3}, TypeError, "'fanouts' must be a list"),
        ({"fanouts": []}, ValueError, "'fanouts' must have one entry"),
        ({"fanouts": [-2]}, ValueError, "'fanouts' must hold integers >= 0, or -1"),
        ({"fanouts": [1.5]}, ValueError, r"'fanouts' must hold .* \(got 1.5\)"),
        ({"fanouts": [{"r": True}]}, ValueError, "'fanouts' must hold"),
        ({"edge_dir": "both"}, ValueError, "'edge_dir' must be one of 'in', 'out'"),
        ({"prob": "w", "mask": "w"}, ValueError, "'mask' must not be given beside"),
        ({"bias": 3}, TypeError, "'bias' must be a function"),
        ({"bias": {"r": int}}, TypeError, "'bias' must be a function"),
        ({"seed": 1, "generator": 2}, ValueError, "'seed' must not be given beside"),
        ({"seed": 1.5}, TypeError, "'seed' must be an integer"),
        ({"generator": "x"}, TypeError, "'generator' must be a torch.Generator"),
        ({"normalize": "mean"}, ValueError, "'normalize' must be one of"),
        ({"normalize": "both", "prob": "w"}, ValueError, "'normalize' needs uniform"),
    ],
)
def test_validate_arguments(make, error, match):
    with pytest.raises(error, match=match):
        GTTFSampler(**{"fanouts": [2], **make})


@pytest.mark.parametrize(
    ("make", "call", "error", "match"),
    [
        ({}, {"seeds": torch.tensor([0])}, dgl.DGLError, "'seed_nodes' must map node"),
        ({}, {"seeds": {"x": [0]}}, dgl.DGLError, "'seed_nodes' must name node types"),
        ({}, {"seeds": {"a": [2]}}, ValueError, "below the number of nodes 2"),
        ({}, {"seeds": {"a": [-1]}}, ValueError, "must not hold negative ids"),
        ({}, {"seeds": {"a": [0.5]}}, TypeError, "must have dtype int32 or int64"),
        ({}, {"seeds": {"a": [[0]]}}, ValueError, "must have 1 dimension"),
        ({}, {"seeds": {"a": "x"}}, TypeError, "must be a tensor"),
        ({}, {"g": 3}, TypeError, "'g' must be a DGLGraph"),
        ({"fanouts": [{"r": 1}]}, {}, dgl.DGLError, "'fanouts' must name every edge"),
        ({"fanouts": [{"x": 1}]}, {}, ValueError, "'fanouts' must name one edge type"),
        ({"prob": "p"}, {}, ValueError, r"'prob' must be the name of .*'wide'"),
        ({"mask": "p"}, {}, ValueError, "'mask' must be the name of edge data"),
        ({"prob": "w"}, {}, ValueError, "must not hold negative weights"),
        ({"prob": "nan"}, {}, ValueError, "must not hold NaN"),
        ({"prob": "wide"}, {}, ValueError, "must be one number per edge"),
        ({"bias": {"x": len}}, {}, dgl.DGLError, "'bias' must name one edge type"),
        ({}, {"exclude": torch.tensor([0])}, dgl.DGLError, "'exclude_eids' must map"),
        ({}, {"exclude": {"x": [0]}}, dgl.DGLError, "'exclude_eids' must name one"),
    ],
)
def test_validate_calls(make, call, error, match):
    call = {"g": SMALL, "seeds": {"b": [0]}, "exclude": None, **call}
    with pytest.raises(error, match=match):
        GTTFSampler(**{"fanouts": [2], **make}).sample(*call.values())


def test_a_block_is_not_a_graph_to_sample_from():
    g = dgl.rand_graph(5, 20)
    _, _, (block,) = GTTFSampler([1]).sample(g, torch.tensor([0]))
    with pytest.raises(ValueError, match="'g' must be a graph to sample from"):
        GTTFSampler([1]).sample(block, torch.tensor([0]))


def test_arguments_are_those_of_dgl():
    """By name, by position and with the same defaults."""
    import inspect

    theirs = inspect.signature(dgl.dataloading.NeighborSampler).parameters
    ours = inspect.signature(GTTFSampler).parameters
    assert list(ours)[: len(theirs)] == list(theirs)
    for name, parameter in theirs.items():
        assert ours[name].default == parameter.default
    rest = list(ours.values())[len(theirs) :]
    assert {p.kind for p in rest} == {inspect.Parameter.KEYWORD_ONLY}
