"""`gttf bench step`: training steps of each model, sampling included, on every host."""

import platform
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler.bench import loader
from gttf_sampler.bench.graphs import SEED_TYPE
from gttf_sampler.bench.hosts import (
    LoaderSetting,
    ModeGraph,
    Stepper,
    StepSetting,
    hosts,
)
from gttf_sampler.bench.loader import CLASSES, HIDDEN, made_features
from gttf_sampler.bench.machine import Missing, PeakMemory, Report, conversation
from gttf_sampler.bench.measure import Group, Options, Peer, Work, compare, draw_seeds
from gttf_sampler.bench.models import Products, Step, products, step_of, steppers

CLOSE = 1e-5  # how far outputs may differ, of the largest
PATIENCE = 5.0  # seconds in which a row takes more than a few rounds
PRODUCTS, ELSEWHERE = "products alone", ", allocator tuned"
HERE = "gttf_sampler.bench.step"
WIDE = 602  # features of Reddit, where those that are asked for are fewer
COUNTED = 20  # batches, at least, by whose sizes rows are known to do the same work
# Memory that is freed stays in the process, where fresh pages would cost half a step.
MOST = 1 << 32
MALLOC = f"glibc.malloc.mmap_threshold={MOST}:glibc.malloc.trim_threshold={MOST}"
TUNED = {"GLIBC_TUNABLES": MALLOC}
GIVEN = "given"  # the graph that was asked for
GRAPHS = {
    "database": ModeGraph("5 tables, 12 relations", 0, 0, 32, 5),
    "cora": ModeGraph("as small as Cora", 2_708, 3.9, 1_433),
    "whole": ModeGraph("as large as Reddit", 232_965, 100, WIDE),
}
SCALES = {"whole": 0.1}  # of graphs whose rows take minutes, unless one is asked for


class Model(NamedTuple):
    """A group of rows: a model of two layers on a graph."""

    name: str  # for `--only`
    title: str
    layer: str  # as in `StepSetting`
    graph: str = GIVEN  # or a key of `GRAPHS`
    fanouts: tuple[int, ...] = ()  # those that were asked for, if none
    batch: int = 0
    batches: int = 2  # per round
    hidden: int = HIDDEN
    classes: int = CLASSES
    features: int = 0  # those of the graph, or that were asked for, if none


LAYERS = {
    "sage": "GraphSAGE",
    "gcn": "GCN",
    "gin": "GIN",
    "max": "GraphSAGE, max",
    "gat": "GAT",
    "gatv2": "GATv2",
}
typed = partial(Model, layer="sage", graph="database", batch=512, batches=6)
MODELS = (
    *(Model(layer, title, layer) for layer, title in LAYERS.items()),
    *(Model(f"{k}-{WIDE}", v, k, features=WIDE) for k, v in LAYERS.items()),
    typed("typed", "typed GraphSAGE", fanouts=(10, 10), hidden=128, classes=2),
    typed("typed-wide", "typed GraphSAGE", fanouts=(64, 64), hidden=128, classes=2),
    Model("cora", "GraphSAGE", "sage", "cora", (10, 10), 64, 20, 64, 7),
    Model("inference", "GraphSAGE", "inference", "whole", (-1,), 1024, 1, classes=41),
)


class Rows(NamedTuple):
    """The rows of a model on one host."""

    host: str
    work: Callable[[Any], Work]  # counts a batch
    by_name: dict[str, Stepper]  # ours first


def chosen(only: list[str] | None) -> list[Model]:
    """The models of these names, or all."""
    for name in only or ():
        _check.one_of("--only", name, [model.name for model in MODELS])
    return [model for model in MODELS if only is None or model.name in only]


def reads_graph(only: list[str] | None) -> bool:
    """True if any of these models runs on the graph that was asked for."""
    return any(model.graph == GIVEN for model in chosen(only))


