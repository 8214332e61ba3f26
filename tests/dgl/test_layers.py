"""Every layer of DGL is in the table of `unbiased`, and is what the table says."""

import dgl
import pytest
import torch
from dgl import nn

from dgl_layers import CASES, NODES, NOT_RUN, called, graph, measured, sampler
from gttf_dgl import BiasedLayerWarning, GTTFSampler, check_unbiased, unbiased
from gttf_dgl._layers import EXACT, PARTS, RATIO, TABLE, WARNED

NAMES = [case.name for case in CASES]
KNOWN = [case for case in CASES if case.status != WARNED]


def test_table_has_every_layer_of_the_host():
    assert not set(dgl.nn.pytorch.conv.__all__) - set(TABLE)
    assert set(TABLE) == {case.layer for case in CASES} | set(NOT_RUN)


def test_table_agrees_with_the_cases():
    for case in CASES:
        usual = TABLE[case.layer].status
        if not case.options and usual != PARTS:
            assert case.status == usual, case.name


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_layer_is_what_the_table_says(case):
    if case.status == WARNED:
        with pytest.warns(BiasedLayerWarning, match=rf"vouch for {case.layer} \("):
            unbiased(case.make(), scale="sum")
        return
    found = measured(case, True, 40)
    if case.status == EXACT:
        assert found.ok, found
        return
    assert case.status == RATIO
    assert found.ok or "off by its nature" in repr(found)


@pytest.mark.parametrize("case", KNOWN, ids=lambda case: case.name)
def test_all_neighbours_give_the_whole_graph(case):
    torch.manual_seed(0)
    layer = unbiased(case.make(), scale="sum").eval()
    g, seeds, call = graph(), torch.tensor([0, 3, 5, 59, 7]), called(case)
    inputs, _, batch = sampler(case, -1).sample(g, seeds)
    with torch.no_grad():
        out = call(layer, batch, g.ndata["x"][inputs])[:5]
        whole = call(layer, g, g.ndata["x"])[seeds]
    assert torch.allclose(out, whole, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["GINEConv", 'NNConv("sum")', "RelGraphConv"])
def test_sums_are_off_without_scale(name):
    case = next(case for case in CASES if case.name == name)
    found = measured(case, False, 40)
    assert found.layers[0].bias > 0.3
    assert "gttf_dgl.unbiased(model, scale='sum')" in repr(found)
    with pytest.warns(BiasedLayerWarning, match=rf"{case.layer} \(it adds up"):
        unbiased(case.make())


def test_towers_of_pna_read_the_degrees_of_the_graph():
    case = next(case for case in CASES if case.name == "PNAConv")
    plain, found = (measured(case, cured, 40) for cured in (False, True))
    assert plain.layers[0].bias > 0.5
    # seeds are all nodes here, so that the number of nodes is right as well
    assert found.ok, found


class Own(torch.nn.Module):
    def forward(self, graph, x):
        with graph.local_scope():
            graph.srcdata["h"] = x
            graph.update_all(dgl.function.copy_u("h", "m"), dgl.function.sum("m", "o"))
            return graph.dstdata["o"] / graph.in_degrees().clamp(min=1).sqrt()[:, None]


class OwnConv(nn.GraphConv):
    def forward(self, graph, feat):
        return super().forward(graph, feat) / graph.in_degrees()[:, None]


def test_own_layers_are_named_once():
    with pytest.warns(BiasedLayerWarning) as found:
        unbiased(torch.nn.ModuleList([Own(), Own(), OwnConv(8, 4)]))
    (one,) = found
    assert str(one.message).count("Own (") == 1
    assert "OwnConv (it passes messages in a way of its own)" in str(one.message)
    assert one.filename == __file__


def test_check_sees_own_layers():
    g = graph()
    found = check_unbiased(
        Own(),
        GTTFSampler([3], seed=0),
        g,
        g.ndata["x"],
        forward=lambda model, blocks, x: model(
            blocks[0] if isinstance(blocks, list) else blocks, x
        ),
        rounds=40,
    )
    assert "no estimate; 'unbiased' does not know" in found.layers[0].cure


def test_check_does_not_call_nan_unbiased():
    g = graph()
    layer = unbiased(nn.SAGEConv(8, 4, "mean"))
    layer.fc_neigh.weight.data.fill_(torch.nan)
    call = called(next(case for case in CASES if case.name == 'SAGEConv("mean")'))
    how = {"forward": call, "seeds": NODES, "rounds": 8}
    found = check_unbiased(layer, GTTFSampler([3]), g, g.ndata["x"], **how)
    assert not found.ok
    assert "NaN" in found.layers[0].cure


def test_means_refuse_draws_that_are_not_uniform():
    g = graph()
    layer = unbiased(nn.SAGEConv(8, 4, "mean"))
    inputs, _, (block,) = GTTFSampler([3], prob="w").sample(g, torch.arange(9))
    with pytest.raises(ValueError, match=r"uniform draws .*'prob', 'mask' or 'bias'"):
        layer(block, g.ndata["x"][inputs])
