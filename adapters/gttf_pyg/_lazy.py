"""LazyRows: features of a batch that stay where they are until somebody looks.

A fused layer reads the rows of its senders where they lie, and is the only reader that
many models have: then no batch needs a copy of its features. To everybody else they are
a tensor, gathered at the first look.
"""

from collections.abc import Callable, Iterator
from functools import partial
from threading import Lock
from typing import Any, NamedTuple, TypeGuard
from weakref import WeakSet

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from gttf_pyg._compat import (
    tree_map,
    version_of,
    without_numbers,
    without_torch_function,
)
from gttf_sampler import gather_rows
from gttf_sampler._backends.memory import empty_rows
from gttf_sampler.aggregate import FLOATS, Receivers, aggregate, row_products
from gttf_sampler.gather import gathers_into

# Fused layers, as long as they live, which read features where they lie.
READERS: WeakSet[Any] = WeakSet()
Map = Callable[[Tensor], Tensor]

CHUNK = 4096  # rows that are multiplied at a time
PATIENCE = 3  # gathers beyond the reads in place, before a column is gathered at once

# What a tensor can say of itself without its numbers.
_PROPERTIES = """
    device dtype grad grad_fn is_cpu is_cuda is_leaf is_meta is_quantized is_sparse
    itemsize layout nbytes ndim requires_grad shape
"""
_METHODS = """
    __len__ dim element_size get_device is_complex is_conj is_contiguous
    is_floating_point is_inference is_neg is_signed ndimension nelement numel size
    stride
"""
METADATA = {
    *(getattr(Tensor, name).__get__ for name in _PROPERTIES.split()),
    *(getattr(Tensor, name) for name in _METHODS.split()),
    *(torch.is_floating_point, torch.is_complex, torch.numel),
}
# What gives the same tensor, or one that shares its memory.
SAME = {Tensor.detach, Tensor.contiguous, Tensor.cpu, torch.detach}
WIDE = (torch.float32, torch.float64)
NARROW = (torch.float16, torch.bfloat16)  # which are added up as float32
CASTS = {
    Tensor.float: torch.float32,
    Tensor.double: torch.float64,
    Tensor.half: torch.float16,
    Tensor.bfloat16: torch.bfloat16,
}


class Use:
    """Counts of reads in place and of gathers of a loader's column."""

    def __init__(self) -> None:
        self.balance = 0

    @property
    def pays(self) -> bool:
        """False once rows were gathered too often for nothing."""
        return self.balance > -PATIENCE


class LazyColumns:
    """The features of a loader that are left where they are.

    Args:
        asked: True for all that can be; None for those that fused layers read in
            place, which are asked for while there are `READERS`.
    """

    def __init__(self, asked: bool | None) -> None:
        self.asked = asked
        self._uses: dict[Any, Use] = {}

    def rows(self, column: Any, values: Any, ids: Tensor) -> Tensor | None:
        """Rows of a column that will be gathered later; None to gather them now."""
        if not _can_wait(values, ids):
            return None
        use = self._uses.setdefault(column, Use())
        if self.asked is None and not use.pays:
            return None
        return LazyRows(Origin(values, ids, values.dtype, use), ids.numel())


def _can_wait(values: Any, ids: Tensor) -> bool:
    """True for ordinary floats [n, f] in memory that nobody trains."""
    if not gathers_into(values) or values.dim() != 2 or values.requires_grad:
        return False
    return values.dtype in FLOATS and ids.dtype == torch.int64 and ids.numel() > 0


