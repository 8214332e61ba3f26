"""fused(): layers that sum rows where they lie, and only rows that are read."""

from functools import partial
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch_geometric.nn import (
    HeteroConv,
    JumpingKnowledge,
    Linear,
    MessagePassing,
    norm,
)
from torch_geometric.nn.models.basic_gnn import BasicGNN

from gttf_pyg._compat import forward_pre_hooks
from gttf_pyg._fuse import FusedSum, fusion_of, part_of, why_not
from gttf_pyg._lazy import READERS
from gttf_pyg._propagate import MatrixPropagate, PatchedPropagate, check_drawn_by
from gttf_pyg._relations import FusedHetero
from gttf_pyg._sampled import CORRECTED, SampledEdgeIndex
from gttf_pyg._table import rule_of
from gttf_pyg._trim import ALL, Call, Trimmer
from gttf_pyg.unbiased import (
    EDGE_ARGUMENTS,
    check_draws,
    correction_of,
    parameters,
)
from gttf_sampler._check import mistyped, shown
from gttf_sampler.dropout import replace_dropout
from gttf_sampler.linear import replace_linear

Model = TypeVar("Model", bound=nn.Module)
Hooks = TypeVar("Hooks")

NORMS = (_NormBase, *(getattr(norm, name) for name in norm.__all__))


def fused(model: Model, trim: bool | None = None) -> Model:
    """`model`, whose step on batches of our loaders is now several times faster.

    >>> import torch
    >>> from torch_geometric.datasets import KarateClub
    >>> from torch_geometric.nn import GraphSAGE
    >>> from gttf_pyg import NeighborLoader, fused
    >>> data = KarateClub()[0]
    >>> model = fused(GraphSAGE(data.num_features, 16, num_layers=2, out_channels=4))
    >>> loader = NeighborLoader(data, num_neighbors=[5, 5], batch_size=8)
    >>> batch = next(iter(loader))
    >>> model(batch.x, batch.edge_index).shape  # the seeds' rows
    torch.Size([8, 4])

    Messages are added up where they lie, instead of being copied to every edge first,
    and a layer is computed only for nodes that later layers read: that is most of the
    gain. Outputs and gradients of the seeds are the same as before, to rounding.

    The model is changed in place, by hooks on its layers: parameters, `state_dict` and
    class stay, copies and pickles keep the hooks, and edges that no loader of this
    package has sampled are computed as ever. `fused_layers` says what became of each
    layer. It may be combined with `unbiased` in any order. Modules of
    `torch.nn.Dropout` draw other random numbers, in a tenth of the time.

    Args:
        model: a layer or a model of PyG, or any module that contains some. To be
            trimmed, it must be what is called with the edges of a batch.
        trim: None trims where this changes nothing but the time; where a norm mixes
            rows, such as BatchNorm while training, all rows stay. True trims there as
            well, so that the norm sees fewer rows. False trims nothing; then the output
            has all rows of the batch.
    """
    if not isinstance(model, nn.Module):
        mistyped("model", "must be a torch.nn.Module", shown(model))
    if trim is not None and not isinstance(trim, bool):
        mistyped("trim", "must be None, True or False", shown(trim))
    for layer in model.modules():
        if fusion_of(layer) is not None and hooks_of(layer, FusedLayer) is None:
            hooks = FusedLayer()
            layer.register_forward_pre_hook(
                hooks.before, with_kwargs=True, prepend=True
            )
            layer.register_forward_hook(hooks.after, always_call=True)
    for layer in model.modules():
        if isinstance(layer, HeteroConv) and hooks_of(layer, FusedHetero) is None:
            hetero = FusedHetero(_hooks_of_layer, _left)
            layer.register_forward_pre_hook(
                hetero.before, with_kwargs=True, prepend=True
            )
            layer.register_forward_hook(hetero.after, always_call=True)
    replace_dropout(model)
    replace_linear(model, (nn.Linear, Linear))
    known = hooks_of(model, Trimmer)
    if known is not None:
        known.trim = trim
        known.plans.clear()
        return model
    trimmer = Trimmer(trim)
    model.register_forward_pre_hook(trimmer.before, with_kwargs=True, prepend=True)
    for part in model.modules():
        if isinstance(part, BasicGNN):
            part.inference = partial(_inference, part)
        if isinstance(part, JumpingKnowledge):
            part.register_forward_pre_hook(trimmer.align)
        if isinstance(part, (JumpingKnowledge, *NORMS)):
            part.register_forward_hook(trimmer.bridge)
    model.register_forward_hook(trimmer.after, always_call=True)
    return model


