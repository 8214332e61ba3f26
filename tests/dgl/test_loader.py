"""GTTFSampler inside our DataLoader and DGL's: workers, epochs, edges, DDP."""

import copy
import pickle

import dgl
import pytest
import torch
import torch.distributed as dist
from dgl.dataloading import as_edge_prediction_sampler

from all_pairs import all_pairs
from apart import forks
from cases import as_table
from gttf_dgl import (
    DataLoader,
    GTTFSampler,
    GTTFSubgraphSampler,
    LaborSampler,
    SAINTSampler,
    ShaDowKHopSampler,
)

NODES = 60


def make_graph(idtype=torch.int64):
    torch.manual_seed(0)
    source, target = torch.randint(NODES, (2, 600))
    g = dgl.graph((source, target), num_nodes=NODES, idtype=idtype)
    g.ndata["feat"] = torch.rand(NODES, 70)
    g.ndata["label"] = torch.arange(NODES)
    g.edata["age"] = torch.rand(600)
    return g


def epochs(sampler, count=2, g=None, seed=None, **options):
    """Per epoch: first seed → the blocks of the batch, as plain numbers."""
    g = make_graph() if g is None else g
    if seed is not None:
        torch.manual_seed(seed)
    options = {"batch_size": 16, **options}
    loader = DataLoader(g, torch.arange(NODES, dtype=g.idtype), sampler, **options)
    return [
        {int(seeds[0]): as_table(blocks) for _, seeds, blocks in loader}
        for _ in range(count)
    ]


@pytest.mark.process
@all_pairs
@pytest.mark.parametrize("given_as", [{}, {"seed": 3}, {"generator": 3}])
@pytest.mark.parametrize("options", [{}, {"rooted": True}, {"replace": True}])
@pytest.mark.parametrize(("workers", "thread"), [(1, None), (2, None), (2, False)])
def test_epochs_are_the_same_for_any_number_of_workers(
    given_as, options, workers, thread
):
    """And differ from each other, though they have the same batches."""
    first = epochs(GTTFSampler([3, 3], **given_as, **options), seed=1)
    assert len(first[0]) == 4
    assert all(first[0][name] != first[1][name] for name in first[0])
    sampler = GTTFSampler([3, 3], thread_workers=thread, **given_as, **options)
    assert epochs(sampler, seed=1, num_workers=workers) == first


def test_epochs_follow_the_seed():
    sampler = GTTFSampler([3, 3])
    one, other = (epochs(sampler, seed=seed) for seed in (1, 2))
    assert one != other
    assert epochs(GTTFSampler([3, 3]), seed=1) == one
    seeded = epochs(GTTFSampler([3, 3], seed=7), seed=1)
    assert epochs(GTTFSampler([3, 3], seed=7), seed=2) == seeded  # nothing else counts
    assert epochs(GTTFSampler([3, 3], seed=8), seed=1) != seeded
    drawn = [torch.Generator().manual_seed(5) for _ in range(2)]
    one, same = (epochs(GTTFSampler([3, 3], generator=x)) for x in drawn)
    assert one == same
    assert epochs(GTTFSampler([3, 3], generator=drawn[0])) != one


def test_epochs_follow_the_generator_of_the_loader():
    found = []
    for _ in range(2):
        generator = torch.Generator().manual_seed(2)
        found.append(epochs(GTTFSampler([3, 3]), generator=generator))
    assert found[0] == found[1]


@pytest.mark.process
@pytest.mark.parametrize("thread", [None, False])
@pytest.mark.parametrize("given_as", [{}, {"seed": 3}])
def test_workers_that_persist_draw_anew(given_as, thread):
    persist = {"num_workers": 1, "persistent_workers": True}
    found = [
        epochs(
            GTTFSampler([3, 3], thread_workers=thread, **given_as),
            count=3,
            seed=1,
            **how,
        )
        for how in ({}, persist, {**persist, "num_workers": 2})
    ]
    assert found[0] == found[1] == found[2]
    assert found[0][0] != found[0][1] != found[0][2] != found[0][0]


DRAWS = {
    "labor": lambda: LaborSampler([4, 4]),
    "labor of three batches": lambda: LaborSampler([4, 4], batch_dependency=3),
    "labor of all batches": lambda: LaborSampler([4, 4], batch_dependency=0),
    "shadow": lambda: ShaDowKHopSampler([1, 1]),
    "saint": lambda: SAINTSampler("node", 3),
    "edges": lambda: as_edge_prediction_sampler(GTTFSampler([2, 2]), exclude="self"),
}


