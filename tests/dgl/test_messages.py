"""Whatever `gttf_dgl` cannot read is refused in a sentence that names the argument."""

import dgl
import numpy as np
import pytest
import torch

from all_pairs import all_pairs
from gttf_dgl import (
    GTTFSampler,
    GTTFSubgraphSampler,
    SAINTSampler,
    from_subgraph,
    node2vec_random_walk,
    random_walk,
    to_compact,
)
from gttf_sampler import EdgeWeightBias, Subgraph
from odd_values import HUGE, IGNORED, ODD, refused, refused_if_odd

IDS = torch.tensor([0, 1])


def graph(**columns):
    g = dgl.graph(([0, 1, 1, 2, 3], [1, 0, 2, 3, 1]))
    g.ndata["x"] = torch.rand(4, 2)
    for name, value in columns.items():
        g.edata[name] = value
    return g


def sample(seeds=IDS, exclude=None, **options):
    sampler = GTTFSampler(**{"fanouts": [1], **options})
    return sampler.sample(graph(w=torch.ones(5)), seeds, exclude)


def rooted(seeds=IDS, **options):
    sampler = GTTFSubgraphSampler(**{"fanouts": [1], **options})
    return sampler.sample(graph(w=torch.ones(5)), seeds)


def weighted(column, **options):
    return GTTFSampler([1], **options).sample(graph(w=column), IDS)


TENSORS = {
    "seed_nodes": (lambda x: sample(x), IDS),
    "exclude_eids": (lambda x: sample(exclude=x), IDS),
    "fanouts": (lambda x: sample(fanouts=x), IDS),
    "nodes": (lambda x: random_walk(graph(), x, length=2), IDS),
    "restart_prob": (
        lambda x: random_walk(graph(), IDS, length=2, restart_prob=x),
        torch.tensor([0.5, 0.5]),
    ),
    "length": (lambda x: random_walk(graph(), IDS, length=x), torch.tensor(2)),
}


@IGNORED
@pytest.mark.parametrize("name", TENSORS)
def test_dgl_messages_of_odd_tensors(name):
    refused_if_odd(TENSORS[name], name)


