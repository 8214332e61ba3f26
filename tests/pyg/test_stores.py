"""(FeatureStore, GraphStore) pairs in every layout."""

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.datasets import KarateClub
from torch_geometric.testing import MyFeatureStore, MyGraphStore

from gttf_pyg import FileStore, GTTFLinkLoader, GTTFLoader, GTTFSampler, HGTLoader
from gttf_sampler import CompactAdj, FeatureFile
from reference import hetero_toy, neighborhood

KARATE = KarateClub()[0]
LAYOUTS = ("coo", "csr", "csc")


def put(graphs, kind, index, size, layout) -> torch.Tensor:
    """Stores the edges in a layout; returns them in the order of that layout."""
    key = {"edge_type": kind, "layout": layout, "size": size}
    if layout == "coo":
        graphs.put_edge_index(tuple(index), **key)
        return index
    by = 0 if layout == "csr" else 1
    order = index[by].sort(stable=True).indices
    index = index[:, order]
    count = torch.bincount(index[by], minlength=size[by])
    pointer = torch.cat([count.new_zeros(1), count.cumsum(0)])
    pair = (pointer, index[1]) if layout == "csr" else (index[0], pointer)
    graphs.put_edge_index(pair, **key)
    return index


@pytest.mark.parametrize("layout", LAYOUTS)
def test_store_homogeneous(layout):
    features, graphs = MyFeatureStore(), MyGraphStore()
    features.put_tensor(KARATE.x, group_name=None, attr_name="x", index=None)
    index = put(graphs, None, KARATE.edge_index, (34, 34), layout)
    seeds = torch.tensor([4, 0, 4])
    loader = GTTFLoader((features, graphs), [-1, -1], seeds, batch_size=3)
    batch = next(iter(loader))
    assert torch.equal(batch.x, KARATE.x[batch.n_id])
    expected = neighborhood(Data(edge_index=index, num_nodes=34), {"": [4, 0, 4]}, 2)
    assert batch.num_sampled_nodes == expected.num_nodes[""]
    assert batch.num_sampled_edges == expected.num_edges["", "", ""]
    found = list(zip(*batch.n_id[batch.edge_index].tolist(), strict=True))
    node = expected.node[""]
    pairs = [(node[row], node[col]) for row, col, _ in expected.edge["", "", ""]]
    assert sorted(found) == sorted(pairs)
    if layout == "csc":  # the others are sorted by the store, in an order of its own
        assert found == pairs
    assert torch.equal(batch.n_id[batch.edge_index], index[:, batch.e_id])


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_store_types(layout, direction):
    data, features, graphs = hetero_toy(), MyFeatureStore(), MyGraphStore()
    sizes = {name: data[name].num_nodes for name in data.node_types}
    for name in data.node_types:
        features.put_tensor(data[name].x, group_name=name, attr_name="x", index=None)
    stored = {
        kind: put(
            graphs,
            kind,
            data[kind].edge_index,
            (sizes[kind[0]], sizes[kind[2]]),
            layout,
        )
        for kind in data.edge_types
    }
    pair = (features, graphs)
    fanouts = {kind: [-1, -1] for kind in data.edge_types}
    sampler = GTTFSampler(pair, fanouts, sample_direction=direction)
    assert sampler.is_hetero
    assert sampler.edge_types == data.edge_types
    loader = GTTFLoader(
        pair,
        None,
        ("item", torch.tensor([0, 4])),
        neighbor_sampler=sampler,
        batch_size=2,
    )
    batch = next(iter(loader))
    expected = neighborhood(data, {"item": [0, 4]}, 2, backward=direction == "backward")
    for name, nodes in expected.node.items():
        if name != "alone":
            assert sorted(batch[name].n_id.tolist()) == sorted(nodes)
            assert torch.equal(batch[name].x, data[name].x[batch[name].n_id])
            assert batch[name]["num_nodes"] == len(nodes)
    for kind, index in stored.items():
        ends = batch[kind].edge_index
        pairs = torch.stack(
            [batch[kind[0]].n_id[ends[0]], batch[kind[2]].n_id[ends[1]]]
        )
        assert pairs.shape[1] == len(expected.edge[kind])
        assert torch.equal(pairs, index[:, batch[kind].e_id])


