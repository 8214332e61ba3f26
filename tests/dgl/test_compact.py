"""to_compact and from_subgraph: DGL's arrays as rows, and back."""

import doctest
import gc
import importlib
import inspect
import pkgutil
from importlib.util import find_spec

import dgl
import pytest
import torch
from hypothesis import given, settings

import gttf_dgl
from cases import cases, ids
from gttf_dgl import (
    GTTFSampler,
    GTTFSubgraphSampler,
    from_subgraph,
    to_compact,
)
from gttf_sampler import Subgraph, sample_rooted
from gttf_sampler.graph import tables


@settings(max_examples=30)
@given(case=cases())
def test_to_compact_is_the_graph(case):
    for kind, ends in case.ends.items():
        for direction in ("in", "out"):
            adj = to_compact(case.g, kind, direction=direction).validate()
            assert adj.direction == direction
            assert adj.to_edge_index().t().tolist() == ends
            if "prob" in case.options and "w" in case.g.edges[kind].data:
                heavy = to_compact(case.g, kind, direction=direction, prob="w")
                weight = case.g.edges[kind].data["w"]
                order = heavy.edge_id
                order = slice(None) if order is None else order.long()
                assert torch.equal(heavy.edge_weight, weight[order])


@pytest.mark.parametrize(("direction", "form"), [("in", "csc"), ("out", "csr")])
@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_to_compact_copies_nothing(direction, form, idtype):
    g = dgl.rand_graph(20, 100, idtype=idtype)
    adj = to_compact(g, direction=direction)
    indptr, indices, eids = g.adj_tensors(form)
    assert adj.col.data_ptr() == indices.data_ptr()
    assert adj.edge_id.data_ptr() == eids.data_ptr()
    if idtype == torch.int64:
        assert adj.rowptr.data_ptr() == indptr.data_ptr()


@pytest.mark.parametrize("form", ["coo", "csr", "csc"])
@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_to_compact_of_a_graph_restricted_to_one_format(form, idtype):
    """DGL samples from any; where it has no rows of its own, they are made."""
    free = dgl.heterograph(
        {("a", "r", "b"): ([3, 0, 1, 0], [1, 1, 0, 2])}, {"a": 4, "b": 3}, idtype=idtype
    )
    g = free.formats(form)
    for direction in ("in", "out"):
        adj = to_compact(g, direction=direction).validate()
        assert adj.to_edge_index().tolist() == [[3, 0, 1, 0], [1, 1, 0, 2]]
    for edge_dir, name, seeds in (("in", "b", [1, 0]), ("out", "a", [0])):
        ids = {name: torch.tensor(seeds, dtype=idtype)}
        found = [GTTFSampler([-1], edge_dir).sample(x, ids)[2][0] for x in (free, g)]
        eids = [sorted(block.edata[dgl.EID].tolist()) for block in found]
        assert eids[0] == eids[1]
        assert len(eids[0]) >= 2


def test_to_compact_is_made_once_per_graph():
    g = dgl.rand_graph(20, 100)
    adj = to_compact(g)
    assert to_compact(g) is adj
    assert to_compact(g.local_var(), "_E") is adj  # the same structure
    assert to_compact(g, direction="out") is not adj
    assert to_compact(dgl.rand_graph(20, 100)) is not adj
    g.add_edges([0], [1])
    assert to_compact(g) is not adj
    assert to_compact(g).num_edges == 101


def test_to_compact_is_kept_as_long_as_the_graph():
    gc.collect()
    before = len(tables._kept)
    g = dgl.rand_graph(20, 100)
    g.edata["w"] = torch.ones(100)
    adj = to_compact(g)
    GTTFSampler([2], prob="w").sample(g, torch.arange(3))
    assert len(tables._kept) == before + 2  # of the graph, and of its rows
    del g
    gc.collect()
    assert len(tables._kept) == before
    assert adj.validate().num_edges == 100  # who holds it may go on