@pytest.mark.process
@pytest.mark.parametrize("name", DRAWS)
def test_every_sampler_follows_the_seed_for_any_workers(name):
    g = make_graph()

    def epoch(seed, workers=0):
        torch.manual_seed(seed)
        how = {"batch_size": 10, "num_workers": workers}
        loader = DataLoader(g, torch.arange(NODES), DRAWS[name](), **how)
        batches = [batch[-1] if name != "saint" else batch for batch in loader]
        return [as_table(b if isinstance(b, list) else [b]) for b in batches]

    assert epoch(1) == epoch(1, 2)
    assert epoch(1) != epoch(2)


def test_loaders_that_take_turns_draw_as_if_alone():
    g, seeds = make_graph(), torch.arange(NODES)

    def loaders():
        sampler = GTTFSampler([3, 3], seed=2)
        return [DataLoader(g, seeds, sampler, batch_size=20) for _ in range(2)]

    alone = [[as_table(b) for _, _, b in loader] for loader in loaders()]
    turns = zip(*loaders(), strict=True)
    both = [[as_table(part[2]) for part in parts] for parts in turns]
    assert [list(column) for column in zip(*both, strict=True)] == alone
    assert alone[0] == alone[1]  # epochs are counted by the loader, not by the sampler


@pytest.mark.process
def test_spawned_workers_draw_the_same():
    """They get the sampler and the graph by pickle."""
    g, sampler = make_graph(), GTTFSampler([3, 3], seed=3, thread_workers=False)
    first = epochs(GTTFSampler([3, 3], seed=3), g=g)
    options = {"num_workers": 1, "multiprocessing_context": forks()}
    assert epochs(sampler, g=g, **options) == first


@pytest.mark.parametrize("given_as", [{}, {"seed": 3}])
def test_threads_do_not_matter(given_as):
    threads, found = torch.get_num_threads(), []
    for count in (1, 4):
        torch.set_num_threads(count)
        found.append(epochs(GTTFSampler([20, 20], **given_as), count=1, seed=1))
    torch.set_num_threads(threads)
    assert found[0] == found[1]


def test_shuffled_batches_are_drawn_for_themselves():
    """Another epoch, other batches, other draws; the seeds are those of the block."""
    g = make_graph()
    loader = DataLoader(
        g, torch.arange(NODES), GTTFSampler([4]), batch_size=NODES, shuffle=True
    )
    found = []
    for _ in range(2):
        ((_, seeds, (block,)),) = loader
        assert sorted(seeds.tolist()) == list(range(NODES))
        assert torch.equal(block.dstdata[dgl.NID], seeds)
        found.append(sorted(block.edata[dgl.EID].tolist()))
    assert found[0] != found[1]


def test_calls_outside_a_loader_follow_the_seed():
    g, seeds = make_graph(), torch.arange(9)

    def draws(sampler):
        return [as_table(sampler.sample(g, seeds)[2]) for _ in range(3)]

    one = draws(GTTFSampler([3], seed=4))
    assert one[0] != one[1] != one[2] != one[0]
    assert draws(GTTFSampler([3], seed=4)) == one
    torch.manual_seed(0)
    two = draws(GTTFSampler([3]))
    torch.manual_seed(0)
    assert draws(GTTFSampler([3])) == two
    assert two[0] != two[1]


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_of_a_sampler_draw_the_same(copied):
    sampler = GTTFSampler([3, 3], prob="age", seed=4)
    twin = copied(sampler)
    assert epochs(twin, num_workers=1) == epochs(sampler)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_prefetched_features_are_those_of_the_parent(workers, idtype):
    g = make_graph(idtype)
    sampler = GTTFSampler(
        [20, 20],
        prefetch_node_feats=["feat"],
        prefetch_labels=["label"],
        prefetch_edge_feats=["age"],
    )
    ids = torch.arange(NODES, dtype=idtype)
    loader = DataLoader(g, ids, sampler, batch_size=25, num_workers=workers)
    for input_nodes, output_nodes, blocks in loader:
        assert torch.equal(
            blocks[0].srcdata["feat"], g.ndata["feat"][input_nodes.long()]
        )
        assert torch.equal(blocks[-1].dstdata["label"], output_nodes.long())
        for block in blocks:
            where = block.edata[dgl.EID].long()
            assert torch.equal(block.edata["age"], g.edata["age"][where])


