"""Fixtures and settings that all tests share."""

import os
import runpy
import signal
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from gttf_sampler import CompactAdj, use_backend

# Kernels are compiled where they are called: tests of a backend are tests of it.
os.environ.setdefault("GTTF_COMPILE", "here")

# Tests of an adapter are left out where its host is missing; the summary says so.
HOSTS = {"pyg": "torch_geometric", "dgl": "dgl"}
MISSING = [folder for folder, module in HOSTS.items() if find_spec(module) is None]
collect_ignore = [*MISSING, *(["dgl/test_with_pyg.py"] if "pyg" in MISSING else [])]

# Derandomised, so that a commit is judged by what it changed; look for new examples
# with `pytest --hypothesis-profile=search`.
settings.register_profile(
    "steady",
    derandomize=True,
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.register_profile(
    "search", settings.get_profile("steady"), derandomize=False, max_examples=1000
)
settings.load_profile("steady")


@pytest.fixture
def toy_edges() -> torch.Tensor:
    """The paper's Figure 1, both directions of every edge, sorted by source."""
    return torch.tensor(
        [[0, 1, 1, 1, 1, 2, 3, 3, 4, 4], [1, 0, 2, 3, 4, 1, 1, 4, 1, 3]]
    )


@pytest.fixture
def toy(toy_edges: torch.Tensor) -> CompactAdj:
    """The same as rows to walk along."""
    return CompactAdj.from_edge_index(toy_edges, direction="out")


@pytest.fixture(params=["numba", "torch"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs a test with compiled kernels, and again with the reference."""
    if request.param == "numba":
        pytest.importorskip("numba", reason="numba is not installed")
    with use_backend(request.param):
        yield request.param


EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def example(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., list[str]]:
    """The lines that a script of examples/ prints, which has nothing to complain of.

    It runs in this process, where torch and hosts are imported already.
    """
    from apart import joins_a_group, run_script

    monkeypatch.syspath_prepend(str(EXAMPLES))  # where a script is, as Python does it

    def run(name: str, *options: object) -> list[str]:
        path = EXAMPLES / f"{name}.py"
        if joins_a_group(path):
            return run_script(path, *options)
        monkeypatch.setattr(sys, "argv", [path.name, *map(str, options)])
        with torch.random.fork_rng():
            runpy.run_path(str(path), run_name="__main__")
        told = capsys.readouterr()
        assert not told.err  # no progress bar where nobody looks at it
        return told.out.splitlines()

    return run


# Modules all of whose tests have a mark; pyproject.toml says what marks mean.
MARKS = {
    "process": (
        *("test_ddp", "test_distributed", "test_partitioned", "test_imports"),
        "test_path",
    ),
    "compile": ("test_compiled", "test_triton_work"),
    "example": ("test_examples", "test_notebooks", "test_embedding_examples"),
    "bench": ("test_bench_", "test_reproduce", "test_theory", "test_verify"),
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests by the module that they are in, before `-m` chooses among them."""
    for item in items:
        for mark, modules in MARKS.items():
            if item.path.stem.startswith(modules):
                item.add_marker(mark)


DEVICES = ("simulated", "cuda")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--device cuda` runs the tests of devices on a GPU."""
    what = "device of tests that need one: a GPU, or a simulation of one (simulated)"
    parser.addoption("--device", choices=DEVICES, default=DEVICES[0], help=what)


def pytest_configure(config: pytest.Config) -> None:
    """A GPU that was asked for must be there, and Ctrl-C must mean something.

    A shell starts what runs in the background with signals of the keyboard ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--device") == "cuda" and not torch.cuda.is_available():
        raise pytest.UsageError(
            "'--device' must be 'simulated' where torch finds no GPU (got 'cuda'); "
            f"torch {torch.__version__} says that torch.cuda.is_available() is False"
        )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line per adapter that was not tested, at the end where `-q` shows it."""
    for folder in MISSING:
        reason = f"{HOSTS[folder]} is not installed"
        if folder == "dgl" and sys.version_info >= (3, 12):
            reason += " (the package index has none for Python 3.12 and newer)"
        terminalreporter.write_line(f"gttf_{folder} is not tested: {reason}")


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest):
    """`with device() as gpu:` has a device "cuda", simulated or real."""
    from devices import Device

    return Device(real=request.config.getoption("--device") == "cuda")