def test_store_edges_of_unknown_size():
    """Rows that the store leaves out, as no edge leads to the last nodes, are empty."""
    features, graphs = MyFeatureStore(), MyGraphStore()
    for name, size in (("a", 4), ("b", 5)):
        features.put_tensor(
            torch.ones(size, 1), group_name=name, attr_name="x", index=None
        )
    ends = torch.tensor([0, 3]), torch.tensor([1, 2])
    graphs.put_edge_index(ends, edge_type=("a", "to", "b"), layout="coo", size=None)
    loader = GTTFLoader((features, graphs), [-1], "b", batch_size=5)
    batch = next(iter(loader))
    assert batch["b"].n_id.tolist() == [0, 1, 2, 3, 4]
    assert batch["a"].n_id.tolist() == [0, 3]


def test_store_links():
    data, features, graphs = hetero_toy(), MyFeatureStore(), MyGraphStore()
    sizes = {name: data[name].num_nodes for name in data.node_types}
    for name in data.node_types:
        features.put_tensor(data[name].x, group_name=name, attr_name="x", index=None)
    for kind in data.edge_types:
        size = sizes[kind[0]], sizes[kind[2]]
        put(graphs, kind, data[kind].edge_index, size, "coo")
    kind = ("user", "buys", "item")
    loader = GTTFLinkLoader(
        (features, graphs),
        [2],
        (kind, data[kind].edge_index[:, :4]),
        neg_sampling="binary",
        exclude_edges=True,
        batch_size=4,
    )
    index = next(iter(loader))[kind].edge_label_index
    assert index.shape == (2, 8)


def timed(layout: str, is_sorted: bool, name: str = "time"):
    features, graphs = MyFeatureStore(), MyGraphStore()
    index = KARATE.edge_index
    order = index[0].sort(stable=True).indices  # the time of a node is its number
    order = order[index[1][order].sort(stable=True).indices]
    key = {"edge_type": None, "layout": layout, "size": (34, 34)}
    graphs.put_edge_index(tuple(index[:, order]), is_sorted=is_sorted, **key)
    time = torch.arange(34) if name == "time" else index[0][order]
    for attr, value in ((name, time), ("x", KARATE.x)):
        features.put_tensor(value, group_name=None, attr_name=attr, index=None)
    return features, graphs


@pytest.mark.parametrize("name", ["time", "edge_time"])
def test_store_times(name):
    """'time' belongs to the nodes and any other name to the edges."""
    seeds = torch.tensor([33, 20])
    features, graphs = timed("coo", True, name)
    if name == "edge_time":  # a feature of edges cannot be gathered by node
        features.get_all_tensor_attrs = lambda: [
            attr
            for attr in MyFeatureStore.get_all_tensor_attrs(features)
            if attr.attr_name == name
        ]
    sampler = GTTFSampler((features, graphs), [-1], time_attr=name)
    assert (sampler.node_time is None) == (name != "time")
    from torch_geometric.sampler import NodeSamplerInput

    inputs = NodeSamplerInput(None, seeds, torch.tensor([12, 5]))
    out = sampler.sample_from_nodes(inputs)
    limit = torch.tensor([12, 5])
    sources = KARATE.edge_index[0]
    for tree, seed in enumerate(seeds):
        around = sources[KARATE.edge_index[1] == seed]
        found = out.node[2:][out.batch[2:] == tree]
        assert found.tolist() == sorted(around[around <= limit[tree]].tolist())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_store_times_of_edges_in_any_order(layout):
    """Neither the layout nor the order of the edges matters, and ids stay theirs."""
    features, graphs = MyFeatureStore(), MyGraphStore()
    torch.manual_seed(0)
    index = KARATE.edge_index[:, torch.randperm(KARATE.num_edges)]
    index = put(graphs, None, index, (34, 34), layout)
    time = torch.randint(0, 9, (KARATE.num_edges,))
    for attr, value in (("edge_time", time), ("x", KARATE.x)):
        features.put_tensor(value, group_name=None, attr_name=attr, index=None)
    seeds, limit = torch.tensor([33, 0, 2]), torch.tensor([4, 8, 0])
    loader = GTTFLoader(
        (features, graphs), [-1], seeds, limit, time_attr="edge_time", batch_size=3
    )
    batch = next(iter(loader))
    assert torch.equal(batch.edge_time, time[batch.e_id])  # PyG gathers it by node
    assert torch.equal(batch.n_id[batch.edge_index], index[:, batch.e_id])
    for tree in range(3):
        seen = (index[1] == seeds[tree]) & (time <= limit[tree])
        own = batch.batch[batch.edge_index[1]] == tree
        assert sorted(batch.e_id[own].tolist()) == seen.nonzero()[:, 0].tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_store_weights(layout):
    """Weight zero is never drawn, and the others by their weights."""
    features, graphs = MyFeatureStore(), MyGraphStore()
    index = torch.tensor([[1, 0, 2, 3, 4], [0, 1, 0, 0, 0]])
    index = put(graphs, None, index, (5, 5), layout)
    weight = torch.tensor([0.0, 1.0, 0.0, 2.0, 6.0])[index[0]]
    features.put_tensor(torch.ones(5, 1), group_name=None, attr_name="x", index=None)
    features.put_tensor(weight, group_name=None, attr_name="w", index=None)
    pair, seeds = (features, graphs), torch.zeros(4000, dtype=torch.int64)
    how = {"weight_attr": "w", "disjoint": True, "batch_size": 4000, "seed": 0}
    batch = next(iter(GTTFLoader(pair, [1], seeds, **how)))
    assert torch.equal(batch.w, weight[batch.e_id])
    drawn = torch.bincount(batch.n_id[batch.edge_index[0]], minlength=5) / 4000
    for node, chance in enumerate([0, 1 / 9, 0, 2 / 9, 6 / 9]):
        error = (chance * (1 - chance) / 4000) ** 0.5
        assert abs(float(drawn[node]) - chance) <= 5 * error