def test_prefetched_names_that_do_not_exist_are_refused():
    loader = DataLoader(
        make_graph(),
        torch.arange(NODES),
        GTTFSampler([2], prefetch_node_feats=["nothing"]),
    )
    rule = "'prefetch_node_feats' must name data of the graph"
    with pytest.raises(ValueError, match=rule):
        next(iter(loader))


def test_features_are_marked_where_nobody_fetches_them():
    sampler = GTTFSampler([2], prefetch_node_feats=["feat"])
    _, _, (block,) = sampler.sample(make_graph(), torch.tensor([0]))
    assert isinstance(block.srcdata["feat"], dgl.frame.LazyFeature)


def test_features_are_gathered_with_the_batch(monkeypatch):
    """Into memory that was used before, and not by DGL."""
    asked = []
    monkeypatch.setattr(dgl.frame.Column, "fetch", lambda *args: asked.append(args))
    how = {"prefetch_node_feats": ["feat"], "prefetch_edge_feats": ["age"]}
    g, ids = make_graph(), torch.arange(NODES)
    for sampler in (GTTFSampler([2, 2], **how), GTTFSubgraphSampler([2, 2], **how)):
        list(DataLoader(g, ids, sampler, batch_size=25))
    assert not asked


def test_typed_features_are_prefetched():
    """Each from its own type, though all have the same name."""
    g = dgl.heterograph({("a", "r", "b"): ([0, 1, 2], [0, 0, 1])})
    g.nodes["a"].data["x"] = torch.rand(3, 4)
    g.nodes["b"].data["x"] = torch.rand(2, 4)
    g.edges["r"].data["x"] = torch.rand(3)
    sampler = GTTFSampler(
        [-1],
        prefetch_node_feats={"a": ["x"], "b": ["x"]},
        prefetch_labels={"b": ["x"]},
        prefetch_edge_feats={("a", "r", "b"): ["x"]},
    )
    ((input_nodes, _, (block,)),) = DataLoader(
        g, {"b": torch.tensor([1, 0])}, sampler, batch_size=2
    )
    assert input_nodes["a"].tolist() == [2, 0, 1]
    assert torch.equal(block.srcnodes["a"].data["x"], g.nodes["a"].data["x"][[2, 0, 1]])
    for view in (block.srcnodes, block.dstnodes):
        assert torch.equal(view["b"].data["x"], g.nodes["b"].data["x"][[1, 0]])
    assert torch.equal(block.edata["x"], g.edges["r"].data["x"][[2, 0, 1]])


def typed_graph():
    """Two relations of one name that run in opposite directions."""
    g = dgl.heterograph(
        {
            ("u", "r", "i"): (torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1])),
            ("i", "r", "u"): (torch.tensor([0, 1]), torch.tensor([2, 0])),
        }
    )
    for number, kind in enumerate(g.canonical_etypes):
        count = g.num_edges(kind)
        g.edges[kind].data["w"] = torch.arange(count) + 10.0 * (number + 1)
    return g


def first_batch(g, workers, thread):
    weights = {kind: ["w"] for kind in g.canonical_etypes}
    how = {"edge_dir": "out", "thread_workers": thread}
    sampler = GTTFSampler([-1], prefetch_edge_feats=weights, **how)
    ids = {"u": torch.arange(3), "i": torch.arange(2)}
    loader = DataLoader(*(g, ids, sampler), batch_size=5, num_workers=workers)
    return next(iter(loader))[2][0]


@pytest.mark.parametrize(
    ("workers", "thread"),
    [(0, None), (1, None), pytest.param(1, False, marks=pytest.mark.process)],
)
def test_turned_edges_have_the_data_of_their_own(workers, thread):
    g = typed_graph()
    block = first_batch(g, workers, thread)
    for source, relation, target in block.canonical_etypes:
        kind = source, relation, target
        eids = block.edges[kind].data[dgl.EID]
        own = g.edges[target, relation, source].data["w"]
        assert torch.equal(block.edges[kind].data["w"], own[eids.long()])