def test_to_compact_weights():
    g = dgl.graph(([1, 2, 3], [0, 0, 0]))
    g.edata["w"] = torch.tensor([[2], [0], [1]])
    g.edata["on"] = torch.tensor([True, False, True])
    assert to_compact(g, prob="w").edge_weight.tolist() == [2, 0, 1]
    assert to_compact(g, mask="on").edge_weight.tolist() == [1.0, 0.0, 1.0]
    assert to_compact(g).edge_weight is None


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        ({}, dgl.DGLError, "'etype' must name one of the edge types"),
        ({"etype": "x"}, dgl.DGLError, "'etype' must name one edge type"),
        ({"etype": "r", "direction": "up"}, ValueError, "'direction' must be one of"),
        ({"etype": "r", "prob": "x"}, ValueError, "'prob' must be the name of edge"),
        ({"etype": "r", "prob": "w"}, ValueError, "'prob' must be data of"),
        ({"g": 3}, TypeError, "'g' must be a DGLGraph"),
    ],
)
def test_validate_to_compact(make, error, match):
    g = dgl.heterograph({("a", "r", "b"): ([0], [0]), ("b", "s", "a"): ([0], [0])})
    g.edges["s"].data["w"] = torch.ones(1)
    with pytest.raises(error, match=match):
        to_compact(**{"g": g, **make})


@settings(max_examples=30)
@given(case=cases(layers=3))
def test_subgraph_sampler_keeps_every_promise(case):
    sampler = GTTFSubgraphSampler(
        case.fanouts,
        replace=case.replace,
        edge_dir=case.edge_dir,
        seed=0,
        **case.options,
    )
    input_nodes, seeds, batch = sampler.sample(case.g, case.seeds, case.exclude)
    assert seeds is case.seeds
    names = case.g.ntypes
    assert (batch.ntypes, batch.idtype) == (names, case.g.idtype)
    assert not batch.is_block
    nodes = ids(batch, "", names)
    if len(names) == 1:
        input_nodes = {names[0]: input_nodes}
    assert {name: x.tolist() for name, x in input_nodes.items()} == nodes
    for name in names:
        start = case.seeds[name].tolist() if name in case.seeds else []
        assert nodes[name][: len(start)] == start
        new = nodes[name][len(start) :]
        assert len({*new, *start}) == len(new) + len(set(start))
        where = batch.nodes[name].data[dgl.NID].long()
        parent = case.g.nodes[name].data["feat"]
        assert torch.equal(batch.nodes[name].data["feat"], parent[where])
    if len(case.fanouts) == 1:
        for kind, fanout in case.fanouts[0].items():
            source, _, target = case.turned(kind)
            size = len(case.seeds.get(target, []))
            ends = nodes[source], nodes[target][:size]
            case.check_edges(batch, kind, fanout, 0, *ends)


def test_subgraph_sampler_gives_what_the_engine_draws():
    """The same seed gives the same subgraph on every host."""
    torch.manual_seed(0)
    g = dgl.graph(tuple(torch.randint(200, (2, 2000))))
    seeds = torch.arange(0, 40, 2)
    core = sample_rooted(to_compact(g), seeds, [4, 3], generator=11)
    nodes, _, batch = GTTFSubgraphSampler([3, 4], seed=11).sample(g, seeds)
    twin = from_subgraph(g, core)
    for graph in (batch, twin):
        assert torch.equal(graph.ndata[dgl.NID], core.node)
        assert torch.equal(torch.stack(graph.edges()), core.edge_index)
        eids = to_compact(g).original_edge(core.edge)
        assert torch.equal(graph.edata[dgl.EID], eids)
    assert torch.equal(nodes, core.node)