def test_store_weights_and_times_per_type():
    data, features, graphs = hetero_toy(), MyFeatureStore(), MyGraphStore()
    sizes = {name: data[name].num_nodes for name in data.node_types}
    buys = ("user", "buys", "item")
    stored = {}
    for name in data.node_types:
        features.put_tensor(data[name].x, group_name=name, attr_name="x", index=None)
        time = torch.arange(sizes[name])
        features.put_tensor(time, group_name=name, attr_name="time", index=None)
    for kind in data.edge_types:
        size = sizes[kind[0]], sizes[kind[2]]
        stored[kind] = put(graphs, kind, data[kind].edge_index, size, "coo")
    weight = torch.tensor([1.0, 0, 1, 1, 1, 0, 1])
    features.put_tensor(weight, group_name=buys, attr_name="w", index=None)
    for named in ("w", {buys: "w"}):
        loader = GTTFLoader(
            (features, graphs),
            [-1],
            "item",
            torch.tensor([2, 2, 2, 1, 2]),
            time_attr="time",
            weight_attr=named,
            batch_size=5,
        )
        batch = next(iter(loader))
        ends = batch[buys].edge_index
        pairs = batch["user"].n_id[ends[0]], batch["item"].n_id[ends[1]]
        found = set(zip(*(part.tolist() for part in pairs), strict=True))
        assert found == {
            (0, 0),
            (1, 1),
            (2, 2),
        }  # (3, 0) is later, (0, 1) has no weight
        assert batch["tag", "is", "item"].num_edges == 4  # uniform


def test_store_validate():
    pair = timed("coo", True)
    with pytest.raises(ValueError, match=r"'weight_attr' must name an attribute"):
        GTTFSampler(pair, [1], weight_attr="w")
    with pytest.raises(ValueError, match=r"'weight_attr' must use the edge types"):
        GTTFSampler(pair, [1], weight_attr={("a", "b", "c"): "w"})
    with pytest.raises(ValueError, match=r"'time_attr' must name one .*names 0"):
        GTTFSampler(pair, [1], time_attr="missing")


EDGE_CODE = 1000  # rows of edge features say which edge they belong to


def untyped(layout, is_sorted=False, group=None, name="edge_attr", index=None):
    """Stores whose edge features name both ends of their edge."""
    features, graphs = MyFeatureStore(), MyGraphStore()
    torch.manual_seed(0)
    if index is None:
        index = KARATE.edge_index[:, torch.randperm(KARATE.num_edges)]
    if is_sorted:
        index = index[:, index[1].sort(stable=True).indices]
        key = {"edge_type": None, "layout": "coo", "size": (34, 34)}
        graphs.put_edge_index(tuple(index), is_sorted=True, **key)
    else:
        index = put(graphs, None, index, (34, 34), layout)
    features.put_tensor(KARATE.x, group_name=None, attr_name="x", index=None)
    code = index[0] * EDGE_CODE + index[1]
    features.put_tensor(code, group_name=group, attr_name=name, index=None)
    return (features, graphs), index


