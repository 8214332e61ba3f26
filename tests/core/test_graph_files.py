"""Files of edges, and ids of nodes: what cannot be kept is refused."""

import gzip

import numpy as np
import pytest
import torch

from gttf_sampler import CompactAdj
from gttf_sampler.graph import read_edge_list, read_edges, read_graph
from gttf_sampler.graph.build import Bucket, Edges
from gttf_sampler.graph.edgelist import SAMPLE
from gttf_sampler.graph.exchange import ids_of, places
from gttf_sampler.graph.io import write_graph

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


@pytest.mark.parametrize("name", ["{}", "edge_{}"])
def test_npz_has_weights_and_times(tmp_path, name):
    """Also by the names that they have in a graph."""
    values = {name.format("weight"): [0.5, 2.0], name.format("time"): [3, 4]}
    np.savez(tmp_path / "g.npz", edge_index=[[0, 1], [1, 2]], **values)
    found = read_graph(tmp_path / "g.npz")
    assert found.edge_weight.tolist() == [0.5, 2.0]
    assert found.edge_time.tolist() == [3, 4]
    values[name.format("weight")] = [1.0, np.nan]
    np.savez(tmp_path / "g.npz", edge_index=[[0, 1], [1, 2]], **values)
    with pytest.raises(ValueError, match="'edge_weight' must not hold NaN"):
        read_graph(tmp_path / "g.npz")


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
    with pytest.raises(ValueError, match=r"must have a number.* in column 3"):
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


# What pandas reads of these files, told in full.
SHOP = "from_account,to_account,timestamp,amount\n"
HEADED = [
    (SHOP + "ann,bo,2024-01-01,5\nbo,cy,2024-01-02,6\n", ["ann", "bo", "cy"]),
    ("Source,Target,time\na,b,3\nb,c,4\n", ["a", "b", "c"]),
    (SHOP + "7,8,3,5\n8,9,4,6\n", [7, 8, 9]),
    (",source,target\n0,a,b\n1,b,c\n", ["a", "b", "c"]),
    (",0,1\n0,5,6\n1,6,7\n", [5, 6, 7]),
    ("Unnamed: 0,who,whom\n0,a,b\n1,b,c\n", ["a", "b", "c"]),
    ("buyer,item\nann,tea\nbo,tea\n", ["ann", "bo", "tea"]),
    ("buyer;item\r\nann;tea\r\nbo;tea\r\n", ["ann", "bo", "tea"]),
    ("\ufeffbuyer|item\nann|tea\nbo|tea\n", ["ann", "bo", "tea"]),
    ('"who, now",whom\n"a, b",c\n"c",d\n', ["a, b", "c", "d"]),
    ("id,source,target,weight\n90,a,b,1\n91,b,c,2\n", ["a", "b", "c"]),
    ("a,b\n1.0,2.0\n2.0,3.0\n", [1, 2, 3]),
    ("source,target,\n1,2,\n", [1, 2]),
    (',source,target\n0,a,"b\n# c"\n', ["a", "b\n# c"]),
    ("tag,user\n#cats,ann\n# a comment\n#cats,bo\n", ["#cats", "ann", "bo"]),
    ("who|whom|note|note\na|b|x|x\nc|d||\n", ["a", "b", "c", "d"]),
]


@pytest.mark.parametrize(("text", "ids"), HEADED)
@pytest.mark.parametrize("name", ["g.csv", "g.csv.gz"])
def test_headings_are_recognised(tmp_path, text, ids, name):
    file = tmp_path / name
    content = text.encode()
    file.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    found = read_edge_list(file)
    assert found.node_id.tolist() == ids
    assert found.columns is not None


@pytest.mark.parametrize(
    "text",
    [
        "ann,bo\nbo,cy\n",
        "5,6\n6,7\n",
        "1,2,x\n2,3,5\n",
        "ann,bo,\nbo,cy,3\n",
        "a b\nc d\n",
        "2024-01-01,x\n2024-01-02,y\n",
        "a,a\nb,c\n",
    ],
)
def test_edges_are_no_headings(tmp_path, text):
    found = read_edge_list(write(tmp_path / "g.csv", text))
    assert found.columns is None
    assert found.edge_index.shape[1] == text.count("\n")


def test_heading_is_an_edge_if_its_nodes_come_late(tmp_path):
    """Beyond the lines that are compared first."""
    text = "ann,bo\n" + "".join(f"x{i},y{i}\n" for i in range(SAMPLE + 5))
    assert read_edge_list(write(tmp_path / "g.csv", text)).columns is not None
    found = read_edge_list(write(tmp_path / "g.csv", f"{text}z,ann\n"))
    assert found.columns is None
    assert found.edge_index.shape[1] == SAMPLE + 7


def test_heading_says_what_is_read(tmp_path):
    text = SHOP + "ann,bo,2024-01-01T00:00:30+02:00,5\nbo,cy,2024-01-02 12:00Z,6.5\n"
    found = read_edge_list(write(tmp_path / "g.csv", text))
    assert found.columns == {
        "source": "from_account",
        "target": "to_account",
        "weight": "amount",
        "time": "timestamp",
    }
    assert found.weight.tolist() == [5, 6.5]
    assert found.time.tolist() == [1704060030, 1704196800]
    found = read_edge_list(tmp_path / "g.csv", ["to_account", "from_account"])
    assert (found.weight, found.time) == (None, None)
    assert found.edge_index.tolist() == [[1, 2], [0, 1]]
    found = read_edge_list(
        tmp_path / "g.csv", ["to_account", "from_account", "-", "amount"]
    )
    assert found.weight is None
    assert found.time.tolist() == [5, 6.5]


