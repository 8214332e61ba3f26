"""`gttf bench`, `gttf info` and `gttf demo` as a user meets them."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from gttf_sampler import CompactAdj, _files
from gttf_sampler.bench import (
    bar,
    children,
    command,
    in_processes,
    peers,
    runs,
    task_gcn,
)
from gttf_sampler.cli.main import main
from test_imports import hosts_after

BAD = [
    (["nothing"], "invalid choice: 'nothing'"),
    (["build", "--scale", "x"], "invalid float value"),
    (["build", "--scale", "-1"], r"'--scale' must lie in \["),
    (["build", "--scale", "nan"], r"'--scale' must lie in \["),
    (["build", "--graph", "nowhere"], "or a file that is there"),
    (["build", "--graph", ".", "--scale", "1"], "'--scale' is for made graphs"),
    (["build", "--graph", ".", "--keep", "x"], "'--keep' is for made graphs"),
    (["build", "--rounds", "0"], "'--rounds' must be 1 or more"),
    (["build", "--seed", "-1"], "'--seed' must be 0 or more"),
    (["loader", "--workers", "-1"], "'--workers' must be 0 or more"),
    (["sampling", "--fanouts", "5", "0"], r"'--fanouts' must hold .*5, 0\]"),
    (["train", "--fanouts", "5"], "'--fanouts' must be two"),
    (["modes", "--only", "nothing"], "'--only' must name some of plain, disjoint, "),
    (["modes", "--fanouts", "5"], r"'--fanouts' must be left to each mode .*5"),
    (["modes", "--graph", "reddit-like"], "'--graph' must be left to each mode"),
    (["build", "--only", "plain"], "'--only' is for 'modes'"),
    (["scale", "--graph", "reddit-like"], "'--graph' must be papers-like"),
    (
        ["scale", "--mode", "typed", "--scale", "2"],
        r"'--scale' must lie in \[0.0001, 1",
    ),
    (["scale", "--mode", "typed", "--keep", "x"], "'--keep' is for graphs on disk"),
    (["loader", "--mode", "typed"], "'--mode' is for 'scale'"),
    (["loader", "--sweep"], "'--sweep' is for 'disk'"),
    (["loader", "--memory", "2"], "'--memory' is for 'disk' and 'chunks'"),
    (["disk", "--memory", "0"], "'--memory' must be"),
    (["chunks", "--graph", "setup.cfg"], "'--graph' must be a made one for 'chunks'"),
    (["chunks", "--keep", "out"], "'--keep' must be left out for 'chunks'"),
    (["train", "--root", "."], "'--root' must hold Cora/raw or CiteSeer/raw"),
    (["build", "--tmp", "nowhere"], "'--tmp' must be a directory"),
    (["build", "--keep", "."], "'--keep' must not be there yet"),
    (["build", "--json", "no/where.json"], "'--json' must be in a directory"),
    (["build", "--plot", "a.gif"], "'--plot' must end in .png"),
]


@pytest.mark.parametrize(("words", "match"), BAD)
def test_bench_validate(words, match, capsys, monkeypatch):
    """One sentence and status 2, before anything is measured."""
    monkeypatch.setattr(runs, "measure", None)
    try:
        status = main(["bench", *words])
    except SystemExit as end:
        status = end.code
    said = capsys.readouterr().err
    assert status == 2
    assert said.startswith("gttf bench: ")
    assert len(said.splitlines()) == 1
    assert re.search(match, said)


def test_bench_from_end_to_end(tmp_path, capsys):
    """Makes a graph, keeps it, measures, writes everything, leaves nothing else."""
    places = {name: tmp_path / name for name in ("kept", "out.json", "out.svg", "tmp")}
    places["tmp"].mkdir()
    words = ["bench", "build", "--scale", "0.001", "--rounds", "2"]
    words += ["--keep", places["kept"], "--json", places["out.json"]]
    words += ["--plot", places["out.svg"], "--tmp", places["tmp"]]
    assert main([str(word) for word in words]) == 0
    printed = capsys.readouterr().out
    found = json.loads(places["out.json"].read_text())
    rows = found["groups"][0]["rows"]
    assert rows[0]["peer"] == "gttf CompactAdj"
    assert all(0 < row["best"] <= row["median"] for row in rows)
    assert all(row["ratio"] is not None for row in rows[1:])
    assert all(row["peer"] in printed for row in rows)
    assert found["command"] == "gttf bench build --scale 0.001 --rounds 2"
    kept = CompactAdj.open(places["kept"]).validate()
    assert kept.num_edges == found["graph"]["edges"] == rows[0]["edges"]
    assert sorted(tmp_path.iterdir()) == sorted(places.values())
    assert list(places["tmp"].iterdir()) == []


@pytest.fixture
def measured(monkeypatch):
    """Measuring takes no time; returns how often it was done."""
    row = {"best": 1.0, "median": 1.0, "edges": 5.0, "ratio": None, "peer": "gttf"}
    found = {"task": "build", "groups": [{"title": "t", "rows": [row]}]}
    found |= {"machine": {"cpu": "c", "cores": 2, "backend": "b"}, "left_out": []}
    found |= {"settings": {}, "graph": {"name": "g", "nodes": 1, "edges": 5}}
    done = []

    def measure(task, options, progress):
        done.append(task)
        return dict(found)

    monkeypatch.setattr(runs, "measure", measure)
    return done


@pytest.mark.parametrize("name", ["o.json", "o.png", "o.svg", "o.pdf"])
def test_bench_overwrites_its_own_files_alone(name, tmp_path, capsys, measured):
    """A report or picture of another kind stays, unless '--force' is said."""
    pytest.importorskip("matplotlib")
    file = tmp_path / name
    option = "--json" if name == "o.json" else "--plot"
    words = ["bench", "build", option, str(file)]
    assert main(words) == main(words) == 0  # its own
    whole = file.read_bytes()
    for foreign in (
        b"",
        b"{}",
        b'["gttf bench"]',
        whole[:20],
        b"\x89PNG\r\n\x1a\n\xff",
    ):
        file.write_bytes(foreign)
        measured.clear()
        capsys.readouterr()
        assert main(words) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"gttf bench: '{option}' must not be there yet")
        assert "'--force' overwrites it" in said
        assert len(said.splitlines()) == 1
        assert measured == []  # before the work
        assert file.read_bytes() == foreign
    assert main([*words, "--force"]) == 0
    assert len(file.read_bytes()) > 100
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["o.json", "o.svg"])
def test_bench_keeps_the_old_file_until_the_new_one_is_whole(
    name, tmp_path, capsys, measured, monkeypatch
):
    pytest.importorskip("matplotlib")
    file = tmp_path / name
    words = ["bench", "build", "--force", "--json" if "json" in name else "--plot"]
    file.write_text("old")

    def ended(handle):
        raise OSError("no space left")

    monkeypatch.setattr(_files.os, "fsync", ended)
    assert main([*words, str(file)]) == 1
    told = capsys.readouterr()
    assert "no space left" in told.err
    assert "gttf bench build: g, 1 nodes" in told.out  # what was measured is not lost
    assert [entry.read_text() for entry in tmp_path.iterdir()] == ["old"]


def test_bench_says_when_work_differs(capsys, monkeypatch):
    row = {"best": 1.0, "median": 1.0, "edges": 5.0, "ratio": None}
    rows = [{**row, "peer": "gttf"}, {**row, "peer": "x", "differs": "5 edges where 9"}]
    found = {"task": "build", "groups": [{"title": "t", "rows": rows}], "left_out": []}
    found["machine"] = {"cpu": "c", "cores": 2, "backend": "b"}
    monkeypatch.setattr(runs, "measure", lambda task, options, progress: found)
    assert main(["bench", "build", "--json"]) == command.DISAGREEMENT == 3
    assert json.loads(capsys.readouterr().out)["groups"][0]["rows"] == rows


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (children.ChildError("it failed"), 1),
        (children.RefusedError("'--graph' is odd"), 2),
        (KeyboardInterrupt(), 130),
    ],
)
def test_bench_status(error, status, capsys, monkeypatch):
    def measure(task, options, progress):
        raise error

    monkeypatch.setattr(runs, "measure", measure)
    assert main(["bench", "build"]) == status
    assert capsys.readouterr().err.startswith("gttf bench: ")


def test_child_that_fails_and_child_that_refuses(tmp_path):
    job = {"run": "gttf_sampler.bench.inputs:look", "folder": str(tmp_path)}
    with pytest.raises(children.RefusedError, match="no such file"):
        children.run_job(job)
    with pytest.raises(children.ChildError, match=r"failed \(1\)[\s\S]*missing"):
        children.run_job({**job, "run": "gttf_sampler.bench.inputs:missing"})


def test_subject_that_fails_is_left_out(monkeypatch):
    def run_job(job, progress):
        if job["subject"] == failing:
            raise children.ChildError("the process failed (1)\nImportError: no dgl")
        return {"peer": job["subject"]}

    monkeypatch.setattr(runs, "run_job", run_job)
    failing, missing = "dgl", peers.Missing()
    rows = runs._subjects(["gttf", "dgl", "pyg"], {}, missing, None)
    assert [row["peer"] for row in rows] == ["gttf", "pyg"]
    why = f"ImportError: no dgl; {peers.cure('dgl')}"
    assert missing == [{"peer": "dgl", "why": why}]
    failing = "gttf"  # without ours there is nothing to compare to
    with pytest.raises(children.ChildError):
        runs._subjects(["gttf", "dgl"], {}, missing, None)


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """This process and its children find no host to compare with."""
    for name in ("torch_geometric", "dgl", "torch_cluster", "torch_sparse", "pyg_lib"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('hidden')")
    ask = peers.version
    hosts = ("torch_geometric", "dgl")
    monkeypatch.setattr(peers, "version", lambda n: None if n in hosts else ask(n))
    monkeypatch.syspath_prepend(tmp_path)


SMALL = ["--scale", "0.001", "--batch", "16", "--batches", "6", "--rounds", "1"]


# Nobody else takes part in these.
OF_ITS_OWN = ("scale", "modes", "embedding", "distributed", "disk", "chunks")


@pytest.mark.parametrize("task", [t for t in runs.TASKS if t not in OF_ITS_OWN])
def test_bench_alone(task, alone, capsys):
    """Without any peer our own rows are shown, and a line says how to get one."""
    assert main(["bench", task, *SMALL]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^  *gttf\b.*\d", printed, re.MULTILINE)
    (note,) = re.findall("^note: there is no peer .*$", printed, re.MULTILINE)
    assert "pip install torch-geometric 'dgl<2' packaging" in note
    left_out = re.findall("^left out: .*$", printed, re.MULTILINE)
    assert left_out
    assert all("install" in line for line in left_out)
    first = printed.splitlines()[0]
    assert first.startswith(f"gttf bench {task}: reddit-like × 0.001, 233 nodes, ")
    # the GCN has a graph of its own
    assert (f"; {task_gcn.MADE}, 19,717 nodes, " in first) == (task == "train")


def test_bench_among_peers_has_no_such_note():
    rows = [{"peer": "gttf"}, {"peer": "reading as many edges"}]
    assert runs.alone([{"rows": rows}])
    assert runs.alone([{"rows": [{"peer": None}]}])  # of a mode
    assert not runs.alone([{"rows": [*rows, {"peer": "DGL 1.1.3 NeighborSampler"}]}])


def test_bench_train_reads_planetoid_with_pyg_alone(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(peers, "version", lambda module: None)
    monkeypatch.setattr(runs, "measure", None)
    (tmp_path / "Cora" / "raw").mkdir(parents=True)
    assert main(["bench", "train", "--root", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "'--root' needs torch-geometric" in said
    assert "pip install torch-geometric" in said


def test_bench_scale_of_typed_graphs(capsys, monkeypatch):
    """A process per size, told which; the first is what others are compared to."""
    jobs = []
    row = {"nodes": 9, "median": 2.0, "drawn": 5.0, "ns_per_edge": 3.0, "gather": 1.0}

    def run_job(job, progress):
        jobs.append(job)
        return {**row, "edges": job["edges"], "best": len(jobs), "private": 1e6}

    monkeypatch.setattr(in_processes, "run_job", run_job)
    words = ["bench", "scale", "--mode", "temporal", "--batch", "64", "--scale", "0.01"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [job["edges"] for job in jobs] == [10**5, 10**6]
    assert {job["mode"] for job in jobs} == {"temporal"}
    assert [row.get("ratio") for row in found["groups"][0]["rows"]] == [None, 2.0]
    assert found["command"].endswith("--scale 0.01 --batch 64 --mode temporal")


@pytest.mark.skipif(os.name != "posix", reason="signals and processes of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_bench_killed_half_way(tmp_path, number):
    """No process and no file is left, and the status says why."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    bench = subprocess.Popen(
        [
            *(sys.executable, "-m", "gttf_sampler.cli", "bench", "sampling"),
            *("--tmp", str(tmp_path), "--scale", "0.01", "--rounds", "100000"),
        ],
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (found := descendants(bench.pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found
    assert list(tmp_path.iterdir())
    bench.send_signal(number)
    _, said = bench.communicate(timeout=120)
    assert bench.returncode == 130
    assert said.splitlines()[-1] == "gttf bench: interrupted"
    assert list(tmp_path.iterdir()) == []
    assert not [pid for pid in found if pathlib.Path(f"/proc/{pid}").exists()]


def descendants(pid):
    """The children of a process, as the system lists them."""
    table = subprocess.run(
        ["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True
    )
    pairs = [line.split() for line in table.stdout.splitlines()]
    return [int(child) for child, parent in pairs if int(parent) == pid]


def test_commands_import_no_host():
    names = ("main", "bench", "demo", "info")
    assert hosts_after("".join(f"import gttf_sampler.cli.{n}\n" for n in names)) == []


def test_info(capsys):
    assert main(["info", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["cores"] >= 1
    assert "backend" in found
    assert main(["info"]) == 0
    assert found["torch"] in capsys.readouterr().out


def test_info_of_a_graph(tmp_path, capsys):
    file = tmp_path / "edges.txt"
    file.write_text("a b\nb c\nc a\nc b\n")
    assert main(["info", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["nodes"], found["edges"], found["max_degree"]) == (3, 4, 2)
    assert found["quartiles"] == [1, 1, 2]
    assert main(["info", str(tmp_path / "nowhere")]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_demo_draws_figure_1(tmp_path, capsys):
    assert main(["demo"]) == 0
    printed = capsys.readouterr().out
    assert "  4\n  ├─ 3\n  │  ├─ 4\n  │  └─ 1\n  └─ 1\n     ├─ 2\n     └─ 0" in printed
    pytest.importorskip("matplotlib")
    assert main(["demo", "--plot", str(tmp_path / "forest.svg")]) == 0
    assert main(["demo", "--plot", str(tmp_path / "forest.svg")]) == 2
    assert "'--plot' must not be there yet" in capsys.readouterr().err
    assert main(["demo", "--plot", str(tmp_path / "forest.svg"), "--force"]) == 0
    assert (tmp_path / "forest.svg").stat().st_size > 1000
    assert main(["demo", "--seeds", "9"]) == 2
    assert "'seeds'" in capsys.readouterr().err


def test_bench_of_a_stream_leaves_nothing(tmp_path, capsys):
    """Through all of the command, with its temporary files in a place of ours."""
    words = ["bench", "chunks", "--scale", "0.0001", "--tmp", str(tmp_path)]
    assert main([*words, "--json"]) == 0
    (group,) = json.loads(capsys.readouterr().out)["groups"]
    assert group["rows"][0]["differs"] is None
    assert not list(tmp_path.iterdir())


def test_progress_is_told_to_logs(monkeypatch, capsys):
    """A line now and then, where nobody looks at a bar."""
    monkeypatch.setattr(bar, "RARELY", -1)
    with bar.progress() as report:
        report("reading", 0.25)
    assert capsys.readouterr().err.endswith(" reading 25%\n")
