"""`gttf bench`, `gttf info` and `gttf demo` as a user meets them."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest

from gttf_sampler import CompactAdj, _files
from gttf_sampler.bench import hosts, machine, memory
from gttf_sampler.bench.machine import Missing
from gttf_sampler.cli import bench as command
from gttf_sampler.cli.main import main
from test_imports import hosts_after

BAD = [
    (["nothing"], "invalid choice: 'nothing'"),
    (["loader", "--scale", "x"], "invalid float value"),
    (["loader", "--scale", "-1"], r"'--scale' must lie in \["),
    (["loader", "--scale", "nan"], r"'--scale' must lie in \["),
    (["loader", "--graph", "nowhere"], "or a file that is there"),
    (["loader", "--graph", ".", "--scale", "1"], "'--scale' is for made graphs"),
    (["loader", "--graph", ".", "--keep", "x"], "'--keep' is for made graphs"),
    (["loader", "--rounds", "0"], "'--rounds' must be 1 or more"),
    (["loader", "--seed", "-1"], "'--seed' must be 0 or more"),
    (["loader", "--workers", "-1"], "'--workers' must be 0 or more"),
    (["loader", "--fanouts", "5", "0"], r"'--fanouts' must hold .*5, 0\]"),
    (["step", "--fanouts", "5"], "'--fanouts' must be two"),
    (["train", "--fanouts", "5"], "'--fanouts' must be two"),  # its old name
    (["modes", "--fanouts", "5"], r"'--fanouts' must be left to each mode .*5"),
    (["modes", "--graph", "reddit-like"], "'--graph' must be left to each mode"),
    (["loader", "--only", "plain"], "'--only' is for 'modes' and 'step'"),
    (["step", "--only", "plain"], "'--only' must be one of 'sage', 'gcn'"),
    (["scale", "--graph", "reddit-like"], "'--graph' must be papers-like"),
    (["loader", "--memory", "2"], "'--memory' is for 'disk'"),
    (["disk", "--memory", "0"], "'--memory' must be"),
    (["embedding", "--graph", "reddit-like"], "'--graph' must be a file for"),
    (["embedding", "--scale", "1"], "'--scale' is for made graphs"),
    (["loader", "--tmp", "nowhere"], "'--tmp' must be a directory"),
    (["loader", "--keep", "."], "'--keep' must not be there yet"),
    (["loader", "--json", "no/where.json"], "'--json' must be in a directory"),
    (["loader", "--plot", "a.gif"], "'--plot' must end in .png"),
]


@pytest.mark.parametrize(("words", "match"), BAD)
def test_bench_validate(words, match, capsys, monkeypatch):
    """One sentence and status 2, before anything is measured."""
    monkeypatch.setattr(command, "measure", None)
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
    words = ["bench", "loader", "--scale", "0.001", "--rounds", "1", "--batch", "32"]
    words += ["--batches", "12", "--features", "4", "--keep", places["kept"]]
    words += ["--json", places["out.json"], "--plot", places["out.svg"]]
    assert main([str(word) for word in [*words, "--tmp", places["tmp"]]]) == 0
    printed = capsys.readouterr().out
    found = json.loads(places["out.json"].read_text())
    for group in found["groups"]:
        first, *others = group["rows"]
        assert first["peer"].startswith("gttf")
        assert 0 < first["best"] <= first["median"]
        assert all(row["ratio"] is not None for row in others)
        assert all(row["peer"] in printed for row in group["rows"])
    said = "gttf bench loader --scale 0.001 --batch 32 --batches 12 --rounds 1"
    assert found["command"] == f"{said} --features 4"
    assert found["settings"]["features"] == 4
    kept = CompactAdj.open(places["kept"]).validate()
    assert kept.num_edges == found["graph"]["edges"]
    assert sorted(tmp_path.iterdir()) == sorted(places.values())
    assert list(places["tmp"].iterdir()) == []


@pytest.fixture
def measured(monkeypatch):
    """Measuring takes no time; returns how often it was done."""
    row = {"best": 1.0, "median": 1.0, "edges": 5.0, "ratio": None, "peer": "gttf"}
    found = {"task": "loader", "groups": [{"title": "t", "rows": [row]}]}
    found |= {"machine": {"cpu": "c", "cores": 2, "backend": "b"}, "left_out": []}
    found |= {"settings": {}, "graph": {"name": "g", "nodes": 1, "edges": 5}}
    done = []

    def measure(task, options, progress):
        done.append(task)
        return dict(found)

    monkeypatch.setattr(command, "measure", measure)
    return done


@pytest.mark.parametrize("name", ["o.json", "o.png", "o.svg", "o.pdf"])
def test_bench_overwrites_its_own_files_alone(name, tmp_path, capsys, measured):
    """A report or picture of another kind stays, unless '--force' is said."""
    pytest.importorskip("matplotlib")
    file = tmp_path / name
    option = "--json" if name == "o.json" else "--plot"
    words = ["bench", "loader", option, str(file)]
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
    words = ["bench", "loader", "--force", "--json" if "json" in name else "--plot"]
    file.write_text("old")

    def ended(handle):
        raise OSError("no space left")

    monkeypatch.setattr(_files.os, "fsync", ended)
    assert main([*words, str(file)]) == 1
    told = capsys.readouterr()
    assert "no space left" in told.err
    assert "gttf bench loader: g, 1 nodes" in told.out  # what was measured is not lost
    assert [entry.read_text() for entry in tmp_path.iterdir()] == ["old"]


def test_bench_says_when_work_differs(capsys, monkeypatch):
    row = {"best": 1.0, "median": 1.0, "edges": 5.0, "ratio": None}
    rows = [{**row, "peer": "gttf"}, {**row, "peer": "x", "differs": "5 edges where 9"}]
    found = {"task": "loader", "groups": [{"title": "t", "rows": rows}], "left_out": []}
    found["machine"] = {"cpu": "c", "cores": 2, "backend": "b"}
    monkeypatch.setattr(command, "measure", lambda task, options, progress: found)
    assert main(["bench", "loader", "--json"]) == command.DISAGREEMENT == 3
    assert json.loads(capsys.readouterr().out)["groups"][0]["rows"] == rows


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (machine.ChildError("it failed"), 1),
        (machine.RefusedError("'--graph' is odd"), 2),
        (KeyboardInterrupt(), 130),
    ],
)
def test_bench_status(error, status, capsys, monkeypatch):
    def measure(task, options, progress):
        raise error

    monkeypatch.setattr(command, "measure", measure)
    assert main(["bench", "loader"]) == status
    assert capsys.readouterr().err.startswith("gttf bench: ")


def test_child_that_fails_and_child_that_refuses(tmp_path):
    job = {"run": "gttf_sampler.bench.graphs:read_job", "folder": ""}
    job["source"] = str(tmp_path)
    with pytest.raises(machine.RefusedError, match="--graph"):
        machine.run_job(job)
    with pytest.raises(machine.ChildError, match=r"failed \(1\)[\s\S]*missing"):
        machine.run_job({**job, "run": "gttf_sampler.bench.graphs:missing"})


def test_process_that_answers_again_and_again(monkeypatch, tmp_path):
    """A job that is a generator waits between questions, in its own environment."""
    (tmp_path / "echo.py").write_text(
        "import os\n"
        "def job(report, first):\n"
        "    asked = yield first\n"
        "    while True:\n"
        "        asked = yield [asked, os.environ['HOW']]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with machine.conversation({"HOW": "tuned"}) as ask:
        assert ask({"run": "echo:job", "first": 3}) == 3
        assert [ask({"n": n}) for n in (1, 2)] == [[{"n": n}, "tuned"] for n in (1, 2)]


def test_sampler_that_fails_is_left_out(monkeypatch):
    def run_job(job, report):
        if "write" in job["run"]:
            return {"nodes": 2, "edges": 3}
        if job["name"] == failing:
            raise machine.ChildError("the process failed (1)\nMemoryError")
        return {"peer": job["name"], "held": 5, "input": 7}

    names = dict.fromkeys(["gttf CompactAdj", "theirs", "others"])
    monkeypatch.setattr(memory, "samplers", lambda missing: names)
    monkeypatch.setattr(memory, "run_job", run_job)
    monkeypatch.setattr(machine, "run_job", run_job)
    failing = "theirs"
    found = memory.measure(command.options_of("memory", {}), "", "", None)
    (group,) = found["groups"]
    assert [row["peer"] for row in group["rows"]] == ["gttf CompactAdj", "others"]
    assert found["left_out"] == [{"peer": "theirs", "why": "MemoryError"}]
    failing = "gttf CompactAdj"  # without ours there is nothing to compare to
    with pytest.raises(machine.ChildError):
        memory.measure(command.options_of("memory", {}), "", "", None)


SMALL = ["--scale", "0.001", "--batch", "16", "--batches", "6", "--rounds", "1"]


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """This process and its children find no host to compare with."""
    for name in ("torch_geometric", "dgl", "gensim"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('hidden')")
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in ("gttf_pyg", "gttf_pyg._bench", "gttf_dgl", "gttf_dgl._bench"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)


def test_bench_alone(alone, capsys):
    """Without any peer our own rows are shown, and a line says how to get one."""
    assert main(["bench", "memory", *SMALL]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^  *gttf\b.*\d", printed, re.MULTILINE)
    assert re.findall("^note: there is no peer .*$", printed, re.MULTILINE)
    left_out = re.findall("^left out: (gttf_\\w+): .*install", printed, re.MULTILINE)
    assert left_out == ["gttf_pyg", "gttf_dgl"]
    first = printed.splitlines()[0]
    assert first.startswith("gttf bench memory: reddit-like × 0.001, 233 nodes, ")


def test_bench_loader_needs_a_host(alone, capsys):
    assert main(["bench", "loader", *SMALL]) == command.FAILED
    told = capsys.readouterr().err
    assert re.search("gttf_pyg: .*install.*; gttf_dgl: .*install", told)


def test_hosts_are_registered():
    """By entry points of the installed distribution, in the order of the tables."""
    missing = Missing()
    found = [host.name for host in hosts.hosts(missing)]
    wanted = {"PyG": "torch_geometric", "DGL": "dgl"}
    assert found == [name for name, module in wanted.items() if find_spec(module)]
    assert len(found) + len(missing) == 2


def test_hosts_that_are_not_registered_are_told(monkeypatch):
    monkeypatch.setattr(hosts, "entry_points", lambda group: [])
    missing = Missing()
    assert list(hosts.hosts(missing)) == []
    assert missing == [{"peer": "all hosts", "why": hosts.NO_ADAPTER}]


def test_hosts_that_are_not_installed(monkeypatch):
    """The report of `gttf info` on them, which imports nothing."""
    monkeypatch.setattr(hosts, "version", lambda name: None)
    found = dict(hosts.unavailable())
    assert found["gttf_pyg"] == "torch-geometric"
    assert set(found) == {"gttf_pyg", "gttf_dgl"}


def test_the_engine_names_no_host():
    """Not by string either; adapters hand their rows in."""
    names = re.compile(r"torch_geometric|torch-geometric|pyg_lib|gttf_pyg|gttf_dgl|dgl")
    root = pathlib.Path(hosts.__file__).parents[1]
    files = [*root.glob("bench/*.py"), root / "verify.py", root / "cli/bench.py"]
    text = (hosts.__file__, "pyg = gttf_pyg._bench:HOST")  # the example of a docstring
    for file in files:
        code = file.read_text()
        code = code.replace(text[1], "") if str(file) == text[0] else code
        assert not names.search(code), file


def test_bench_among_peers_has_no_such_note():
    rows = [{"peer": "gttf"}, {"peer": "products alone"}]
    assert command.alone({"groups": [{"rows": rows}]})
    assert command.alone({"groups": [{"rows": [{"peer": None}]}]})  # of a mode
    assert not command.alone({"groups": [{"rows": [*rows, {"peer": "DGL 1.1.3"}]}]})


@pytest.mark.skipif(os.name != "posix", reason="signals and processes of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_bench_killed_half_way(tmp_path, number):
    """No process and no file is left, and the status says why."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    bench = subprocess.Popen(
        [
            *(sys.executable, "-m", "gttf_sampler.cli", "bench", "loader"),
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
    deadline = time.monotonic() + 5  # the system takes its time to forget the dead
    while left := [pid for pid in found if pathlib.Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def descendants(pid):
    """The children of a process, as the system lists them."""
    table = subprocess.run(
        ["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True
    )
    pairs = [line.split() for line in table.stdout.splitlines()]
    return [int(child) for child, parent in pairs if int(parent) == pid]


def test_commands_import_no_host():
    names = ("main", "bench", "show", "files")
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


def test_progress_is_told_to_logs(monkeypatch, capsys):
    """A line now and then, where nobody looks at a terminal."""
    monkeypatch.setattr(machine, "LOG_EVERY", -1)
    machine.progress()("reading", 0.25)
    assert capsys.readouterr().err.endswith(" reading 25%\n")
