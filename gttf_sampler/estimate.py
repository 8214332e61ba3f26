"""Unbiased estimates: weights of draws, and a check of a model layer by layer."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from gttf_sampler import _check
from gttf_sampler._compat import Shadows

Row = TypeVar("Row")


def share(total: Tensor, receiver: Tensor) -> Tensor:
    """The `total` of every node, divided among the edges it has drawn; float [n].

    With `total` = δ this is δ / |S|: a sum over |S| uniform draws, with or without
    replacement, times this number has the expectation of the sum over all δ neighbours.
    A node without draws has its whole total, of which there is nothing to multiply.

    >>> import torch
    >>> share(torch.tensor([4.0, 3.0]), receiver=torch.tensor([0, 0]))
    tensor([2., 3.])

    Args:
        total: float [n], what the neighbours of a node are together.
        receiver: [e], the node that has drawn each edge.
    """
    drawn = torch.zeros_like(total)
    drawn.scatter_add_(0, receiver.long(), total.new_ones(()).expand(receiver.numel()))
    return total / drawn.clamp_(min=1)


# The status of a layer in a host's table: what `unbiased` makes of it.
EXACT = "exact"  # the expectation of a layer is its value on the whole graph
RATIO = "ratio"  # an estimate divided by an estimate: off by O(1 / |S|)
WARNED = "warned"  # no estimate; `unbiased` says so and leaves the layer as it is
REFUSED = "refused"  # no estimate, and `unbiased` does not take the layer
PARTS = "parts"  # the layer is made of others, which have rows of their own
SCALES = ("sum",)


def host_class(table: Mapping[str, Any], layer: Any, host: str) -> type | None:
    """The first class of the host among the bases of a layer that the table has."""
    for kind in type(layer).__mro__:
        if kind.__module__.startswith(f"{host}.") and kind.__name__ in table:
            return kind
    return None


def row_of(table: Mapping[str, Row], layer: Any, host: str) -> Row | None:
    """The row of a layer in the table of a host; or None."""
    kind = host_class(table, layer, host)
    return None if kind is None else table[kind.__name__]


def no_estimate(name: str) -> str:
    """The reason why an aggregation has no estimate."""
    return f"a sample says nothing of the {name!r} of all neighbours"


def checked_model(model: Any, scale: Any) -> None:
    """Checks the arguments of both hosts' `unbiased`."""
    _check.model(model)
    if scale is not None:
        _check.one_of("scale", scale, SCALES)


class SampledDegreeWarning(UserWarning):
    """Names a layer that divides by degrees of a sample; nothing gives it any more.

    It is kept for filters that name it. `check_unbiased` says which layers do so.
    """


class BiasedLayerWarning(UserWarning):
    """A layer of an unbiased model stays biased, or nobody knows whether it does."""


SLIGHT = 1e-4  # of the value: a bias that nobody need care for
OUTPUT = " (output)"  # of a layer, behind what it propagates
ROUNDING = 1e-6  # of the value: no bias at all


@dataclass(frozen=True)
class LayerCheck:
    """The error of one layer in the mean over batches.

    Attributes:
        name: of the layer in the model.
        kind: its class.
        bias: the part of its output, in the mean over batches, that is not that of the
            whole graph: a relative error, with the noise of the batches taken out.
        errors: the same in standard errors; a few happen by chance.
        cure: what to do about it; None if the layer is right.
    """

    name: str
    kind: str
    bias: float
    errors: float
    cure: str | None = None


@dataclass(frozen=True)
class UnbiasedReport:
    """The result of `check_unbiased`; true if no layer is biased.

    Attributes:
        layers: one entry per call of a layer, in the order of the calls.
        rounds: how many batches the means are of.
        tolerance: how many standard errors are put down to chance.
    """

    layers: tuple[LayerCheck, ...]
    rounds: int
    tolerance: float

    @property
    def ok(self) -> bool:
        """True if every layer agrees with the whole graph."""
        return all(layer.cure is None for layer in self.layers)

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        """A table with a line per layer, and what to do."""
        words = ["layer", "class", "bias", "standard errors", ""]
        lines = [words]
        for one in self.layers:
            verdict = "fine" if one.cure is None else f"off: {one.cure}"
            figures = f"{one.bias:.2%}", f"{one.errors:.1f}"
            lines.append([one.name, one.kind, *figures, verdict])
        widths = [max(len(line[i]) for line in lines) for i in range(5)]
        text = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        word = "unbiased" if self.ok else "biased"
        text.append(
            f"{word}: mean of {self.rounds} batches against the whole graph, "
            f"up to {self.tolerance:g} standard errors"
        )
        return "\n".join(text)


