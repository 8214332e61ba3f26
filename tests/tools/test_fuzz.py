"""The fuzzer finds nothing, and would find what it is there for."""

import importlib
import os
import random
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="memory is capped with setrlimit")

import fuzz
import fuzz_hosts
from fuzz_host_words import DGL, METIS, PYG
from fuzz_words import ENGINE, RULES, STARTS

PROGRAM = Path(__file__).with_name("fuzz.py")
NAMES = fuzz.words()


@pytest.fixture
def run(monkeypatch, capsys):
    """The program; its children import the modules that this process does."""

    def call(*arguments: str) -> tuple[int, str]:
        path = os.pathsep.join(filter(None, [str(PROGRAM.parent), *sys.path]))
        monkeypatch.setenv("PYTHONPATH", path)
        monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
        monkeypatch.setattr(sys, "argv", [str(PROGRAM), *arguments])
        return fuzz.main(), capsys.readouterr().out

    return call


@pytest.mark.process
def test_fuzz_finds_nothing(run):
    """500 cases take 5 seconds of a processor; `make fuzz` has more."""
    status, told = run("--cases", "500", "--seconds", "60")
    assert status == 0, told
    counts = re.search(r"([\d,]+) results, ([\d,]+) errors", told)
    results, errors = (int(count.replace(",", "")) for count in counts.groups())
    assert min(results, errors) > 125  # arguments are neither tame nor hopeless


ENDS = {
    "np.empty(2**40)": "MemoryError in",
    "toy().edge": "AttributeError in",
    "raise ValueError('no argument is quoted')": "ValueError in",
    "walk(toy(), [9], [1])": "1 errors",
    "walk(toy(), [4], [1])": "1 results",
    # last, as who is left after them begins anew
    "os.abort()": "Crash (-6) in",
    "time.sleep(60)": "Hang in",
}


@pytest.mark.process
def test_fuzz_tells_ends_apart(run):
    status, told = run("--run", "\n".join(ENDS), "--seconds", "2", "--memory", "4")
    assert [line for line, end in ENDS.items() if end not in told] == [], told
    assert "7 cases with seed 0: 1 results, 1 errors, 5 findings" in told
    assert status == 1


BROKEN = """
forest = traverse(toy(), [4], [1]); forest.nodes[1].fill_(4); check(forest)
forest = traverse(toy(), [4], [1]); forest.edges[1].fill_(0); check(forest)
forest = traverse(toy(), [4], [1]); forest.edges[1].fill_(-1); check(forest)
sub = sample_rooted(toy(), [4], [1]); sub.num_sampled_edges[0] = 2; check(sub)
adj = toy(); adj.col[0] = 7; check(adj)
"""


@pytest.mark.parametrize("line", BROKEN.strip().splitlines())
def test_fuzz_checks_results(line):
    assert fuzz.judged(line, dict(NAMES))[0] == "finding"


# Public names of the adapters that no rule calls, and why.
APART = {
    "SampledDegreeWarning": "a warning",
    "BiasedLayerWarning": "a warning",
    "FusedLayers": "what `fused_layers` returns",
    "FusedReport": "what `fused_layers` returns",
    "LayerReport": "what `fused_layers` returns",
    "GraphSAINTSampler": "the base of the other three",
    "install": "takes nothing, and holds for the whole process",
    "installed": "takes nothing",
    "uninstall": "takes nothing",
    "LightningNodeData": "hands its arguments to a loader",
    "LightningLinkData": "hands its arguments to a loader",
    "PartitionedLoader": "needs a graph on disk, in a group of processes",
}


