"""Trimming by the model: rows that no later layer reads are not computed.

The first forward pass of a model is run on all rows and recorded: which layer reads the
rows of which other is in autograd's graph, and so is whatever mixes rows in between. A
layer that is followed by d others, one after another, is needed for nodes up to hop d.
"""

from collections import Counter
from copy import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import JumpingKnowledge

from gttf_pyg._compat import in_backward, made_by, shape_of
from gttf_pyg._lazy import LazyRows, first_rows
from gttf_pyg._sampled import Levels, SampledEdgeIndex

ALL = 1 << 30  # a hop that no batch has: all rows

# Operations that make a row of the same row of each operand, as autograd calls them.
_BY_ROW = """
    Abs Add Alias Celu Clamp ClampMax ClampMin Clone Copy Cos Div Elu Erf Exp Expand
    FusedDropout Gelu Hardsigmoid Hardswish Hardtanh LeakyRelu Log Log1P LogSigmoid
    MaskedFill Maximum Minimum Mish Mul NativeDropout NativeLayerNorm Neg Pow
    PreluKernel Reciprocal Relu ReshapeAlias Rsqrt Rsub Selu Sigmoid Silu Sin Softplus
    Sqrt Sub Tanh Threshold ToCopy UnsafeView Unsqueeze View Where _Dropout
"""
BY_ROW = frozenset(_BY_ROW.split())
# The same, if they go along another dimension than that of rows.
_BY_DIM = """
    Amax Amin Cat Cumsum LinalgVectorNorm LogSoftmax Logsumexp Max Mean Min Norm Select
    Softmax Split Squeeze Stack Std Sum Unbind Var
"""
BY_DIM = frozenset(_BY_DIM.split())
# Products, by the operand whose rows become rows.
PRODUCTS = {"Mm": (0,), "Addmm": (0, 1), "_Linear": (0,)}
# Those of them that may move rows to another dimension.
RESHAPES = frozenset(["Expand", "ReshapeAlias", "UnsafeView", "Unsqueeze", "View"])
LAST = (1 << 64) - 1  # -1, as autograd keeps it
NEGATIVE = 1 << 63  # ends from here on count from behind
PLANS = 8  # as many ways to call a model are remembered


UNSEEN = "something that gradients do not follow"

Reached = dict[int, str | None]


class Call(NamedTuple):
    """One call of a layer: whose rows it has read, and what it has made."""

    layer: Any  # the hooks of the layer
    steps: int
    inputs: list[Any]
    others: list[Any]  # of weights and the like, any rows of which may be read
    hidden: bool  # whether some rows came in a way that gradients do not follow
    sums: list[Any]  # of what it has read
    output: Any
    levels: Any  # of the batch


class Plan(NamedTuple):
    """Up to which hop each call of each layer is computed.

    Attributes:
        hops: by the hooks of a layer, one number per call, or `ALL`.
        mixed: by the hooks of a layer, what mixes its rows, if anything does.
        padded: whether outputs keep all rows, of which the later ones are zero.
        outputs: of each tensor that the model returns, (hop, hooks of a layer) that
            say how many rows it has; None if that is not by hops.
    """

    hops: dict[Any, list[int]]
    mixed: dict[Any, str]
    padded: bool
    outputs: list[tuple[int, Any] | None]


class Run:
    """One forward pass of a model over a batch, recorded if there is no plan yet."""

    def __init__(self, plan: Plan | None) -> None:
        self.plan, self.over = plan, False
        self.calls: list[Call] = []
        self.levels: dict[Any, Levels] = {}
        self.bridges: dict[
            Any, list[Any]
        ] = {}  # from the output of a norm to its input
        self._seen: Counter[Any] = Counter()

    def hop(self, layer: Any) -> int | None:
        """Up to which hop this call of a layer is computed; None for all rows."""
        if self.plan is None:
            return None
        hops = self.plan.hops.get(layer, [])
        number = self._seen[layer]
        if self.over:  # called by itself, or again by checkpointing
            number = 0 if in_backward() and len(hops) == 1 else ALL
        elif hops and number >= len(hops):
            raise RuntimeError(
                "'model' must call its layers as in its first forward pass where it is "
                "trimmed (got another call); use fused(model, trim=False)"
            )
        self._seen[layer] += 1
        return hops[number] if number < len(hops) and hops[number] < ALL else None

    def record(self, call: Call) -> None:
        """Keeps the call of a layer for the plan."""
        self.levels[call.layer] = call.levels
        if self.plan is None and not self.over:
            self.calls.append(call)