class Probe(torch.utils.data.Dataset):
    """Samples where no DataLoader of DGL asks for a batch."""

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return index


def sample_at_start(number):
    g = dgl.graph((torch.tensor([1, 2]), torch.tensor([0, 0])))
    GTTFSampler([1], seed=1).sample(g, torch.tensor([0]))


@pytest.mark.process
def test_sampling_in_the_start_of_a_worker_works():
    loader = torch.utils.data.DataLoader(
        Probe(), num_workers=1, worker_init_fn=sample_at_start
    )
    assert len(list(loader)) == 1


def reverses(count):
    half = count // 2
    return torch.cat([torch.arange(half, count), torch.arange(half)])


def two_way(pairs):
    """A graph with pairs[i] as edge i and its reverse as edge i + len(pairs)."""
    u, v = torch.tensor(pairs).t()
    return dgl.graph((torch.cat([u, v]), torch.cat([v, u])))


RING = two_way([(i, (i + 1) % 8) for i in range(8)])


@pytest.mark.process
@pytest.mark.parametrize(
    ("options", "hidden"),
    [
        ({}, lambda e: set()),
        ({"exclude": "self"}, set),
        (
            {"exclude": "reverse_id", "reverse_eids": reverses(16)},
            lambda e: {*e, *reverses(16)[list(e)].tolist()},
        ),
        ({"exclude": torch.tensor([3, 4])}, lambda e: {3, 4}),
        ({"exclude": lambda e: e + 1}, lambda e: {i + 1 for i in e}),
    ],
    ids=["none", "self", "reverse_id", "tensor", "callable"],
)
@pytest.mark.parametrize("workers", [0, 2])
def test_edge_prediction_excludes(options, hidden, workers):
    sampler = as_edge_prediction_sampler(GTTFSampler([-1, -1]), **options)
    loader = DataLoader(
        RING, torch.arange(8), sampler, batch_size=3, num_workers=workers
    )
    for input_nodes, pairs, blocks in loader:
        batch = set(pairs.edata[dgl.EID].tolist())
        everything = set(range(16)) - hidden(batch)
        for block in blocks:
            seen = set(block.edata[dgl.EID].tolist())
            rows = block.dstdata[dgl.NID]
            into = set(RING.in_edges(rows, form="eid").tolist())
            assert seen == into & everything
        assert torch.equal(pairs.ndata[dgl.NID], blocks[-1].dstdata[dgl.NID])
        assert torch.equal(input_nodes, blocks[0].srcdata[dgl.NID])


def test_edge_prediction_excludes_reverse_types():
    u, v = torch.tensor([0, 0, 1, 2]), torch.tensor([0, 1, 1, 0])
    g = dgl.heterograph({("u", "likes", "i"): (u, v), ("i", "liked", "u"): (v, u)})
    pairs = {"likes": "liked", "liked": "likes"}
    sampler = as_edge_prediction_sampler(
        GTTFSampler([-1]), exclude="reverse_types", reverse_etypes=pairs
    )
    for _, edges, (block,) in DataLoader(g, {"likes": torch.arange(4)}, sampler):
        hidden = edges.edges["likes"].data[dgl.EID].tolist()
        for name in ("likes", "liked"):
            kind = block.to_canonical_etype(name)
            assert hidden[0] not in block.edges[kind].data[dgl.EID].tolist()
        rows = block.dstnodes["u"].data[dgl.NID]
        left = set(g.in_edges(rows, form="eid", etype="liked").tolist()) - set(hidden)
        assert set(block.edges["liked"].data[dgl.EID].tolist()) == left


def test_edge_prediction_on_subgraphs():
    """All layers share one graph, which has none of the hidden edges either."""
    sampler = as_edge_prediction_sampler(GTTFSubgraphSampler([-1, -1]), exclude="self")
    for nodes, pairs, batch in DataLoader(RING, torch.arange(8), sampler, batch_size=3):
        hidden = set(pairs.edata[dgl.EID].tolist())
        inner = nodes[: pairs.num_nodes()]
        assert torch.equal(inner, pairs.ndata[dgl.NID])
        into = set(RING.in_edges(inner, form="eid").tolist()) - hidden
        assert into <= set(batch.edata[dgl.EID].tolist())
        assert not hidden & set(batch.edata[dgl.EID].tolist())


