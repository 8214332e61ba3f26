"""Forged parts and messages: their checksums are sound, their content is odd."""

import json
import random
import zlib
from contextlib import ExitStack
from functools import partial
from unittest import mock

import torch

from gttf_sampler import CompactAdj, sample_rooted, traverse
from gttf_sampler._arrays import checksum
from gttf_sampler.distributed import PartitionedGraph, PeerError
from gttf_sampler.distributed import exchange as links
from gttf_sampler.distributed.messages import unpack
from gttf_sampler.features import write as layout

ODD = (-1, 0, 1, 2, 5, 1 << 30, 10**12, (1 << 63) - 1, -(1 << 63))
VALUES = (
    *ODD,
    *(None, True, 0.5, "", "x", [], {}, [0], [3, 1], "../../etc/passwd"),
    *("/etc/passwd", "<f8", "|O", "<u2", "|b1", "in", "part-0", "cut-00000000"),
)


def home(path):
    """The directory of what was cut."""
    (found,) = path.glob("cut-*")
    return found


def sealed(file, header):
    """Writes a header with the checksum that it must have; returns that."""
    header["crc32"] = checksum(header)
    file.write_text(json.dumps(header))
    return header["crc32"]


def typed_graph():
    """Two relations of two types, with weights."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(0, 20, (2, 120), generator=generator)
    to = CompactAdj.from_edge_index(ends, 20, edge_weight=torch.rand(120))
    by = CompactAdj.from_edge_index(ends[:, :50] % 12, (12, 20))
    return {("a", "to", "a"): to, ("b", "by", "a"): by}


def header_of(path, where):
    """The file with the header of a directory, of a part in it, or of its rows."""
    inner = {"part": "part-0", "relation": "part-0/relation-0"}
    return (home(path) / inner[where] if where in inner else path) / "header.json"


def forge(path, where, change):
    """Changes a header, and every checksum that depends on it.

    `where` is "graph", "features", or "whole", "part" or "relation" of part 0;
    `change` gets the content.
    """
    if where == "features":
        content = path.read_bytes()
        begin, _, magic = layout.TAIL.unpack(content[-layout.TAIL.size :])
        facts = json.loads(content[begin : -layout.TAIL.size])
        change(facts)
        text = json.dumps(facts).encode()
        tail = layout.TAIL.pack(begin, zlib.crc32(text), magic)
        path.write_bytes(content[:begin] + text + tail)
        return
    outer = {"relation": "part", "part": "whole"}
    while where:
        file = header_of(path, where)
        content = json.loads(file.read_text())
        change(content)
        crc = sealed(file, content)
        change = partial(_set_checksum, where, crc)
        where = outer.get(where)


def _set_checksum(inner, crc, content):
    """Sets the checksum that a header has of the one inside of it."""
    if inner == "relation":
        content["files"]["relation-0"] = crc
    else:
        content["checks"][0] = crc


def write_array(folder, entry, array):
    """Writes other numbers into a file, with their length and checksum."""
    content = array.tobytes()
    (folder / entry["file"]).write_bytes(content)
    entry.update(length=array.size, crc32=zlib.crc32(content))


def places(content, found=(), *path):
    """The paths of everything inside a header."""
    inner = content.items() if isinstance(content, dict) else enumerate(content)
    found = []
    for key, value in inner:
        found.append((*path, key))
        if isinstance(value, dict | list):
            found += places(value, (), *path, key)
    return found


def mutate(content, choice):
    """Replaces, drops or repeats anything inside a header; returns what was done."""
    path = choice.choice(places(content))
    *outer, key = path
    for step in outer:
        content = content[step]
    what = choice.random()
    if what < 0.1:
        del content[key]
        return f"no {path}"
    if what < 0.2 and isinstance(content, list):
        content.append(content[key])
        return f"{path} twice"
    if what < 0.4 and type(content[key]) is int:
        content[key] += choice.choice((-1, 1, 64))
    else:
        content[key] = choice.choice(VALUES)
    return f"{path} = {content[key]!r}"


def mutate_arrays(arrays, choice):
    """Other arrays than a process would send: ids, lengths, dtypes, how many."""
    arrays = [array.clone() for array in arrays]
    number = choice.randrange(len(arrays)) if arrays else 0
    what = choice.randrange(6)
    if what == 0 or not arrays:
        return [*arrays, torch.tensor([choice.choice(ODD)])]
    array = arrays[number]
    if what == 1:
        del arrays[number]
    elif what == 2:
        arrays[number] = array[: choice.randrange(max(array.numel(), 1))]
    elif what == 3:
        arrays[number] = torch.cat([array, array[:1]])
    elif what == 4:
        kinds = (torch.int64, torch.int32, torch.float32, torch.bool, torch.uint8)
        arrays[number] = array.to(choice.choice(kinds))
    elif array.numel():
        if array.dtype != torch.bool:
            array = array.to(torch.int64)
        array[choice.randrange(array.numel())] = choice.choice(ODD)
        arrays[number] = array
    return arrays


def mutate_bytes(message, choice):
    """A message with other bytes: its head, cut off, or any of them."""
    message = message.clone()
    what = choice.randrange(3)
    if what == 0 and message.numel() >= 8:
        words = message[: message.numel() // 8 * 8].view(torch.int64)
        words[choice.randrange(min(words.numel(), 9))] = choice.choice(ODD)
        return message
    if what == 1:
        return message[: choice.randrange(max(message.numel(), 1))]
    if message.numel():
        message[choice.randrange(message.numel())] = choice.randrange(256)
    return message


def forged_answers(rank, groups, path, seed, what):
    """Rank 1 answers, asks or speaks wrongly once; whether it did, and the error."""
    choice, forged = random.Random(seed), []
    real_pack, real_send, real_answer = links.pack, links.Link._send, links.Link._answer
    call = choice.choice((rooted, walks, between, rows))

    def wrong(message):
        forged.append(True)
        if choice.random() < 0.3:
            return mutate_bytes(message, choice)
        return real_pack(mutate_arrays(unpack(message), choice))

    def pack(arrays):
        message = real_pack(arrays)
        ours = what == "requests" and not forged and arrays
        return wrong(message) if ours else message

    def answer(self, service, body):
        size, message = real_answer(self, service, body)
        if what != "answers" or forged or size <= 0 or service == 0:
            return size, message
        message = wrong(message)
        return message.numel(), message

    def send(self, head, body, tag, own):
        if what == "heads" and not forged and head[0] not in (links.DONE, links.BYE):
            forged.append(True)
            head = head.clone()
            head[choice.randrange(head.numel())] = choice.choice(ODD)
        return real_send(self, head, body, tag, own)

    said = ""
    with ExitStack() as stack:
        if rank == 1:
            stack.enter_context(mock.patch.object(links, "pack", pack))
            stack.enter_context(mock.patch.object(links.Link, "_answer", answer))
            stack.enter_context(mock.patch.object(links.Link, "_send", send))
        try:
            how = {"timeout": 5, "direct": False}
            with PartitionedGraph.open(path, groups[2], **how) as graph:
                if (rank == 0) == (what == "answers"):
                    call(graph)
        except PeerError as error:
            said = str(error)
    return bool(forged), said


def rooted(graph):
    return sample_rooted(graph.adjs, {"a": [0, 5, 9]}, [2, 3], generator=1)


def walks(graph):
    adj = graph.adjs["a", "to", "a"]
    return traverse(adj, [0, 5, 9], [2, 1], generator=1)


def between(graph):
    ids = torch.arange(20)
    return graph.adjs["a", "to", "a"].edges_between(ids, ids.flip(0))


def rows(graph):
    return graph.features["a", "x"][torch.arange(20)]
