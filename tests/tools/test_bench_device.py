"""`gttf bench … --device`: who takes part there, and that the work is the same."""

import time
from dataclasses import asdict
from importlib.util import find_spec

import pytest
import torch

from gttf_sampler.bench import graphs, loader, measure, models, step
from gttf_sampler.bench.machine import Missing
from gttf_sampler.bench.measure import Options, Peer
from gttf_sampler.cli import bench as command
from gttf_sampler.cli.main import main

DGL, PYG = find_spec("dgl") is not None, find_spec("torch_geometric") is not None
TASKS = {"loader": loader.load, "step": step.run}
SMALL = {"fanouts": [3, 2], "batch": 16, "batches": 5, "rounds": 1, "features": 4}


def silent(what, share):
    pass


def options(**others):
    return asdict(Options(**{**SMALL, "device": "cuda", **others}))


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench") / "graph"
    graphs.make(folder, 400, 4_000)
    return str(folder)


def names(found):
    return [row["peer"] for group in found["groups"] for row in group["rows"]]


def check(found, real):
    """Peers did the same work; who could not run is named, with the reason."""
    for group in found["groups"]:
        first, *rest = group["rows"]
        assert first["peer"].startswith("gttf")
        assert first["best"] > 0
        assert all(row["differs"] is None for row in rest)
    left_out = {entry["peer"]: entry["why"] for entry in found["left_out"]}
    if DGL and not real:
        (why,) = (left_out[name] for name in left_out if name.startswith("DGL"))
        assert "has no graphs on cuda" in why


@pytest.fixture(autouse=True)
def no_gradients(device, monkeypatch):
    """The simulated device has none: there a step is a forward pass."""
    torch.manual_seed(0)  # peers that draw apart differ by chance, the same each time

    if not device.real:
        forward = torch.no_grad()
        monkeypatch.setattr(step, "step_of", lambda row: forward(row.logits))
        monkeypatch.setattr(models.Products, "step", lambda self, batch: None)


@pytest.mark.parametrize("task", TASKS)
def test_bench_task_on_a_device(device, task, graph):
    only = ["sage"] if task == "step" else None
    with device():
        found = TASKS[task](graph, options(only=only), silent)
    check(found, device.real)
    if PYG:
        ours = [name for name in names(found) if name.startswith("gttf_pyg")]
        places = ["features on cuda", "features pinned", "features by UVA"]
        wanted = [f"gttf_pyg.GTTFLoader, {place}" for place in places]
        if only:
            own = [f"{name}, PyG's own layers" for name in wanted]
            wanted = ["gttf_pyg.fused", *own]
        assert ours == wanted


@pytest.mark.skipif(not PYG, reason="torch-geometric is not installed")
@pytest.mark.parametrize(
    ("name", "graph"),
    [
        ("plain", "plain"),
        ("edge-time", "plain"),
        ("links", "plain"),
        ("typed", "database"),
        ("sampler-time-small", "database"),
        ("workers", "plain"),
    ],
)
def test_bench_modes_on_a_device(device, name, graph):
    ((_, mode),) = loader.chosen_modes([name], Missing())
    assert mode.graph == graph
    how = options(only=[name], scale=0.001, batches=2)
    with device():
        found = loader.run_modes(how, silent)
    if name == "workers":
        assert not found["groups"]
        (entry,) = (e for e in found["left_out"] if e["peer"] == name)
        assert entry["why"] == "workers cannot use a graph on a device"
    else:
        (row,) = found["groups"][0]["rows"]
        assert row["best"] > 0


@pytest.mark.skipif(not DGL, reason="dgl is not installed")
def test_bench_modes_of_a_dgl_without_the_device(device):
    if device.real:
        pytest.skip("there may be a DGL with CUDA here")
    how = options(only=["dgl-small"], scale=0.01, batches=2)
    with device():
        found = loader.run_modes(how, silent)
    assert found["groups"] == []
    assert found["left_out"][0]["peer"].startswith("DGL")


def test_bench_waits_for_the_device(monkeypatch):
    """Before the clock starts and before it stops; a device runs behind its host."""
    calls = []
    monkeypatch.setattr(measure, "settle", lambda at: calls.append(f"settle {at}"))
    monkeypatch.setattr(
        measure.time, "perf_counter", lambda: calls.append("clock") or 0.0
    )
    peer = Peer(lambda seeds: calls.append("run") or [], device=torch.device("cuda"))
    measure._time(peer, torch.zeros(1, 1))
    assert calls == ["settle cuda", "clock", "run", "settle cuda", "clock"]
    assert time.perf_counter is measure.time.perf_counter


def test_clock_waits_for_a_real_device_alone(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    measure.settle(torch.device("cpu"))
    assert waited == []
    measure.settle(torch.device("cuda", 1))
    assert waited == [torch.device("cuda", 1)]


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["loader", "--device", "nonsense"], "'--device' must be a device"),
        (["walks", "--device", "cuda"], "unless the task is one of loader, step"),
        (["loader", "--device", "cuda", "--workers", "2"], "'--workers' must be 0"),
    ],
)
def test_bench_validate_device(device, words, match, capsys):
    with device():
        assert main(["bench", *words]) == command.BAD_ARGUMENTS
    assert match in capsys.readouterr().err


def test_bench_without_the_device(capsys):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    assert main(["bench", "loader", "--device", "cuda"]) == command.BAD_ARGUMENTS
    said = capsys.readouterr().err
    assert (
        said == "gttf bench: '--device' must be a device that is there (got 'cuda')\n"
    )