class Origin:
    """The rows behind one or several `LazyRows` that would share their memory.

    Attributes:
        source: [n, f], where the rows lie: a tensor, or a `RowSource` such as a file.
        ids: int64 [k], the rows of the batch.
        dtype: of the rows, once they are gathered.
        in_memory: whether the source is a tensor.
        rows: [k, f], once they are gathered.
    """

    def __init__(self, source: Any, ids: Tensor, dtype: torch.dtype, use: Use) -> None:
        self.source, self.ids, self.dtype, self.use = source, ids, dtype, use
        self.in_memory = isinstance(source, Tensor)
        self.rows: Tensor | None = None
        self._lock = Lock()
        self._versions = self._counted()

    def _counted(self) -> list[int | None]:
        """The numbers of changes in place."""
        parts = [self.ids, self.source] if self.in_memory else [self.ids]
        return [version_of(part) for part in parts]

    def at(self, ids: Tensor) -> Tensor:
        """The rows of some ids, in memory of their own."""
        fetch = (
            partial(gather_rows, self.source) if self.in_memory else self.source.rows
        )
        rows: Tensor = fetch(ids)
        return rows.to(self.dtype)

    def check(self) -> None:
        """Refuses rows that have changed since the batch was made."""
        if self._counted() != self._versions:
            raise RuntimeError(
                "features must not be changed in place before a batch has read them "
                "(got changes); use lazy=False in the loader"
            )

    def gather(self, count: int | None = None) -> Tensor:
        """The first rows, in memory of their own."""
        self.check()
        # of a kind that gradients can be taken of, whoever looks first
        with torch.inference_mode(False), torch.no_grad():
            return self.at(self.ids[:count])

    def all_rows(self) -> Tensor:
        """[k, f], gathered by whoever asks first."""
        with self._lock:
            if self.rows is None:
                self.use.balance -= 1
                self.rows = self.gather()
        return self.rows


