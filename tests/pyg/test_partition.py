"""A Data or HeteroData, also in a file, is cut with all that its nodes have."""

import pytest
import torch
from torch_geometric.data import Data, InMemoryDataset

from gttf_pyg import GTTFLoader, partition
from gttf_sampler.cli.main import main
from gttf_sampler.distributed import PartitionedGraph
from gttf_sampler.distributed.part import open_part
from pyg_tasks import cut, equal, some_data


def test_partition_takes_data_and_more_features(tmp_path):
    data = some_data()
    facts = partition(data, tmp_path, 1, features={"age": torch.arange(100)})
    assert facts["features"] == ["x", "y", "train_mask", "time", "age"]
    with PartitionedGraph.open(tmp_path) as graph:
        how = {"num_neighbors": [3, 2], "batch_size": 16, "seed": 5}
        data.age = torch.arange(100)
        pairs = zip(GTTFLoader(graph, **how), GTTFLoader(data, **how), strict=True)
        assert all(equal(left, right) for left, right in pairs)


def test_command_cuts_a_dataset_of_one_graph(tmp_path, capsys):
    data = some_data()
    InMemoryDataset.save([data], str(tmp_path / "data.pt"))
    words = ["partition", str(tmp_path / "data.pt"), str(tmp_path / "out")]
    assert main([*words, "--parts", "1"]) == 0
    assert open_part(tmp_path / "out", 0).features["", "x"][:].equal(data.x)
    InMemoryDataset.save([data, data], str(tmp_path / "data.pt"))
    assert main([*words, "--parts", "1"]) == 2
    assert "must hold one Data or HeteroData" in capsys.readouterr().err


def test_command_says_why_no_host_reads_the_file(tmp_path, capsys, monkeypatch):
    def none(missing):
        missing.add("gttf_pyg", "No module named 'torch_geometric'")
        return []

    monkeypatch.setattr("gttf_sampler.cli.files.hosts", none)
    out = str(tmp_path / "out")
    assert main(["partition", "data.pt", out, "--parts", "1"]) == 2
    said = capsys.readouterr().err
    assert "'graph' needs a host that reads .pt (got No module named 'torch_g" in said


class Evil:
    """A call that a blind unpickler would make."""

    def __reduce__(self):
        return pytest.fail, ("a file has run code",)


def test_command_runs_no_code_of_a_file(tmp_path, capsys):
    data = some_data()
    data.evil = Evil()
    assert cut(tmp_path, data) == 2
    told = capsys.readouterr().err
    assert "must be read by torch.load(weights_only=True)" in told
    assert "call gttf_pyg.partition(data" in told
    assert len(told.splitlines()) == 1


def test_command_refuses_in_one_sentence(tmp_path, capsys):
    (tmp_path / "text.pt").write_text("0 1\n")
    (tmp_path / "text.txt").write_text("0 1\n")
    torch.save(torch.ones(3), tmp_path / "tensor.pt")
    torch.save(Data(x=torch.ones(3, 1)), tmp_path / "no.pt")
    ring = torch.arange(3)
    tiny = torch.ones(3, 1).to(torch.float8_e4m3fn)
    data = Data(x=tiny, edge_index=torch.stack([ring, ring.roll(1)]))
    torch.save(data, tmp_path / "tiny.pt")
    for file, more, match in (
        ("none.pt", [], "must be a file that is there"),
        ("text.pt", [], "which is no whole file of torch.save"),
        ("tensor.pt", [], "must hold one Data or HeteroData"),
        ("no.pt", [], "'data' must have edges"),
        ("tiny.pt", [], "'features[x]' must have a dtype that numpy knows"),
        ("tiny.pt", ["--weight-attr", "w"], "'weight_attr' must name an attribute"),
        (
            "text.txt",
            ["--time-attr", "t"],
            "'--time-attr' must be left out where edges",
        ),
    ):
        words = ["partition", str(tmp_path / file), str(tmp_path / "out")]
        assert main([*words, "--parts", "2", *more]) == 2, file
        told = capsys.readouterr().err
        assert match in told
        assert len(told.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_validate(tmp_path):
    with pytest.raises(TypeError, match="'data' must be a Data or HeteroData"):
        partition(3, tmp_path, 2)
    with pytest.raises(TypeError, match="'time_attr' must be the name"):
        partition(some_data(), tmp_path, 2, time_attr=1)