def assess(drawn: Tensor, exact: Tensor) -> tuple[float, float]:
    """(relative bias, the same in standard errors) of outputs [rounds, …].

    One half of the batches says in which direction the mean is off, the other half by
    how much: a single number per batch, whose expectation is zero without bias. The
    product of both means estimates the squared bias without that of the noise.
    """
    off = (drawn.double() - exact.double()).flatten(1)
    first, second = off[0::2].mean(0), off[1::2]
    along = second @ first
    square = float(first @ second.mean(0))
    size = float(exact.double().norm())
    bias = max(square, 0.0) ** 0.5 / max(size, 1e-30)
    if bias < ROUNDING:
        return bias, 0.0
    error = float(along.std()) / len(along) ** 0.5
    return bias, float(along.mean()) / error if error else float("inf")


Ids = Callable[[dict[str, Any]], Tensor]


class Passes:
    """Forward passes of a model, recorded layer by layer.

    The pass over the whole graph comes first. In those that follow, a layer may be
    given the inputs it had there instead of those that the layers before it have made
    of a sample: then it is judged by itself, and what lies between layers need not be
    linear.

    Args:
        layers: by name, what to record.
        ids: the global ids of the nodes that a layer is given, of its arguments.
        inner: per name of a layer, the method whose results to record: what the layer
            does to them afterwards need not be linear either.
        outer: the names of layers whose own results to record, as they may divide by
            degrees only there; by default all without an inner method.
    """

    def __init__(
        self,
        layers: dict[str, nn.Module],
        ids: Ids,
        inner: Mapping[str, str] | None = None,
        outer: Collection[str] = (),
    ) -> None:
        self.layers, self.ids, self.inner = layers, ids, inner or {}
        self.outer = outer
        self.inputs: list[dict[str, Any]] = []
        self.outputs: list[tuple[str, Tensor]] = []
        self._place = 0  # among the calls of a pass

    @contextmanager
    def whole(self) -> Any:
        """Records the inputs and outputs of the whole graph."""
        with self._hooked(self._keep_inputs):
            yield

    @contextmanager
    def sampled(self, replace_inputs: bool) -> Any:
        """Records outputs; the layers may get the inputs of the whole graph."""
        self.outputs, self._place = [], 0
        with self._hooked(self._put_inputs if replace_inputs else None):
            yield

    @contextmanager
    def _hooked(self, before: Any) -> Any:
        handles: list[Any] = []
        for name, layer in self.layers.items():
            inner = self.inner.get(name)
            keep = _Keep(name, self.outputs, inner)
            if before is not None:
                how = {"with_kwargs": True, "prepend": True}
                handles.append(layer.register_forward_pre_hook(before, **how))
            if inner is not None:
                handles.append(layer.register_forward_pre_hook(keep.enter))
                leave = layer.register_forward_hook(keep.leave, prepend=True)
                handles.append(leave)
            if inner is None or name in self.outer:
                handles.append(layer.register_forward_hook(keep.output, prepend=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _keep_inputs(self, layer: Any, args: Any, kwargs: Any) -> None:
        self.inputs.append(arguments(layer, args, kwargs))

    def _put_inputs(self, layer: Any, args: Any, kwargs: Any) -> Any:
        named, exact = arguments(layer, args, kwargs), self.inputs[self._place]
        self._place += 1
        ids = self.ids(named)
        return (), {k: _rows(v, exact.get(k), ids) for k, v in named.items()}


class _Keep:
    """Records what one layer gives, or one of its methods while the layer runs."""

    def __init__(
        self, name: str, outputs: list[tuple[str, Tensor]], inner: str | None
    ) -> None:
        self.name, self.outputs, self.inner = name, outputs, inner or ""
        self.shadows = Shadows()

    def enter(self, layer: Any, args: Any) -> None:
        """Stands in for the method; after all that others have put in its place."""
        method, steps = getattr(layer, self.inner), []

        def stand_in(*args: Any, **kwargs: Any) -> Any:
            out = method(*args, **kwargs)
            steps.append(out)
            name = self.name if len(steps) == 1 else f"{self.name} ({len(steps)})"
            rows = out.detach().movedim(getattr(layer, "node_dim", 0), 0)
            self.outputs.append((name, rows))
            return out

        self.shadows.put(layer, self.inner, stand_in)

    def leave(self, layer: Any, args: Any, out: Any) -> None:
        """Gives the place back; before others do."""
        self.shadows.restore()

    def output(self, layer: Any, args: Any, out: Any) -> None:
        """Records what the layer gives."""
        out = out[0] if isinstance(out, tuple) else out
        name = f"{self.name}{OUTPUT}" if self.inner else self.name
        self.outputs.append((name, out.detach()))


@contextmanager
def replaced(parts: Iterable[tuple[Any, str, Any]]) -> Any:
    """Sets attributes, each an (object, name, value), and then sets them back."""
    own = [(owner, name, getattr(owner, name), new) for owner, name, new in parts]
    for owner, name, _, new in own:
        setattr(owner, name, new)
    try:
        yield
    finally:
        for owner, name, value, _ in own:
            setattr(owner, name, value)


@contextmanager
def evaluating(model: nn.Module) -> Any:
    """The model in evaluation mode, and afterwards as it was."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def arguments(layer: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments of a layer's forward by name, for hooks."""
    names = list(inspect.signature(type(layer).forward).parameters)[1:]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _rows(value: Any, exact: Any, ids: Tensor) -> Any:
    """The rows of `exact` for the nodes that `value` has rows for."""
    if isinstance(value, tuple) and isinstance(exact, tuple):
        return tuple(_rows(*both, ids) for both in zip(value, exact, strict=True))
    if not (isinstance(value, Tensor) and isinstance(exact, Tensor)):
        return value
    if not value.is_floating_point() or value.shape[1:] != exact.shape[1:]:
        return value
    if value.dim() < 2 or value.shape[0] > ids.numel():
        return value
    return exact[ids[: value.shape[0]].to(exact.device)]


class Trial(NamedTuple):
    """The options of both hosts' `check_unbiased`, where they are explained."""

    seeds: int
    rounds: int
    tolerance: float
    linear: bool

    def checked(self, forward: Any) -> Trial:
        """These options, after checks of what the caller passed."""
        _check.at_least(1, "seeds", self.seeds)
        _check.at_least(8, "rounds", self.rounds)
        _check.finite("tolerance", self.tolerance)
        if forward is not None:
            _check.functions("forward", [forward], many=True)
        return self

    def positions(self, count: int) -> Tensor:
        """Evenly spaced positions among `count` seeds."""
        every = torch.linspace(0, count - 1, min(self.seeds, count))
        found: Tensor = every.long().unique()
        return found

    def report(
        self,
        passes: Passes,
        whole: Callable[[], Any],
        batch: Callable[[], Any],
        nodes: Tensor,
        cure: Callable[[nn.Module], str],
    ) -> UnbiasedReport:
        """Compares layers where `whole` computes the graph, and `batch` a new batch.

        The first nodes of every batch are `nodes`; `cure` has advice on a layer.
        """
        with passes.whole():
            whole()
        exact = [(name, out[nodes.to(out.device)]) for name, out in passes.outputs]
        drawn = []
        for _ in range(self.rounds):
            with passes.sampled(replace_inputs=not self.linear):
                batch()
            drawn.append([(name, out[: len(nodes)]) for name, out in passes.outputs])
        found = []
        for call, (name, right) in enumerate(exact):
            each = torch.stack([one[call][1] for one in drawn])
            bias, errors = assess(each, right)
            place, paren, step = name.partition(" (")
            layer = passes.layers[place]
            off = bias > SLIGHT and errors > self.tolerance
            shown = ".".join(filter(None, ["model", place])) + paren + step
            advice = cure(layer) if off else None
            if not (right.isfinite().all() and each.isfinite().all()):
                where = "on batches" if right.isfinite().all() else "on the whole graph"
                bias = errors = float("nan")
                advice = f"a model without NaN and infinities, which it gives {where}"
            found.append(LayerCheck(shown, type(layer).__name__, bias, errors, advice))
        return UnbiasedReport(tuple(found), self.rounds, self.tolerance)


def warn_of_biased(left: Mapping[str, str], stacklevel: int) -> None:
    """Names the layers that `unbiased` leaves biased, each with the reason."""
    if left:
        named = "; ".join(f"{kind} ({why})" for kind, why in left.items())
        warnings.warn(
            f"'unbiased' cannot vouch for {named}; 'check_unbiased' says by how much "
            "they are off",
            BiasedLayerWarning,
            stacklevel=stacklevel + 1,
        )