def _inference(model: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """`BasicGNN.inference` of a fused model."""
    from gttf_pyg.inference import by_loader  # which itself needs `fused`

    return by_loader(model, *args, **kwargs)


class FusedLayer:
    """The forward hooks of one layer; they do nothing unless its edges were sampled.

    While the layer runs, its `propagate` is patched, below that of `unbiased` if there
    is one: that says which weight an edge has, this adds up.
    """

    def __init__(self) -> None:
        self.by_host = False  # on its last batch
        CORRECTED.add(self)
        READERS.add(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Registers copies and unpickled ones as well."""
        self.__init__()  # type: ignore[misc]

    def __getstate__(self) -> dict[str, Any]:
        return {"kind": type(self).__name__}

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def before(self, layer: Any, args: Any, kwargs: Any) -> Any:
        """Prepares a layer for edges that were sampled; a forward pre-hook."""
        stale = layer.__dict__.get("propagate")
        if isinstance(stale, FusedSum):  # of a call that was interrupted
            stale.shadows.restore()
        named = dict(zip(parameters(layer.__class__), args, strict=False)) | kwargs
        edges, fusion = named.get("edge_index"), fusion_of(layer)
        sampled = isinstance(edges, SampledEdgeIndex)
        if fusion is None or not sampled or _left(layer, edges, named) is not None:
            return None
        x, run, steps = named["x"], edges.sample.run, fusion.steps(layer)
        source, target = x if isinstance(x, tuple | list) else (x, x)
        hop = None if run is None else run.hop(self)
        if hop is not None:
            _check_rows(layer, source.size(0), hop + steps, edges.sample.levels)
        part = part_of(edges, target.size(0), hop, steps)
        patched = fusion.kind(layer, fusion, part)
        if run is not None:
            patched.run, patched.inputs = run, [source.grad_fn, target.grad_fn]
            patched.others = [
                value.grad_fn
                for name, value in named.items()
                if name != "x" and isinstance(value, Tensor) and value.requires_grad
            ]
            patched.hidden = not all(rows.requires_grad for rows in (source, target))
            if run.plan is not None and run.plan.padded:
                patched.pad_to = target.size(0)
        patched.arrange(source)
        correction = correction_of(layer)
        if correction is not None and rule_of(layer) is not None:
            check_draws(layer, edges)
        if correction is not None and _weighed(layer, edges):
            check_drawn_by(edges)
            patched.estimate(correction.scale)
        if fusion.pair:
            named["x"] = patched.given(source, target)
        rule = rule_of(layer)
        if rule is None or rule.matrix is None:
            _shorten(named, edges, part.num_edges)
            seen = 0 if fusion.kind.scores else part.num_edges
            named["edge_index"] = edges.plain[:, :seen]
            if fusion.kind.scores:
                patched.attr = named.pop("edge_attr", None)
        elif correction_of(layer) is not None:  # whose hook comes next
            _shorten(named, edges, part.num_edges)
            named["edge_index"] = edges.narrow(1, 0, part.num_edges)
        else:
            patched.edges = edges.shape[1]
            nodes = edges.sample.node[1].numel()
            MatrixPropagate(layer, rule, dict(named), nodes)
            _shorten(named, edges, 0)  # its own normalisation finds nothing to do
            named["edge_index"] = edges.plain[:, :0]
        return (), named

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def after(self, layer: Any, args: Any, out: Any) -> Any:
        """Restores the layer; a forward hook, called after errors as well."""
        patched = None
        while isinstance(found := layer.__dict__.get("propagate"), PatchedPropagate):
            patched = found
            found.shadows.restore()
        if not isinstance(patched, FusedSum) or not isinstance(out, Tensor):
            return None
        rows, run, self.by_host = patched.part.rows, patched.run, patched.by_host
        if out.size(0) > rows:  # of steps that had to have as many rows as the first
            out = out[:rows]
        if run is not None:
            steps, levels = patched.fusion.steps(layer), patched.part.levels
            given = patched.inputs, patched.others, patched.hidden
            run.record(Call(self, steps, *given, patched.sums, out.grad_fn, levels))
        if patched.pad_to is not None:
            out = nn.functional.pad(out, (0, 0, 0, patched.pad_to - rows))
        return out


def _hooks_of_layer(layer: Any) -> FusedLayer | None:
    return hooks_of(layer, FusedLayer)


class LayerReport(NamedTuple):
    """The outcome of `fused` for one layer.

    Attributes:
        name: of the layer in the model.
        kind: its class.
        status: "fused", "fused, trimmed" or "as it was".
        why: why it is not fused or not trimmed; "" if there is nothing to say.
    """

    name: str
    kind: str
    status: str
    why: str


class FusedReport(NamedTuple):
    """The outcome of `fused` for the layers of a model; prints as a table."""

    layers: list[LayerReport]

    def __str__(self) -> str:
        head = LayerReport("layer", "class", "computed", "because")
        rows = [head, *self.layers]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) for cell, width in zip(row, widths, strict=True)
            )
            for row in rows
        ]
        return "\n".join(line.rstrip() for line in lines)


def fused_layers(model: nn.Module) -> FusedReport:
    """Reports the outcome of `fused` for each layer that passes messages.

    >>> from torch_geometric.nn import GraphSAGE
    >>> from gttf_pyg import fused, fused_layers
    >>> print(fused_layers(fused(GraphSAGE(8, 16, num_layers=2))))
    layer    class     computed  because
    convs.0  SAGEConv  fused     rows that are not read are known after the first batch
    convs.1  SAGEConv  fused     rows that are not read are known after the first batch

    Layers are trimmed from the second forward pass on; ask again after the first.

    Args:
        model: what `fused` was called with.
    """
    if not isinstance(model, nn.Module):
        mistyped("model", "must be a torch.nn.Module", shown(model))
    found = []
    trimmer = hooks_of(model, Trimmer)
    for name, layer in model.named_modules():
        if isinstance(layer, MessagePassing) and not _made_of_others(layer):
            status, why = _status(layer, trimmer)
            found.append(
                LayerReport(name or "model", type(layer).__name__, status, why)
            )
    return FusedReport(found)


def _status(layer: Any, trimmer: Trimmer | None) -> tuple[str, str]:
    """(status, why) of one layer."""
    hooks = hooks_of(layer, FusedLayer)
    why = why_not(layer)
    if why is None and hooks is None:
        why = "'fused' was not called with a model that has it"
    if why is None and not _estimates(layer) and _weighed(layer):
        why = "'unbiased' weighs its messages"
    if why is None and hooks is not None and hooks.by_host:
        why = "pyg-lib multiplies its messages, relation by relation"
    if why is not None:
        return "as it was", why
    if trimmer is None:
        return "fused", "'fused' was called with another module"
    if trimmer.trim is False:
        return "fused", "trim=False"
    plans = [plan for plan in trimmer.plans.values() if hooks in plan.hops]
    if not plans:
        return "fused", "rows that are not read are known after the first batch"
    plan = plans[-1]
    if all(hop >= ALL for hop in plan.hops[hooks]):
        by = plan.mixed.get(hooks, "a later layer")
        return "fused", f"all its rows are read, by {by}"
    far = max(hop for hop in plan.hops[hooks] if hop < ALL)
    return "fused, trimmed", f"read up to hop {far}"


def _estimates(layer: Any) -> bool:
    """True if a layer is fused where its edges stand for others."""
    fusion = fusion_of(layer)
    return fusion is not None and fusion.kind.estimates


def _weighed(layer: Any, edges: Any = None) -> bool:
    """True if `unbiased` changes what a layer computes by more than a matrix."""
    correction, rule = correction_of(layer), rule_of(layer)
    if correction is None or rule is None or rule.matrix is not None:
        return False
    return correction.concerned(layer, rule, edges)


def _made_of_others(layer: Any) -> bool:
    inner = layer.modules()
    next(inner)
    return any(isinstance(part, MessagePassing) for part in inner)


def _left(layer: Any, edges: Any, named: dict[str, Any]) -> str | None:
    """The reason why a layer is computed as ever on these edges, or None."""
    sample, x, fusion = edges.sample, named.get("x"), fusion_of(layer)
    rows = x if isinstance(x, tuple | list) else (x, x)
    if len(rows) != 2 or not all(isinstance(part, Tensor) for part in rows):
        return "it was not given features of both ends"
    if rows[0].dim() != 2 or not rows[0].is_floating_point():
        return "its features are no matrix"
    if not edges.as_drawn or sample.receiver != 1 or sample.hops is not None:
        return "its edges are not in order"
    if named.get("size") is not None or named.get("return_attention_weights"):
        return "it was given more than features and edges"
    if fusion is not None and not fusion.kind.takes(layer, named.get("edge_attr")):
        return "its edges have features"
    if not _estimates(layer) and _weighed(layer, edges):
        return "'unbiased' weighs its messages"
    return why_not(layer)


def _check_rows(layer: Any, rows: int, hop: int, levels: Any) -> None:
    """Refuses fewer rows than a layer reads."""
    wanted = levels.senders[min(hop, len(levels.senders) - 1)]
    if rows < wanted:
        raise RuntimeError(
            f"'x' must have the {wanted} rows that {type(layer).__name__} reads in a "
            f"model that is trimmed (got {rows}); use fused(model, trim=False)"
        )


def _shorten(named: dict[str, Any], edges: Tensor, count: int) -> None:
    """Cuts what a layer is given per edge to the first `count` edges."""
    for name in EDGE_ARGUMENTS:
        value = named.get(name)
        if isinstance(value, Tensor) and value.dim() and len(value) == edges.shape[1]:
            named[name] = value[:count]


def hooks_of(module: Any, kind: type[Hooks]) -> Hooks | None:
    """The hooks of one kind that a module has, or None."""
    owners = (getattr(hook, "__self__", None) for hook in forward_pre_hooks(module))
    return next((owner for owner in owners if isinstance(owner, kind)), None)
