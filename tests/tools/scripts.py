"""Runs the hosts' example scripts on tiny datasets, with the host's classes and ours.

    python tests/tools/scripts.py --pyg CHECKOUT --dgl CHECKOUT [--only WORD] [--own]

A copy of each script trains for two epochs, in a forked process with a limit of time;
`install()` has put our classes in place, as `python -m gttf_pyg` does. What does not
finish runs again on the host itself, or all of it with --own: the table says who
finished, and whose fault it is where nobody but the host did. See `tiny_datasets` for
what replaces Reddit and the others.
"""

import argparse
import contextlib
import importlib
import os
import re
import runpy
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import torch

COMMON = (
    "lightning.pytorch",
    "sklearn.metrics",
    "sklearn.linear_model",
    "torchmetrics",
)
OF_HOST = {
    "pyg": ("torch_geometric.data.lightning", "torch_geometric.nn", "gttf_pyg"),
    "dgl": ("dgl", "dgl.nn", "gttf_dgl"),
}
USES = re.compile(
    r"(Neighbor|Link|HGT|Cluster|Temporal|LightningNode|LightningLink)\w*(Loader|Sampler|Data)\b|GraphSAINT|ShaDow"
    r"|Node2Vec|RandomNodeLoader|dgl.sampling|dataloading\.[A-FH-Z]|random_walk"
    r"|NeighborSampler|dataloading import \(?\s*[A-FH-Z]"
)
# What a script wants to be told, beside two epochs.
ARGUMENTS = {
    "node_classification.py": "--mode cpu",
    "link_pred.py": "--mode cpu",
    "rgcn-hetero/entity_classify_mb.py": "-d aifb --fanout 3 --batch-size 50 -e 2",
    "rgcn/entity_sample.py": "--dataset aifb",
    "ogbn-products/graphsage/main.py": "--gpu -1 --num-epochs 2 --eval-every 1",
    "ogbn-products/gat/main.py": "--gpu -1 --num-epochs 2",
    "cluster-gat/main.py": "--gpu -1 --num_epochs 2 --num_workers 1",
    "argo/ogb_example.py": "--gpu -1 --num-epochs 2",
    "ogbn-mag/hetero_rgcn.py": "--runs 1",
    "labor/train_lightning.py": "--gpu -1 --num-epochs 2 --dataset cora",
    "vrgcn/train_cv.py": "--gpu 0 --num-epochs 2",
    "ogbn-proteins/gat.py": "--cpu --n-epochs 2 --n-runs 1",
    "node2vec/main.py": "--task train --epochs 2",
    "han/train_sampling.py": "--num_epochs 2",
    "graphsaint/train_sampling.py": "--gpu -1 --task ppi_n",
}
CHANGES = [  # fewer epochs, workers and parts, and no GPU; nothing else is touched
    (r"(for epoch in (?:tqdm\.)?(?:tqdm)?\(?range\()(\d+, *)?\d+\)", r"\g<1>2)"),
    (r"(for epoch in range\()(\d+), (\w+(?:\.\w+)?)( \+ 1)?\)", r"\g<1>\2, 3)"),
    (
        r"(add_argument\(\s*['\"]--?[\w-]*(?:epoch|run)\w*['\"][^)]*default=)\d+",
        r"\g<1>2",
    ),
    (r"((?:max_)?epochs=)\d+", r"\g<1>2"),
    (r"num_workers=\d+", "num_workers=1"),
    (r"(num_part\w*\s*=\s*)\d+", r"\g<1>10"),
    (r"(['\"])(?:cuda|gpu)(?::0)?\1", r"\1cpu\1"),
    (r"\.cuda\(\)", ".cpu()"),
    (r"if not WITH_TORCH_SPARSE:", "if False:"),  # it asks for the host's own needs
    (r"use_uva=[\w.()]+", "use_uva=False"),
]


FAULT = {"finished": "", "host alone": "ours", "neither": "not ours: so on the host"}


def rewritten(text: str) -> str:
    """A script that trains for two epochs."""
    for pattern, put in CHANGES:
        text = re.sub(pattern, put, text)
    return text


