"""Whatever cannot be read is refused in one sentence that names the argument."""

from dataclasses import replace

import pytest
import torch

from gttf_sampler import (
    AttentionBias,
    CompactAdj,
    DeepWalkAcc,
    EdgeWeightBias,
    ExcludeBias,
    LADIESBias,
    Node2VecAcc,
    Node2VecBias,
    RootedAdjAcc,
    TemporalBias,
    TransitionAcc,
    TransitionFactorizationAcc,
    WYSAcc,
    gather_rows,
    sample_rooted,
    set_backend,
    traverse,
)
from gttf_sampler.embedding import (
    DeepWalk,
    Node2Vec,
    WatchYourStep,
    largest_component,
    link_auc,
    mean_rank,
    roc_auc,
    split_links,
)
from gttf_sampler.graph import read_edge_list, write_embeddings
from gttf_sampler.objectives import NegativeSampler
from gttf_sampler.plot import communities, draw_embeddings
from gttf_sampler.rooted import walk_subgraph
from odd_values import HUGE, IGNORED, refused, refused_if_odd, sentence

ENDS = torch.tensor([[0, 1, 1, 1, 1, 2, 3, 3, 4, 4], [1, 0, 2, 3, 4, 1, 1, 4, 1, 3]])
EDGES = {"edge_index": ENDS, "num_nodes": 5, "direction": "out"}
TOY = CompactAdj.from_edge_index(**EDGES)
FOREST = traverse(TOY, [0, 4], [2, 2], generator=0)
SUB = sample_rooted(TOY, [0, 4], [2], generator=0)
SPLIT = split_links(ENDS, 9, 0.5, generator=0)
TEN, FIVE, IDS = torch.arange(10), torch.arange(5), torch.tensor([0, 1])
VECTORS, CLASSES = torch.rand(5, 4), torch.tensor([0, 1, 0, 1, 0])


def build(**changes):
    return CompactAdj.from_edge_index(**{**EDGES, **changes})


def rows(**changes):
    given = {"rowptr": TOY.rowptr, "col": TOY.col, "num_cols": 5, **changes}
    return CompactAdj.from_csr(**given)


def answers(weight):
    """A bias, or a score, that says the same to everything."""
    return lambda *arguments: weight


# name of the argument → (a call that takes it, a tensor that it takes)
TENSORS = {
    "edge_index": (lambda x: build(edge_index=x), ENDS),
    "edge_weight": (lambda x: build(edge_weight=x), TEN),
    "edge_time": (lambda x: build(edge_time=x), TEN),
    "node_time": (lambda x: build(node_time=x), FIVE),
    "rowptr": (lambda x: rows(rowptr=x), TOY.rowptr),
    "col": (lambda x: rows(col=x), TOY.col),
    "edge_id": (lambda x: rows(edge_id=x), TEN),
    "node": (lambda x: TOY.neighbor(x, 0), IDS),
    "slot": (lambda x: TOY.neighbor(1, x), IDS),
    "neighbor": (lambda x: TOY.edges_between(0, x), IDS),
    "edge": (lambda x: ExcludeBias(x), IDS),
    "seeds": (lambda x: traverse(TOY, x, [1]), IDS),
    "fanouts": (lambda x: sample_rooted(TOY, [0], x), torch.tensor([2, 1])),
    "bias": (lambda x: traverse(TOY, [1], [1], answers(x)), torch.ones(4)),
    "score_fn": (
        lambda x: traverse(TOY, [1], [1], AttentionBias(answers(x))),
        torch.ones(4),
    ),
    "seed_time": (lambda x: TemporalBias(x), IDS),
    "weight": (lambda x: SUB.to_sparse(x), torch.ones(SUB.num_edges)),
    "values": (lambda x: gather_rows(x, IDS), VECTORS),
    "index": (lambda x: gather_rows(VECTORS, x), IDS),
    "embedding": (lambda x: DeepWalkAcc(x, 2).loss(FOREST), VECTORS),
    "left": (lambda x: WYSAcc(x, VECTORS, torch.zeros(2)), VECTORS),
    "right": (lambda x: TransitionFactorizationAcc(VECTORS, x, [1.0]), VECTORS),
    "context": (lambda x: WYSAcc(VECTORS, VECTORS, x), torch.zeros(2)),
    "p": (lambda x: Node2VecAcc(VECTORS, 2, p=x), torch.tensor(2.0)),
    "batch": (lambda x: DeepWalk(TOY, 2)(x), IDS),
    "positive": (lambda x: roc_auc(x, torch.rand(3)), torch.rand(2)),
    "negative": (lambda x: roc_auc(torch.rand(3), x), torch.rand(2)),
    "score": (lambda x: link_auc(answers(x), SPLIT), torch.rand(2)),
    "train_z": (lambda x: DeepWalk.test(x, CLASSES, VECTORS, CLASSES), VECTORS),
    "test_y": (lambda x: DeepWalk.test(VECTORS, CLASSES, VECTORS, x), CLASSES),
    "label": (lambda x: draw_embeddings(VECTORS, x, method="pca"), CLASSES),
}
# what `gather_rows` can do without us
LEFT_TO_TORCH = {
    "values": ["meta", "quantized", "bits8", "float8", "sparse", "complex"],
    "index": ["meta"],
}


