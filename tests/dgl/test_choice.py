"""Draws of GTTFSampler against exact probabilities."""

import dgl
import pytest
import torch
from dgl.nn import GraphConv

from all_pairs import all_pairs
from exact import assert_frequencies, assert_means, one_thread, successive
from gttf_dgl import GTTFSampler, GTTFSubgraphSampler
from gttf_sampler import AttentionBias

__all__ = ["one_thread"]

COPIES = 20_000
WEIGHTS = [0.5, 0.0, 1.0, 2.5, 1.0]


def stars(weights, idtype=torch.int64, edge_dir="in"):
    """`COPIES` stars side by side: one batch of their centres is as many samples.

    Leaf i of every star has edge data weights[i]. Edges are shuffled, so that edge ids
    are not the positions in any row.
    """
    leaves = len(weights)
    centre = torch.arange(COPIES) * (leaves + 1)
    source = centre[:, None] + torch.arange(1, leaves + 1)
    ends = [source.view(-1), centre.repeat_interleave(leaves)]
    data = torch.tensor(weights).repeat(COPIES)
    order = torch.randperm(data.numel(), generator=torch.Generator().manual_seed(0))
    ends = [end[order] for end in (ends if edge_dir == "in" else ends[::-1])]
    count = COPIES * (leaves + 1)
    g = dgl.graph(tuple(ends), num_nodes=count, idtype=idtype)
    g.edata["w"] = data[order]
    return g, centre.to(idtype)


def drawn(sampler, g, seeds, leaves, width, exclude=None):
    """Leaves that every centre drew [copies, width], sorted; 0 for none."""
    _, _, (block,) = sampler.sample(g, seeds, exclude)
    row, col = block.edges(order="eid")
    leaf = block.srcdata[dgl.NID][row.long()] - block.dstdata[dgl.NID][col.long()]
    first = torch.searchsorted(col.contiguous(), col.contiguous())
    table = torch.zeros(len(seeds), width, dtype=torch.int64)
    table[col.long(), torch.arange(len(col)) - first] = leaf.long()
    return table.sort(1).values


def leaf_sets(weights, size):
    """The exact distribution of sorted leaves, numbered from 1, padded with 0."""
    return {
        tuple([0] * (size - len(chosen)) + [i + 1 for i in chosen]): p
        for chosen, p in successive(weights, size).items()
    }


@all_pairs
@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("edge_dir", ["in", "out"])
@pytest.mark.parametrize(
    ("how", "weights"),
    [("uniform", [1.0] * 4), ("prob", WEIGHTS), ("mask", [True, False, True, True])],
)
def test_draws_without_replacement(how, weights, edge_dir, idtype):
    g, seeds = stars(weights, idtype, edge_dir)
    options = {} if how == "uniform" else {how: "w"}
    sampler = GTTFSampler([2], edge_dir, seed=1, **options)
    table = drawn(sampler, g, seeds, len(weights), 2)
    assert_frequencies(table, leaf_sets([float(w) for w in weights], 2))


@pytest.mark.parametrize("how", ["prob", "mask"])
def test_draws_never_take_what_weighs_nothing(how):
    """Not even if there is nothing else, or all neighbours are asked for."""
    weights = [0.0, 1.0, 0.0] if how == "prob" else [False, True, False]
    g, seeds = stars(weights)
    for fanout in (2, 3, -1):
        table = drawn(GTTFSampler([fanout], **{how: "w"}), g, seeds, 3, 3)
        assert table.unique(dim=0).tolist() == [[0, 0, 2]]
    g.edata["w"] = torch.zeros_like(g.edata["w"])
    for replace in (False, True):
        sampler = GTTFSampler([2], replace=replace, **{how: "w"})
        assert sampler.sample(g, seeds)[2][0].num_edges() == 0


def test_draws_with_replacement():
    g, seeds = stars(WEIGHTS)
    table = drawn(GTTFSampler([1], prob="w", replace=True, seed=1), g, seeds, 5, 1)
    total = sum(WEIGHTS)
    exact = {(i + 1,): w / total for i, w in enumerate(WEIGHTS)}
    assert_frequencies(table, exact)


@pytest.mark.parametrize("weights", [[1.0] * 4, [0.5, 3.0, 1.0, 2.0]])
def test_draws_keep_their_fanout_beside_excluded_edges(weights):
    """DGL excludes after drawing, and half of these nodes would get one edge only."""
    g, seeds = stars(weights)
    source, target = g.edges()
    hidden = ((source - target) == 2).nonzero().view(-1)  # leaf 2 of every star
    options = {} if len(set(weights)) == 1 else {"prob": "w"}
    table = drawn(GTTFSampler([2], seed=1, **options), g, seeds, 4, 2, hidden)
    left = [0.0 if leaf == 2 else w for leaf, w in enumerate(weights, start=1)]
    assert_frequencies(table, leaf_sets(left, 2))


def test_draws_by_a_bias_of_the_user():
    g, seeds = stars([1.0] * 3)
    bias = AttentionBias(lambda node, neighbor: (neighbor - node).double() ** 2)
    table = drawn(GTTFSampler([1], bias=bias, seed=1), g, seeds, 3, 1)
    assert_frequencies(table, {(1,): 1 / 6, (2,): 2 / 6, (3,): 3 / 6})

    def odd(path, node, neighborhood):
        away = neighborhood.neighbor - node[neighborhood.walker]
        return (away % 2).double()

    g, seeds = stars([1.0, 5.0, 3.0])
    sampler = GTTFSampler([1], prob="w", bias={"_E": odd}, seed=1)
    assert_frequencies(drawn(sampler, g, seeds, 3, 1), {(1,): 1 / 4, (3,): 3 / 4})