def test_from_subgraph_of_several_types():
    g = dgl.heterograph(
        {("a", "r", "b"): ([0, 1, 2], [0, 0, 1]), ("b", "s", "a"): ([0, 1], [1, 1])},
        {"a": 3, "b": 2, "z": 2},
    )
    g.nodes["a"].data["x"] = torch.rand(3, 2)
    adjs = {kind: to_compact(g, kind) for kind in g.canonical_etypes}
    drawn = sample_rooted(adjs, {"b": [0]}, [-1, -1])
    batch = from_subgraph(g, drawn)
    assert (batch.ntypes, batch.canonical_etypes) == (g.ntypes, g.canonical_etypes)
    assert ids(batch, "", g.ntypes) == {"a": [0, 1], "b": [0, 1], "z": []}
    assert batch.edges["s"].data[dgl.EID].tolist() == [0, 1]
    assert torch.equal(batch.nodes["a"].data["x"], g.nodes["a"].data["x"][:2])


def test_from_subgraph_of_out_edges():
    g = dgl.graph(([0, 0, 1], [1, 2, 2]))
    drawn = sample_rooted(to_compact(g, direction="out"), [0], [-1])
    batch = from_subgraph(g, drawn, edge_dir="out")
    assert torch.stack(batch.edges()).tolist() == [[1, 2], [0, 0]]
    assert batch.edata[dgl.EID].tolist() == [0, 1]


def test_validate_from_subgraph():
    g = dgl.heterograph({("a", "r", "b"): ([0], [0]), ("b", "s", "a"): ([0], [0])})
    one = dgl.graph(([0], [1]))
    drawn = sample_rooted(to_compact(one), [0], [1])
    part = sample_rooted({("a", "r", "b"): to_compact(g, "r")}, {"b": [0]}, [1])
    with pytest.raises(TypeError, match="'subgraph' must be a HeteroSubgraph"):
        from_subgraph(g, drawn)
    with pytest.raises(TypeError, match="'subgraph' must be a Subgraph or a Hetero"):
        from_subgraph(one, one)
    with pytest.raises(ValueError, match="'subgraph' must have all edge types"):
        from_subgraph(g, part)
    with pytest.raises(ValueError, match="'edge_dir' must be one of"):
        from_subgraph(one, drawn, edge_dir="up")


def test_all_names_are_documented_and_their_examples_run():
    assert sorted(gttf_dgl.__all__) == list(gttf_dgl.__all__)
    for name in gttf_dgl.__all__:
        assert inspect.getdoc(getattr(gttf_dgl, name)), name
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    tried = doctest.testmod(gttf_dgl, optionflags=flags).attempted
    for info in pkgutil.iter_modules(gttf_dgl.__path__):
        if info.name in ("graphbolt", "_fused") and find_spec("dgl.graphbolt") is None:
            continue  # of DGL 2.1 only
        module = importlib.import_module(f"gttf_dgl.{info.name}")
        result = doctest.testmod(module, optionflags=flags)
        assert result.failed == 0, info.name
        tried += result.attempted
    assert tried > 20


def test_column_counts_as_what_it_is_named_for():
    """Even if it has served as the other before; a mask may be of any numbers."""
    g = dgl.graph(([0, 1], [2, 2]))
    g.edata["k"] = torch.tensor([0.0, 2.0])
    assert to_compact(g, prob="k").edge_weight.tolist() == [0, 2]
    assert to_compact(g, mask="k").edge_weight.tolist() == [0, 1]
    g.edata["k"] = torch.tensor([3, 0], dtype=torch.uint8)
    assert to_compact(g, mask="k").edge_weight.tolist() == [1, 0]
    with pytest.raises(ValueError, match="'mask' must not be given beside 'prob'"):
        to_compact(g, prob="k", mask="k")
    with pytest.raises(TypeError, match="'prob' must be the name of edge data"):
        to_compact(g, prob=["k"])


@pytest.mark.parametrize(
    ("node", "row"), [([4, 3], [10**7]), ([4, 3], [-1]), ([4, 99], [1])]
)
def test_subgraph_of_another_graph_is_refused(node, row):
    g = dgl.graph(([1, 2, 3, 4], [0, 0, 0, 2]))
    ids = (torch.tensor(part) for part in (node, row, [0], [0]))
    with pytest.raises(ValueError, match=r"'subgraph.*' must"):
        from_subgraph(g, Subgraph(*ids))
