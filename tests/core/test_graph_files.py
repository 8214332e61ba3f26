"""Files of edges, and ids of nodes: what cannot be kept is refused."""

import numpy as np
import pytest
import torch

from gttf_sampler import CompactAdj
from gttf_sampler.graph import read_graph
from gttf_sampler.graph.buckets import Bucket, Edges
from gttf_sampler.graph.edgelist import read_edge_list
from gttf_sampler.graph.files import write_graph
from gttf_sampler.graph.names import ids_of

RING = CompactAdj.from_edge_index([[0, 1, 2], [1, 2, 0]])


@pytest.mark.parametrize("end", ["csv", "tsv", "txt"])
@pytest.mark.parametrize(
    ("ids", "match"),
    [
        (["#a", "b", "c"], "must not begin with # or %"),
        (["a", "b", "%"], "must not begin with # or %"),
        (["01", "1", "2"], "must not be words that are all read as integers"),
        (["a", "b\nc", "d"], "must "),
        ([" a", "a", "b"], "must "),
    ],
)
def test_text_refuses_ids_that_it_would_change(tmp_path, ids, match, end):
    adj = RING.named(np.array(ids))
    with pytest.raises(ValueError, match=match):
        write_graph(tmp_path / f"g.{end}", adj)
    assert not list(tmp_path.iterdir())
    write_graph(tmp_path / "g.npz", adj)
    assert read_graph(tmp_path / "g.npz").node_id.tolist() == ids


@pytest.mark.parametrize("end", ["csv", "tsv", "txt"])
def test_text_keeps_other_ids(tmp_path, end):
    ids = ["01", "1", "a#%"]
    found = read_graph(write_graph(tmp_path / f"g.{end}", RING.named(np.array(ids))))
    assert found.node_id.tolist() == ids


def write(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("source,target,weight\n0,1,heavy\n", None),
        ("source,target,time\n0,1,noon\n", None),
        ("user item weight\n0 1 heavy\n", None),
        ("a b c\n0 1 heavy\n", ["a", "b", "c"]),
    ],
)
def test_named_columns_must_hold_numbers(tmp_path, text, columns):
    with pytest.raises(ValueError, match="must have a number in column 3"):
        read_edge_list(write(tmp_path / "g.txt", text), columns)


def test_guessed_column_may_hold_words(tmp_path):
    for text in ("0 1 heavy\n", "source target kind\n0 1 heavy\n", "u v k\n0 1 x\n"):
        found = read_edge_list(write(tmp_path / "g.txt", text))
        assert found.weight is None
        assert found.num_nodes == 2


def test_any_heading_names_times(tmp_path):
    found = read_edge_list(write(tmp_path / "g.txt", "user item time\n0 1 7\n"))
    assert found.weight is None
    assert found.time.tolist() == [7]


@pytest.mark.parametrize("columns", [None, ["source", "target"]])
def test_heading_alone_is_no_graph(tmp_path, columns):
    with pytest.raises(ValueError, match="must hold at least one edge"):
        read_edge_list(write(tmp_path / "g.csv", "source,target\n"), columns)


def test_ids_must_fit(tmp_path):
    for values in (np.array([2**63], np.uint64), [2**63], [2**70]):
        with pytest.raises(ValueError, match=r"must hold integers below 2\*\*63"):
            ids_of("ids", values)
    assert ids_of("ids", np.array([7], np.uint64)).dtype == np.int64


def test_named_takes_what_ids_are():
    for ids in ([5, 6, 7], torch.tensor([5, 6, 7]), ("x", "y", "z")):
        assert list(RING.named(ids).node_id) == [
            i if isinstance(i, str) else int(i) for i in ids
        ]
    for ids in (7, [5.0, 6.0, 7.0], [1, "a", "b"], [[1], [2, 3]], torch.rand(3)):
        with pytest.raises((TypeError, ValueError), match="'node_id' must"):
            RING.named(ids)


def test_bucket_tells_positions_far_apart(tmp_path):
    position = np.array([3, 2**32 + 2, 2**32 + 3, 2**40])
    row, col = np.arange(4), np.arange(4, dtype=np.int32)
    bucket = Bucket(tmp_path / "b", 0, 4)
    bucket.add(Edges(row, col, position, {"edge_weight": col / 2}))
    (got,) = bucket.pieces(10)
    assert got.position.tolist() == position.tolist()
    assert got.row.tolist() == row.tolist()
    assert got.columns["edge_weight"].tolist() == (col / 2).tolist()


def test_from_chunks_looks_at_its_target_first(tmp_path):
    def never():
        raise AssertionError("edges were read")
        yield

    target = tmp_path / "g"
    with pytest.raises(TypeError, match="'tmp' must"):
        CompactAdj.from_chunks(never(), target, 3, tmp=7)
    assert not target.exists()
    target.mkdir()
    write(target / "letter.txt", "dear")
    with pytest.raises(ValueError, match="must be an empty directory"):
        CompactAdj.from_chunks(never(), target, 3)