@IGNORED
@pytest.mark.parametrize("name", TENSORS)
def test_messages_of_odd_tensors(name):
    lone = ["jagged"] if TENSORS[name][1].dim() == 0 else []
    refused_if_odd(TENSORS[name], name, [*lone, *LEFT_TO_TORCH.get(name, [])])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: build(num_nodes=HUGE), "num_nodes"),
        (lambda: build(num_nodes=(HUGE, 5)), "num_nodes"),
        (lambda: rows(num_cols=HUGE), "num_cols"),
        (lambda: split_links(ENDS, HUGE), "num_nodes"),
        (lambda: largest_component(ENDS, HUGE), "num_nodes"),
        (lambda: traverse(TOY, [0], [HUGE]), "fanouts"),
        (lambda: traverse(TOY, [], [HUGE]), "fanouts"),
        (lambda: traverse(TOY, [0], range(HUGE)), "fanouts"),
        (lambda: traverse(TOY, range(HUGE), [1]), "seeds"),
        (lambda: traverse(TOY, [HUGE], [1]), "seeds"),
        (lambda: sample_rooted(TOY, [0], [HUGE], replace=True), "fanouts"),
        (lambda: DeepWalk(TOY, 2, window=HUGE), "window"),
        (lambda: DeepWalk(TOY, 2, window=1 << 40), "window"),
        (lambda: DeepWalk(TOY, HUGE), "embedding_dim"),
        (lambda: DeepWalk(TOY, 1 << 50), "embedding_dim"),
        (lambda: WatchYourStep(TOY, 1 << 50), "embedding_dim"),
        (lambda: DeepWalkAcc(VECTORS, HUGE), "window"),
        (lambda: DeepWalkAcc(VECTORS, 2, HUGE), "num_negatives"),
        (lambda: DeepWalkAcc(VECTORS, 2, 1 << 50).loss(FOREST), "num_negatives"),
        (
            lambda: WYSAcc(VECTORS, VECTORS, torch.zeros(2), 1 << 50).loss(FOREST),
            "num_negatives",
        ),
        (lambda: TransitionAcc(HUGE), "k"),
        (lambda: LADIESBias(HUGE), "size"),
        (lambda: LADIESBias(1 << 50), "size"),
        (lambda: FOREST.path(HUGE), "k"),
        (lambda: FOREST.text(HUGE), "tree"),
        (lambda: NegativeSampler(TOY).draw(HUGE), "shape"),
        (lambda: NegativeSampler(TOY).draw((1 << 30, 1 << 30)), "shape"),
        (lambda: mean_rank(answers(0), SPLIT, HUGE), "num_negatives"),
        (lambda: communities(TOY, HUGE), "rounds"),
    ],
)
def test_messages_of_huge_numbers(call, name):
    refused(call, name)


