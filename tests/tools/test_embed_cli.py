"""`gttf embed`, and the files it reads and writes."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
import torch

import gttf_sampler
from exact import one_thread  # noqa: F401
from gttf_sampler import _files
from gttf_sampler.cli import embed
from gttf_sampler.cli.main import COMMANDS, main
from gttf_sampler.graph import read_edge_list, write_embeddings

KARATE = """
1-2 1-3 1-4 1-5 1-6 1-7 1-8 1-9 1-11 1-12 1-13 1-14 1-18 1-20 1-22 1-32 2-3 2-4 2-8
2-14 2-18 2-20 2-22 2-31 3-4 3-8 3-9 3-10 3-14 3-28 3-29 3-33 4-8 4-13 4-14 5-7 5-11
6-7 6-11 6-17 7-17 9-31 9-33 9-34 10-34 14-34 15-33 15-34 16-33 16-34 19-33 19-34
20-34 21-33 21-34 23-33 23-34 24-26 24-28 24-30 24-33 24-34 25-26 25-28 25-32 26-32
27-30 27-34 28-34 29-32 29-34 30-33 30-34 31-33 31-34 32-33 32-34 33-34
"""


@pytest.fixture
def karate(tmp_path):
    file = tmp_path / "karate.txt"
    lines = [" ".join(pair.split("-")) for pair in KARATE.split()]
    file.write_text("# Zachary 1977\n" + "\n".join(lines))
    return file


@pytest.mark.parametrize(
    ("text", "ids", "edges", "weight"),
    [
        ("5 7\n7 9\n", [5, 7, 9], [[0, 1], [1, 2]], None),
        ("# c\n\n5\t7\n% c\n7\t9\n", [5, 7, 9], [[0, 1], [1, 2]], None),
        ("5,7,0.5\n7,9,2\n", [5, 7, 9], [[0, 1], [1, 2]], [0.5, 2.0]),
        ("b a\na c 4\n", ["a", "b", "c"], [[1, 0], [0, 2]], None),
        ("b, a\na, 10\n", ["10", "a", "b"], [[2, 1], [1, 0]], None),
        ("-3 8 1.5", [-3, 8], [[0], [1]], [1.5]),
        ("1 2 {}\n2 3 {}\n", [1, 2, 3], [[0, 1], [1, 2]], None),
        ("1,2,\n2,3,\n", [1, 2, 3], [[0, 1], [1, 2]], None),
        ("source,target,weight\n1,2,5\n", [1, 2], [[0], [1]], [5.0]),
        ("\ufeff1 2\n2 1\n", [1, 2], [[0, 1], [1, 0]], None),
        ("a x/%20p\na#1 x/%20q\n", ["a", "a#1", "x/%20p", "x/%20q"], None, None),
        ("1 2\r\n2 3\r\n", [1, 2, 3], [[0, 1], [1, 2]], None),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_read_edge_list(tmp_path, text, ids, edges, weight, packed):
    file = tmp_path / ("edges.txt.gz" if packed else "edges.txt")
    file.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    found = read_edge_list(file)
    assert found.node_id.tolist() == ids
    assert edges is None or found.edge_index.tolist() == edges
    assert found.num_nodes == len(ids)
    assert (found.weight if weight is None else found.weight.tolist()) == weight


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "'path' must be a file with edges"),
        ("# nothing\n", "'path' must hold at least one edge"),
        ("1\n2\n", "'path' must have two columns or three"),
        ("1 2\n3\n", "'path' must have two columns in every line"),
    ],
)
def test_read_edge_list_validate(tmp_path, text, message):
    file = tmp_path / "edges.txt"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_edge_list(file)


@pytest.mark.parametrize("bad", [b"\x1f\x8b\x08\x00", b"plain text\n"])
def test_read_edge_list_refuses_broken_files(tmp_path, bad):
    file = tmp_path / "edges.gz"
    file.write_bytes(bad)
    with pytest.raises(ValueError, match="'path' must be a whole file"):
        read_edge_list(file)
    (tmp_path / "edges.txt").write_bytes(b"1 2\n\xff\xfe\n")
    with pytest.raises(ValueError, match="'path' must be a text file in UTF-8"):
        read_edge_list(tmp_path / "edges.txt")


@pytest.mark.parametrize(
    ("vectors", "names", "message"),
    [
        ([[float("nan")]], ["a"], "'embedding' must hold finite numbers"),
        ([[1.0]], ["a b"], "'node_id' must be words without spaces in .txt"),
    ],
)
def test_write_embeddings_validate(tmp_path, vectors, names, message):
    with pytest.raises(ValueError, match=message):
        write_embeddings(tmp_path / "z.txt", torch.tensor(vectors), np.array(names))
    assert not list(tmp_path.iterdir())


def test_write_embeddings(tmp_path):
    vectors, ids = torch.tensor([[1.0, -2.5], [0.125, 3.0]]), np.array(["x", "10"])
    matrix, names = write_embeddings(tmp_path / "a.npy", vectors, ids)
    assert np.load(matrix).tolist() == vectors.tolist()
    assert names.read_text().split() == ["x", "10"]
    (archive,) = write_embeddings(tmp_path / "a.npz", vectors, ids)
    with np.load(archive) as arrays:
        assert arrays["embedding"].tolist() == vectors.tolist()
        assert arrays["node_id"].tolist() == ["x", "10"]
    for suffix in (".txt", ".tsv", ".emb"):
        (text,) = write_embeddings(tmp_path / f"a{suffix}", vectors, ids)
        assert text.read_text() == "2 2\nx 1 -2.5\n10 0.125 3\n"
    (plain,) = write_embeddings(tmp_path / "b.txt", vectors, range(2))
    assert plain.read_text() == "2 2\n0 1 -2.5\n1 0.125 3\n"
    with pytest.raises(ValueError, match=r"'path' must end in one of \.npy"):
        write_embeddings(tmp_path / "a.csv", vectors, ids)
    with pytest.raises(ValueError, match="'node_id' must have one entry per row, 2"):
        write_embeddings(tmp_path / "a.npy", vectors, ids[:1])


@pytest.mark.parametrize("method", ["deepwalk", "node2vec", "wys"])
def test_embed_writes_the_ids_of_the_file(karate, tmp_path, capsys, method):
    out = tmp_path / "z.npz"
    options = ["--method", method, "--dim", "8", "--epochs", "3", "--window", "2"]
    assert main(["embed", str(karate), str(out), *options]) == 0
    with np.load(out) as arrays:
        assert arrays["node_id"].tolist() == list(range(1, 35))
        assert arrays["embedding"].shape == (34, 8)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith(("DeepWalk(34, 8", "Node2Vec(34, 8", "WatchYourStep("))
    assert printed[-1] == f"wrote {out}"


def test_embed_learns(karate, tmp_path, capsys):
    """The two leaders' followers are told apart from the vectors alone."""
    out = tmp_path / "z.npy"
    options = ["--dim", "8", "--epochs", "60", "--fanout", "2", "--window", "3"]
    assert main(["embed", str(karate), str(out), *options]) == 0
    z = torch.from_numpy(np.load(out))
    first, last = z @ z[0], z @ z[33]
    club = (first > last).tolist()
    assert all(club[node - 1] for node in (1, 2, 4, 5, 6, 7, 11, 12, 13, 22))
    assert not any(club[node - 1] for node in (34, 33, 30, 27, 24, 23, 21, 19, 16, 15))
    assert main(["embed", str(karate), str(out), *options, "--force"]) == 0
    assert torch.equal(torch.from_numpy(np.load(out)), z)  # the seed is fixed
    capsys.readouterr()