@IGNORED
@pytest.mark.parametrize("kind", ["float8", "complex", "meta", "quantized"])
def test_dgl_messages_of_odd_weights(kind):
    """DGL keeps some of these as edge data; none can be drawn by."""
    column = ODD[kind](torch.ones(5))
    try:
        graph(w=column)
    except Exception:  # what DGL itself does not take
        return
    refused(lambda: weighted(column, prob="w"), r"prob\[w\]")


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: random_walk(graph(), IDS, length=HUGE), "length"),
        (lambda: random_walk(graph(), IDS, length=1 << 40), "length"),
        (lambda: node2vec_random_walk(graph(), IDS, 1, 1, HUGE), "walk_length"),
        (lambda: node2vec_random_walk(graph(), IDS, 10**400, 1, 2), "p"),
        (lambda: sample(seeds=[HUGE]), "seed_nodes"),
        (lambda: sample(seeds=range(1 << 45)), "seed_nodes"),
        (lambda: sample(fanouts=range(HUGE)), "fanouts"),
        (lambda: sample(fanouts=[HUGE], replace=True), "fanouts"),
    ],
)
def test_dgl_messages_of_huge_numbers(call, name):
    refused(call, name)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: GTTFSampler(list), "fanouts"),
        (lambda: GTTFSampler([int]), "fanouts"),
        (lambda: sample(edge_dir=str), "edge_dir"),
        (lambda: sample(prob=str), "prob"),
        (lambda: sample(replace=bool), "replace"),
        (lambda: sample(rooted=bool), "rooted"),
        (lambda: sample(bias=EdgeWeightBias), "bias"),
        (lambda: sample(seed=int), "seed"),
        (lambda: sample(generator=torch.Generator), "generator"),
        (lambda: sample(normalize=str), "normalize"),
        (lambda: sample(output_device=torch.device), "output_device"),
        (lambda: sample(prefetch_node_feats=str), "prefetch_node_feats"),
        (lambda: rooted(prefetch_labels=str), "prefetch_labels"),
        (lambda: rooted(prefetch_edge_feats=["w", 1]), "prefetch_edge_feats"),
        (lambda: sample(seeds=torch.Tensor), "seed_nodes"),
        (lambda: GTTFSampler([1]).sample(dgl.DGLGraph, IDS), "g"),
        (lambda: to_compact(dgl.DGLGraph), "g"),
        (lambda: to_compact(graph(), str), "etype"),
        (lambda: to_compact(graph(), direction=str), "direction"),
        (lambda: from_subgraph(graph(), Subgraph), "subgraph"),
        (lambda: random_walk(graph(), IDS, length=int), "length"),
        (lambda: random_walk(graph(), IDS, metapath=list), "metapath"),
        (lambda: random_walk(graph(), IDS, length=2, prob=str), "prob"),
        (lambda: random_walk(graph(), IDS, length=1, restart_prob=float), "restart_.*"),
        (lambda: node2vec_random_walk(graph(), IDS, float, 1, 2), "p"),
        (lambda: node2vec_random_walk(dgl.DGLGraph, IDS, 1, 1, 2), "g"),
    ],
)
def test_dgl_messages_of_classes(call, name):
    refused(call, name)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (
            lambda: sample(output_device="zz"),
            TypeError,
            r"'output_device' must be a device \(got 'zz'\)",
        ),
        (
            lambda: rooted(output_device="xpu:9"),
            ValueError,
            r"'output_device' must be a device that is there \(got 'xpu:9'\)",
        ),
        (
            lambda: sample(output_device="meta"),
            ValueError,
            r"'output_device' must be a device with memory \(got 'meta'\)",
        ),
        (
            lambda: sample(replace=np.zeros(3)),
            TypeError,
            r"'replace' must be True or False \(got array",
        ),
        (
            lambda: random_walk(graph(), IDS, length=1, return_eids=IDS),
            TypeError,
            r"'return_eids' must be True or False \(got tensor",
        ),
        (
            lambda: to_compact(graph(), np.zeros(3)),
            TypeError,
            r"'etype' must name an edge type \(got array",
        ),
        (
            lambda: random_walk(graph(), IDS, length=1, prob=np.zeros(3)),
            TypeError,
            r"'prob' must be the name of edge data \(got ndarray",
        ),
    ],
)
def test_dgl_messages_of_other_things(call, error, match):
    with pytest.raises(error, match=match):
        call()


@all_pairs
@pytest.mark.parametrize(
    "names", ["prefetch_node_feats", "prefetch_labels", "prefetch_edge_feats"]
)
@pytest.mark.parametrize("make", [GTTFSampler, GTTFSubgraphSampler])
@pytest.mark.parametrize(
    ("value", "match"),
    [
        ({"nobody": ["x"]}, r"must name types of the graph: .* \(got 'nobody'\)"),
        (["x"], "must map types to names of data, as there are several types"),
    ],
)
def test_dgl_messages_of_prefetched_types(names, make, value, match):
    kinds = {("a", "in", "a"): ([0], [1]), ("a", "to", "b"): ([0], [0])}
    sampler = make([1], **{names: value})
    with pytest.raises(dgl.DGLError, match=f"'{names}' {match}"):
        sampler.sample(dgl.heterograph(kinds), {"a": IDS})


@pytest.mark.parametrize("names", ["prefetch_ndata", "prefetch_edata"])
def test_dgl_messages_of_what_saint_prefetches(names):
    for value, match in (
        ({"nobody": ["x"]}, "must name types of the graph: .*'nobody'"),
        (["x"], r"must name data of the graph: .*\(got 'x'\)"),
    ):
        sampler = SAINTSampler("node", 2, **{names: value})
        with pytest.raises(dgl.DGLError, match=f"'{names}' {match}"):
            sampler.sample(dgl.graph(([0], [1])), IDS)
