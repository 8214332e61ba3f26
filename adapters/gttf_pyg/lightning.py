"""LightningNodeData, LightningLinkData: PyG's data modules on our loaders."""

from typing import Any

import torch
from torch_geometric.data import lightning as theirs
from torch_geometric.sampler import BaseSampler

from gttf_pyg._options import SAMPLING
from gttf_pyg.loader import GTTFLinkLoader, GTTFLoader
from gttf_pyg.sampler import GTTFSampler


class LightningNodeData(theirs.LightningNodeData):
    """PyG's `LightningNodeData`: the same arguments, nothing to compile.

    Its loaders are `GTTFLoader`: batches are the same for any number of workers, and a
    checkpoint in the middle of an epoch goes on with the batch that would have come.
    What `GTTFSampler` and `GTTFLoader` know beyond PyG's can be given as well.

    Args:
        data: and everything up to `eval_loader_kwargs`: see PyG's class of this name.
        **kwargs: of `GTTFSampler` (`num_neighbors`, ...), `GTTFLoader` and torch's
            `DataLoader`.
    """

    def __init__(
        self,
        data: Any,
        input_train_nodes: Any = None,
        input_train_time: Any = None,
        input_val_nodes: Any = None,
        input_val_time: Any = None,
        input_test_nodes: Any = None,
        input_test_time: Any = None,
        input_pred_nodes: Any = None,
        input_pred_time: Any = None,
        loader: str = "neighbor",
        node_sampler: BaseSampler | None = None,
        eval_loader_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        sampler, rest = _sampler(data, loader, node_sampler, kwargs)
        super().__init__(
            data,
            input_train_nodes,
            input_train_time,
            input_val_nodes,
            input_val_time,
            input_test_nodes,
            input_test_time,
            input_pred_nodes,
            input_pred_time,
            loader,
            sampler,
            eval_loader_kwargs,
            **rest,
        )

    def dataloader(
        self,
        input_nodes: Any,
        input_time: Any = None,
        input_id: Any = None,
        node_sampler: BaseSampler | None = None,
        **kwargs: Any,
    ) -> Any:
        """The loader of some seeds."""
        if not isinstance(node_sampler, GTTFSampler):
            given = input_nodes, input_time, input_id, node_sampler
            return super().dataloader(*given, **kwargs)
        return GTTFLoader(
            self.data,
            node_sampler.num_neighbors,
            input_nodes,
            input_time,
            neighbor_sampler=node_sampler,
            input_id=input_id,
            **kwargs,
        )


class LightningLinkData(theirs.LightningLinkData):
    """PyG's `LightningLinkData`: the same arguments, nothing to compile.

    Its loaders are `GTTFLinkLoader`; see `LightningNodeData`.

    Args:
        data: and everything up to `eval_loader_kwargs`: see PyG's class of this name.
        **kwargs: of `GTTFSampler` (`num_neighbors`, ...), `GTTFLinkLoader` and torch's
            `DataLoader`.
    """

    def __init__(
        self,
        data: Any,
        input_train_edges: Any = None,
        input_train_labels: Any = None,
        input_train_time: Any = None,
        input_val_edges: Any = None,
        input_val_labels: Any = None,
        input_val_time: Any = None,
        input_test_edges: Any = None,
        input_test_labels: Any = None,
        input_test_time: Any = None,
        input_pred_edges: Any = None,
        input_pred_labels: Any = None,
        input_pred_time: Any = None,
        loader: str = "neighbor",
        link_sampler: BaseSampler | None = None,
        eval_loader_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        sampler, rest = _sampler(data, loader, link_sampler, kwargs)
        super().__init__(
            data,
            input_train_edges,
            input_train_labels,
            input_train_time,
            input_val_edges,
            input_val_labels,
            input_val_time,
            input_test_edges,
            input_test_labels,
            input_test_time,
            input_pred_edges,
            input_pred_labels,
            input_pred_time,
            loader,
            sampler,
            eval_loader_kwargs,
            **rest,
        )

    def dataloader(
        self,
        input_edges: Any,
        input_labels: Any = None,
        input_time: Any = None,
        input_id: Any = None,
        link_sampler: BaseSampler | None = None,
        **kwargs: Any,
    ) -> Any:
        """The loader of some seed edges."""
        given = input_edges, input_labels, input_time
        if not isinstance(link_sampler, GTTFSampler):
            return super().dataloader(*given, input_id, link_sampler, **kwargs)
        return GTTFLinkLoader(
            self.data,
            link_sampler.num_neighbors,
            *given,
            neighbor_sampler=link_sampler,
            time_attr=link_sampler.time_attr,
            input_id=input_id,
            **kwargs,
        )


def _sampler(
    data: Any, loader: str, given: BaseSampler | None, kwargs: dict[str, Any]
) -> tuple[BaseSampler | None, dict[str, Any]]:
    """The sampler that was given, or a new one, and the arguments that it leaves."""
    # PyG's default, True, is a warning per pass where there is nothing to pin for
    kwargs = {"pin_memory": torch.cuda.is_available(), **kwargs}
    if given is not None or loader not in ("neighbor", "link_neighbor"):
        return given, kwargs
    own = {name: value for name, value in kwargs.items() if name in SAMPLING}
    own.setdefault("share_memory", kwargs.get("num_workers", 0) > 0)
    rest = {name: value for name, value in kwargs.items() if name not in SAMPLING}
    return GTTFSampler(data, **own), rest
