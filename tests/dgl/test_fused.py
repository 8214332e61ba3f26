"""fused: the layers' own outputs and gradients, on blocks, graphs and types."""

import copy
import pickle

import dgl
import pytest
import torch
from dgl.nn import (
    DotGatConv,
    GATConv,
    GATv2Conv,
    GINConv,
    GraphConv,
    HeteroGraphConv,
    RelGraphConv,
    SAGEConv,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from all_pairs import all_pairs
from gttf_dgl import NeighborSampler, fused, fused_layers, unbiased
from gttf_dgl._fuse import Call
from gttf_dgl._layers import fusion_of

IN = 20
ANY = {"allow_zero_in_degree": True}
MAKERS = {
    "mean": lambda out: SAGEConv(IN, out, "mean"),
    "gcn": lambda out: SAGEConv(IN, out, "gcn", activation=torch.tanh),
    "pool": lambda out: SAGEConv(IN, out, "pool"),
    "dropped": lambda out: SAGEConv(IN, out, "mean", feat_drop=0.5),
    "both": lambda out: GraphConv(IN, out, **ANY),
    "left": lambda out: GraphConv(IN, out, norm="left", **ANY),
    "right": lambda out: GraphConv(IN, out, norm="right", **ANY),
    "none": lambda out: GraphConv(IN, out, norm="none", weight=True, **ANY),
    "gin sum": lambda out: GINConv(nn.Linear(IN, out), "sum", learn_eps=True),
    "gin mean": lambda out: GINConv(nn.Linear(IN, out), "mean"),
    "gin max": lambda out: GINConv(nn.Linear(IN, out), "max"),
    "gat": lambda out: GATConv(IN, out, 3, feat_drop=0.3, attn_drop=0.4, **ANY),
    "gat residual": lambda out: GATConv(IN, out, 2, 0.3, residual=True, **ANY),
    "gatv2": lambda out: GATv2Conv(IN, out, 3, 0.3, 0.4, residual=True, **ANY),
    "gatv2 shared": lambda out: GATv2Conv(IN, out, 2, share_weights=True, **ANY),
    "relations": lambda out: RelGraphConv(IN, out, 4),
    "relations by basis": lambda out: RelGraphConv(IN, out, 4, "basis", 2),
    "relations by blocks": lambda out: RelGraphConv(IN, 2 * out, 4, "bdd", 2),
}
EXACT = {*MAKERS} - {"gin max", "pool", "dropped"}
WEIGHTED = {*MAKERS} - {"gatv2", "gatv2 shared"}


@pytest.fixture
def graph():
    """Multi-edges, self-loops, and nodes that nobody sends to."""
    generator = torch.Generator().manual_seed(0)
    src = torch.randint(60, (400,), generator=generator)
    dst = torch.randint(50, (400,), generator=generator)
    return dgl.graph((src, dst), num_nodes=60)


def features(count, seed=1, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    made = torch.randn(count, IN, generator=generator, dtype=torch.float64)
    return made.to(dtype).requires_grad_()


def outcome(layer, graph, x, weight=None):
    """The output of a layer and its gradients of `x` and all parameters."""
    layer.zero_grad()
    x.grad = None
    more = {} if weight is None else {"edge_weight": weight}
    if isinstance(layer, RelGraphConv):
        kind = torch.arange(graph.num_edges()) * 7 % 4
        more = {"etypes": kind, "norm": None if weight is None else weight.view(-1, 1)}
    torch.manual_seed(0)  # of dropout
    out = layer(graph, x, **more)
    out.sin().sum().backward()
    return [out.detach(), x.grad, *(p.grad.clone() for p in layer.parameters())]


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("out", [7, 30])
@pytest.mark.parametrize("name", MAKERS)
def test_fused_layers_agree(graph, name, out):
    """On blocks whose products or sums come first, on graphs, with weights."""
    layer = MAKERS[name](out).double()
    seeds = torch.tensor([3, 55, 3, 0, 59]) if name == "none" else torch.arange(40, 60)
    _, _, (block,) = NeighborSampler([4]).sample(graph, seeds.unique())
    own = fused(copy.deepcopy(layer))
    assert str(fused_layers(own)).split()[2] == "fused:"
    small = graph.int() if "gat" in name else graph.int().formats(["coo"])
    for there in (block, graph, small):  # DGL's own attention needs a CSC
        x = features(there.num_src_nodes(), dtype=torch.float64)
        weight = torch.rand(there.num_edges(), dtype=torch.float64)
        assert_same(outcome(own, there, x), outcome(layer, there, x))
        if name in WEIGHTED:
            expected = outcome(layer, there, x, weight)
            assert_same(outcome(own, there, x, weight), expected)


def errors(found, exact):
    """The errors [outcomes] of an outcome, each relative to the size of its own."""
    pairs = zip(found, exact, strict=True)
    off = [(one - right).norm() / right.norm() for one, right in pairs]
    return torch.stack(off).nan_to_num(0)


@pytest.mark.parametrize("name", MAKERS)
def test_fused_rounds_no_worse(name):
    """Errors in float32, over outputs, gradients and graphs, are no larger than DGL's.

    Which of two sums is luckier differs from number to number: alone, each is at most
    twice as far off. In the mean they differ by less than luck in 4 graphs does.
    """
    ours, theirs = [], []
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        ends = torch.randint(50, (2, 400), generator=generator)
        graph = dgl.graph(tuple(ends), num_nodes=60)
        torch.manual_seed(seed)
        layer = MAKERS[name](30)
        x = features(60, seed, torch.float64)
        exact = outcome(copy.deepcopy(layer).double(), graph, x)
        x = features(60, seed)
        plain = outcome(layer, graph, x)
        found = outcome(fused(layer), graph, x)
        for one, host, right in zip(found, plain, exact, strict=True):
            slack = 1e-6 * right.abs().max()
            worst = (host - right).abs().max()
            assert (one - right).abs().max() <= 2 * worst + slack
        ours.append(errors(found, exact))
        theirs.append(errors(plain, exact))
    assert torch.stack(ours).norm() <= 1.15 * torch.stack(theirs).norm()


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("mode", ["bfloat16", "autocast"])
def test_fused_in_bfloat16(graph, name, mode):
    """DGL has no attention by autocast, and fused layers have."""
    layer, x = MAKERS[name](30), features(60, dtype=torch.float64)
    exact = outcome(copy.deepcopy(layer).double(), graph, x)
    dtype = torch.bfloat16 if mode == "bfloat16" else torch.float32
    layer, x = layer.to(dtype), features(60, dtype=dtype)
    with torch.autocast("cpu", torch.bfloat16, enabled=mode == "autocast"):
        found = outcome(fused(copy.deepcopy(layer)), graph, x)
        if mode == "autocast" and "gat" in name:
            assert (errors(found, exact) < 0.15).all()
            return
        theirs = outcome(layer, graph, x)
    assert [part.dtype for part in found] == [part.dtype for part in theirs]
    ours, host = errors(found, exact), errors(theirs, exact)
    if name == "gin max":  # rows that are alike when rounded: any may get the gradient
        ours[1], host[1] = ours[1] > 0.05, 0
    assert ours.norm() <= 1.15 * host.norm()


@pytest.mark.parametrize("name", [name for name in MAKERS if "gat" not in name])
def test_fused_in_float16(graph, name):
    """DGL itself has none on a CPU, nor the softmax that attention calls."""
    layer, x = MAKERS[name](7), features(60, dtype=torch.float64)
    exact = outcome(copy.deepcopy(layer).double(), graph, x)
    found = outcome(fused(layer.half()), graph, features(60, dtype=torch.float16))
    assert found[0].dtype == torch.float16
    assert (errors(found, exact) < 0.01).all()


@pytest.mark.parametrize("name", MAKERS)
def test_fused_bits_do_not_depend_on_threads(name):
    """Of the sums of a layer; torch's products, exact here, differ by rounding."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(3000, (2, 30_000), generator=generator)
    graph, layer = dgl.graph(tuple(ends), num_nodes=3000), MAKERS[name](30).eval()
    multiplied = "gat" in name or "relations" in name or name == "pool"
    x = features(3000)
    with torch.no_grad():
        for part in [*layer.parameters(), *[x] * multiplied]:
            part.mul_(4).round_().div_(4)
    named = {"feat": x, "etypes": torch.arange(graph.num_edges()) * 7 % 4}
    before, found = torch.get_num_threads(), {}
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            fusion = fusion_of(layer)
            sums = fusion.sums(layer, Call.of(layer, fusion, graph, dict(named)))
            grad = torch.autograd.grad(sums.sin().sum(), x)[0]
            found[threads] = [sums] if multiplied else [sums, grad]
    finally:
        torch.set_num_threads(before)
    for threads in (2, 5):
        assert all(map(torch.equal, found[1], found[threads]))


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("name", ["mean", "both"])
def test_fused_compiled(graph, name):
    """torch.compile leaves the sums alone, and compiles what is around them.

    DGL's own softmax, which attention calls, has it warn, fused or not.
    """
    model = fused(nn.ModuleList([MAKERS[name](IN), nn.Linear(IN, 3)])).eval()

    def call(x):
        rows = model[0](graph, x.tanh())
        return model[1](rows.flatten(1)[:, :IN].relu())

    x = features(60)
    expected = torch.autograd.grad(call(x).sin().sum(), x)[0]
    compiled = torch.compile(call, backend="aot_eager")
    found = torch.autograd.grad(compiled(x).sin().sum(), x)[0]
    torch.testing.assert_close(found, expected)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), name=st.sampled_from(sorted(MAKERS)))
def test_fused_on_any_block(data, name):
    """Nodes without edges, several edges between two nodes, and no edges at all."""
    receivers = data.draw(st.integers(1, 5))
    senders = data.draw(st.integers(receivers, 9))
    end = st.tuples(st.integers(0, senders - 1), st.integers(0, receivers - 1))
    edges = data.draw(st.lists(end, max_size=12))
    ends = torch.tensor(edges, dtype=torch.int64).view(-1, 2).unbind(1)
    block = dgl.create_block(ends, senders, receivers)
    x = features(senders, dtype=torch.float64)
    weight = None
    if name in WEIGHTED and data.draw(st.booleans()):
        weight = torch.rand(len(edges), dtype=torch.float64)
    layer = MAKERS[name](3).double()
    expected = outcome(layer, block, x, weight)
    assert_same(outcome(fused(layer), block, x, weight), expected)


@pytest.mark.parametrize("name", ["pool", "gat residual", "gatv2 shared", "relations"])
def test_fused_gradients(graph, name):
    layer = fused(MAKERS[name](2).double().eval())
    _, _, (block,) = NeighborSampler([3]).sample(graph, torch.arange(4))
    more = {"etypes": torch.arange(block.num_edges()) % 4}
    more = more if isinstance(layer, RelGraphConv) else {}
    x = features(block.num_src_nodes(), dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda x: layer(block, x, **more), x, fast_mode=True
    )


def test_fused_pairs_and_duplicate_seeds(graph):
    layer = SAGEConv((IN, 5), 7, "mean")
    src, dst = torch.tensor([0, 0, 1, 2]), torch.tensor([2, 0, 0, 2])
    block = dgl.create_block((src, dst), 4, 3)
    pair = features(4), torch.randn(3, 5)
    expected = layer(block, pair)
    torch.testing.assert_close(fused(layer)(block, pair), expected)


@pytest.mark.parametrize("fused_first", [True, False])
@pytest.mark.parametrize("name", sorted(EXACT))
def test_fused_unbiased(graph, name, fused_first):
    graph = dgl.add_self_loop(graph)
    layer = MAKERS[name](7).double()
    _, _, (block,) = NeighborSampler([3]).sample(graph, torch.arange(20))
    x = features(block.num_src_nodes(), dtype=torch.float64)
    both = copy.deepcopy(layer)
    for change in [fused, unbiased][:: 1 if fused_first else -1]:
        both = change(both) if change is fused else unbiased(both, scale="sum")
    expected = outcome(unbiased(layer, scale="sum"), block, x)
    assert_same(outcome(both, block, x), expected)


KINDS = [("a", "r", "a"), ("b", "s", "a"), ("a", "t", "b"), ("c", "u", "a")]
MIXED = {
    "means": lambda: [SAGEConv(IN, 6, "mean") for _ in KINDS],
    "means of less": lambda: [SAGEConv(IN, 30, "mean", bias=False) for _ in KINDS],
    "graph": lambda: [
        GraphConv(IN, out, norm=norm)
        for out, norm in ((6, "both"), (6, "right"), (6, "left"), (6, "none"))
    ],
    "wide graph": lambda: [GraphConv(IN, 30, norm="right") for _ in KINDS],
    "mixed": lambda: [
        SAGEConv(IN, 6, "pool"),
        SAGEConv(IN, 6, "mean", activation=torch.tanh),
        SAGEConv(IN, 6, "gcn"),
        GraphConv(IN, 6, norm="right", weight=True, bias=False),
    ],
    "no sums": lambda: [
        GINConv(nn.Linear(IN, 6), "sum"),
        SAGEConv(IN, 6, "mean", norm=nn.LayerNorm(6)),
        SAGEConv(IN, 6, "mean", feat_drop=0.5),
        GraphConv(IN, 6, activation=torch.tanh),
    ],
    "attention": lambda: [GATConv(IN, 3, 2) for _ in KINDS],
}


@pytest.fixture
def typed():
    """Types with many edges, with few, and one that nobody sends to."""
    generator = torch.Generator().manual_seed(0)
    ends = {kind: torch.randint(9, (2, 30), generator=generator) for kind in KINDS[:3]}
    ends[KINDS[3]] = torch.empty(2, 0, dtype=torch.int64)
    sizes = {"a": 10, "b": 11, "c": 4}
    return dgl.heterograph({kind: tuple(pair) for kind, pair in ends.items()}, sizes)


def typed_outcome(model, graph, x, **more):
    """Outputs by type, and the gradients that there are, of rows and parameters."""
    model.zero_grad()
    for rows in x.values():
        rows.grad = None
    torch.manual_seed(0)
    out = model(graph, {name: rows * 2 for name, rows in x.items()}, **more)
    sum(rows.sin().sum() for rows in out.values()).backward()
    grads = {name: part.grad for name, part in [*x.items(), *model.named_parameters()]}
    return {**out, **{f"gradient of {name}": part for name, part in grads.items()}}


@all_pairs
@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("where", ["block", "whole", "some types"])
@pytest.mark.parametrize("name", MIXED)
def test_fused_typed(typed, name, where, weighted, reduce):
    """Also of receivers that have no edges, and of none at all."""
    layers = dict(zip([kind[1] for kind in KINDS], MIXED[name](), strict=True))
    model = HeteroGraphConv(layers, reduce).double()
    graph = typed
    if where != "whole":
        seeds = {"a": torch.tensor([9, 1, 2])}
        _, _, (graph,) = NeighborSampler([3]).sample(typed, seeds)
    x = {
        kind: features(graph.num_nodes(f"SRC/{kind}" if graph.is_block else kind), i)
        for i, kind in enumerate(graph.srctypes)
        if where != "some types" or kind != "c"
    }
    x = {kind: rows.detach().double().requires_grad_() for kind, rows in x.items()}
    more = {}
    if weighted and name != "attention":
        weight = torch.rand(graph.num_edges("r"), dtype=torch.float64)
        more["mod_kwargs"] = {"r": {"edge_weight": weight}}
    expected = typed_outcome(model, graph, x, **more)
    found = typed_outcome(fused(copy.deepcopy(model)), graph, x, **more)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert (found[key] is None) == (value is None), key
        if value is not None:
            torch.testing.assert_close(found[key], value, rtol=1e-10, atol=1e-10)
    verdicts = fused_layers(fused(model)).layers
    assert all(verdict.startswith("fused") for *_, verdict in verdicts)


def test_fused_typed_multiplies_once_per_type(typed, monkeypatch):
    model = HeteroGraphConv({kind[1]: SAGEConv(IN, 30, "mean") for kind in KINDS})
    x = {kind: features(typed.num_nodes(kind)) for kind in typed.ntypes}
    calls, linear = [], nn.functional.linear
    monkeypatch.setattr(
        nn.functional, "linear", lambda *args: (calls.append(args), linear(*args))[1]
    )
    expected, plain = model(typed, x), len(calls)
    calls.clear()
    found = fused(model)(typed, x)
    assert (plain, len(calls)) == (2 * len(KINDS), 2)  # types that receive
    torch.testing.assert_close(found, expected)


def test_fused_keeps_the_model(graph):
    model = fused(MAKERS["mean"](7))
    state, x = model.state_dict(), features(60)
    assert type(model) is SAGEConv
    assert state.keys() == MAKERS["mean"](7).state_dict().keys()
    assert len(fused(model)._forward_pre_hooks) == 1
    expected = model(graph, x)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert str(fused_layers(other)).startswith("(model)  SAGEConv  fused: sums")
        assert torch.equal(other(graph, x), expected)


def test_fused_leaves_the_rest(graph):
    """Dropped features, odd weights, edgeless graphs, and layers it does not know."""

    class Own(SAGEConv):
        def forward(self, graph, feat):
            return super().forward(graph, feat)

    layers = [SAGEConv(IN, 7, "lstm"), Own(IN, 7, "mean"), DotGatConv(IN, 7, 2)]
    model = fused(nn.ModuleList([*layers, nn.Linear(2, 2)]))
    assert [verdict.split(":")[0] for *_, verdict in fused_layers(model).layers] == [
        "left as it is"
    ] * 3
    assert str(fused_layers(nn.Linear(2, 2))) == "no layer aggregates"
    layer, x = GATConv(IN, 7, 2, **ANY), features(60)
    expected = layer(graph, x, get_attention=True)
    found = fused(layer)(graph, x, get_attention=True)
    assert all(map(torch.equal, found, expected))
    bare = dgl.graph(([], []), num_nodes=3)
    layer = GraphConv(IN, 7, allow_zero_in_degree=True)
    expected = layer(bare, x[:3])
    assert torch.equal(fused(layer)(bare, x[:3]), expected)
    with pytest.raises(TypeError, match=r"'model' must be a torch\.nn\.Module"):
        fused("model")
    with pytest.raises(dgl.DGLError, match="0-in-degree"):
        fused(GraphConv(IN, 7))(graph, x)


PAIRS = {
    "every other row": lambda h, count: (h, h[::2][:count]),
    "no gradient": lambda h, count: (h, h[:count].detach()),
    "no gradient of senders": lambda h, count: (h.detach(), h[:count]),
    "the first rows": lambda h, count: (h, h[:count]),
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("name", ["mean", "gatv2 shared", "gat"])
def test_fused_tells_rows_of_receivers(graph, name, pair):
    layer = MAKERS[name](21).double().eval()
    _, _, (block,) = NeighborSampler([3]).sample(graph, torch.arange(9))
    x = features(block.num_src_nodes(), dtype=torch.float64)

    def found():
        rows = PAIRS[pair](x * 2, block.num_dst_nodes())
        return torch.autograd.grad(layer(block, rows).sin().sum(), x)[0]

    expected = found()
    fused(layer)
    torch.testing.assert_close(found(), expected)


@pytest.mark.parametrize("name", ["mean", "gat"])
def test_fused_leaves_matrices_with_hooks(graph, name):
    layer, x = MAKERS[name](7).eval(), features(60)
    part, plain = layer.fc if name == "gat" else layer.fc_neigh, layer(graph, x)
    fused(layer)
    handle = part.register_forward_hook(lambda part, args, out: out * 2)
    assert "is no Linear without hooks" in str(fused_layers(layer))
    watched = layer(graph, x)
    handle.remove()
    torch.testing.assert_close(layer(graph, x), plain)
    part.weight.data.mul_(2)
    torch.testing.assert_close(watched, layer(graph, x))


def test_fused_starts_anew_after_an_interrupt(graph):
    """For which torch calls no hook, so that a result and dropout would be left."""
    layer, x = fused(MAKERS["dropped"](7)), features(60)

    def interrupt(*about):
        raise KeyboardInterrupt

    handle = layer.register_forward_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        layer(graph, x)
    handle.remove()
    assert not layer.feat_drop.training
    bare = dgl.graph(([], []), num_nodes=60)  # not fused
    assert torch.equal(layer.eval()(bare, x), layer.fc_self(x))
    layer.train()
    assert not torch.equal(layer(graph, x), layer(graph, x))
    assert layer.feat_drop.training