def test_edge_prediction_with_negatives_and_labels():
    g = make_graph()
    sampler = as_edge_prediction_sampler(
        GTTFSampler([5, 5], prefetch_node_feats=["feat"]),
        exclude="self",
        negative_sampler=dgl.dataloading.negative_sampler.Uniform(2),
        prefetch_labels=["age"],
    )
    loader = DataLoader(g, torch.arange(100), sampler, batch_size=40)
    for input_nodes, positive, negative, blocks in loader:
        assert negative.num_edges() == 2 * positive.num_edges()
        assert torch.equal(negative.ndata[dgl.NID], blocks[-1].dstdata[dgl.NID])
        assert torch.equal(
            positive.edata["age"], g.edata["age"][positive.edata[dgl.EID]]
        )
        assert torch.equal(blocks[0].srcdata["feat"], g.ndata["feat"][input_nodes])


def test_subgraph_sampler_in_a_loader():
    """The same graph for any number of workers, with its features."""
    found = []
    for workers in (0, 2):
        sampler = GTTFSubgraphSampler(
            [3, 3], prefetch_node_feats=["feat"], prefetch_labels=["label"], seed=1
        )
        g = make_graph()
        loader = DataLoader(
            g, torch.arange(NODES), sampler, batch_size=20, num_workers=workers
        )
        table = {}
        for input_nodes, seeds, batch in loader:
            assert torch.equal(batch.ndata[dgl.NID], input_nodes)
            assert torch.equal(batch.ndata["feat"], g.ndata["feat"][input_nodes])
            assert torch.equal(batch.ndata["label"][: len(seeds)], seeds)
            ends = torch.stack(batch.edges()).tolist()
            table[int(seeds[0])] = (input_nodes.tolist(), ends)
        found.append(table)
    assert found[0] == found[1]


def split(rank, path, count, queue):
    """The share of an epoch of one of `count` processes."""
    torch.set_num_threads(1)  # OpenMP's threads did not come along
    dgl.utils.set_num_threads(1)
    store = dist.FileStore(path, count)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=count)
    torch.manual_seed(0)
    loader = DataLoader(
        make_graph(),
        torch.arange(NODES),
        GTTFSampler([4], seed=2),
        use_ddp=True,
        batch_size=7,
    )
    seen = [(seeds.tolist(), as_table(blocks)) for _, seeds, blocks in loader]
    queue.put((rank, seen))
    dist.destroy_process_group()


@pytest.mark.process
def test_ddp_splits_the_seeds(tmp_path):
    context = torch.multiprocessing.get_context("fork")
    queue = context.Queue()
    args = (str(tmp_path / "store"), 2, queue)
    parts = [
        context.Process(target=split, args=(rank, *args), daemon=True)
        for rank in range(2)
    ]
    for part in parts:
        part.start()
    seen = dict(queue.get(timeout=120) for _ in parts)
    for part in parts:
        part.join(timeout=120)
        assert part.exitcode == 0
    seeds = [[x for batch, _ in seen[rank] for x in batch] for rank in range(2)]
    assert sorted(seeds[0] + seeds[1]) == list(range(NODES))
    for rank in range(2):
        for batch, ((_, receivers, _),) in seen[rank]:
            assert receivers["_N"] == batch


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.process)])
@pytest.mark.parametrize("given_as", [{}, {"seed": 3}])
def test_loader_of_dgl_follows_torch(given_as, workers):
    """Calls are counted in every worker, with the worker's seed."""

    def run(seed):
        g = make_graph()
        torch.manual_seed(seed)
        how = {"batch_size": 5, "num_workers": workers}
        loader = dgl.dataloading.DataLoader(
            g, torch.full((40,), 7), GTTFSampler([3], **given_as), **how
        )
        return [blocks[0].edata[dgl.EID].tolist() for _, _, blocks in loader]

    found = run(1)
    assert run(1) == found
    assert (run(2) == found) == (bool(given_as) and workers == 0)
    assert len({str(batch) for batch in found}) > 4  # of few triples


def test_loader_made_again_with_its_own_arguments():
    """As Lightning does: what a DataLoader knows about itself goes into a new one."""
    loader = DataLoader(
        make_graph(), torch.arange(NODES), GTTFSampler([2]), shuffle=True
    )
    names = ("graph", "indices", "graph_sampler", "device", "batch_size", "shuffle")
    more = ("dataset", "collate_fn", "sampler", "num_workers", "generator")
    again = DataLoader(**{name: getattr(loader, name) for name in names + more})
    assert len(list(again)) == len(list(loader)) == NODES


