"""`gttf verify`: what it compares, on this machine and on a simulated device."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from gttf_sampler import use_backend, verify
from gttf_sampler._backends import ops as backend
from gttf_sampler.bench.machine import Missing
from gttf_sampler.cli.main import main
from gttf_sampler.verify import (
    CASES,
    SAME,
    backends_on,
    compared,
    make_world,
    run_checks,
    run_host_checks,
    tensors,
)

CPU = torch.device("cpu")
MODES = ("forest", "walk", "node2vec", "rooted", "padded", "weighted", "temporal")
MODES += ("hidden",)


def silent(what):
    pass


@pytest.fixture
def few(device, monkeypatch):
    """Some cases; `test_cases_on_a_device` has the others, one by one."""
    if device.real:
        return
    for name in list(CASES):
        if name not in ("rooted", "typed", "gather bfloat16"):
            monkeypatch.delitem(CASES, name)


def test_cases_are_of_every_mode():
    for mode in (*MODES, "typed"):
        assert sum(name.startswith(mode) for name in CASES) >= 2
    assert any("disjoint" in name for name in CASES)
    assert any("replace" in name for name in CASES)


@pytest.mark.parametrize("name", CASES)
def test_cases_on_a_device(device, name):
    """Each case of the command by itself, so that a failure has a name."""
    with use_backend("torch"):
        expected = list(tensors(CASES[name](make_world())))
    assert sum(part.numel() for part in expected) > 0
    with device():
        there = make_world().to(torch.device("cuda"))
        every = backends_on(torch.device("cuda"))
        for name_of_backend in every if device.real else ["torch"]:  # test_compiled.py
            with use_backend(name_of_backend):
                assert compared(lambda: CASES[name](there), expected) == SAME


def test_times_are_predicted_by_the_page():
    """The command prints the predictions of docs/gpu.md beside its times."""
    page = (Path(__file__).parents[2] / "docs" / "gpu.md").read_text("utf-8")
    table = page.split("<!-- model -->")[1].split("<!-- end of model -->")[0]
    rows = [line.strip("| ").split(" | ") for line in table.split("\n") if "|" in line]
    found = {row[0]: int(row[5]) for row in rows[2:]}
    assert found == {name: batch.predicted for name, batch in verify.TIMED.items()}


def test_times_of_every_backend(monkeypatch):
    monkeypatch.setattr(verify, "ROUNDS", 1)
    found = verify.run_times(CPU, silent)
    assert {time.name for time in found} == set(verify.TIMED)
    assert {time.backend for time in found} == set(backends_on(CPU))
    assert all(time.microseconds > 0 and time.waits == 0 for time in found)
    told = verify.report(torch.device("cuda"), [], found, Missing(), 1.0)
    assert any("A100, model, µs" in line for line in told)


def test_backends_of_a_device():
    assert "torch" in backends_on(CPU)
    assert backends_on(torch.device("meta")) == ["torch"]
    if find_spec("numba") is not None:
        assert "numba" in backends_on(CPU)


def test_backends_without_numba(monkeypatch):
    monkeypatch.setattr(backend, "_numba_ops", lambda: None)
    assert "numba" not in backends_on(CPU)


def test_verdict_of_other_bits():
    here = [torch.tensor([1, 2, 3]), torch.tensor([1.0])]
    assert compared(lambda: here, here) == SAME
    wrong = [torch.tensor([1, 5, 3]), torch.tensor([1.0])]
    assert compared(lambda: wrong, here) == "tensor 0: 1 of 3 entries differ"
    assert "where 2 are expected" in compared(lambda: here[:1], here)
    half = [here[0], here[1].half()]
    assert compared(lambda: half, here).startswith("tensor 1: torch.float16 [1] where")
    assert compared(lambda: 1 / 0, here) == "ZeroDivisionError: division by zero"


def test_command_on_the_cpu(capsys, monkeypatch):
    """Versions, a table and a verdict; as any user can run it."""
    assert main(["verify"]) == 0
    out = capsys.readouterr().out
    assert "| 1,024 seeds, 3 M edges | backend | µs |" in out
    assert out.startswith("## gttf verify --device cpu: passed")
    assert torch.__version__ in out
    assert "| typed, disjoint |" in out


def test_command_on_a_device(device, few, capsys):
    with device():
        status = main(["verify", "--device", "cuda", "--no-times"])
    out = capsys.readouterr().out
    assert status == 0, out
    assert out.startswith("## gttf verify --device cuda: passed")
    if find_spec("torch_geometric") is not None:
        for place in ("on the device", "pinned", "by UVA"):
            assert f"| PyG, features {place}, 2 ahead | same" in out
    if find_spec("dgl") is not None and not device.real:
        assert "Left out: gttf_dgl, DGL" in out


def test_command_tells_what_differs(device, few, capsys, monkeypatch):
    """A device that draws other bits is found, and the rest is still compared."""
    case, asked = CASES["rooted"], []

    def wrong(world):
        asked.append(world.device.type)
        seeds = world.seeds if world.device.type == "cpu" else world.seeds.flip(0)
        return case(world._replace(seeds=seeds))

    monkeypatch.setitem(CASES, "rooted", wrong)
    with device():
        status = main(["verify", "--device", "cuda", "--no-times"])
    out = capsys.readouterr().out
    assert status == 1
    assert out.startswith("## gttf verify --device cuda: FAILED")
    assert "| rooted | tensor" in out
    assert "| typed | same |" in out
    assert set(asked) == {"cpu", "cuda"}


def test_command_goes_on_after_an_error(device, few, capsys, monkeypatch):
    def broken(world):
        if world.device.type == "cuda":
            raise RuntimeError("an illegal | memory access")

    monkeypatch.setitem(CASES, "rooted", broken)
    with device():
        status = main(["verify", "--device", "cuda", "--no-times"])
    assert status == 1
    assert "| RuntimeError: an illegal / memory access |" in capsys.readouterr().out


@pytest.mark.parametrize("word", ["cuda", "mps", "xpu", "meta", "nonsense"])
def test_command_without_the_device(capsys, word):
    if word == "cuda" and torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    assert main(["verify", "--device", word]) == 2
    out = capsys.readouterr()
    assert out.out == ""
    assert out.err.startswith("gttf verify: '--device' must be")


def test_hosts_that_are_missing(monkeypatch):
    def nobody(missing):
        missing.add("gttf_pyg", "it is not installed")
        return []

    monkeypatch.setattr(verify, "hosts", nobody)
    left_out = Missing()
    assert run_host_checks(CPU, silent, left_out) == []
    assert left_out == [{"peer": "gttf_pyg", "why": "it is not installed"}]


def test_hosts_are_compared_with_the_cpu(device):
    """All calls of a host but the first, which the others are compared with."""
    hosts = [name for name in ("torch_geometric", "dgl") if find_spec(name)]
    found = run_host_checks(CPU, silent, Missing())
    assert all(check.verdict == SAME for check in found)
    assert len({check.name.split(",")[0] for check in found}) == len(hosts)
    assert not any(check.name.endswith("on the CPU") for check in found)


def test_checks_on_the_cpu_need_a_second_backend(monkeypatch):
    for ops in ("_numba_ops", "_triton_ops"):
        monkeypatch.setattr(backend, ops, lambda: None)
    assert run_checks(CPU, silent, {"rooted": CASES["rooted"]}) == []