def run(graph: str, options: dict[str, Any], report: Report) -> dict[str, Any]:
    """The job: a group per model of `--only`."""
    stage, groups = Stage(graph, Options(**options)), list[Group]()
    job = {"run": f"{HERE}:serve", "graph": graph, "options": options}
    ask = None
    with ExitStack() as stack:
        for model in chosen(stage.options.only):
            if model.features == stage.options.features and not stage.options.only:
                continue  # its narrower twin is as wide
            report(f"{model.title}: loaders", 0.0)
            found = stage.rows(model)
            tuned = any(row.tuned for rows in found for row in rows.by_name.values())
            if tuned and platform.libc_ver()[0] != "glibc":
                why = "it is glibc's that is tuned, and this is another"
                stage.missing.add(f"rows{ELSEWHERE}", why)
            elif tuned and ask is None:
                ask = stack.enter_context(conversation(TUNED))
                ask(job)
            if found:
                groups.append(_compared(stage, model, found, ask, report))
    return {"groups": groups, "left_out": stage.missing}


def serve(
    graph: str, options: dict[str, Any], report: Report
) -> Generator[Any, dict[str, Any], None]:
    """The job that takes rounds of single rows, and answers with the work they did.

    It is asked for {"model", "host", "row"}, and for "what" if that is not a round: the
    "memory" that a step takes, or the "sizes" of more batches.
    """
    stage, last = Stage(graph, Options(**options)), None
    question = yield None
    while True:
        what = question.pop("what", "round")
        if question != last:
            (model,) = chosen([question["model"]])
            (rows,) = (r for r in stage.rows(model) if r.host == question["host"])
            row, last = rows.by_name[question["row"]], question
            step = step_of(row)
        if what == "memory":
            question = yield _peak(row.loader, step)
        elif what == "sizes":
            question = yield stage.more(row, rows.work)
        else:
            question = yield [rows.work(made) for made in _trained(row.loader, step)]


class Stage:
    """The graph of a model and every host's loaders on it, kept for the next model."""

    def __init__(self, graph: str, options: Options) -> None:
        self.graph, self.options, self.missing = graph, options, Missing()
        self.loaders: dict[str, dict[str, Any]] = {}
        self.counted: dict[int, list[Work]] = {}
        self._key: Any = None

    def setting(self, model: Model, host: str) -> StepSetting:
        """The settings of a model that a host is given."""
        sizes = features_of(model, self.options), model.hidden, model.classes
        return StepSetting(model.layer, sizes, self.loaders.get(host, {}), self.batches)

    def rows(self, model: Model) -> list[Rows]:
        """The rows of every host, in the order of the table."""
        key = model.graph, model.fanouts, features_of(model, self.options)
        there = list(hosts(self.missing))
        if self._key != key:
            self.loaders.clear()  # before the next graph is made
            self.counted.clear()
            self.batches = batches_of(model, self.graph, self.options)
            for host in there:
                self.loaders[host.name] = host.loaders(self.batches, self.missing)
            self._key = key
        found = []
        for host in there:
            if self.loaders[host.name]:
                rows = steppers(host, self.setting(model, host.name), self.missing)
                found.append(Rows(host.name, host.work, rows))
        return [rows for rows in found if rows.by_name]

    def more(self, row: Stepper, work: Callable[[Any], Work]) -> list[Work]:
        """The sizes of batches beyond those of a round, of the same seeds.

        Two batches alone may differ by chance more than they seem to.
        """
        done, key = len(self.batches.seeds), id(row.loader)
        if row.labels is not None and key not in self.counted:
            rounds = range(done, COUNTED, done)
            made = [work(batch) for _ in rounds for batch in row.loader]
            self.counted[key] = made
        return self.counted.get(key, [])


def features_of(model: Model, options: Options) -> int:
    """The numbers of a node that a model reads."""
    if model.graph == GIVEN:
        return model.features or options.features
    return GRAPHS[model.graph].features


def batches_of(model: Model, graph: str, options: Options) -> LoaderSetting:
    """The batches that the loaders of a model make."""
    asked = replace(
        options,
        fanouts=list(model.fanouts or options.fanouts),
        batch=model.batch or options.batch,
        batches=options.batches or model.batches,
        features=features_of(model, options),
        scale=scale_of(model, options),
    )
    if model.graph == GIVEN:
        return loader.read_setting(graph, asked)
    wanted = GRAPHS[model.graph]
    adj, x = loader.made_graph(model.graph, wanted, asked)
    nodes = len(x[SEED_TYPE] if wanted.types > 1 else x)
    _, y = made_features(nodes, 1, asked.seed, model.classes)
    seeds = draw_seeds(nodes, asked.batches, asked.batch, asked.seed)
    device = torch.device(asked.device)
    return LoaderSetting(adj, x, y, asked.fanouts, seeds, asked.workers, device)