def right_rows(batch, name="edge_attr"):
    ends = batch.n_id[batch.edge_index]
    return torch.equal(batch[name], ends[0] * EDGE_CODE + ends[1])


@pytest.mark.parametrize("group", [None, (None, None)])
@pytest.mark.parametrize(
    ("layout", "is_sorted"), [(x, False) for x in LAYOUTS] + [("coo", True)]
)
def test_store_edge_features_untyped(layout, is_sorted, group):
    """PyG gathers them by node (its issue 9566)."""
    pair, index = untyped(layout, is_sorted, group)
    seeds = torch.tensor([3, 0, 30])
    node = GTTFLoader(pair, [2, 2], seeds, batch_size=3)
    links = {"neg_sampling": "binary", "batch_size": 30}
    link = GTTFLinkLoader(pair, [2], index[:, :60], **links)
    every = GTTFLinkLoader(pair, [2], **links)
    assert torch.equal(every.input_data.col, index[1])
    backward = GTTFSampler(pair, [3], sample_direction="backward")
    back = GTTFLoader(pair, None, seeds, neighbor_sampler=backward, batch_size=3)
    for loader in (node, link, every, back):
        for batch in loader:
            assert batch.num_edges > 0
            assert right_rows(batch)
            assert torch.equal(batch.n_id[batch.edge_index], index[:, batch.e_id])
            assert torch.equal(batch.x, KARATE.x[batch.n_id])
            assert batch.num_nodes == batch.n_id.numel()


@pytest.mark.parametrize("name", ["w", "edge_time"])
def test_store_edge_features_are_told_by_their_rows(name):
    """A name need not say "edge"; the attribute that was asked for stays in."""
    pair, _ = untyped("csr", name=name)
    how = {"weight_attr": name} if name == "w" else {"time_attr": name}
    times = None if name == "w" else torch.full((2,), 1 << 20)
    seeds = torch.tensor([33, 2])
    for told in ({}, how):
        at = times if "time_attr" in told else None
        batch = next(iter(GTTFLoader(pair, [3], seeds, at, batch_size=2, **told)))
        assert right_rows(batch, name)


def test_store_edge_features_as_many_edges_as_nodes():
    """Then the name decides, as in PyG's `Data`; a group of edges needs none."""
    index = KARATE.edge_index[:, :34]
    for name, group in (("edge_attr", None), ("w", (None, None))):
        pair, _ = untyped("coo", name=name, group=group, index=index)
        batch = next(iter(GTTFLoader(pair, [3], torch.tensor([1, 2]), batch_size=2)))
        assert batch.num_edges != batch.num_nodes
        assert right_rows(batch, name)
    pair, _ = untyped("coo", name="rank", index=index)
    batch = next(iter(GTTFLoader(pair, [3], torch.tensor([1, 2]), batch_size=2)))
    assert batch["rank"].numel() == batch.num_nodes


def typed(layout):
    """`hetero_toy` as stores, whose edges have features of the same kind."""
    data, features, graphs = hetero_toy(), MyFeatureStore(), MyGraphStore()
    sizes = {name: data[name].num_nodes for name in data.node_types}
    for name in data.node_types:
        features.put_tensor(data[name].x, group_name=name, attr_name="x", index=None)
    for kind in data.edge_types:
        size = sizes[kind[0]], sizes[kind[2]]
        index = put(graphs, kind, data[kind].edge_index, size, layout)
        code = index[0] * EDGE_CODE + index[1]
        features.put_tensor(code, group_name=kind, attr_name="code", index=None)
    return data, (features, graphs)