def test_embed_tells_how_well_hidden_edges_are_found(karate, tmp_path, capsys):
    options = ["--hide", "0.2", "--epochs", "2", "--dim", "4"]
    assert main(["embed", str(karate), str(tmp_path / "z.txt"), *options]) == 0
    assert "ROC-AUC on 16 hidden edges: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("out", "there"),
    [
        ("z.npz", "z.npz"),
        ("z.npy", "z.npy"),
        ("z.npy", "z.ids.txt"),  # the ids are written beside the matrix
        ("z.emb", "z.emb"),
    ],
)
def test_embed_keeps_what_is_there(karate, tmp_path, capsys, monkeypatch, out, there):
    """One sentence, before the edges are read; '--force' overwrites."""
    (tmp_path / there).write_text("mine")
    words = ["embed", str(karate), str(tmp_path / out), "--epochs", "1", "--dim", "2"]
    with monkeypatch.context() as patch:
        patch.setattr(embed.reading, "read_ends", None)
        assert main(words) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert said.startswith("gttf embed: 'out' must not be there yet")
    assert there in said
    assert "--force" in said
    assert (tmp_path / there).read_text() == "mine"
    assert main([*words, "--force"]) == 0
    assert (tmp_path / there).read_bytes() != b"mine"


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_embed_keeps_its_own_input(tmp_path, capsys, force):
    for name, out in (("edges.txt", "edges.txt"), ("z.ids.txt", "z.npy")):
        (tmp_path / name).write_text("1 2\n")
        words = ["embed", str(tmp_path / name), str(tmp_path / out), "--epochs", "1"]
        assert main([*words, *force]) == 2
        assert "'out' must not be the file with the edges" in capsys.readouterr().err
        assert (tmp_path / name).read_text() == "1 2\n"


def test_embed_refuses_a_place_it_cannot_write(karate, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(embed.reading, "read_ends", None)
    (tmp_path / "z.npy").mkdir()
    for words in (["--force"], []):
        assert main(["embed", str(karate), str(tmp_path / "z.npy"), *words]) == 2
        assert "'out' must be a file" in capsys.readouterr().err
    monkeypatch.setattr(_files.os, "access", lambda path, mode: False)
    assert main(["embed", str(karate), str(tmp_path / "z.txt")]) == 2
    assert "'out' must be in a directory that can be written" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".txt"])
