"""Parts and peers that are not what they say: a sentence, never a crash or a hang."""

import random
import shutil
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import pytest
import torch

from forged import forge, forged_answers, mutate, typed_graph
from gttf_sampler import sample_rooted
from gttf_sampler.distributed import PartitionedGraph, partition
from gttf_sampler.distributed.messages import decode, encode, pack, unpack
from worlds import World


@pytest.fixture(scope="module", params=["range", "hash"])
def cut(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("forged") / request.param
    x = {("a", "x"): torch.rand(20, 3)}
    partition(typed_graph(), path, 2, method=request.param, features=x)
    return path


def test_headers_of_any_content_are_refused_or_open(tmp_path):
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
