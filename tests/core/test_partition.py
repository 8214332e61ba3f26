"""A partitioned graph on disk: every row is somewhere, with its own edges."""

import errno
import json
import os
import shutil
import signal
import threading
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from apart import start_script
from gttf_sampler import CompactAdj, FeatureFile, _arrays, sample_rooted
from gttf_sampler.bench.graphs import read_job
from gttf_sampler.cli.main import main
from gttf_sampler.distributed import PartitionedGraph, partition, write
from gttf_sampler.distributed.book import PartitionBook, RowIndex, RowLocator
from gttf_sampler.distributed.part import WHOLE, open_part
from gttf_sampler.distributed.write import source_of, wanted_nodes
from gttf_sampler.features.read import largest
from gttf_sampler.graph import write_graph
from gttf_sampler.graph.exchange import unpacked
from strategies import graphs

X = np.zeros(300)


def a_graph(nodes=300, edges=2000, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(0, nodes, (2, edges), generator=generator)
    weight = torch.rand(edges, generator=generator)
    return CompactAdj.from_edge_index(ends, nodes, edge_weight=weight)


def home(path):
    """The directory of what was cut."""
    (found,) = path.glob("cut-*")
    return found


def check_part(adj, path, number, values=None):
    """Every row of a part is the row of the whole graph, and is found by its id."""
    part = open_part(path, number)
    (here,) = part.relations.values()
    nodes = here.rows.nodes
    found, position = here.rows.locate(torch.arange(adj.num_rows))
    assert found.nonzero().view(-1).equal(nodes)
    assert position[found].equal(torch.arange(nodes.numel()))
    start, degree = adj.row_range(nodes)
    assert here.adj.degree.equal(degree)
    edges = torch.arange(here.adj.num_edges)
    shift = (start - here.adj.rowptr[:-1]).repeat_interleave(degree)
    whole = here.whole_positions(torch.arange(nodes.numel()), degree, edges)
    assert whole.equal(edges + shift)
    assert here.local_positions(whole).equal(edges)
    assert here.adj.col.equal(adj.col[whole])
    if adj.edge_weight is not None:
        assert here.adj.edge_weight.equal(adj.edge_weight[whole])
    if adj.edge_id is not None:
        assert here.edge_id.equal(adj.edge_id[whole])
    (book,) = part.books.values()
    own = book.nodes_of(number)
    assert (book.part_of(own) == number).all()
    assert found[own].all()
    if values is not None:
        assert part.features["", "x"][:].equal(values[own])
    return own


@settings(max_examples=25, deadline=None)
@given(graph=graphs(timed=False), parts=st.integers(1, 4), data=st.data())
def test_partition_keeps_every_row(tmp_path_factory, graph, parts, data):
    adj, path = graph.adj(), tmp_path_factory.mktemp("cut")
    size = adj.num_rows
    one = st.integers(0, parts - 1)
    given_parts = st.lists(one, min_size=size, max_size=size).map(
        lambda numbers: np.array(numbers, np.int64)
    )
    method = data.draw(st.sampled_from(["range", "hash"]) | given_parts)
    values = torch.rand(size, 3)
    share = data.draw(st.sampled_from([0.0, 0.3, 1.0]))
    how = {"method": method, "features": {"x": values}, "replicate": share}
    facts = partition(adj, path, parts, **how)
    own = [check_part(adj, path, number, values) for number in range(parts)]
    assert torch.cat(own).sort().values.equal(torch.arange(size))
    assert sum(facts["edges"]) == adj.num_edges
    assert facts["nodes"] == [nodes.numel() for nodes in own]


def test_partition_of_types(tmp_path):
    wrote = CompactAdj.from_edge_index([[0, 1, 2, 2], [0, 1, 1, 3]], (3, 4))
    cites = CompactAdj.from_edge_index([[0, 3], [1, 2]], 4)
    adjs = {("author", "wrote", "paper"): wrote, ("paper", "cites", "paper"): cites}
    x = np.arange(3, dtype=np.float16)
    facts = partition(adjs, tmp_path, 2, features={("author", "age"): x})
    assert facts["features"] == ["author.age"]
    parts = [open_part(tmp_path, number) for number in range(2)]
    ages = torch.cat([part.features["author", "age"][:] for part in parts])
    assert ages.tolist() == [0.0, 1.0, 2.0]
    assert ages.dtype == torch.float16
    rows = [part.relations["author", "wrote", "paper"].adj for part in parts]
    assert sum(adj.num_rows for adj in rows) == 4
    assert torch.cat([adj.col for adj in rows]).equal(wrote.col)


def test_ranges_balance_rows_and_edges(tmp_path):
    heavy = torch.zeros(900, dtype=torch.int64)
    ends = torch.stack([torch.arange(900), heavy])  # all edges lead to node 0
    facts = partition(CompactAdj.from_edge_index(ends, 1000), tmp_path, 2)
    assert facts["nodes"] == [50, 950]
    assert facts["balance"] == 2.0
    assert facts["cut"] == pytest.approx(1 - facts["nodes"][0] / 900, abs=1e-6)


def test_metis_cuts_fewer_edges_than_hashes(tmp_path):
    pytest.importorskip("pymetis", reason="the extra 'metis' is not installed")
    ring = torch.arange(200)
    ends = torch.stack([ring, ring.roll(1)])
    shuffled = torch.randperm(200, generator=torch.Generator().manual_seed(0))
    adj = CompactAdj.from_edge_index(shuffled[ends], 200)
    metis = partition(adj, tmp_path / "metis", 4, method="metis")
    hashed = partition(adj, tmp_path / "hash", 4, method="hash")
    assert metis["cut"] < 0.1 < 0.5 < hashed["cut"]
    assert metis["balance"] < 1.2
    few = partition(
        CompactAdj.from_edge_index([[0], [1]], 3), tmp_path / "few", 5, method="metis"
    )
    assert few["nodes"] == [1, 1, 1, 0, 0]  # not by METIS, which floods the terminal
    for number in range(4):
        check_part(adj, tmp_path / "metis", number)


def test_replicated_rows_are_those_that_most_edges_lead_to(tmp_path):
    ends = torch.tensor([[7] * 5 + [3] * 4 + [1, 2], [0, 1, 2, 3, 4, 0, 1, 2, 5, 6, 8]])
    adj = CompactAdj.from_edge_index(ends, 10)
    facts = partition(adj, tmp_path, 5, replicate=0.2)
    assert facts["replicated"] == 2
    for number in range(5):
        check_part(adj, tmp_path, number)
        (here,) = open_part(tmp_path, number).relations.values()
        assert here.rows.locate(torch.tensor([7, 3]))[0].all()


def test_partition_goes_on_where_it_was_interrupted(tmp_path, monkeypatch):
    adj, begun = a_graph(), []
    real = write._Rows.write

    def counted(self, *args):
        begun.append(self.part)
        if len(begun) == 3:
            raise KeyboardInterrupt
        return real(self, *args)

    monkeypatch.setattr(write._Rows, "write", counted)
    with pytest.raises(KeyboardInterrupt):
        partition(adj, tmp_path, 4)
    with pytest.raises(ValueError, match="must be the header of a partitioned graph"):
        open_part(tmp_path, 0)
    partition(adj, tmp_path, 4)
    assert begun == [0, 1, 2, 2, 3]
    for number in range(4):
        check_part(adj, tmp_path, number)
    partition(adj, tmp_path, 4)  # all is there
    assert len(begun) == 5
    other = a_graph(seed=1)
    with pytest.raises(ValueError, match="must not hold another partitioned graph"):
        partition(other, tmp_path, 4)
    partition(other, tmp_path, 4, overwrite=True)
    check_part(other, tmp_path, 3)


def test_parts_are_of_one_graph(tmp_path):
    path = tmp_path / "a"
    partition(a_graph(), path, 2, method="hash")
    flipped = home(path) / "part-1" / "nodes-0.bin"
    flipped.write_bytes(b"?" + flipped.read_bytes()[1:])
    open_part(path, 0)  # as it was
    with pytest.raises(ValueError, match="must match the checksum"):
        open_part(path, 1)
    with pytest.raises(ValueError, match="must be one of the 2 parts"):
        open_part(path, 2)
    shutil.rmtree(home(path) / "part-1")
    with pytest.raises(ValueError, match="must be the header of a part"):
        open_part(path, 1)
    shutil.copytree(home(path) / "part-0", home(path) / "part-1")
    with pytest.raises(ValueError, match="must be part 1 of the graph"):
        open_part(path, 1)


@pytest.mark.parametrize("method", ["range", "hash"])
@pytest.mark.parametrize("stored", [None, "float16", "int8"])
def test_features_of_parts_are_feature_files(tmp_path, method, stored):
    """Of a file that was stored in fewer bytes, too, and with a cache in front."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 7, generator=generator).half().float()
    y = torch.arange(300)
    given = FeatureFile.from_array(tmp_path / "x.npy", x, stored="float16")
    how = {"method": method, "features": {"x": given, "y": y}, "stored": stored}
    partition(a_graph(), tmp_path / "cut", 2, **how)
    step = x.abs().amax(1, keepdim=True) / 254 if stored == "int8" else 0 * x
    for number in range(2):
        part = open_part(tmp_path / "cut", number)
        own = part.books[""].nodes_of(number)
        rows = part.features["", "x"]
        assert rows.stored == (stored or "float16")  # as it was
        assert rows.dtype == torch.float32
        assert ((rows[:] - x[own]).abs() <= step[own] * 1.001).all()
        assert part.features["", "y"][:].equal(y[own])
        found = np.load(home(tmp_path / "cut") / f"part-{number}" / "feature-1.npy")
        assert found.tolist() == own.tolist()
    partition(a_graph(), tmp_path / "one", 1, features={"x": given}, stored=stored)
    with PartitionedGraph.open(tmp_path / "one") as graph:
        rows = graph.features["", "x"]
        plain = rows[torch.arange(300)].clone()
        rows.own.cache(4 * 300 + 20 * 40, torch.arange(0, 300, 9))
        assert rows[torch.arange(300)].equal(plain)
        assert 0 < rows.own.hit_rate < 1


def test_features_on_a_full_disk_leave_no_part(tmp_path, monkeypatch):
    """And those of a part that was finished stay; the next call goes on from there."""
    real, written = write.write, []

    def full(file, chunks, stored):
        written.append(file)
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        return real(file, chunks, stored)

    monkeypatch.setattr(write, "write", full)
    x = torch.rand(300, 4)
    with pytest.raises(OSError, match="No space left"):
        partition(a_graph(), tmp_path, 2, features={"x": x})
    where = home(tmp_path) / "part-1"
    assert not where.exists()
    where.mkdir()
    (where / ".gttf-of-a-killed-one").touch()
    partition(a_graph(), tmp_path, 2, features={"x": x})
    assert [file.parent.name for file in written] == ["part-0", "part-1", "part-1"]
    assert not list(where.glob(".gttf-*"))
    for number in range(2):
        check_part(a_graph(), tmp_path, number, x)


def test_replaced_features_are_told(tmp_path):
    partition(a_graph(), tmp_path, 2, features={"x": torch.rand(300, 4)})
    file = home(tmp_path) / "part-0" / "feature-0.npy"
    part = open_part(tmp_path, 0)
    rows = part.features["", "x"]
    FeatureFile.from_array(file, torch.zeros(len(rows), 4), overwrite=True)
    with pytest.raises(ValueError, match="must not change while it is open"):
        rows.read([0])
    with pytest.raises(ValueError, match="must hold the rows that this part was"):
        open_part(tmp_path, 0, verify=False)


def test_directory_of_another_version(tmp_path, monkeypatch):
    """One clear sentence, and a call that cuts anew."""
    with monkeypatch.context() as old:
        old.setitem(partition.__globals__, "WHOLE", WHOLE._replace(version=1))
        partition(a_graph(), tmp_path, 2)
        (tmp_path / "part-0").mkdir()
        (tmp_path / "part-0" / "feature-0.bin").touch()
    with pytest.raises(ValueError, match=r"version 3 .*run 'gttf partition' again"):
        open_part(tmp_path, 0)
    with pytest.raises(ValueError, match=r"must not hold another.*overwrite=True"):
        partition(a_graph(), tmp_path, 2)
    partition(a_graph(), tmp_path, 2, overwrite=True)
    assert not (tmp_path / "part-0").exists()
    check_part(a_graph(), tmp_path, 1)


def test_validate(tmp_path):
    adj = a_graph()
    for bad, match in (
        ({"parts": 0}, "'parts' must be"),
        ({"parts": 1 << 17}, "'parts' must not exceed"),
        ({"parts": 2, "replicate": 1.5}, "'replicate' must be a share"),
        ({"parts": 2, "method": "odd"}, "'method' must be one of"),
        ({"parts": 2, "method": np.zeros(3, np.int64)}, "one part per node"),
        ({"parts": 2, "method": np.full(300, 2)}, r"part numbers in \[0, 2\)"),
        ({"parts": 2, "features": {"x": np.zeros(3)}}, "one row per node, 300"),
        ({"parts": 2, "features": {"x": X, ("", "x"): X}}, "every feature once"),
        ({"parts": 2, "features": {"x": X.astype(str)}}, r"\[x\]' must hold numbers"),
        ({"parts": 2, "features": {"x": [[1], [1, 2]]}}, "must be an array of numbers"),
        ({"parts": 2, "stored": "float8"}, "'stored' must be one of"),
        ({"parts": 2, "features": {"x": X.astype("g")}}, "a dtype that torch knows"),
        ({"parts": 2, "features": {("x",): X}}, "named by .node type, name"),
        ({"parts": 2, "features": {("a", "x"): np.zeros(300)}}, "node types of 'adj'"),
    ):
        with pytest.raises((ValueError, TypeError), match=match):
            partition(adj, tmp_path / "out", **bad)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(ValueError, match="must be an empty directory"):
        partition(adj, tmp_path / "mine", 2)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.data())
def test_largest_is_what_a_stable_sort_finds(numbers, data):
    counts = torch.tensor(numbers)
    most = data.draw(st.integers(1, len(numbers)))
    order = counts.argsort(descending=True, stable=True)
    assert largest(counts, most).equal(order[:most])


def test_near_rows_are_those_of_one_moment(tmp_path):
    """Located rows stay readable, whatever is cached meanwhile."""
    book = PartitionBook.of_owners(np.array([0, 1]), 2)
    file = FeatureFile.from_array(tmp_path / "x.npy", torch.zeros(1, 2))
    near = RowLocator(book, {0: file}, lambda part: RowIndex(book.nodes_of(part), 2))
    near.keep(torch.tensor([1]), torch.ones(1, 2))
    nodes = torch.tensor([1, 0])
    found = near.find(nodes)
    near.keep(book.nodes_of(0), None)
    assert found[-1].source[found[-1].row].tolist() == [[1, 1]]
    assert (found[-1].to.tolist(), found[0].to.tolist()) == ([0], [1])
    later = near.find(nodes)
    assert later[1].source is None
    assert (later[1].row.tolist(), later[1].to.tolist()) == ([1], [0])


def test_rows_of_ids_with_steps(tmp_path):
    x = torch.arange(600.0).view(300, 2)
    partition(a_graph(), tmp_path, 1, features={"x": x}, method="range")
    with PartitionedGraph.open(tmp_path) as graph:
        ids = torch.arange(300)[::7]
        assert torch.equal(graph.features["", "x"].rows(ids), x[ids])


def test_row_set_counts_bits():
    generator = torch.Generator().manual_seed(0)
    for size in (1, 64, 65, 1000):
        nodes = torch.randperm(size, generator=generator)[: size // 2].sort().values
        rows, ids = RowIndex(nodes, size), torch.arange(size)
        found, position = rows.locate(ids)
        assert ids[found].equal(nodes)
        assert position[found].equal(torch.arange(nodes.numel()))
        assert rows.nodes.equal(nodes)


def test_book_of_many_parts():
    owner = np.arange(1000) % 300
    book = PartitionBook.of_owners(owner, 300)
    assert book.owner.dtype == np.uint16
    assert book.part_of(torch.arange(1000)).equal(torch.from_numpy(owner))
    assert PartitionBook.of_owners(owner % 200, 200).owner.dtype == np.uint8


def test_command(tmp_path, capsys):
    a_graph().save(tmp_path / "graph")
    np.save(tmp_path / "x.npy", np.ones((300, 2), np.float32))
    np.save(tmp_path / "parts.npy", np.arange(300) % 2)
    words = [
        "partition",
        str(tmp_path / "graph"),
        str(tmp_path / "out"),
        "--parts",
        "2",
    ]
    more = ["--features", f"x={tmp_path / 'x.npy'}", "--replicate", "0.01"]
    more += ["--stored", "float16"]
    assert main([*words, *more, "--method", str(tmp_path / "parts.npy")]) == 0
    told = capsys.readouterr().out
    assert "150 + 150" in told
    assert "lead to another part" in told
    assert main(["info", str(tmp_path / "out"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["parts"], facts["replicated"], facts["features"]) == (2, 3, ["x"])
    assert main([*words, "--method", "odd"]) == 2
    assert "'--method' must be one of" in capsys.readouterr().err
    assert main([*words, "--features", "x"]) == 2
    assert "'--features' must read NAME=FILE" in capsys.readouterr().err


def test_command_cuts_a_typed_graph_that_was_saved_whole(tmp_path, capsys):
    adj = CompactAdj.from_edge_index([[0, 1, 2], [3, 1, 0]], (3, 4))
    typed = {("user", "rates", "item"): adj}
    partition(typed, tmp_path / "one", 1, features={("item", "price"): np.arange(4.0)})
    words = ["partition", str(tmp_path / "one"), str(tmp_path / "two"), "--parts", "2"]
    assert main(words) == 0
    assert "item.price" in capsys.readouterr().out
    parts = [open_part(tmp_path / "two", number) for number in range(2)]
    prices = torch.cat([part.features["item", "price"][:] for part in parts])
    assert prices.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_command_keeps_the_third_column_of_an_edge_list_if_asked(tmp_path, capsys):
    (tmp_path / "edges.txt").write_text("0 1 0.5\n1 2 2\n2 0 1.5\n")
    (tmp_path / "plain.txt").write_text("0 1\n1 2\n")
    words = ["partition", str(tmp_path / "edges.txt"), "--parts", "1"]
    assert main([*words, str(tmp_path / "a")]) == 0
    assert main([*words, str(tmp_path / "b"), "--weight-attr", "w"]) == 0
    found = []
    for name in ("a", "b"):
        (rows,) = open_part(tmp_path / name, 0).relations.values()
        found.append(rows.adj.edge_weight)
    assert found[0] is None
    assert found[1].tolist() == [1.5, 0.5, 2.0]
    words[1] = str(tmp_path / "plain.txt")
    assert main([*words, str(tmp_path / "c"), "--weight-attr", "w"]) == 2
    assert "no third column of numbers" in capsys.readouterr().err


@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_command_takes_the_columns_that_are_asked_for(tmp_path, capsys, end):
    if end == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    file = tmp_path / f"edges.{end}"
    adj = CompactAdj.from_edge_index(
        [[0, 1, 2], [1, 2, 0]], edge_weight=[0.5, 2.0, 1.5], edge_time=[7, 8, 9]
    )
    write_graph(file, adj)
    words = ["partition", str(file), "--parts", "1"]
    weight, time = ["--weight-attr", "w"], ["--time-attr", "t"]
    for number, asked in enumerate(([], weight, time, [*weight, *time])):
        out = tmp_path / str(number)
        assert main([*words, str(out), *asked]) == 0
        (rows,) = open_part(out, 0).relations.values()
        found = rows.adj.edge_weight, rows.adj.edge_time
        expected = [1.5, 0.5, 2.0], [9, 7, 8]
        for values, wanted, name in zip(found, expected, (weight, time), strict=True):
            assert (None if values is None else values.tolist()) == (
                wanted if set(name) <= set(asked) else None
            )
    (tmp_path / "plain.txt").write_text("0 1 2\n1 2 3\n")
    words[1] = str(tmp_path / "plain.txt")
    assert main([*words, str(tmp_path / "c"), *weight, *time]) == 2
    assert "'--time-attr' must be left out where" in capsys.readouterr().err


def test_commands_need_no_weights_to_be_above_zero(tmp_path, capsys):
    file = tmp_path / "edges.txt"
    file.write_text("0 1 -5\n1 2 3\n")
    assert main(["info", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["edges"] == 2
    words = ["partition", str(file), str(tmp_path / "out"), "--parts", "1"]
    assert main(words) == 0
    told = []
    place = str(tmp_path / "graph")
    facts = read_job(str(file), place, lambda *what: told.append(what))
    assert (facts["nodes"], facts["edges"]) == (3, 2)
    assert main([*words, "--force", "--weight-attr", "w"]) == 2
    assert "weight" in capsys.readouterr().err


def test_partition_is_not_written_over_what_it_is_cut_from(tmp_path):
    x = torch.rand(300, 4)
    partition(a_graph(), tmp_path / "cut", 1, features={"x": x})
    own = open_part(tmp_path / "cut", 0).features["", "x"]
    how = {"features": {"x": own}, "overwrite": True}
    with pytest.raises(ValueError, match="must not hold what is being cut"):
        partition(a_graph(), tmp_path / "cut", 2, **how)
    assert open_part(tmp_path / "cut", 0).features["", "x"][:].equal(x)


def test_replicates_as_many_nodes_as_are_asked_for():
    """Also if those are more than a cache has use for."""
    adj = CompactAdj.from_edge_index(torch.randint(0, 3000, (2, 9000)), 3000)
    wanted = wanted_nodes(source_of(adj, {}), "", 0.5, lambda what, done: None)
    assert len(wanted) == 1500


WORDS = np.array([f"né {i}" for i in range(300)])


@pytest.mark.parametrize("names", [WORDS, np.arange(300) * 7 - 5])
def test_parts_keep_what_nodes_are_called(tmp_path, names):
    adj = a_graph().named(names)
    partition(adj, tmp_path / "one", 1)
    with PartitionedGraph.open(tmp_path / "one") as graph:
        assert graph.adj.node_id.tolist() == names.tolist()
        assert graph.node_id() is graph.adj.node_id  # read once
    words = ["partition", str(tmp_path / "one"), str(tmp_path / "two"), "--parts", "2"]
    assert main(words) == 0  # and cut again, they are still there
    for number in range(2):
        told = open_part(tmp_path / "two", number).names[""]
        assert unpacked(dict(told)).tolist() == names.tolist()


def test_names_of_nodes_are_part_of_what_is_cut(tmp_path):
    partition(a_graph(), tmp_path, 1)
    with PartitionedGraph.open(tmp_path) as graph:
        assert graph.adj.node_id is None
    with pytest.raises(ValueError, match="must not hold another partitioned graph"):
        partition(a_graph().named(WORDS), tmp_path, 1)
    partition(a_graph().named(WORDS), tmp_path, 1, overwrite=True)
    file = home(tmp_path) / "name_text-0.bin"
    file.write_bytes(b"?" + file.read_bytes()[1:])
    with pytest.raises(ValueError, match="name_text-0"):
        PartitionedGraph.open(tmp_path)
    file.unlink()
    with pytest.raises(ValueError, match="must be there, the header names it"):
        PartitionedGraph.open(tmp_path)


def test_relations_agree_on_what_nodes_are_called(tmp_path):
    adj = a_graph().named(WORDS)
    typed = {("a", "to", "a"): adj, ("a", "by", "a"): a_graph(seed=1)}
    partition(typed, tmp_path / "cut", 1)
    with PartitionedGraph.open(tmp_path / "cut") as graph:
        assert graph.node_id("a").tolist() == WORDS.tolist()
        with pytest.raises(ValueError, match="'kind'"):
            graph.node_id("b")
    typed["a", "by", "a"] = adj.named(WORDS[::-1])
    with pytest.raises(ValueError, match="must be the same in all relations"):
        partition(typed, tmp_path / "other", 1)
    assert not (tmp_path / "other").exists()


def test_names_are_of_their_type(tmp_path):
    """The same names of another type are another graph."""
    plain, named = a_graph(), a_graph().named(WORDS)
    for there, here in ((named, plain), (plain, named)):
        typed = {("a", "to", "a"): there, ("b", "to", "b"): here}
        partition(typed, tmp_path, 1, overwrite=True)
        with PartitionedGraph.open(tmp_path) as graph:
            assert (graph.node_id("a") is None) == (there is plain)
            assert (graph.node_id("b") is None) == (here is plain)
    words = ["partition", str(tmp_path), str(tmp_path / "part-0" / "again")]
    assert main([*words, "--parts", "2"]) == 0
    told = open_part(tmp_path / "part-0" / "again", 1).names
    assert unpacked(dict(told["b"])).tolist() == WORDS.tolist()
    assert told["a"] == {}


def test_names_that_cannot_be_kept_are_refused(tmp_path):
    few = replace(a_graph(), node_id=WORDS[:2])
    with pytest.raises(ValueError, match=r"'node_id' must have one entry per node"):
        partition(few, tmp_path / "cut", 1)
    pairs = np.empty(300, object)
    pairs[:] = [(i, i) for i in range(300)]
    odd = a_graph().named(pairs)
    with pytest.raises(TypeError, match=r"must be integers or words.*adj.named\(None"):
        partition(odd, tmp_path / "cut", 1)
    half = a_graph().named(np.array(["\ud800", *WORDS[1:]]))
    with pytest.raises(ValueError, match="must be integers or words to be saved"):
        partition(half, tmp_path / "cut", 1)
    assert not (tmp_path / "cut").exists()
    none = CompactAdj.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 0)
    partition(none.named(np.array([], "U1")), tmp_path / "none", 1)
    with PartitionedGraph.open(tmp_path / "none") as graph:
        assert graph.node_id().tolist() == []


def test_nothing_of_another_graph_stays(tmp_path):
    numbers = a_graph().named(np.arange(300) + 5)
    partition(numbers, tmp_path, 2, method="hash")
    told = unpacked(dict(open_part(tmp_path, 0).names[""]))  # a map of its file
    partition(a_graph(seed=1).named(told), tmp_path, 1, overwrite=True)
    assert told[0] == 5  # it can still be read
    partition(a_graph(), tmp_path, 1, overwrite=True)
    names = sorted(file.name for file in home(tmp_path).glob("*.bin"))
    assert names == ["wanted-0.bin"]
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == [home(tmp_path).name, "header.json"]
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "node_id.npy").touch()
    with pytest.raises(ValueError, match="must be an empty directory"):
        partition(a_graph(), tmp_path / "own", 1)


@pytest.mark.parametrize("stored", [None, "int8", "bfloat16"])
def test_bfloat16_features_are_cut(tmp_path, stored):
    x = torch.rand(300, 4).to(torch.bfloat16)
    partition(a_graph(), tmp_path, 2, features={"x": x}, stored=stored)
    for number in range(2):
        part = open_part(tmp_path, number)
        rows = part.features["", "x"][:]
        right = x[part.books[""].nodes_of(number)]
        assert rows.dtype == torch.bfloat16
        assert (rows - right).abs().max() <= (2**-6 if stored == "int8" else 0)
    with pytest.raises(ValueError, match="must not hold another"):  # of other values
        partition(a_graph(), tmp_path, 2, features={"x": x + 1}, stored=stored)


def cut_old_and_new(path):
    """The old graph in `path`, and what cuts the new one over it."""
    old, new = (a_graph(60, 300, seed) for seed in range(2))
    x = torch.rand(60, 4)
    partition(old, path, 2, method="hash", features={"x": x})
    return old, new, x, {"method": "hash", "features": {"x": -x}, "overwrite": True}


def check_old_or_new(path, old, new, x):
    """One of the two is there, whole; returns which one."""
    part = open_part(path, 0)
    (here,) = part.relations.values()
    is_new = here.adj.edge_weight.equal(
        new.edge_weight[here.whole_positions(*_all_edges(here))]
    )
    for number in range(2):
        check_part(new if is_new else old, path, number, -x if is_new else x)
    return is_new


def _all_edges(here):
    rows = torch.arange(here.adj.num_rows)
    return rows, here.adj.degree, torch.arange(here.adj.num_edges)


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_the_old_graph(tmp_path, monkeypatch, call):
    """At every write there is: then the old one opens, and the next call succeeds."""
    old, new, x, how = cut_old_and_new(tmp_path)
    done, left, failed = False, 0, 0
    where, name = (os, call) if call != "write" else (_arrays.ArrayWriter, "__init__")
    real = getattr(where, name)

    def full(*args):
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*args)

    while not done:
        left = failed
        with monkeypatch.context() as patch:
            patch.setattr(where, name, full)
            try:
                partition(new, tmp_path, 2, **how)
                done = True
            except OSError:
                failed += 1
        is_new = check_old_or_new(tmp_path, old, new, x)
        if is_new and not done:  # only the last word of the disk was missing
            assert call == "fsync"
            partition(
                old, tmp_path, 2, method="hash", features={"x": x}, overwrite=True
            )
        if not done:  # finished parts would be kept
            for file in tmp_path.glob("cut-*"):
                if file.name != WHOLE.read_header(tmp_path)["folder"]:
                    shutil.rmtree(file)
    assert is_new
    assert failed > 5
    assert len(list(tmp_path.iterdir())) == 2


KILLED = """
import os, signal, sys
import torch
from gttf_sampler import CompactAdj
from gttf_sampler.distributed import partition

left, real = int(sys.argv[1]), os.fsync

def dies(handle):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    real(handle)

os.fsync = dies
adj, x = CompactAdj.open(sys.argv[2]), torch.load(sys.argv[3])
partition(adj, sys.argv[4], 2, method="hash", features={"x": -x}, overwrite=True)
"""


@pytest.mark.process
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_call_leaves_the_old_graph(tmp_path):
    """Killed while it writes a part, then while it writes the last header."""
    path = tmp_path / "cut"
    old, new, x, how = cut_old_and_new(path)
    new.save(tmp_path / "new")
    torch.save(x, tmp_path / "x")
    words, script = (tmp_path / "new", tmp_path / "x", path), tmp_path / "killed.py"
    script.write_text(KILLED)
    for number in (9, 21):
        run = start_script(script, number, *words, out=tmp_path / "out")
        run.join(100)
        assert run.exitcode == -signal.SIGKILL
        assert not check_old_or_new(path, old, new, x)
        assert len(list(path.glob("cut-*"))) == 2
    partition(new, path, 2, **how)
    assert check_old_or_new(path, old, new, x)
    assert len(list(path.iterdir())) == 2


def test_a_reader_keeps_the_graph_that_it_has_opened(tmp_path):
    old, x = a_graph(), torch.rand(300, 4)
    partition(old, tmp_path, 1, method="hash", features={"x": x})
    with PartitionedGraph.open(tmp_path) as graph:
        new = a_graph(seed=1)
        partition(new, tmp_path, 1, method="hash", features={"x": -x}, overwrite=True)
        seeds = torch.arange(300)
        pair = [sample_rooted(a, seeds, [3], generator=1) for a in (graph.adj, old)]
        assert pair[0].edge.equal(pair[1].edge)
        assert pair[0].node.equal(pair[1].node)
        assert graph.features["", "x"][seeds].equal(x)
        assert graph.adj.local.col.equal(old.col)
    with PartitionedGraph.open(tmp_path) as graph:
        assert graph.features["", "x"][seeds].equal(-x)
        assert graph.adj.local.col.equal(new.col)


def test_files_of_others_stay(tmp_path):
    partition(a_graph(), tmp_path, 2)
    (home(tmp_path) / "part-0" / "notes.txt").write_text("mine")
    kept = home(tmp_path) / "part-0" / "notes.txt"
    partition(a_graph(seed=1), tmp_path, 2, overwrite=True)
    assert kept.read_text() == "mine"


def test_two_who_cut_the_same(tmp_path):
    """The second waits for the first, and finds all done."""
    threads = [
        threading.Thread(target=partition, args=(a_graph(), tmp_path, 2))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(2):
        check_part(a_graph(), tmp_path, number)
