"""Every format on disk: damaged and forged files are refused by their names."""

import json
import os
import pathlib
import shutil

import numpy as np
import pytest
import torch

from all_pairs import all_pairs
from forged import forge, header_of, home, typed_graph, write_array
from gttf_sampler import CompactAdj, FeatureFile
from gttf_sampler.distributed import partition
from gttf_sampler.distributed.part import open_part
from test_compact import same, with_everything

REFUSED = r"^'.*kept.*' must"
GRAPHS = (
    "graph",
    "range",
    "hash",
)  # directories with a header; the latter two in parts


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One of every format, sound."""
    path = tmp_path_factory.mktemp("whole")
    with_everything().save(path / "graph")
    FeatureFile.from_array(path / "features", torch.rand(5000, 16))
    graph, x = typed_graph(), {("a", "x"): torch.rand(20, 3)}
    graph["a", "to", "a"] = graph["a", "to", "a"].named([f"né {i}" for i in range(20)])
    for method in ("range", "hash"):
        partition(graph, path / method, 2, method=method, features=x)
    return path


@pytest.fixture
def kept(whole, tmp_path):
    """Returns a copy of one of them, to be damaged."""

    def copy(name):
        path = tmp_path / "kept"
        (shutil.copytree if (whole / name).is_dir() else shutil.copy)(
            whole / name, path
        )
        return path

    return copy


def opened(path, mmap=True):
    """Opens any of the formats, after all checks."""
    if path.is_file():
        return FeatureFile(path).validate()
    return (
        open_part(path, 0) if list(path.glob("cut-*")) else CompactAdj.open(path, mmap)
    )


@pytest.mark.parametrize("name", [*GRAPHS, "features"])
def test_sound_files_open_and_so_do_rewritten_headers(kept, name):
    """The tests below fail for what they change, and for nothing else."""
    path = kept(name)
    for where in ("whole", "part", "relation") if name in GRAPHS[1:] else (name,):
        forge(path, where, lambda content: None)
    assert name != "graph" or same(opened(path), with_everything())
    opened(path)


def as_other(text):
    return json.dumps({**json.loads(text), "format": "other"}).encode()


TEXTS = {
    "missing": None,
    "empty": lambda text: b"",
    "garbage": lambda text: b"\x80\x81\xff",
    "text": lambda text: b"hello",
    "list": lambda text: b"[]",
    "number": lambda text: b"5",
    "null": lambda text: b"null",
    "object": lambda text: b"{}",
    "half": lambda text: text[: len(text) // 2],
    "bare": lambda text: b",".join(text.split(b",")[:2]) + b"}",
    "nested": lambda text: b"[" * 100_000,
    "other": as_other,
}


@all_pairs
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    "place", [("graph", "graph"), ("hash", "whole"), ("hash", "part")]
)
def test_header_that_cannot_be_read(kept, place, text):
    name, where = place
    path = kept(name)
    file = header_of(path, where)
    if TEXTS[text] is None:
        file.unlink()
    else:
        file.write_bytes(TEXTS[text](file.read_bytes()))
    with pytest.raises(ValueError, match=r"^'.*header\.json' must "):
        opened(path)


GONE = "gone"  # in the place of a value: nothing is there
FACTS = ("file", "dtype", "length", "crc32")


def at(path, *values, match=""):
    """Values that nothing at a path of a header may have."""
    steps = [int(step) if step.isdecimal() else step for step in path.split(".")]
    return [(steps, value, match) for value in values]


DTYPES = ("complex64", "nonsense", "O", "V4", "i4,i4", ",i4", "a4", {}, None, ["<i4"])
FILES = ("/etc/hostname", "../outside.bin", "sub/inside.bin", "..", "", 5, None)
ROWPTR = {"file": f"rowptr.{'0' * 12}.bin", "dtype": "<i8", "length": 7, "crc32": 0}
FORGED = {
    ("graph", "graph"): [
        *at("version", 2, "1", match="have format"),
        *at("direction", "up", None, match="describe the arrays"),
        *at("num_cols", -1, None, "6", 6.5, [6], match="describe the arrays"),
        *at("arrays", None, [], {}, match="describe the arrays"),
        *at("arrays", {"rowptr": 5, "col": 5}, match="describe the arrays"),
        *at("arrays.password", {}, match="describe the arrays"),
        *at("arrays.edge_weight", ROWPTR, match="describe the arrays"),
        *at("arrays.col.file", *FILES),
        *at("arrays.col.dtype", *DTYPES, "<u4", "<f4"),  # as long as an int32
        *at("arrays.rowptr.dtype", "<f8"),
        *at("arrays.edge_id.dtype", "<f4"),
        *at("arrays.edge_weight.dtype", "<f16"),
        *at("arrays.col.length", -1, "5", None, 5.5, 4, True, 1 << 70),
        *at("arrays.edge_time.length", 4, match="4 numbers in 'edge_time' for 5 edges"),
        *at("arrays.col.crc32", "0", None, 1),
        *at("arrays.col", GONE),
        *(case for fact in FACTS for case in at(f"arrays.col.{fact}", GONE)),
    ],
    ("range", "relation"): at("num_cols", 10**12, match="have num_cols 20"),
    ("range", "whole"): [
        *at("version", 2, match=r"version 3 .*run 'gttf partition' again"),
        *at("parts", 0, None, match="parts "),
        *at("folder", "/etc", "cut-00000000/../..", match="directory '"),
        *at("checks", [], [1, 2, 3], match="other checksums than of its parts"),
        *at("node_types.0.num_nodes", 10**12, match="nodes in all parts, not 10000"),
        *at("node_types.0.own", [20], match=r"own \[20\]"),
        *at("node_types.0.bounds", [0, 3], [0, 30, 20], [0, 3, 20], match="bounds"),
        *at("node_types.0.bounds", [0, 1 << 40, 20], match="bounds"),
        *at(
            "node_types.0.wanted.file", "/etc/passwd", "../w-0.bin", match="the file '"
        ),
        *at("node_types.0.wanted.dtype", "|O", "<f8", match="the dtype '"),
        *at("node_types.0.wanted.length", -1, match="length -1"),
        *at("node_types.0.names.name_end.length", 3, match="length 3"),
        *at("relations.0.type", ["a", "to", "c"], match="relation"),
        *at("relations.0.max_degree", 0, match="rows of at most 0 edges"),
        *at("relations.0.num_edges", 3, match="have at most 3 edges"),
    ],
    ("hash", "whole"): [
        *(case for fact in FACTS for case in at(f"node_types.0.book.{fact}", GONE)),
        *at("node_types.0.book.length", 3, match="length 3"),
    ],
    ("hash", "part"): [
        *(case for fact in FACTS for case in at(f"files.nodes-0.{fact}", GONE)),
    ],
    ("range", "part"): [
        *at("files.feature-0.file", "/etc/passwd", match="feature-0"),
        *at("files.odd", 1, match="odd 1"),
        *at("files", {}, match="(name all files|hold all nodes)"),
    ],
    ("features", "features"): [
        *at("version", 2, match="have format"),
        *at("format", "other", match="have format"),
        *at("block", 7, match="describe the rows that were written .*blocks of 7"),
        *at("rows", 1.0, -1, 1 << 70, "5000"),
        *at("shape", [-1], [True], [1 << 40], 16),
        *at("dtype", "object"),
        *at("stored", "pickle"),
        *at("crc32", [], ["0"]),
    ],
}
CASES = [(*where, *case) for where, cases in FORGED.items() for case in cases]


@pytest.mark.parametrize(("name", "where", "steps", "value", "match"), CASES, ids=str)
def test_forged_fact(kept, name, where, steps, value, match):
    path = kept(name)
    if name == "graph":  # there, and yet not to be read
        outside = [path.parent / "outside.bin", path / "sub" / "inside.bin"]
        for file in outside:
            file.parent.mkdir(exist_ok=True)
            shutil.copy(next(path.glob("col.*.bin")), file)

    def change(content):
        *outer, key = steps
        for step in outer:
            content = content[step]
        if value is GONE:
            del content[key]
        else:
            content[key] = value

    forge(path, where, change)
    with pytest.raises(ValueError, match=rf"{REFUSED}.*{match}"):
        opened(path)


def truncated(file):
    os.truncate(file, file.stat().st_size - 1)


def lengthened(file):
    file.write_bytes(file.read_bytes() + b"x")


def flipped(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)


def emptied(file):
    file.write_bytes(b"")


DAMAGES = {
    truncated: r"must have \d+ bytes \(got \d+ bytes\)",
    lengthened: r"must have \d+ bytes \(got \d+ bytes\)",
    emptied: r"must have \d+ bytes \(got 0 bytes\)",
    flipped: r"must match the checksum in the header \(got other content\)",
    pathlib.Path.unlink: r"must be there, .* \(got no such file\)",
}
ARRAYS = [
    *(("graph", f"{name}.*") for name in ("rowptr", "col", "edge_id")),
    *(("graph", f"edge_{name}.*") for name in ("weight", "time")),
    *(("hash", f"cut-*/{name}-0.bin") for name in ("book", "wanted", "name_text")),
    *(("hash", f"cut-*/part-0/{name}-0.bin") for name in ("nodes", "first", "edge_id")),
    ("range", "cut-*/part-0/relation-0/col.*"),
]


@all_pairs
@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_array(kept, array, damage, mmap):
    name, pattern = array
    path = kept(name)
    (file,) = path.glob(pattern)
    damage(file)
    with pytest.raises(ValueError, match=f"^'.*{file.name}' {DAMAGES[damage]}"):
        opened(path, mmap)


@pytest.mark.parametrize("key", ["nodes-0", "first-0", "edge_id-0"])
@pytest.mark.parametrize("shorter", [True, False])
def test_forged_array(kept, key, shorter):
    """With the right checksum: numbers that are no ids, and too few of them."""
    path = kept("hash")

    def change(header):
        entry = header["files"][key]
        where = home(path) / "part-0"
        values = np.fromfile(where / entry["file"], entry["dtype"])
        odd = np.array([1 << 40, -5])
        values[:2] = values[:2] if shorter else odd.astype(values.dtype)
        write_array(where, entry, values[:-1] if shorter else values)

    forge(path, "part", change)
    with pytest.raises(ValueError, match=key):
        opened(path)


@pytest.mark.parametrize("keep", [0, 10, 4096, 5000, 4096 + 320_000, -1, -200])
def test_truncated_features(kept, keep):
    path = kept("features")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match="write it again"):
        FeatureFile(path)


def test_features_with_a_flipped_bit(kept):
    """Any byte but those of rows is noticed at once; `validate` notices those."""
    path = kept("features")
    whole = path.read_bytes()
    facts = len(whole) - 4096 - 320_000
    for place in [*range(0, 128, 9), 4000, *range(-facts, 0, 7)]:
        broken = bytearray(whole)
        broken[place] ^= 4
        path.write_bytes(broken)
        if place in (-12, -11, -10, -9):  # padding
            continue
        with pytest.raises(ValueError, match="write it again"):
            FeatureFile(path)
    broken = bytearray(whole)
    broken[4096 + 77] ^= 4
    path.write_bytes(broken)
    with pytest.raises(ValueError, match="checksum of its rows"):
        FeatureFile(path).validate()