class Trimmer:
    """The forward hooks of a fused model.

    Args:
        trim: True also trims where a norm mixes rows, so that it sees fewer of them;
            False trims nothing.
    """

    def __init__(self, trim: bool | None) -> None:
        self.trim = trim
        self.plans: dict[Any, Plan] = {}
        self._run: Run | None = None
        self._key: Any = None
        self._had_grad = True

    def __getstate__(self) -> dict[str, Any]:
        """Copies keep plans, and no pass that is under way."""
        return {**self.__dict__, "_run": None}

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def before(self, model: nn.Module, args: Any, kwargs: Any) -> Any:
        """Starts a forward pass; a forward pre-hook."""
        self._run = None  # of a pass that was interrupted
        given = (args, kwargs)
        edges = sampled_in(given)
        known = all(one.sample.levels is not None for one in edges)
        active = any(one.sample.run and not one.sample.run.over for one in edges)
        if self.trim is False or not edges or not known or active:
            return None
        named = [*enumerate(args), *kwargs.items()]
        modes = tuple(part.training for part in model.modules())
        self._key = modes, *(pair for pair in named if _is_option(pair[1]))
        plan = self.plans.get(self._key)
        if plan is None and torch.is_inference_mode_enabled():
            return None  # nothing can be recorded
        self._run = Run(plan)
        for one in edges:
            one.sample.run = self._run
        if plan is not None:
            return None
        self._had_grad = torch.is_grad_enabled()
        torch.set_grad_enabled(True)
        sizes = {n for one in edges for n in _sizes(one.sample.levels)}
        return _marked(args, sizes), _marked(kwargs, sizes)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def after(self, model: nn.Module, args: Any, out: Any) -> Any:
        """Ends a forward pass; a forward hook, called after errors as well."""
        run, self._run = self._run, None
        if run is None:
            return None
        run.over = True
        plan = run.plan
        if plan is None:
            torch.set_grad_enabled(self._had_grad)
            if out is None:
                return None
            plan = _Planner(run).plan(_tensors(out) if _is_known(out) else [])
            while len(self.plans) >= PLANS:
                del self.plans[next(iter(self.plans))]
            self.plans[self._key] = plan
            if not self._had_grad:
                out = _mapped(out, Tensor.detach)
        elif not plan.padded:
            return None
        places = iter(plan.outputs)
        return _mapped(out, lambda x: _cut(x, next(places, None), run.levels))

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def align(self, module: nn.Module, args: Any) -> Any:
        """Cuts what several layers have made to the rows that all of them have."""
        rows = args[0]
        if not isinstance(rows, list | tuple) or len(rows) < 2:
            return None
        shortest = min(x.size(0) for x in rows)
        if all(x.size(0) == shortest for x in rows):
            return None
        return ([x[:shortest] for x in rows], *args[1:])

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def bridge(self, module: nn.Module, args: Any, out: Any) -> None:
        """Records a module whose rows may be fewer; a forward hook."""
        run = self._run
        if run is None or run.plan is not None or not isinstance(out, Tensor):
            return
        if self.trim is True or isinstance(module, JumpingKnowledge):
            run.bridges[out.grad_fn] = [x.grad_fn for x in _tensors(args[0])]