def test_sampler_of_positions_is_left_to_the_loader():
    with pytest.raises(ValueError, match="'sampler' must be left to this loader"):
        DataLoader(make_graph(), torch.arange(4), GTTFSampler([2]), sampler=range(4))


def drawn(loader):
    return [tuple(blocks[0].edata[dgl.EID].tolist()) for _, _, blocks in loader]


@pytest.mark.parametrize("given_as", [{}, {"seed": 3}])
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_batch_that_comes_again_is_drawn_again(given_as, workers):
    """Independently, and still the same for any number of workers."""
    ids, g = torch.full((50,), 7), make_graph()

    def run(workers, seed=0):
        torch.manual_seed(seed)
        sampler = GTTFSampler([3], **given_as)
        loader = DataLoader(g, ids, sampler, num_workers=workers)
        return sorted(drawn(loader))  # workers take turns

    found = run(workers)
    assert len(set(found)) > 25  # of all triples of its edges
    assert found == run(0)
    assert given_as or run(workers, seed=1) != found


class Twice:
    """A sampler that makes two views of every batch."""

    output_device = None

    def __init__(self, *samplers):
        self.samplers = samplers

    def sample(self, g, ids):
        return [sampler.sample(g, ids)[2][0] for sampler in self.samplers]


@pytest.mark.process
@pytest.mark.parametrize("workers", [0, 2])
def test_views_of_one_batch_differ(workers):
    one = GTTFSampler([3])
    for samplers in ([GTTFSampler([3]), GTTFSampler([3])], [one, one]):
        loader = DataLoader(
            *(make_graph(), torch.arange(NODES), Twice(*samplers)),
            batch_size=20,
            num_workers=workers,
        )
        for left, right in loader:
            assert left.edata[dgl.EID].tolist() != right.edata[dgl.EID].tolist()
    loader = DataLoader(
        *(make_graph(), torch.arange(NODES)),
        Twice(GTTFSampler([3], seed=1), GTTFSampler([3], seed=1)),
        batch_size=20,
    )
    for left, right in loader:  # asked for by the same seed
        assert left.edata[dgl.EID].tolist() == right.edata[dgl.EID].tolist()


class Batches(torch.utils.data.Dataset):
    """Batches of a user's own, some of them alike."""

    device = torch.device("cpu")

    def __len__(self):
        return 8

    def __getitem__(self, number):
        if number >= 8:
            raise IndexError
        return torch.tensor([1, 2, 3]) + number // 4


@pytest.mark.process
def test_batches_of_a_users_dataset():
    def run(workers):
        torch.manual_seed(3)
        loader = DataLoader(
            make_graph(), Batches(), GTTFSampler([3]), num_workers=workers
        )
        return drawn(loader)

    assert run(0) == run(1) == run(2)
    assert len(set(run(0))) == 8


def test_copies_of_a_seed_draw_the_same_edges():
    """Decided so: what a node draws depends on the batch and the node alone."""
    _, _, (block,) = GTTFSampler([3]).sample(make_graph(), torch.tensor([7, 5, 7]))
    edges = [block.edata[dgl.EID][block.edges()[1] == i].tolist() for i in range(3)]
    assert edges[0] == edges[2]
    assert len(edges[0]) == 3


def test_excluded_edges_that_are_not_there_are_passed_over():
    g = make_graph()
    sampler, seeds = GTTFSampler([-1]), torch.tensor([7])
    eids = sampler.sample(g, seeds)[2][0].edata[dgl.EID]
    away = torch.cat([eids[:1], torch.tensor([-1, g.num_edges(), 10**12])])
    left = sampler.sample(g, seeds, away)[2][0].edata[dgl.EID]
    assert left.tolist() == eids[1:].tolist()


def test_fanouts_may_be_floats_as_in_dgl():
    g, seeds = make_graph(), torch.tensor([7])
    for fanout in (3.0, torch.tensor(3.0), torch.tensor(3)):
        assert GTTFSampler([fanout]).sample(g, seeds)[2][0].num_edges() == 3
    with pytest.raises(ValueError, match="'fanouts' must hold integers"):
        GTTFSampler([2.5])
