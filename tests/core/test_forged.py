"""Parts and peers that are not what they say: a sentence, never a crash or a hang."""

import json
import random
import shutil
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pytest
import torch

from forged import forge, forged_answers, home, mutate, write_array
from gttf_sampler import CompactAdj, sample_rooted
from gttf_sampler.distributed import PartitionedGraph, partition
from gttf_sampler.distributed.messages import decode, encode, pack, unpack
from gttf_sampler.distributed.part import open_part
from worlds import World


def typed_graph():
    """Two relations of two types, with weights."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(0, 20, (2, 120), generator=generator)
    to = CompactAdj.from_edge_index(ends, 20, edge_weight=torch.rand(120))
    by = CompactAdj.from_edge_index(ends[:, :50] % 12, (12, 20))
    return {("a", "to", "a"): to, ("b", "by", "a"): by}


@pytest.fixture(scope="module", params=["range", "hash"])
def cut(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("forged") / request.param
    x = {("a", "x"): torch.rand(20, 3)}
    partition(typed_graph(), path, 2, method=request.param, features=x)
    return path


@pytest.fixture
def copy(cut, tmp_path):
    shutil.copytree(cut, tmp_path / "copy")
    return tmp_path / "copy"


def set_at(*path, value):
    *outer, key = path

    def change(content):
        for step in outer:
            content = content[step]
        content[key] = value

    return change


FORGED = [
    ("relation", ("num_cols",), 10**12, "must have num_cols 20"),
    ("whole", ("node_types", 0, "num_nodes"), 10**12, "nodes in all parts, not 10000"),
    ("whole", ("node_types", 0, "own"), [20], r"own \[20\]"),
    ("whole", ("node_types", 0, "wanted", "file"), "/etc/passwd", "file '/etc/passwd'"),
    ("whole", ("node_types", 0, "wanted", "file"), "../w-0.bin", "file '../w-0.bin'"),
    ("whole", ("node_types", 0, "wanted", "dtype"), "|O", r"dtype '\|O'"),
    ("whole", ("node_types", 0, "wanted", "dtype"), "<f8", "dtype '<f8'"),
    ("whole", ("node_types", 0, "wanted", "length"), -1, "length -1"),
    ("whole", ("folder",), "/etc", "directory '/etc'"),
    ("whole", ("folder",), "cut-00000000/../..", "directory 'cut-0"),
    ("whole", ("parts",), 0, "parts 0"),
    ("whole", ("relations", 0, "type"), ["a", "to", "c"], "relation"),
    ("whole", ("relations", 0, "max_degree"), 0, "rows of at most 0 edges"),
    ("whole", ("relations", 0, "num_edges"), 3, "must have at most 3 edges"),
    ("part", ("files", "feature-0", "file"), "/etc/passwd", "feature-0"),
    ("part", ("files", "odd"), 1, "odd 1"),
    ("part", ("files",), {}, "must name all files|must hold all nodes"),
]


@pytest.mark.parametrize(("where", "path", "value", "match"), FORGED)
def test_forged_headers_are_refused(copy, where, path, value, match):
    forge(copy, where, set_at(*path, value=value))
    with pytest.raises(ValueError, match=match):
        open_part(copy, 0)


def test_forged_bounds_are_refused(copy):
    told = json.loads((copy / "header.json").read_text())["node_types"][0]
    if "bounds" not in told:
        pytest.skip("parts by hash have none")
    for bounds in (told["bounds"][:2], [0, 30, 20], [0, 3, 20], [0, 1 << 40, 20]):
        forge(copy, "whole", set_at("node_types", 0, "bounds", value=bounds))
        with pytest.raises(ValueError, match="bounds"):
            open_part(copy, 0)


def test_forged_arrays_are_refused(copy):
    files = json.loads((home(copy) / "part-0" / "header.json").read_text())["files"]
    odd = np.array([1 << 40, -5])
    for key in ("nodes-0", "first-0", "edge_id-0"):
        if not isinstance(files.get(key), dict):
            continue
        for put in (odd, None):
            path = copy.with_name(f"{key}-{put is None}")
            shutil.copytree(copy, path)
            where = home(path) / "part-0"

            def change(header, where=where, key=key, put=put):
                entry = header["files"][key]
                values = np.fromfile(where / entry["file"], entry["dtype"])
                values[:2] = odd[:2]
                write_array(where, entry, values if put is None else values[:-1])

            forge(path, "part", change)
            with pytest.raises(ValueError, match=key):
                open_part(path, 0)


def test_headers_of_any_content_are_refused_or_open(copy, tmp_path):
    """Whatever opens also draws: in this process, so that a crash is seen."""
    partition(typed_graph(), tmp_path / "one", 1)
    choice, ends = random.Random(0), {"opened": 0, "refused": 0}
    for number in range(60):
        path = tmp_path / f"m{number}"
        shutil.copytree(tmp_path / "one", path)
        forge(
            path,
            choice.choice(["whole", "part", "relation"]),
            lambda c: mutate(c, choice),
        )
        try:
            with PartitionedGraph.open(path) as graph:
                sample_rooted(graph.adjs, {"a": [0, 5]}, [2, 2], generator=1)
            ends["opened"] += 1
        except ValueError:
            ends["refused"] += 1
        shutil.rmtree(path)
    assert ends["refused"] > 30


@pytest.mark.parametrize(
    "words",
    [[], [-1], [1 << 62], [1], [1, 99, 4], [1, 0, -1], [1, 0, 1 << 60], [2, 0, 1, 1]],
)
def test_unpack_refuses_what_pack_does_not_make(words):
    whole = pack([torch.arange(3), torch.ones(2, dtype=torch.bool)])
    assert [x.tolist() for x in unpack(whole)] == [[0, 1, 2], [True, True]]
    for message in (whole[:-8], whole[:5], torch.cat([whole, whole[:8]])):
        with pytest.raises(ValueError, match="message of"):
            unpack(message)
    with pytest.raises(ValueError, match=r"message of|array of"):
        unpack(torch.tensor(words, dtype=torch.int64).view(torch.uint8))


class Inner(NamedTuple):
    flag: bool
    ids: torch.Tensor | None = None


@dataclass(frozen=True, eq=False)
class Outer:
    word: ClassVar[str] = "not sent"
    key: int
    ids: torch.Tensor
    inner: list[Inner]


def test_records_are_messages_and_back():
    ids = torch.arange(3)
    record = Outer((1 << 64) - 5, ids, [Inner(True, ids), Inner(False)])
    arrays = encode(record)
    assert len(arrays) == 2  # equal tensors are sent once
    found = decode(Outer, unpack(pack(arrays)))
    assert (found.key, found.ids.tolist()) == (-5, [0, 1, 2])
    assert [inner.flag for inner in found.inner] == [True, False]
    assert found.inner[0].ids is found.ids
    assert found.inner[1].ids is None


@pytest.mark.parametrize(
    "facts",
    [[], [1], [1, 0, 0], [1, 2, 0], [1, -1, 0], [1, 1, 9], [1, 1, 1, 1, 7], [0.0, 1.0]],
)
def test_decode_refuses_what_encode_does_not_make(facts):
    with pytest.raises(ValueError, match="request that breaks off"):
        decode(Outer, [torch.tensor(facts), torch.arange(3)])
    with pytest.raises(ValueError, match="request that breaks off"):
        decode(Outer, [])


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    found = World(2, tmp_path_factory.mktemp("pair"))
    yield found
    found.close()


@pytest.mark.process
@pytest.mark.parametrize("what", ["answers", "requests", "heads"])
def test_forged_messages_name_their_sender(world, cut, what):
    """Two of each per way to cut; `tests/tools/fuzz_parts.py` runs thousands."""
    first = 2 * (cut.name == "hash")
    for seed in range(first, first + 2):
        (_, here), (forged, there) = world.run(forged_answers, cut, seed, what)
        assert forged, (here, there)
        for said in (here, there):
            assert said == "" or "rank " in said, said


def answer_of_rank_1(rank, groups, path, node):
    """Rank 1 says that all its edges lead to `node`; what rank 0 is told."""
    from unittest import mock

    from gttf_sampler.distributed import PeerError
    from gttf_sampler.distributed.query import HopQuery

    real = HopQuery.answer

    def lie(self, part):
        found = real(self, part)
        for reached in found[2::3]:
            reached.fill_(node)
        return found

    try:
        with (
            mock.patch.object(HopQuery, "answer", lie if rank else real),
            PartitionedGraph.open(path, groups[2], timeout=20, direct=False) as graph,
        ):
            if not rank:
                sample_rooted(graph.adjs, {"a": range(20)}, [2, 2], generator=1)
    except PeerError as error:
        return str(error)
    return "no error"


@pytest.mark.parametrize("node", [1 << 30, -1, 20])
def test_an_id_that_no_node_has_is_a_peer_error(world, cut, node):
    here, there = world.run(answer_of_rank_1, cut, node)
    assert "rank 1 has sent a malformed answer about neighbours in hop" in here
    assert f"(got {node} to {node})" in here
    assert "rank 1 has sent a malformed answer" in there