def test_draws_of_edge_types_without_the_data_are_uniform():
    """With `prob` on one of two relations."""
    centres, leaves = COPIES, 3
    target = torch.arange(centres).repeat_interleave(leaves)
    source = torch.arange(centres * leaves)
    g = dgl.heterograph(
        {("a", "r", "b"): (source, target), ("a", "s", "b"): (source, target)}
    )
    g.edges["r"].data["w"] = torch.tensor([1.0, 0.0, 3.0]).repeat(centres)
    sampler = GTTFSampler([{"r": 1, "s": 2}], prob="w", seed=1)
    _, _, (block,) = sampler.sample(g, {"b": torch.arange(centres)})
    found = {
        name: (block.edges[name].data[dgl.EID] % leaves)
        .view(centres, -1)
        .sort(1)
        .values
        for name in ("r", "s")
    }
    assert_frequencies(found["r"], {(0,): 1 / 4, (2,): 3 / 4})
    assert_frequencies(found["s"], dict.fromkeys([(0, 1), (0, 2), (1, 2)], 1 / 3))


def test_changed_graph_and_data_are_noticed():
    g = dgl.graph(([1, 2], [0, 0]), num_nodes=4)
    g.edata["w"] = torch.tensor([1.0, 0.0])
    sampler = GTTFSampler([-1], prob="w")

    def senders():
        return sampler.sample(g, torch.tensor([0]))[0].tolist()

    assert senders() == [0, 1]
    g.edata["w"][1] = 1.0  # in place
    assert senders() == [0, 1, 2]
    g.edata["w"] = torch.tensor([0.0, 1.0])  # another tensor
    assert senders() == [0, 2]
    g.add_edges([3], [0], {"w": torch.ones(1)})
    assert senders() == [0, 2, 3]
    g.remove_edges([1])
    assert senders() == [0, 3]
    g.add_nodes(1)
    assert sampler.sample(g, torch.tensor([4]))[0].tolist() == [4]


def test_weights_of_inference_tensors_are_read_anew():
    with torch.inference_mode():
        g = dgl.graph((torch.tensor([1, 2]), torch.tensor([0, 0])))
        g.edata["w"] = torch.tensor([1.0, 0.0])
        sampler = GTTFSampler([2], prob="w")
        for _ in range(2):
            block = sampler.sample(g, torch.tensor([0]))[2][0]
            assert block.edata[dgl.EID].tolist() == [0]


GRAPH = dgl.graph(
    tuple(torch.randint(12, (2, 50), generator=torch.Generator().manual_seed(0)))
)


def side_by_side(g, copies=4000):
    """`copies` graphs in one: a batch of all nodes is as many samples of each."""
    shift = torch.arange(copies)[:, None] * g.num_nodes()
    return dgl.graph(tuple((end + shift).view(-1) for end in g.edges()))


@all_pairs
@pytest.mark.parametrize("norm", ["both", "right", "left", "none"])
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("rooted", [False, True])
def test_normalize_is_unbiased(norm, replace, rooted):
    """The mean of sampled convolutions is the convolution on the whole graph."""
    torch.manual_seed(0)
    conv = GraphConv(5, 3, norm=norm, allow_zero_in_degree=True)
    plain = GraphConv(5, 3, norm="none", allow_zero_in_degree=True)
    plain.load_state_dict(conv.state_dict())
    x, g = torch.randn(12, 5), side_by_side(GRAPH)
    sampler = GTTFSampler([2], replace=replace, rooted=rooted, normalize=norm, seed=1)
    nodes, _, (block,) = sampler.sample(g, g.nodes())
    with torch.no_grad():
        found = plain(block, x[nodes % 12], edge_weight=block.edata["norm"])
        assert_means(found.view(-1, 12, 3), conv(GRAPH, x).double())


@pytest.mark.parametrize("kind", [GTTFSampler, GTTFSubgraphSampler])
def test_normalize_estimates_what_is_not_excluded(kind):
    torch.manual_seed(0)
    x, g, hidden = torch.randn(12, 1), side_by_side(GRAPH), torch.arange(0, 50, 3)
    left = dgl.remove_edges(GRAPH, hidden)
    exact = torch.zeros(12, 1).index_add_(0, left.edges()[1], x[left.edges()[0]])
    hidden = (hidden + torch.arange(4000)[:, None] * 50).view(-1)
    nodes, _, batch = kind([2], normalize="none", seed=1).sample(g, g.nodes(), hidden)
    batch = batch[0] if isinstance(batch, list) else batch
    row, col = batch.edges(order="eid")
    message = x[nodes[row] % 12] * batch.edata["norm"][:, None]
    found = torch.zeros(g.num_nodes(), 1).index_add_(0, col, message)
    assert_means(found.view(-1, 12, 1), exact.double())


def test_normalize_of_several_edge_types():
    """Full neighbourhoods weigh one each, whatever their type."""
    g = dgl.heterograph(
        {("a", "r", "b"): ([0, 1, 2], [0, 0, 1]), ("b", "s", "a"): ([0, 1], [1, 1])}
    )
    sampler = GTTFSampler([{"r": 1, "s": -1}], normalize="none")
    seeds = {"a": torch.tensor([1]), "b": torch.tensor([1, 0])}
    _, _, (block,) = sampler.sample(g, seeds)
    assert block.edges["r"].data["norm"].tolist() == [1.0, 2.0]
    assert block.edges["s"].data["norm"].tolist() == [1.0, 1.0]