class _Planner:
    """Makes the plan of a recorded pass from autograd's graph."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.made = {call.output: i for i, call in enumerate(run.calls)}
        self.sizes = {n for call in run.calls for n in _sizes(call.levels)}
        self.seeds = max([call.levels.receivers[0] for call in run.calls], default=0)
        self.reached: dict[Any, Reached] = {}
        self.placed: dict[Any, tuple[int, Any] | None] = {}
        self.conflict = False
        self.hops: list[int] = []

    def plan(self, outputs: list[Tensor]) -> Plan:
        """Up to which hop each call must be computed for the seeds' outputs."""
        calls = self.run.calls
        mixed = {call.layer: why for call in calls if (why := self.inside(call))}
        # without tensors among the outputs, nothing says what is read of them
        known = [call.layer not in mixed and bool(outputs) for call in calls]
        self.hops = [0 if one else ALL for one in known]
        ends = [(x.grad_fn, 0) for x in outputs]
        for i in reversed(range(len(calls) + 1)):
            if i < len(calls):
                wanted = min(self.hops[i] + calls[i].steps, ALL)
                ends = [(node, wanted) for node in calls[i].inputs]
                ends += [(node, ALL) for node in calls[i].others]
                for j in range(i if calls[i].hidden else 0):
                    self.hops[j] = ALL
                    mixed.setdefault(calls[j].layer, UNSEEN)
            for node, hop in ends:
                for j, why in self.reach(node, self.made, self.reached).items():
                    self.hops[j] = max(self.hops[j], hop if why is None else ALL)
                    if why is not None:
                        mixed.setdefault(calls[j].layer, why)
        places = [self.place(x.grad_fn) for x in outputs]
        for call in calls:
            for node in call.inputs:
                self.place(node)
        hops: dict[Any, list[int]] = {}
        for call, hop in zip(calls, self.hops, strict=True):
            hops.setdefault(call.layer, []).append(hop)
        return Plan(hops, mixed, self.conflict, places)

    def inside(self, call: Call) -> str | None:
        """The modules that mix rows within a layer, such as a norm in GINConv."""
        if None in call.sums:
            return UNSEEN
        stops = dict.fromkeys((*call.sums, *call.inputs), 0)
        return self.reach(call.output, stops, {}).get(0)

    def reach(
        self, node: Any, stops: dict[Any, int], known: dict[Any, Reached]
    ) -> Reached:
        """The numbers of the nodes that are read here, and what has mixed their rows.

        Args:
            node: where to start, against the direction of the forward pass.
            stops: numbers of the nodes in question.
            known: what was found before.
        """
        if node is None:
            return {}
        if node in stops:
            return {stops[node]: None}
        if node not in known:
            found: Reached = {}
            joined = self.run.bridges.get(node)
            for operand, child in enumerate(joined or _operands(node)):
                for number, why in self.reach(child, stops, known).items():
                    if joined is None:
                        why = why or self.mixes(node, operand)
                    found[number] = found.get(number) or why
            known[node] = found
        return known[node]

    def mixes(self, node: Any, operand: int) -> str | None:
        """The operation, if it makes rows of other rows than the same."""
        name, saved = made_by(node)
        if name in RESHAPES:
            before = shape_of(node.next_functions[operand][0])
            return None if before[:1] == shape_of(node)[:1] else name
        if name in BY_ROW or operand in PRODUCTS.get(name, ()) or _stacked(node):
            return None
        dims = saved.get("dim")
        dims = dims if isinstance(dims, tuple) else (dims,)
        if name in BY_DIM and all(d not in (None, 0, LAST - 1) for d in dims):
            return None
        if name.endswith("BatchNorm") and not saved.get("training", True):
            return None
        if name == "Slice":
            rows = shape_of(node.next_functions[operand][0])[0]
            end = saved["end"] - (LAST + 1) * (saved["end"] >= NEGATIVE)
            prefix = saved["start"] == 0 <= end and not self.seeds < end < rows
            return None if dims != (0,) or prefix else name
        return name

    def place(self, node: Any) -> tuple[int, Any] | None:
        """(hop, layer) that say how many rows there will be; None if hops do not."""
        if node is None:
            return None
        if node in self.made:
            i = self.made[node]
            return self.hops[i], self.run.calls[i].layer
        if node not in self.placed:
            self.placed[node] = self._place(node)
        return self.placed[node]

    def _place(self, node: Any) -> tuple[int, Any] | None:
        joined = self.run.bridges.get(node)
        children = _operands(node) if joined is None else joined
        found = [place for place in map(self.place, children) if place is not None]
        name, saved = made_by(node)
        if name == "Slice" and saved["dim"] == 0 and saved["end"] <= self.seeds:
            return None
        if not found:
            shape = shape_of(node)
            return (ALL, None) if shape and shape[0] in self.sizes else None
        if joined is None and len({hop for hop, _ in found}) > 1:
            self.conflict = True
        return min(found, key=lambda place: place[0])


