"""Tensors that no call here can read, and the sentence that every refusal is."""

from collections.abc import Callable, Container
from typing import Any

import pytest
import torch
from torch import Tensor

from gttf_sampler import EdgeWeightBias, TemporalBias

# torch says of these that they may go, in the first test that makes one
IGNORED = pytest.mark.filterwarnings(
    "ignore:The PyTorch API of nested tensors",
    "ignore:torch.quantize_per_tensor",
)

HUGE = 10**30

ODD: dict[str, Callable[[Tensor], Tensor]] = {
    "meta": lambda x: x.to("meta"),
    "nested": lambda x: torch.nested.nested_tensor([x, x]),
    "jagged": lambda x: torch.nested.nested_tensor(
        [x.reshape(-1, 1)] * 2, layout=torch.jagged
    ),
    "bits8": lambda x: x.to(torch.uint8).view(torch.bits8),
    "quantized": lambda x: torch.quantize_per_tensor(x.float(), 1.0, 0, torch.qint8),
    "float8": lambda x: x.to(torch.float8_e5m2),
    "sparse": lambda x: x.to_sparse(),
    "complex": lambda x: x.to(torch.complex64),
}


Case = tuple[Callable[[Tensor], object], Tensor]  # a call, and a tensor that it takes


def sentence(name: str, rule: str = ".*") -> str:
    """The pattern of an error: the quoted argument, a rule, the value received."""
    return rf"^'{name}' {rule}.*\(got .+\)"


def refused(call: Callable[[], object], name: str) -> None:
    """Fails unless `call` is refused in a sentence that names the argument."""
    with pytest.raises((TypeError, ValueError), match=sentence(name, "must")):
        call()


def refused_if_odd(case: Case, name: str, but: Container[str] = ()) -> None:
    """Fails unless a call takes a tensor, and refuses odd ones that are made of it."""
    call, value = case
    call(value)
    for kind in ODD:
        try:
            odd = ODD[kind](value)
        except RuntimeError:  # torch has no such tensor of this shape
            continue
        if kind not in but:
            taken = f"a {kind} tensor is taken"
            refused(lambda odd=odd, taken=taken: (call(odd), pytest.fail(taken)), name)


def wrong(rule: str, **arguments: object) -> tuple[object, type[Exception], str]:
    """Arguments, the first of which a ValueError names, and how its sentence begins."""
    named = rule if rule.startswith("'") else f"'{next(iter(arguments))}' {rule}"
    return arguments, ValueError, named


def mistyped(rule: str, **arguments: object) -> tuple[object, type[Exception], str]:
    """The same of a TypeError."""
    return arguments, TypeError, wrong(rule, **arguments)[2]


def returns(value: Any) -> Callable[..., Any]:
    """A BiasFn with a fixed answer."""
    return lambda path, node, hood: value


def fills(value: float, dtype: torch.dtype = torch.float32) -> Callable[..., Any]:
    """A BiasFn that gives every neighbour the same weight."""
    return lambda path, node, hood: torch.full((hood.edge.numel(),), value, dtype=dtype)


DRAWS = [  # what is refused by whatever draws from `toy`, of seed 1
    mistyped("must be a CompactAdj", adj="graph"),
    mistyped("must be a CompactAdj", adj=None),
    wrong(r"must hold ids below .* 5 \(got 5\)", seeds=[5]),
    wrong(r"must not hold negative ids \(got -1\)", seeds=[-1]),
    mistyped("must have dtype int32 or int64 .*float32", seeds=[1.0]),
    mistyped(r"must have dtype .*bool\); turn a mask", seeds=[True]),
    wrong(r"must have .*\(got shape \[\]\)", seeds=2),
    wrong(r"must have .*\(got shape \[1, 1\]\)", seeds=[[2]]),
    mistyped(r"must be .*\(got NoneType\)", seeds=None),
    mistyped(r"must be .*\(got dict\)", seeds={"a": [1]}),
    mistyped(r"must be a list of integers \(got 3\)", fanouts=3),
    mistyped("must be a list of integers", fanouts=None),
    mistyped("must be a list of integers .*'12'", fanouts="12"),
    mistyped("must be a list of integers", fanouts=b"12"),
    mistyped("must be a list of integers .*2.0", fanouts=[2.0]),
    mistyped("must be a list of integers .*True", fanouts=[True]),
    mistyped("must be a list of int", fanouts=[torch.tensor(2.5)]),
    mistyped("must be .*5", bias=5),
    mistyped("must be .*'weight'", bias="weight"),
    mistyped("must be ", bias=EdgeWeightBias),
    mistyped("must be ", bias=TemporalBias),
    wrong("needs edge weights .*; build", bias=EdgeWeightBias()),
    wrong("needs edge times .*; build", bias=TemporalBias([1])),
    wrong("'seed_time' must have one entry per seed", bias=TemporalBias([1, 2])),
    mistyped(r"must return a tensor \(got float\)", bias=returns(1.0)),
    mistyped(r"must return a tensor \(got NoneTyp", bias=returns(None)),
    wrong(r"must return one .*\[4\] \(got shape \[2\]", bias=returns(torch.ones(2))),
    wrong(r"must not .* NaN \(got NaN\)", bias=fills(float("nan"))),
    wrong(r"must .*finite weights \(got inf\)", bias=fills(float("inf"))),
    wrong(r"must not .*negative.*\(got -1.0\)", bias=fills(-1.0)),
    mistyped("must be .*1.5", generator=1.5),
    mistyped("must be .*'seed'", generator="seed"),
]