def prepare(host: str) -> None:
    """Imports what scripts import, once, and puts tiny datasets in place."""
    import tiny_datasets

    for name in (*COMMON, *OF_HOST[host]):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for name in [name for name in sys.modules if name.startswith("lightning.pytorch")]:
        other = name.replace("lightning.pytorch", "pytorch_lightning", 1)
        sys.modules.setdefault(other, sys.modules[name])
    tiny_datasets.use(host)


def run_script(host: str, whose: str, path: Path, errors: Any) -> None:
    """Runs one script in this process, which is a copy, and ends it."""
    os.setsid()
    status = 1
    try:
        os.chdir(path.parent)
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        os.dup2(errors.fileno(), 2)
        if whose == "ours":
            importlib.import_module(f"gttf_{host}").install()
        words = (w for end, w in ARGUMENTS.items() if str(path).endswith(end))
        sys.argv = [str(path), *next(words, "").split()]
        sys.path.insert(0, str(path.parent))
        torch.manual_seed(0)
        runpy.run_path(str(path), run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def attempt(host: str, whose: str, script: Path, seconds: float) -> tuple[str, float]:
    """Runs one script in a process; what it ended with, and after how long."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as errors:
        copy = Path(folder, *script.parts[-3:])
        copy.parent.mkdir(parents=True)
        for place, room in ((copy, script), (copy.parent, script.parent)):
            for other in room.parent.glob("*.py"):  # what a script may import
                place.with_name(other.name).write_text(rewritten(other.read_text()))
        start = time.monotonic()
        child = os.fork()
        if not child:
            run_script(host, whose, copy, errors)
        ended = 0
        while not ended and time.monotonic() - start < seconds:
            time.sleep(0.1)
            ended, status = os.waitpid(child, os.WNOHANG)
        took = time.monotonic() - start
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # and what it has started
        if not ended:
            os.waitpid(child, 0)
            return "too slow", took
        if status == 0:
            return "finished", took
        errors.seek(0)
        told = errors.read().decode(errors="replace").splitlines()
    lines = [line for line in told if line and line[0] != " "]
    return (lines or ["?"])[-1][:90], took


def scripts_of(checkout: Path, host: str) -> list[Path]:
    """The scripts of a checkout that can be started and use what we stand in for."""
    folder = checkout / "examples" / ("" if host == "pyg" else "pytorch")
    left = (
        "multi_gpu",
        "multigpu",
        "quiver",
        "distributed",
        "llm",
        "cpp",
        "/dist/",
        "MAG240M",
    )
    return [
        path
        for path in sorted(folder.rglob("*.py"))
        if not any(word in str(path.relative_to(folder)) for word in left)
        if starts(path) and USES.search(path.read_text())
    ]


def starts(path: Path) -> bool:
    """True for a script, not a module: it trains when it is run."""
    text = path.read_text()
    return "__main__" in text or bool(
        re.search(r"^(for epoch|\w+ = \w+Loader)", text, re.M)
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pyg", type=Path, help="a checkout of PyG")
    parser.add_argument("--dgl", type=Path, help="a checkout of DGL")
    parser.add_argument("--only", default="", help="scripts whose path has this word")
    parser.add_argument("--own", action="store_true", help="run all on the host, too")
    parser.add_argument("--seconds", type=float, default=120, help="limit per script")
    given = parser.parse_args()
    counts = dict.fromkeys(("finished", "host alone", "neither"), 0)
    for host, checkout in (("pyg", given.pyg), ("dgl", given.dgl)):
        if checkout:
            prepare(host)
        for script in scripts_of(checkout, host) if checkout else []:
            name = f"{host} {script.relative_to(checkout / 'examples')}"
            if given.only not in name:
                continue
            ours, took = attempt(host, "ours", script, given.seconds)
            own = ""
            if given.own or ours != "finished":
                own = attempt(host, "own", script, given.seconds)[0]
            end = "finished" if ours == "finished" else "neither"
            end = "host alone" if end == "neither" and own == "finished" else end
            counts[end] += 1
            print(
                f"| {name} | {ours} | {took:.0f} s | {own} | {FAULT[end]} |", flush=True
            )
    print(", ".join(f"{number} {end}" for end, number in counts.items()))


if __name__ == "__main__":
    main()