def _stacked(node: Any) -> Any:
    """The `stack` of tensors that an operation reduces to one of their shape."""
    child = node.next_functions[0][0] if node.next_functions else None
    if child is None or made_by(node)[1].get("dim") not in (0, (0,)):
        return None
    name, saved = made_by(child)
    return child if name == "Stack" and saved["dim"] == 0 else None


def _operands(node: Any) -> list[Any]:
    """The operands of an operation, as nodes of autograd's graph."""
    return [child for child, _ in (_stacked(node) or node).next_functions]


def _cut(x: Tensor, place: Any, levels: dict[Any, Levels]) -> Tensor:
    """The rows of an output that a trimmed pass has."""
    if place is None or place[0] >= ALL or place[1] not in levels:
        return x
    hop, layer = place
    return x[: levels[layer].rows(hop)]


def sampled_in(value: Any) -> list[SampledEdgeIndex]:
    """The edges among the arguments of a model that were sampled."""
    if isinstance(value, SampledEdgeIndex):
        return [value] if value.as_drawn else []
    if isinstance(value, Data | HeteroData):
        return sampled_in([store.get("edge_index") for store in value.edge_stores])
    return [one for item in _items(value) for one in sampled_in(item)]


def _is_option(value: Any) -> bool:
    """True for what says how a model is to be called, such as a flag."""
    if isinstance(value, tuple):
        return all(map(_is_option, value))
    return value is None or isinstance(value, bool | str)


def _items(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []


def _sizes(levels: Any) -> tuple[int, int]:
    return levels.senders[-1], levels.receivers[-1]


def _marked(value: Any, sizes: set[int]) -> Any:
    """`value` with features that autograd follows, so that the graph shows them."""
    features = isinstance(value, Tensor) and value.is_floating_point()
    if features and type(value) in (Tensor, LazyRows) and not value.requires_grad:
        if value.dim() and value.size(0) in sizes:
            value = first_rows(value, value.size(0))
            return value + value.new_zeros(()).requires_grad_()
        return value
    if isinstance(value, Data | HeteroData):
        value = copy(value)
        for store in value.node_stores:
            for key, item in store.items():
                store[key] = _marked(item, sizes)
        return value
    if isinstance(value, dict):
        return {key: _marked(item, sizes) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_marked(item, sizes) for item in value)
    return value


def _mapped(value: Any, change: Any) -> Any:
    """`value` with every tensor in it changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        made = copy(value)
        made.update((key, _mapped(item, change)) for key, item in value.items())
        return made
    if hasattr(value, "_fields"):  # of a NamedTuple
        return type(value)(*(_mapped(item, change) for item in value))
    if type(value) in (list, tuple):
        return type(value)(_mapped(item, change) for item in value)
    return value


def _is_known(value: Any) -> bool:
    """True if all tensors in an output are found by `_tensors`."""
    if isinstance(value, dict):
        return all(map(_is_known, value.values()))
    if type(value) in (list, tuple) or hasattr(value, "_fields"):
        return all(map(_is_known, value))
    return value is None or isinstance(value, Tensor | bool | int | float | str)


def _tensors(value: Any) -> list[Tensor]:
    found: list[Tensor] = []
    _mapped(value, lambda x: found.append(x) or x)  # type: ignore[func-returns-value]
    return found