def test_messages_of_huge_windows_of_time():
    """No number of this size is too large for a span of time."""
    for time in (TEN, TEN / 2):
        adj = build(edge_time=time)
        bias = TemporalBias(torch.tensor([9]).to(time), window=HUGE)
        assert sample_rooted(adj, [1], [-1], bias=bias).num_edges == 4
        assert traverse(adj, [1], [2], bias * answers(torch.ones(4))).depth == 1


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (
            lambda: replace(TOY, num_cols=torch.tensor([6])).validate(),
            TypeError,
            sentence("num_cols", "must be an integer"),
        ),
        (
            lambda: replace(TOY, num_cols=torch.tensor(6).to_sparse()).validate(),
            TypeError,
            sentence("num_cols", "must be an integer"),
        ),
        (lambda: TOY.to("zz"), TypeError, sentence("device", "must be a device")),
        (lambda: TOY.to(None), TypeError, sentence("device", "must be a device")),
        (lambda: TOY.to("xpu:9"), ValueError, "'device' must be .* there .got 'xpu:9'"),
        (lambda: FOREST.to("zz"), TypeError, sentence("device", "must be a device")),
        (lambda: TOY.cuda(HUGE), ValueError, sentence("device", "must be below")),
        (
            lambda: traverse(TOY.to("meta"), [0], [1]),
            TypeError,
            sentence("rowptr", "must be a dense tensor"),
        ),
        (
            lambda: sample_rooted({("a", "r", "a"): build().to("meta")}, {}, [1]),
            TypeError,
            sentence("rowptr", "must be a dense tensor"),
        ),
    ],
)
def test_messages_of_devices(call, error, match):
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: traverse(CompactAdj, [0], [1]), "adj"),
        (lambda: sample_rooted(CompactAdj, [0], [1]), "adj"),
        (lambda: sample_rooted({("a", "r", "a"): CompactAdj}, {}, [1]), "adj"),
        (lambda: traverse(TOY, torch.Tensor, [1]), "seeds"),
        (lambda: traverse(TOY, [0], list), "fanouts"),
        (lambda: traverse(TOY, [0], [1], EdgeWeightBias), "bias"),
        (lambda: traverse(TOY, [0], [1], accumulate=RootedAdjAcc), "accumulate"),
        (lambda: traverse(TOY, [0], [1], generator=torch.Generator), "generator"),
        (lambda: traverse(TOY, [0], [1], replace=bool), "replace"),
        (lambda: EdgeWeightBias() * EdgeWeightBias, "right"),
        (lambda: AttentionBias(torch.nn.Linear), "score_fn"),
        (lambda: Node2VecBias(float), "p"),
        (lambda: DeepWalkAcc(torch.nn.Embedding, 2), "embedding"),
        (lambda: DeepWalkAcc(VECTORS, int), "window"),
        (lambda: DeepWalkAcc(VECTORS, 2).loss(type(FOREST)), "forest"),
        (lambda: Node2VecAcc(VECTORS, 2).loss(type(FOREST)), "forest"),
        (lambda: WYSAcc(VECTORS, VECTORS, torch.Tensor), "context"),
        (lambda: TransitionFactorizationAcc(VECTORS, VECTORS, list), "coefficients"),
        (lambda: DeepWalk(CompactAdj, 2), "adj"),
        (lambda: NegativeSampler(CompactAdj), "adj"),
        (lambda: communities(CompactAdj), "adj"),
        (lambda: walk_subgraph(type(FOREST)), "forest"),
        (lambda: SUB.induced(CompactAdj), "adj"),
        (lambda: link_auc(answers, type(SPLIT)), "split"),
        (lambda: link_auc(torch.nn.Linear, SPLIT), "score"),
        (lambda: roc_auc(torch.Tensor, torch.rand(2)), "positive"),
        (lambda: gather_rows(torch.Tensor, IDS), "values"),
        (lambda: set_backend(str), "name"),
        (lambda: read_edge_list(str), "path"),
    ],
)
def test_messages_of_classes(call, name):
    refused(call, name)