def test_reading_follows_what_is_asked(tmp_path):
    file = write(tmp_path / "g.csv", "ann|bo|1\ncy|di|2\n")
    assert read_edge_list(file).num_nodes == 4
    assert read_edge_list(file, header=True).num_nodes == 2
    found = read_edge_list(file, ["2", "1", "-", "3"], header=False)
    assert found.edge_index.tolist() == [[1, 3], [0, 2]]
    assert found.time.tolist() == [1, 2]
    file = write(tmp_path / "g.csv", "buyer,item\nann,tea\nbo,tea\n")
    assert read_edge_list(file, header=False).num_nodes == 5
    file = write(tmp_path / "g.txt", "ann~tea~31.12.2024\nbo~tea~01.01.2025\n")
    how = {"header": False, "separator": "~", "dates": "%d.%m.%Y"}
    found = read_edge_list(file, ["1", "2", "-", "3"], **how)
    assert found.time.tolist() == [1735603200, 1735689600]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("source,target\na,b\n,c\n", r"none of them blank \(got \['', 'c'\] in line 3"),
        ("source,target\n1,2\nnan,2\n", r"none of them blank \(got \['nan', '2'\]"),
        ("source,target\n1,2\n# c\n3\n", "fewer in line 4"),
        ("source,target,weight\n1,2,nan\n", "got 'nan' in line 2"),
        ("source,target,weight\n1,2,1\n\n1,2,\n", "got '' in line 4"),
        ("1,2,nan\n2,3,1\n", "got 'nan' in line 1"),
        ("source,target,date\n1,2,2024-01-01\n1,2,3\n", "got '3' in line 3"),
        ("source,target,date\n1,2,2024-13-01\n", "got '2024-13-01' in line 2"),
        ("source,target,date\n1,2,1.2.2024\n", "or the format of dates"),
        ("buyer,item\nSmith, J,tea\n", "no more cells in a line than its heading"),
        ('source,target\n"a,b\n', "quoted as in csv"),
        ("who,whom\n", "got a heading alone in .*no heading if this is an edge"),
        ("source\ntea\n", "name the separator"),
        (",,\n,,\n", "must hold at least one edge"),
        ('"tea"\n', "name the separator"),
    ],
)
def test_text_that_is_refused(tmp_path, text, match):
    with pytest.raises(ValueError, match=match):
        read_edge_list(write(tmp_path / "g.csv", text))


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ({"columns": ["a", "b"]}, "'columns' must be names that one column has alo"),
        ({"columns": ["b", "d"]}, "'columns' must be two to four of the names"),
        ({"columns": "ab"}, "'columns' must be a list of names"),
        ({"separator": "::"}, "'separator' must be one character or one of comma"),
        ({"header": "no"}, "'header' must be True or False"),
    ],
)
def test_reading_validate(tmp_path, how, match):
    file = write(tmp_path / "g.csv", "a,b,a\n1,2,3\n")
    with pytest.raises((TypeError, ValueError), match=match):
        read_edge_list(file, **how)


WHEN = ["2024-01-01T00:00:30+02:00", "2024-01-02 12:00Z"]
SECONDS = [1704060030, 1704196800]


def test_dates_are_the_same_in_all_tables(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    plain = {"source": [1, 2], "target": [2, 3]}
    zoned = pandas.to_datetime(WHEN, utc=True, format="ISO8601")
    for time in (
        WHEN,
        zoned,
        zoned.tz_convert("Asia/Tokyo"),
        zoned.tz_localize(None),
        zoned.tz_localize(None).astype("datetime64[s]"),
        list(zoned.to_pydatetime()),
    ):
        frame = pandas.DataFrame({**plain, "time": time})
        adj = CompactAdj.from_pandas(frame, time="time")
        assert adj.edge_time.tolist() == SECONDS
        frame.to_parquet(tmp_path / "g.parquet")
        frame.to_csv(tmp_path / "g.csv")
        for name in ("g.parquet", "g.csv"):
            assert read_graph(tmp_path / name).edge_time.tolist() == SECONDS
    halves = pandas.DataFrame({**plain, "date": zoned + pandas.Timedelta("0.5s")})
    halves.to_parquet(tmp_path / "g.parquet")
    halves.to_csv(tmp_path / "g.csv")
    for name in ("g.parquet", "g.csv"):
        found = read_edges(tmp_path / name)
        assert found.time.tolist() == [at + 0.5 for at in SECONDS]


def test_tables_follow_the_same_names(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    shop = {"to_account": ["b"], "when": [1], "from_account": ["a"], "amount": [2.5]}
    frame = pandas.DataFrame(shop, index=[7])
    frame.to_parquet(tmp_path / "g.parquet")
    frame.to_csv(tmp_path / "g.csv")
    for name in ("g.parquet", "g.csv"):
        found = read_edges(tmp_path / name)
        assert found.node_id.tolist() == ["a", "b"]
        assert found.edge_index.tolist() == [[0], [1]]
        assert found.weight.tolist() == [2.5]
    for how in ({"separator": ","}, {"header": True}):
        with pytest.raises(ValueError, match="must be left out where the graph is"):
            read_graph(tmp_path / "g.parquet", **how)


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


def test_places_are_refused_in_one_line():
    ids = np.array(["a\nb", "c"])
    assert places("--seed", ["c", "a\nb"], ids, 2) == [1, 0]
    with pytest.raises(ValueError, match=r"^'--seed' must be ids .*, like 'a\\nb', c"):
        places("--seed", ["d"], ids, 2)


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