def scale_of(model: Model, options: Options) -> float:
    """The size of the graph of a model, where that is not the one asked for."""
    return options.scale or SCALES.get(model.graph, 1.0)


def _compared(
    stage: Stage,
    model: Model,
    found: list[Rows],
    ask: Callable[[Any], Any] | None,
    report: Report,
) -> Group:
    """The rows of a model, with the memory that one step of each takes."""
    seeds, device = stage.batches.seeds, stage.batches.device
    peers, memory = dict[str, Peer](), dict[str, Callable[[], int]]()
    differs = {}
    for host, work, rows in found:
        first = next(iter(rows))
        for name, row in rows.items():
            off = 0.0 if row.like is None else _off(row, rows[row.like])
            if not off <= CLOSE:  # nor is it a number
                differs[name] = f"its outputs are {off:.1e} off those of {row.like}"
            step = step_of(row)
            peers[name] = Peer(
                _taking(row.loader, step),
                work if row.labels else lambda made: Work(),
                counted=stage.more(row, work),
                like=first,
                device=device,
                rounds=row.rounds,
            )
            memory[name] = partial(_peak, row.loader, step)
            if row.tuned and ask is not None:
                question = {"model": model.name, "host": host, "row": name}
                peers[name + ELSEWHERE] = Peer(
                    _asking(ask, question),
                    lambda made: Work(*made),
                    counted=[Work(*n) for n in ask({**question, "what": "sizes"})],
                    like=first,
                )
                memory[name + ELSEWHERE] = partial(ask, {**question, "what": "memory"})
    if model.layer != "inference":
        alone = Products(products(stage.setting(model, "")), device)
        again = [None] * len(seeds)
        peers[PRODUCTS] = Peer(_taking(again, alone.step), bound=True, device=device)
        memory[PRODUCTS] = partial(_peak, again, alone.step)
    title, rounds = _title(stage, model), stage.options.rounds
    group = compare(title, peers, seeds, rounds, report, PATIENCE)
    for row in group["rows"]:
        row["MB"] = memory[row["peer"]]()
        if row["peer"] in differs:
            row |= {"differs": differs[row["peer"]], "ratio": None}
    return {"name": model.name, **group}


def _title(stage: Stage, model: Model) -> str:
    """The model, its sizes, and the graph unless that is in the title of the table."""
    ins, hidden, _ = stage.setting(model, "").sizes
    words = f"{model.title}, 2 layers of {hidden}, {ins:,} features"
    batches = stage.batches
    if model.layer == "inference":
        words = f"all nodes: {words}"
    else:
        size = batches.seeds.shape[1]
        words += f"; fanouts {list(batches.fanouts)}, batch {size:,}"
    if model.graph == GIVEN:
        return words
    nodes = len(batches.x)
    if GRAPHS[model.graph].types > 1:
        nodes = sum(map(len, batches.x.values()))
    scale = scale_of(model, stage.options)
    share = "" if scale == 1 else f" × {scale:g}"
    about = f"{nodes:,} nodes, {batches.adj.num_edges:,} edges"
    return f"{words}; {GRAPHS[model.graph].title}{share}, {about}"


def _taking(batches: Iterable[Any], step: Step) -> Callable[[Tensor], Iterator[Any]]:
    """A step on every batch of a loader, which has its seeds already."""
    return lambda seeds: _trained(batches, step)


def _asking(
    ask: Callable[[Any], Any], question: dict[str, Any]
) -> Callable[[Tensor], Any]:
    """A round in another process."""
    return lambda seeds: ask(question)


def _trained(batches: Iterable[Any], step: Step) -> Iterator[Any]:
    """Takes a step on every batch."""
    for batch in batches:
        step(batch)
        yield batch


@torch.no_grad()
def _off(row: Stepper, like: Stepper) -> float:
    """The largest error of outputs, relative to the largest output of another row."""
    batch = next(iter(like.loader))
    wanted, found = like.logits(batch), row.logits(batch)
    return float((found - wanted).abs().max() / wanted.abs().max())


def _peak(batches: Iterable[Any], step: Step) -> int:
    """Bytes that a step takes beyond what was there before."""
    batch = next(iter(batches))
    with PeakMemory() as seen:
        step(batch)
    return seen.beyond