MISTYPED = {
    r"'values' must be a tensor \(got \[": lambda: gather_rows([[1.0]], IDS),
    r"'index' must be a tensor \(got \[": lambda: gather_rows(VECTORS, [0]),
    r"'index' must have dtype int32 or int64 \(got torch.float32\)": lambda: (
        gather_rows(VECTORS, torch.tensor([0.5]))
    ),
    r"'positive' must be a tensor \(got \[": lambda: roc_auc([1.0], torch.rand(2)),
    r"'negative' must be a tensor \(got \[": lambda: roc_auc(torch.rand(2), [1.0]),
    r"'embedding' must be a tensor \(got \[": lambda: write_embeddings(
        "v.npy", [[1.0]], ["a"]
    ),
    r"'node_id' must be an array or a list of ids \(got str\)": lambda: (
        write_embeddings("v.npy", VECTORS, "abcde")
    ),
    r"'seeds' must be a tensor \(got \[10{30}\]\)": lambda: traverse(TOY, [HUGE], [1]),
    r"'sparse' must be True or False \(got \[1\]\)": lambda: DeepWalk(
        TOY, 2, sparse=[1]
    ),
    r"'trainable' must be True or False \(got 1\)": lambda: Node2Vec(
        TOY, 2, trainable=1
    ),
    r"'sort_by_time' must be True or False \(got": lambda: build(
        edge_time=TEN, sort_by_time=TEN
    ),
    r"'embedding' must hold floats \(got torch.int64\)": lambda: DeepWalkAcc(
        lambda node: node, 2
    ).loss(FOREST),
    r"'path' must be a path \(got 3\)": lambda: read_edge_list(3),
}
WRONG = {
    r"'index' must hold ids below the number of rows 5 \(got 5\)": lambda: gather_rows(
        VECTORS, torch.tensor([5])
    ),
    r"'index' must not hold negative ids \(got -1\)": lambda: gather_rows(
        VECTORS, torch.tensor([-1])
    ),
    r"'values' must have rows \(got shape \[\]\)": lambda: gather_rows(
        torch.tensor(1.0), IDS
    ),
    r"'accumulate' must not hold the same object twice \(got": lambda: traverse(
        TOY, [0], [1], accumulate=[same := RootedAdjAcc(), same]
    ),
    r"'embedding' must have a vector for .*\(got none for node 4\)": lambda: (
        DeepWalkAcc(torch.nn.Embedding(4, 2), 2).loss(FOREST)
    ),
    r"'embedding' must give one vector per node, shape \[24, d\] \(got shape": lambda: (
        DeepWalkAcc(lambda node: torch.rand(3, 2), 2).loss(FOREST)
    ),
    r"'right' must have vectors as long as those of 'left', 4 \(got 3\)": lambda: (
        WYSAcc(VECTORS, torch.rand(5, 3), torch.zeros(2)).loss(FOREST)
    ),
    r"'test_z' must have as many columns as 'train_z', 4 \(got 3\)": lambda: (
        DeepWalk.test(VECTORS, CLASSES, torch.rand(5, 3), CLASSES)
    ),
    r"'train_y' must not hold negative classes \(got -1\)": lambda: DeepWalk.test(
        VECTORS, CLASSES - 1, VECTORS, CLASSES
    ),
    r"'path' must be a path that a file can have \(got '\\x00'\)": lambda: (
        read_edge_list("\0")
    ),
}


@pytest.mark.parametrize("match", [*MISTYPED, *WRONG])
def test_messages_of_other_things(match):
    error = TypeError if match in MISTYPED else ValueError
    with pytest.raises(error, match=match):
        {**MISTYPED, **WRONG}[match]()


def test_messages_of_integers_that_python_does_not_write():
    with pytest.raises(ValueError, match=r"'p' must be finite .*\(got int\)"):
        Node2VecBias(10**5000, 1)