def test_write_embeddings_leaves_the_old_file_if_ended(tmp_path, monkeypatch, suffix):
    """Whatever ends it, and nothing else is left; '.npy' comes with its ids or not."""
    path, ids = tmp_path / f"z{suffix}", np.array([5, 7])
    write_embeddings(path, torch.zeros(2, 2), ids)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    def ended(handle):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_files.os, "fsync", ended)  # when everything is in the new file
        with pytest.raises(KeyboardInterrupt):
            write_embeddings(path, torch.ones(2, 2), ids)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    write_embeddings(path, torch.ones(2, 2), ids)
    assert {file.name for file in tmp_path.iterdir()} == set(before)
    assert path.read_bytes() != before[path.name]


@pytest.mark.skipif(os.name != "posix", reason="links and pipes of POSIX")
def test_replacing_follows_links_and_writes_pipes(tmp_path):
    real, link, pipe = (tmp_path / name for name in ("real.txt", "link.txt", "pipe"))
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    with _files.replacing(link) as (out,):
        out.write(b"new")
        assert real.read_text() == "old"
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert real.stat().st_mode & 0o777 == 0o640
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    _files.check_free("out", pipe, force=False)
    with _files.replacing(pipe) as (out,):
        out.write(b"through")
    assert os.read(reader, 10) == b"through"
    os.close(reader)
    assert pipe.is_fifo()
    assert len(list(tmp_path.iterdir())) == 3


def test_embed_walks_along_directed_edges(tmp_path, capsys):
    file, out = tmp_path / "edges.txt", tmp_path / "z.npy"
    file.write_text("a b\nb c\n")
    assert main(["embed", str(file), str(out), "--directed", "--epochs", "1"]) == 0
    assert "--directed" not in capsys.readouterr().out
    options = ["--directed", "--hide", "0.5", "--force"]
    assert main(["embed", str(file), str(out), *options]) == 2
    assert "'--hide' must be 0 for a directed graph" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["embed", "nowhere.txt", "z.npy"], "gttf embed: 'edges' must be a file"),
        (["embed", "{karate}", "z.csv"], "'out' must end in one of"),
        (["embed", "{karate}", "no/such/z.npy"], "'out' must be in a directory"),
        (["embed", "{karate}", "z.npy", "--epochs", "0"], "'--epochs' must be at"),
        (["embed", "{karate}", "z.npy", "--hide", "1e-6"], "'--hide' must hide at"),
        (["embed", "{karate}", "z.npy", "--lr", "1e30"], "'lr' must let the loss"),
        (["embed", "{karate}", "z.npy", "--dim", "0"], "'embedding_dim' must be at"),
    ],
)
def test_embed_validate(karate, capsys, words, message):
    assert main([word.format(karate=karate) for word in words]) == 2
    assert message in capsys.readouterr().err
    assert not Path("z.npy").exists()


def test_command_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"gttf {gttf_sampler.__version__}\n"


def test_command_help(capsys):
    for words in (["--help"], ["embed", "--help"]):
        with pytest.raises(SystemExit, match="0"):
            main(words)
    printed = capsys.readouterr().out
    assert all(name in printed for name in COMMANDS)
    assert "--hide" in printed
    with pytest.raises(SystemExit, match="2"):
        main([])
    assert "command" in capsys.readouterr().err


def test_embed_goes_on_from_a_checkpoint(karate, tmp_path, capsys):
    shared = ["--dim", "8", "--window", "2", "--schedule", "constant"]
    shared += ["--optimizer", "adagrad"]
    whole, parts = tmp_path / "whole.npy", tmp_path / "parts.npy"
    assert main(["embed", str(karate), str(whole), *shared, "--epochs", "4"]) == 0
    file = ["--checkpoint", str(tmp_path / "run")]
    first = ["--epochs", "2", *file]
    assert main(["embed", str(karate), str(parts), *shared, *first]) == 0
    rest = ["--epochs", "4", *file, "--resume", "--force"]
    assert main(["embed", str(karate), str(parts), *shared, *rest]) == 0
    assert np.array_equal(np.load(whole), np.load(parts))
    assert "4 epochs in" in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["--hogwild", "--bfloat16"])
@pytest.mark.parametrize("method", ["deepwalk", "wys"])
def test_embed_has_options_of_fit(karate, tmp_path, flag, method):
    out = tmp_path / "z.npy"
    options = ["--method", method, "--dim", "8", "--epochs", "3", "--window", "2"]
    assert main(["embed", str(karate), str(out), *options, flag]) == 0
    assert np.load(out).dtype == np.float32
    assert np.isfinite(np.load(out)).all()