@pytest.mark.process
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_store_edge_features_typed(layout, workers):
    """All loaders, where PyG leaves them out; also made by workers."""
    if workers and layout != "csr":
        pytest.skip("one layout will do")
    data, pair = typed(layout)
    kind = ("user", "buys", "item")
    every = {"batch_size": 2, "num_workers": workers}
    links = (kind, data[kind].edge_index)
    loaders = [
        GTTFLoader(pair, [2, 2], "item", **every),
        GTTFLoader(pair, [2], "item", thread_workers=False, **every),
        GTTFLinkLoader(pair, [2], links, neg_sampling="triplet", **every),
        HGTLoader(pair, [3, 3], "item", **every),
    ]
    for loader in loaders:
        seen = 0
        for batch in loader:
            for kind in data.edge_types:
                ends = batch[kind].edge_index
                row = batch[kind[0]].n_id[ends[0]]
                col = batch[kind[2]].n_id[ends[1]]
                assert torch.equal(batch[kind].code, row * EDGE_CODE + col)
                seen += ends.shape[1]
            assert torch.equal(batch["item"].x, data["item"].x[batch["item"].n_id])
        assert seen > 0


def test_store_edge_features_through_transforms():
    """A transform sees them, and the class of the user is filled."""

    class Own(Data):
        pass

    pair, _ = untyped("csc")
    seen = []
    loader = GTTFLoader(
        pair,
        [2],
        torch.tensor([5]),
        transform=lambda batch: seen.append(right_rows(batch)) or batch,
        custom_cls=Own,
    )
    assert isinstance(next(iter(loader)), Own)
    assert seen == [True]


def test_store_edge_features_of_two_orders():
    """Edges that are stored twice in different orders leave no order for features."""
    pair, index = untyped("coo")
    put(pair[1], None, index, (34, 34), "csc")
    with pytest.raises(ValueError, match=r"'data' must list the edges .* 'edge_attr'"):
        GTTFLoader(pair, [2], torch.tensor([5]))
    pair, index = untyped("csc")
    pair[1].put_edge_index(
        tuple(index), edge_type=None, layout="coo", size=(34, 34), is_sorted=True
    )
    assert right_rows(next(iter(GTTFLoader(pair, [2], torch.tensor([5])))))


def test_store_edge_features_validate():
    (features, graphs), _ = untyped("coo")
    short = torch.ones(5)
    features.put_tensor(short, group_name=None, attr_name="edge_w", index=None)
    with pytest.raises(ValueError, match=r"'edge_w' must have one row per edge.*got 5"):
        GTTFLoader((features, graphs), [2], torch.tensor([5]))
    _, (features, graphs) = typed("coo")
    kind = ("user", "buys", "item")
    features.put_tensor(short, group_name=kind, attr_name="code", index=None)
    for make in (GTTFLoader, HGTLoader):
        with pytest.raises(ValueError, match=r"'code' must have one row per edge, 7"):
            make((features, graphs), [2], "item")
    (features, graphs), index = untyped("coo")
    code = index[0]
    features.put_tensor(code, group_name=(None, None), attr_name="x", index=None)
    with pytest.raises(ValueError, match=r"'data' must have one feature called 'x'"):
        GTTFLoader((features, graphs), [2], torch.tensor([5]))


def test_store_that_is_not_sorted():
    features, graphs = MyFeatureStore(), MyGraphStore()
    features.put_tensor(torch.ones(3, 1), group_name=None, attr_name="x", index=None)
    ends = torch.tensor([0, 1, 2]), torch.tensor([2, 0, 1])
    graphs.put_edge_index(
        ends, edge_type=None, layout="coo", size=(3, 3), is_sorted=True
    )
    with pytest.raises(ValueError, match=r"'is_sorted' must only be set .* by column"):
        GTTFSampler((features, graphs), [1])


@pytest.mark.parametrize("workers", [0, 2])
def test_file_store_edge_features(tmp_path, workers):
    """A file of edges has the order of the caller's edge_index."""
    torch.manual_seed(0)
    index = KARATE.edge_index[:, torch.randperm(KARATE.num_edges)]
    code = (index[0] * EDGE_CODE + index[1]).view(-1, 1)
    store = FileStore(CompactAdj.from_edge_index(index, 34))
    for name, rows in (("x", KARATE.x), ("edge_attr", code)):
        file = FeatureFile.from_array(tmp_path / f"{name}.npy", rows)
        store.put_tensor(file, group_name=None, attr_name=name, index=None)
    how = {"batch_size": 9, "num_workers": workers}
    for batch in GTTFLoader(store, [2, 2], **how):
        ends = batch.n_id[batch.edge_index]
        assert torch.equal(batch.edge_attr[:, 0], ends[0] * EDGE_CODE + ends[1])
        assert torch.equal(batch.x, KARATE.x[batch.n_id])
