"""Odd values for arguments, and odd things to do to them."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

NUMBERS = [
    "0", "1", "-1", "-5", "3", "2**31", "2**31 - 1", "-2**31", "2**32", "2**40",
    "2**53", "2**62", "2**63 - 1", "2**63", "-2**63", "2**64", "10**30", "-10**30",
    "0.0", "-0.0", "1.5", "0.5", "1e-320", "1e300", "float('nan')", "float('inf')",
    "-float('inf')", "True", "1j", "np.int8(3)", "np.uint64(2**63)", "np.float16(2)",
    "np.bool_(True)", "np.array(2)", "torch.tensor(2)", "torch.tensor(2.0)",
    "torch.tensor(True)", "decimal.Decimal(2)", "fractions.Fraction(1, 2)",
]  # fmt: skip
OBJECTS = [
    "None", "...", "''", "'zz'", "b'ab'", "'cuda'", "'meta'", "'cpu:7'", "object()",
    "object", "int", "torch.Tensor", "CompactAdj", "EdgeWeightBias",
    "torch.nn.Embedding", "torch.float32", "torch.device('meta')", "len", "print",
    "lambda *a: None", "iter([])", "(i for i in [0, 1])", "range(3)", "range(2**40)",
    "{}", "{1}", "{'a': 1}", "set()", "[]", "()", "[[]]", "[None]", "['x']", "[0.5]",
    "[True, False]", "[10**30]", "[-1]", "[2**31]", "[2**40]", "[2**63 - 1]",
    "[3, 0]", "[[0, 1], [1]]", "[[0, 1], [1, 0]]", "slice(3)", "np", "Exception('x')",
    "collections.deque([1])", "bytearray(3)", "memoryview(b'abc')",
    "array.array('q', [0, 1])", "toy()", "toy",
]  # fmt: skip
ARRAYS = [
    "torch.zeros(0)", "torch.zeros(2, 0)", "torch.zeros(0, 5)", "torch.zeros(())",
    "torch.zeros(1, 1, 1)", "torch.ones(3)", "torch.ones(5)", "torch.ones(10)",
    "torch.full((10,), float('nan'))", "torch.full((10,), float('inf'))",
    "-torch.ones(10)", "torch.arange(10)", "torch.arange(3)", "torch.tensor([2**62])",
    "torch.full((2, 3), 2**63 - 1)", "torch.full((2, 3), -1)",
    "torch.tensor([-2**63])", "torch.full((10,), 1e38).double() ** 8",
    "torch.tensor([2**31, 2**40])", "np.zeros(3)", "np.array(['a', 'b'])",
    "np.array([None, 1])", "np.zeros((2, 2, 2))",
    "np.ma.masked_array([1, 2], [0, 1])", "np.zeros(2, 'M8[s]')",
    "np.zeros(2, 'i4,f4')", "torch.nn.Parameter(torch.ones(10))", "torch.eye(5)",
    "torch.eye(2).long()",
]  # fmt: skip


class Disguise(Tensor):
    """A subclass of Tensor that does nothing."""


def _inference(x: Tensor) -> Tensor:
    with torch.inference_mode():
        return x.clone()


def _readonly(x: Any) -> Any:
    made = np.array(x)
    made.flags.writeable = False
    return made


ON_TENSORS = {
    "meta": lambda x: x.to("meta"),
    "nested": lambda x: torch.nested.nested_tensor([x, x]),
    "jagged": lambda x: torch.nested.nested_tensor([x, x], layout=torch.jagged),
    "quantized": lambda x: torch.quantize_per_tensor(x.float(), 0.5, 0, torch.qint8),
    "coo": lambda x: x.to_sparse(),
    "csr": lambda x: (
        x.view(1, -1).to_sparse_csr() if x.dim() < 2 else x.to_sparse_csr()
    ),
    "mkldnn": lambda x: x.float().to_mkldnn(),
    "bits8": lambda x: x.to(torch.uint8).view(torch.bits8),
    "float8": lambda x: x.to(torch.float8_e4m3fn),
    "half": lambda x: x.half(),
    "bfloat16": lambda x: x.bfloat16(),
    "double": lambda x: x.double(),
    "complex64": lambda x: x.to(torch.complex64),
    "conj": lambda x: x.to(torch.complex64).conj(),
    "negated": lambda x: torch.complex(x.double(), -x.double()).conj().imag,
    "bool": lambda x: x.bool(),
    "uint8": lambda x: x.to(torch.uint8),
    "uint16": lambda x: x.to(torch.uint16),
    "uint32": lambda x: x.to(torch.uint32),
    "uint64": lambda x: x.to(torch.uint64),
    "int8": lambda x: x.to(torch.int8),
    "int16": lambda x: x.to(torch.int16),
    "int32": lambda x: x.to(torch.int32),
    "strided": lambda x: torch.stack([x, x - 1], -1)[..., 0],
    "expanded": lambda x: x[:1].expand(x.shape),
    "grad": lambda x: (x if x.is_floating_point() else x.double()).requires_grad_(),
    "inference": _inference,
    "subclass": lambda x: x.as_subclass(Disguise),
    "nan": lambda x: x.double().index_fill(0, torch.tensor([0]), float("nan")),
    "minus": lambda x: -x - 1,
    "huge": lambda x: x + 2**62,
    "deeper": lambda x: x[None],
    "flatter": lambda x: x.reshape(-1),
    "transposed": lambda x: x.t(),
    "shorter": lambda x: x[:-1],
    "longer": lambda x: torch.cat([x, x]),
    "repeated": lambda x: x.repeat_interleave(3),
    "shared": lambda x: x.clone().share_memory_(),
}
ON_ANYTHING = {
    "reversed": lambda x: np.asarray(x)[::-1],
    "numpy": np.asarray,
    "readonly": _readonly,
    "big_endian": lambda x: np.asarray(x).astype(np.asarray(x).dtype.newbyteorder(">")),
    "objects": lambda x: np.asarray(x).astype(object),
    "listed": lambda x: [x],
    "tupled": lambda x: (x, x),
    "text": lambda x: repr(x),
    "class_of": type,
    "iterator": iter,
    "mapping": lambda x: {"a": x},
    "float": float,
    "string": lambda x: np.asarray(x).astype(str),
    "wrapped": lambda x: [x] * 3,
}
TWISTS = {**ON_TENSORS, **ON_ANYTHING}


def twist(how: str, value: Any) -> Any:
    """`value` after one of the twists, or as it is where that one does not apply."""
    try:
        if how in ON_TENSORS:
            if isinstance(value, dict):
                return tree_map_only(Tensor, ON_TENSORS[how], value)
            return ON_TENSORS[how](torch.as_tensor(value))
        return ON_ANYTHING[how](value)
    except Exception:
        return value