class LazyRows(Tensor):
    """A tensor [k, f] that is gathered when anything but its shape is asked for.

    From then on it stands for the tensor that was gathered, in-place changes, gradients
    and all. Slices from the first row on wait as well, and so do detached rows: aliases
    with the same memory and a gradient of their own. Copies, pickles and files hold
    what was gathered.
    """

    origin: Origin
    plain: Tensor | None
    alias: bool

    @staticmethod
    def __new__(cls, origin: Origin, count: int, alias: bool = False) -> "LazyRows":
        made: LazyRows = without_numbers(
            cls, (count, origin.source.shape[1]), origin.dtype
        )
        return made

    def __init__(self, origin: Origin, count: int, alias: bool = False) -> None:
        self.origin, self.plain, self.alias = origin, None, alias

    @property
    def waiting(self) -> bool:
        """True until the rows are gathered."""
        return self.origin.rows is None

    def gathered(self) -> Tensor:
        """The rows as an ordinary tensor."""
        if self.plain is None:
            rows = self.origin.all_rows()
            rows = rows.detach() if self.alias else rows
            with without_torch_function():
                count = self.size(0)
            self.plain = rows if count == rows.size(0) else rows[:count]
        return self.plain

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs, first = kwargs or {}, args[0] if args else None
        if isinstance(first, LazyRows) and first.waiting:
            if func in METADATA:
                with without_torch_function():
                    return func(*args, **kwargs)
            found = _waits(func, first, args[1:], kwargs)
            if found is not None:
                return found
        found = func(*tree_map(_gathered, args), **tree_map(_gathered, kwargs))
        same = isinstance(first, LazyRows) and found is first.plain
        return first if same else found

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Gives calls below `__torch_function__` the rows, without a gradient."""
        args, kwargs = (tree_map(_gathered, given) for given in (args, kwargs or {}))
        tracked = (one.requires_grad for one in args if isinstance(one, Tensor))
        if torch.is_grad_enabled() and any(tracked):
            raise RuntimeError(
                "features must not require gradients in compiled code while they are "
                "lazy (got some that do); use lazy=False in the loader"
            )
        return func(*args, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.gathered().__reduce_ex__(protocol)


def _gathered(value: Any) -> Any:
    return value.gathered() if isinstance(value, LazyRows) else value


def _waits(func: Any, x: LazyRows, args: Any, kwargs: Any) -> Any:
    """The result of `func` if that need not look at all rows; None if it must."""
    if func in SAME and not args and not kwargs:
        return LazyRows(x.origin, x.size(0), True) if func.__name__ == "detach" else x
    if func in CASTS and not args and not kwargs:
        return _cast(x, CASTS[func])
    if func is Tensor.to:
        return _moved(x, *args, **kwargs)
    if func is Tensor.index_select:
        dim, index = _by_name(("dim", "index"), args, kwargs)
        return _some(x, index) if dim in (0, -2) else None
    if func is Tensor.narrow:
        names = "dim", "start", "length"
        dim, start, length = _by_name(names, args, kwargs)
        within = dim in (0, -2) and start == 0 and 0 <= int(length) <= x.size(0)
        return _prefix(x, int(length)) if within else None
    if func is functional.linear:
        return _linear(x, *args, **kwargs)
    if func is not Tensor.__getitem__:
        return None
    (index,) = args
    first = isinstance(index, slice) and index.start in (None, 0)
    if first and index.step in (None, 1):
        return _prefix(x, index.indices(x.size(0))[1])
    if type(index) is Tensor and index.dtype == torch.int64 and index.dim() == 1:
        return _some(x, index)
    return None


def _by_name(names: tuple[str, ...], args: Any, kwargs: Any) -> Iterator[Any]:
    """Arguments in this order, however they were given; None for one that was not."""
    given = dict(zip(names, args, strict=False)) | kwargs
    return map(given.get, names)


def _prefix(x: LazyRows, count: int) -> Tensor:
    """The first rows; none of them need no memory to share."""
    if count == 0:
        return torch.empty(0, x.size(1), dtype=x.dtype)
    return LazyRows(x.origin, count, True)


def _some(x: LazyRows, index: Tensor) -> Tensor | None:
    """Rows of a batch by position, in memory of their own."""
    own = type(index) is Tensor and index.dtype == torch.int64 and index.dim() == 1
    if not own or index.device != x.device or index.numel() >= x.size(0):
        return None
    origin = x.origin
    origin.check()
    with torch.no_grad():
        return origin.at(origin.ids[: x.size(0)][index])


def _cast(x: LazyRows, dtype: torch.dtype) -> LazyRows:
    """The same rows in another dtype, which they are read in from the start."""
    origin = x.origin
    if dtype == x.dtype:
        return x
    if origin.dtype != origin.source.dtype:  # rounded once, they must be so again
        return None  # type: ignore[return-value]
    origin.check()
    ids = origin.ids[: x.size(0)]
    return LazyRows(Origin(origin.source, ids, dtype, origin.use), x.size(0))


def _moved(x: LazyRows, *args: Any, **kwargs: Any) -> Any:
    """`x.to(…)` if rows stay on the CPU and are not copied; None otherwise."""
    given = [*args, *kwargs.values()]
    names = set(kwargs) - {"device", "dtype", "non_blocking"}
    known = all(isinstance(v, torch.device | torch.dtype | str | bool) for v in given)
    if names or not known or len([v for v in args if isinstance(v, bool)]) > 1:
        return None
    devices = [torch.device(v) for v in given if isinstance(v, torch.device | str)]
    if any(device.type != "cpu" for device in devices):
        return None
    dtypes = [v for v in given if isinstance(v, torch.dtype)]
    if any(dtype not in FLOATS for dtype in dtypes):
        return None
    return _cast(x, dtypes[0]) if dtypes else x


def reduce_rows(
    x: Tensor,
    edges: Receivers,
    weight: Tensor | None,
    reduce: str,
    out: Tensor | None = None,
) -> Tensor:
    """`aggregate` of rows wherever they are; narrow floats are read as they lie."""
    tracked = weight is not None and weight.requires_grad and torch.is_grad_enabled()
    wide = isinstance(x, LazyRows) and x.dtype == torch.float32 and not tracked
    matrix, edges = in_place(x, edges, wide)
    if matrix.dtype != x.dtype and out is None:
        out = empty_rows((edges.num_receivers, matrix.shape[1]), x.dtype)
    return aggregate(matrix, edges, weight, reduce, out)


class Sums(NamedTuple):
    """The arguments of `reduce_rows`; without edges, all sums are zero."""

    x: Tensor
    edges: Receivers | None
    weight: Tensor | None
    reduce: str

    def tensor(self, rows: int) -> Tensor:
        """[rows, f], with gradients."""
        x, edges, weight, reduce = self
        if edges is None:  # gradients are zero then, not None
            return functional.pad(x[:0], (0, 0, 0, rows))
        return reduce_rows(x, edges, weight, reduce)


def side_by_side(terms: list[Sums], own: Tensor, rows: int) -> Tensor:
    """[sums | … | first rows of `own`], written in one place; without gradients."""
    widths = [*(term.x.size(1) for term in terms), own.size(1)]
    together = empty_rows((rows, sum(widths)), own.dtype)
    *places, last = together.split(widths, 1)
    for (x, edges, weight, reduce), place in zip(terms, places, strict=True):
        if edges is None:
            place.zero_()
        else:
            reduce_rows(x, edges, weight, reduce, place)
    every = torch.arange(rows + 1)
    reduce_rows(own, Receivers(every, every[:rows]), None, "sum", last)
    return together


def waits(x: Tensor) -> TypeGuard[LazyRows]:
    """True for rows in memory that nobody has gathered yet."""
    return isinstance(x, LazyRows) and x.waiting and x.origin.in_memory


def in_place(
    x: Tensor, edges: Receivers, widened: bool = False
) -> tuple[Tensor, Receivers]:
    """The matrix that rows can be read from, and edges that lead to them there.

    Args:
        x: the rows of a batch.
        edges: that lead to them.
        widened: whether narrower floats than those of `x` will do.
    """
    if not isinstance(x, LazyRows):
        return x, edges
    origin = x.origin
    alike = x.dtype == origin.source.dtype
    readable = alike or (widened and origin.source.dtype in NARROW)
    if not (x.waiting and origin.in_memory and readable):
        return x.gathered(), edges
    origin.check()
    origin.use.balance += 1
    index = origin.ids[edges.index]
    return origin.source, Receivers(edges.ptr, index, edges.edge)


def first_rows(x: Tensor, count: int) -> Tensor:
    """The first rows, which are only read: as an ordinary tensor if from memory."""
    if isinstance(x, LazyRows) and x.waiting:
        count = min(count, x.size(0))
        return x.origin.gather(count) if x.origin.in_memory else _prefix(x, count)
    return _gathered(x)[:count]  # type: ignore[no-any-return]


def product(x: Tensor, weight: Tensor) -> Tensor:
    """Rows times few columns of weights, without gathering all rows at once."""
    alike = x.dtype == weight.dtype and x.dtype in WIDE
    if waits(x) and alike and not torch.is_autocast_enabled("cpu"):
        origin = x.origin
        if origin.source.dtype in (x.dtype, torch.bfloat16):
            origin.check()
            return row_products(origin.source, origin.ids[: x.size(0)], weight)
    if isinstance(x, LazyRows) and x.waiting:
        return _Product.apply(weight, x.origin, x.size(0))  # type: ignore[no-untyped-call,no-any-return]
    return x @ weight


class _Product(Function):
    """Products of lazy rows with a matrix that has gradients, some rows at a time."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, origin: Origin, count: int) -> Tensor:
        ctx.origin, ctx.count = origin, count
        ctx.save_for_backward(weight)
        return _by_chunks(origin, count, lambda rows: rows @ weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        (weight,) = ctx.saved_tensors
        found = torch.zeros_like(weight)
        parts = zip(_chunks(ctx.origin, ctx.count), grad.split(CHUNK), strict=True)
        for rows, part in parts:
            found.addmm_(rows.t().to(found.dtype), part.to(found.dtype))  # of autocast
        return found, None, None


def _linear(x: LazyRows, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    """A linear map of rows that are fetched, without fetching all of them at once."""
    tracked = any(y is not None and y.requires_grad for y in (weight, bias))
    if x.origin.in_memory or (tracked and torch.is_grad_enabled()):
        return None
    with torch.no_grad():
        change = partial(functional.linear, weight=weight, bias=bias)
        return _by_chunks(x.origin, x.size(0), change)


def _by_chunks(origin: Origin, count: int, change: Map) -> Tensor:
    """The image of the rows under a map, some of them at a time."""
    none = change(torch.empty(0, origin.source.shape[1], dtype=origin.dtype))
    out = none.new_empty(count, *none.shape[1:])
    for part, rows in zip(out.split(CHUNK), _chunks(origin, count), strict=True):
        part.copy_(change(rows))
    return out


def _chunks(origin: Origin, count: int) -> Iterator[Tensor]:
    """Some rows at a time."""
    origin.check()
    for ids in origin.ids[:count].split(CHUNK):
        yield origin.at(ids)