@pytest.mark.parametrize("adapter", ["gttf_pyg", "gttf_dgl"])
def test_fuzz_knows_every_public_name_of_an_adapter(adapter):
    host = {"gttf_pyg": "torch_geometric", "gttf_dgl": "dgl"}[adapter]
    pytest.importorskip(host)
    rules = DGL if adapter == "gttf_dgl" else {**PYG, **METIS}
    text = " ".join(line for lines in rules.values() for line in lines)
    text += Path(fuzz_hosts.__file__).read_text()
    names = set(importlib.import_module(adapter).__all__) - APART.keys()
    assert sorted(name for name in names if not re.search(rf"\b{name}\(", text)) == []


def test_fuzz_rules_have_names_of_their_own():
    names = [*ENGINE, *PYG, *METIS, *DGL]
    assert len(names) == len(set(names)), sorted(names)


ALWAYS_REFUSED = ("damaged(", "CompactAdj.open(", "read_edge_list(")
EVERY = [
    text
    for rule in dict.fromkeys(STARTS)
    for text in RULES[rule]
    if not text.startswith(ALWAYS_REFUSED)
]


@pytest.mark.parametrize("text", EVERY)
def test_fuzz_rules_are_right(text, tmp_path, monkeypatch):
    """Every call, with nothing odd and nothing optional, can give a result."""
    monkeypatch.chdir(tmp_path)
    ends = []
    for seed in range(20):
        line = fuzz.Writer(random.Random(seed), odd=0, optional=0).written(text)
        ends.append(fuzz.judged(line, dict(NAMES)))
        if ends[-1][0] == "result":
            return
    raise AssertionError(ends)


# Lines that did not end as they should, before what they show was mended.
FOUND = """
walk(toy(), torch.arange(5).repeat(20), [1] * 4, bias=Node2VecBias(1, 100), generator=0)
walk(toy(), [], [2**40])
walk(toy(), range(2**40), [1])
walk(toy(), np.ma.masked_array([1, 2], [0, 1]), [1])
walk(timed(), [4], [1], bias=TemporalBias([5.0], window=10**30))
rooted(heavy(), [4], [2], bias=LADIESBias(2**53))
CompactAdj(rowptr=[0, 1], col=[0], num_cols=1).validate()
toy().cuda()
traverse(toy(), [4], [1]).path(torch.tensor(1, dtype=torch.uint16))
DeepWalk.test(torch.rand(4, 1), torch.arange(4), torch.rand(4, 2), torch.arange(4))
mean_rank(lambda pair: pair[0], split_links(ENDS, 9, 0.5), 2**63 - 1)
"""
FOUND_IN_PYG = """
coded(GTTFLinkLoader(stores('csr', None), [2, 2], neg_sampling=()))
no_future(batch=data(batch=torch.zeros(5)), seeds=torch.full((10,), float('inf')))
batches(GTTFLinkLoader(data(), [1], edge_label_time=torch.arange(2), time_attr='time'))
GTTFSampler(data(), [1], time_attr='time').sample_from_nodes(nodes_in(node=[2**62]))
gttf_pyg.Node2Vec(torch.tensor(ENDS), 2**53, 3, 2)
GTTFNorm(data())(data(w=np.ones(10)))
batches(GTTFLinkLoader(data(), [1], neg_sampling_ratio=2**64))
"""
FOUND_IN_DGL = """
gttf_dgl.random_walk(graph(), [0], length=10**30)
gttf_dgl.random_walk(graph(), [0], length=2, restart_prob=torch.ones(2).to('meta'))
blocks(gttf_dgl.GTTFSampler([1], prefetch_node_feats=-1), graph(), [0])
"""
LINES = FOUND
LINES += FOUND_IN_PYG if find_spec("torch_geometric") else ""
LINES += FOUND_IN_DGL if find_spec("dgl") else ""


@pytest.mark.parametrize("backend", ["auto", "torch"])
@pytest.mark.parametrize("line", [line for line in LINES.splitlines() if line])
def test_fuzz_stays_mended(line, backend):
    end, text = fuzz.judged(
        f"with use_backend('{backend}'): check({line})", dict(NAMES)
    )
    assert end != "finding", text
