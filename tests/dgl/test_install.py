"""Every import line of DGL, and our samplers in the place of its own."""

import dgl
import pytest
import torch

import gttf_dgl
import gttf_dgl.dataloading
import gttf_dgl.sampling
from gttf_dgl.install import SWAPPED

ROOMS = [
    (dgl.dataloading, gttf_dgl.dataloading),
    (dgl.sampling, gttf_dgl.sampling),
]


@pytest.mark.parametrize(("host", "ours"), ROOMS, ids=["dataloading", "sampling"])
def test_module_has_every_public_name_of_the_host(host, ours):
    for name, theirs in vars(host).items():
        if not name.startswith("_") and callable(theirs):
            found = getattr(ours, name)
            own = found.__module__.startswith("gttf_dgl")
            assert own or found is theirs, name
            assert getattr(gttf_dgl, name) is found
    assert "NeighborSampler" in gttf_dgl.dataloading.__all__
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        _ = ours.Nonsense


CLASSES = [
    (room, name)
    for room, names in SWAPPED.items()
    for name in names
    if isinstance(getattr(getattr(dgl, room), name), type)
]
MADE = {
    "DataLoader": lambda host, g: host.dataloading.DataLoader(
        g, torch.arange(3), host.dataloading.NeighborSampler([2])
    ),
    "LaborSampler": lambda host, g: host.dataloading.LaborSampler([2]),
    "MultiLayerFullNeighborSampler": lambda host, g: (
        host.dataloading.MultiLayerFullNeighborSampler(2)
    ),
    "MultiLayerNeighborSampler": lambda host, g: (
        host.dataloading.MultiLayerNeighborSampler([2])
    ),
    "NeighborSampler": lambda host, g: host.dataloading.NeighborSampler([2]),
    "SAINTSampler": lambda host, g: host.dataloading.SAINTSampler("node", 2),
    "ShaDowKHopSampler": lambda host, g: host.dataloading.ShaDowKHopSampler([2]),
    "PinSAGESampler": lambda host, g: host.sampling.PinSAGESampler(
        g, "_N", "_N", 1, 0.5, 2, 2
    ),
    "RandomWalkNeighborSampler": lambda host, g: (
        host.sampling.RandomWalkNeighborSampler(g, 1, 0.5, 2, 2)
    ),
}


@pytest.mark.parametrize(("room", "name"), CLASSES)
def test_installed_classes_are_those_of_the_host(room, name):
    """Also for code that has kept DGL's class, of whose samplers no method is left."""
    host, g = getattr(getattr(dgl, room), name), dgl.rand_graph(5, 20)
    with gttf_dgl.installed():
        made = MADE[name](dgl, g)
        assert isinstance(made, getattr(getattr(dgl, room), name))
    assert isinstance(made, host)
    for method, theirs in vars(host).items():
        if callable(theirs) and name != "DataLoader":
            found = getattr(type(made), method)
            assert found.__module__.startswith("gttf_dgl"), method


def test_full_sampler_is_a_neighbor_sampler_and_labor_is_none():
    host = dgl.dataloading
    assert issubclass(gttf_dgl.MultiLayerFullNeighborSampler, host.NeighborSampler)
    assert not issubclass(gttf_dgl.LaborSampler, host.NeighborSampler)
    assert not issubclass(gttf_dgl.ShaDowKHopSampler, host.BlockSampler)


# Public names of DGL's modules that stay DGL's own, because they draw no neighbours,
# or by rules that only DGL has. A name that DGL adds is in neither list: decide.
THEIRS = {
    dgl.dataloading: """
        BlockSampler ClusterGCNSampler CollateWrapper Collator DDPTensorizedDataset
        DistEdgeDataLoader DistNodeDataLoader EdgeCollator EdgePredictionSampler
        GraphCollator GraphDataLoader NodeCollator Sampler SpotTarget TensorizedDataset
        WorkerInitWrapper as_edge_prediction_sampler create_tensorized_dataset
        find_exclude_eids remove_parent_storage_columns restore_parent_storage_columns
        set_dst_lazy_features set_edge_lazy_features set_node_lazy_features
        set_src_lazy_features""",
    dgl.sampling: """
        global_uniform_negative_sampling pack_traces sample_etype_neighbors
        sample_neighbors_biased sample_neighbors_fused select_topk""",
}


@pytest.mark.parametrize("host", THEIRS, ids=["dataloading", "sampling"])
def test_every_name_of_the_host_is_ours_or_left_on_purpose(host):
    swapped = set(SWAPPED[host.__name__.rpartition(".")[2]])
    left = set(THEIRS[host].split())
    own = {
        name
        for name, value in vars(host).items()
        if not name.startswith("_")
        if getattr(value, "__module__", "").startswith(host.__name__)
    }
    assert not swapped & left
    assert own <= swapped | left


def test_install_and_back():
    g, host = dgl.rand_graph(50, 300), dgl.dataloading
    before, method = host.NeighborSampler, dgl.DGLGraph.sample_neighbors
    with gttf_dgl.installed():
        assert host.NeighborSampler is gttf_dgl.NeighborSampler
        loader = host.DataLoader(g, torch.arange(50), host.NeighborSampler([3, 3]))
        assert isinstance(loader, gttf_dgl.DataLoader)
        assert len(next(iter(loader))[2]) == 2
        assert g.sample_neighbors([1], 2).num_nodes() == 50
        assert dgl.sampling.random_walk is gttf_dgl.random_walk
    assert host.NeighborSampler is before
    assert dgl.DGLGraph.sample_neighbors is method
