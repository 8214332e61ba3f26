"""Tensors that no call here can read, and the sentence that every refusal is."""

from collections.abc import Callable, Container

import pytest
import torch
from torch import Tensor

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
    """What an error must read like: the quoted argument, a rule, what was received."""
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
