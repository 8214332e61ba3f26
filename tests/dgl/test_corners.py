"""Corners of the DGL adapter that a reader of its code found."""

import dgl
import pytest
import torch

from gttf_dgl import DataLoader, GTTFSampler, random_walk


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


@pytest.mark.parametrize(("workers", "thread"), [(0, None), (1, None), (1, False)])
def test_turned_edges_have_the_data_of_their_own(workers, thread):
    g = typed_graph()
    block = first_batch(g, workers, thread)
    for source, relation, target in block.canonical_etypes:
        kind = source, relation, target
        eids = block.edges[kind].data[dgl.EID]
        own = g.edges[target, relation, source].data["w"]
        assert torch.equal(block.edges[kind].data["w"], own[eids.long()])


def test_weights_of_inference_tensors_are_read_anew():
    with torch.inference_mode():
        g = dgl.graph((torch.tensor([1, 2]), torch.tensor([0, 0])))
        g.edata["w"] = torch.tensor([1.0, 0.0])
        sampler = GTTFSampler([2], prob="w")
        for _ in range(2):
            block = sampler.sample(g, torch.tensor([0]))[2][0]
            assert block.edata[dgl.EID].tolist() == [0]


def test_metapath_through_a_type_without_nodes_ends():
    none = torch.empty(0, dtype=torch.int64)
    edges = {("u", "r", "g"): (none, none), ("g", "b", "u"): (none, none)}
    g = dgl.heterograph(edges, num_nodes_dict={"u": 2, "g": 0})
    traces, _ = random_walk(g, [0, 1], metapath=["r", "b"])
    assert traces.tolist() == [[0, -1, -1], [1, -1, -1]]


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
