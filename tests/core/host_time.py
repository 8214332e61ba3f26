"""The host's time per batch on a GPU: everything but the driver and the GPU themselves.

    python tests/core/host_time.py

Triton's own launcher runs, on a CUDA driver that says yes to everything and does
nothing: a library of a few lines that gcc makes. Tensors are on the CPU, whose
allocator takes about as long as the cache of torch's for CUDA. Numbers that the host
would read back from the device are those of the same batch, drawn before.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

HERE = Path(__file__).parent
SAYS_YES = (
    *("cuGetErrorString", "cuDeviceGet", "cuCtxGetCurrent", "cuDevicePrimaryCtxRetain"),
    *(
        "cuCtxSetCurrent",
        "cuModuleLoadData",
        "cuModuleGetFunction",
        "cuFuncSetAttribute",
    ),
    *("cuFuncSetCacheConfig", "cuCtxGetLimit", "cuCtxSetLimit", "cuLaunchKernelEx"),
    *("cuOccupancyMaxActiveClusters", "cuTensorMapEncodeTiled", "cuDriverGetVersion"),
    *("cuTensorMapEncodeIm2col", "cuInit"),
)
SOURCE = """
int cuDeviceGetAttribute(int *found) { *found = 1 << 16; return 0; }
int cuFuncGetAttribute(int *found) { *found = 1 << 10; return 0; }
int cuPointerGetAttribute(void **found, int which, void *at) { *found = at; return 0; }
"""
SEEDS, FANOUTS, ROUNDS = 1024, [15, 10], 300


@dataclass
class HostWork:
    """The work of the host for one batch.

    Attributes:
        kernels: that it starts.
        asked: how often it has Triton find the variant of a kernel.
        microseconds: of the processor, of the fastest tenth of batches.
    """

    kernels: int
    asked: int
    microseconds: float


def measured() -> dict[str, HostWork]:
    """The work of the host per batch, measured in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        text = SOURCE + "".join(
            f"int {name}(void) {{ return 0; }}\n" for name in SAYS_YES
        )
        code, library = Path(folder, "stub.c"), Path(folder, "libcuda.so.1")
        code.write_text(text)
        subprocess.run(
            ["gcc", "-w", "-shared", "-fPIC", str(code), "-o", str(library)], check=True
        )
        env = {name: v for name, v in os.environ.items() if name[:6] != "TRITON"}
        path = [str(HERE.parents[1]), str(HERE)]
        env |= {"LD_LIBRARY_PATH": folder, "TRITON_LIBCUDA_PATH": folder}
        env |= {"PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"}
        env |= {"TRITON_CACHE_DIR": str(HERE.parents[1] / ".pytest_cache" / "host")}
        done = subprocess.run(
            [sys.executable, __file__, "inside"],
            env=env,
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise RuntimeError(done.stderr)
    found = json.loads(done.stdout.splitlines()[-1])
    return {name: HostWork(**work) for name, work in found.items()}


def inside() -> None:
    """Measures where the stub is the driver."""
    import torch
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.driver import CudaDriver

    from gttf_sampler import CompactAdj, Node2VecBias, traverse
    from gttf_sampler._backends import ops
    from gttf_sampler._check import graphs
    from gttf_sampler.rooted import RootedSampler

    class Driver(CudaDriver):
        def get_current_target(self):
            return GPUTarget("cuda", 80, 32)

    driver = Driver()
    driver.get_current_device = lambda: 0
    driver.get_current_stream = lambda device: 0
    driver.get_device_capability = lambda device: (8, 0)
    triton.runtime.driver.set_active(driver)
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(0, 20_000, (2, 300_000), generator=generator)
    adj = CompactAdj.from_edge_index(ends, 20_000)
    seeds = torch.arange(SEEDS)
    kinds = [("a", f"r{n}", "a") for n in range(5)]
    calls = {}
    for name, graph, start, options in (
        ("`sample_rooted` [15, 10], the default", adj, seeds, {}),
        ("with replacement", adj, seeds, {"replace": True}),
        ("5 relations", dict.fromkeys(kinds, adj), {"a": seeds}, {}),
        ("`padded=True`", adj, seeds, {"padded": True}),
    ):
        sampler = RootedSampler(graph, FANOUTS, validate=False, **options)
        calls[name] = lambda sampler=sampler, start=start: sampler(start, generator=1)
    for name, fanouts, bias in (
        ("forest [15, 10]", FANOUTS, None),
        ("uniform walk of 20 steps", [1] * 20, None),
        ("node2vec walk of 20 steps", [1] * 20, Node2VecBias(0.5, 2)),
    ):
        calls[name] = lambda fanouts=fanouts, bias=bias: traverse(
            adj, seeds, fanouts, bias, generator=1, validate=False
        )
    walks = sys.modules["gttf_sampler.traverse"]
    ops._interpreted = lambda: True  # kernels take tensors of the CPU
    walks._check_inside = graphs.within = lambda *args: None  # devices are not asked
    found = {
        name: asdict(_host_work(call, "padded" in name)) for name, call in calls.items()
    }
    print(json.dumps(found))


def _host_work(call: Any, padded: bool) -> HostWork:
    """The work of the host for a call."""
    import triton

    from gttf_sampler import use_backend
    from gttf_sampler._backends.triton import batch as batches
    from gttf_sampler._backends.triton import launch

    told = None
    if not padded:
        with use_backend("torch"):
            told = call()
    answers = mock.patch.object(batches.Run, "ask", _answers(told))
    with use_backend("triton"), answers:
        call()
        run = mock.patch.object(triton.JITFunction, "run", side_effect=AssertionError)
        with launch.counting() as kernels, run as asked:
            call()
        times = []
        for _ in range(ROUNDS):
            begin = time.thread_time()
            call()
            times.append(time.thread_time() - begin)
    return HostWork(len(kernels), asked.call_count, sorted(times)[ROUNDS // 10] * 1e6)


def _answers(told):
    """`Run.ask` that reads the device, and then answers what a real one would."""

    def ask(run, level):
        kinds, relations, _ = run.sizes
        run.given.read(level, kinds + 2 * relations)
        nodes, edges = told.num_sampled_nodes, told.num_sampled_edges
        if not isinstance(nodes, dict):
            nodes, edges = {"": nodes}, {"": edges}
        taken = [counts[level - 1] for counts in edges.values()]
        return [*(counts[level] for counts in nodes.values()), *taken, *taken]

    return ask


def main() -> None:
    """Prints a table."""
    for name, work in measured().items():
        print(f"| {name} | {work.kernels} | {work.microseconds:.0f} |")


if __name__ == "__main__":
    inside() if sys.argv[1:] == ["inside"] else main()
