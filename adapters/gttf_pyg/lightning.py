"""LightningNodeData, LightningLinkData: PyG's data modules on our loaders."""

from typing import Any

import torch
from torch_geometric.data import lightning as theirs
from torch_geometric.data.lightning.datamodule import LightningData
from torch_geometric.sampler import BaseSampler

from gttf_pyg.loader import SAMPLING, GTTFLinkLoader, GTTFLoader
from gttf_pyg.sampler import GTTFSampler


class _WithOurSampler(LightningData):
    """The base of PyG's data modules, with our sampler in the place of PyG's."""

    def __init__(
        self,
        data: Any,
        has_val: bool,
        has_test: bool,
        loader: str = "neighbor",
        graph_sampler: BaseSampler | None = None,
        eval_loader_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        # PyG's default, True, is a warning per pass where there is nothing to pin for
        kwargs = {"pin_memory": torch.cuda.is_available(), **kwargs}
        if graph_sampler is None and loader in ("neighbor", "link_neighbor"):
            own = {name: kwargs.pop(name) for name in SAMPLING if name in kwargs}
            own.setdefault("share_memory", kwargs.get("num_workers", 0) > 0)
            graph_sampler = GTTFSampler(data, **own)
        given = data, has_val, has_test, loader, graph_sampler, eval_loader_kwargs
        super().__init__(*given, **kwargs)


class LightningNodeData(theirs.LightningNodeData, _WithOurSampler):
    """PyG's `LightningNodeData`: the same arguments, nothing to compile.

    Its loaders are `GTTFLoader`: batches are the same for any number of workers, and a
    checkpoint in the middle of an epoch goes on with the batch that would have come.
    What `GTTFSampler` and `GTTFLoader` know beyond PyG's can be given as well.

    Args:
        data: and everything up to `eval_loader_kwargs`: see PyG's class of this name.
        **kwargs: of `GTTFSampler` (`num_neighbors`, ...), `GTTFLoader` and torch's
            `DataLoader`.
    """

    def dataloader(
        self,
        input_nodes: Any,
        input_time: Any = None,
        input_id: Any = None,
        node_sampler: BaseSampler | None = None,
        **kwargs: Any,
    ) -> Any:
        """The loader of some seeds."""
        given = input_nodes, input_time
        if not isinstance(node_sampler, GTTFSampler):
            return super().dataloader(*given, input_id, node_sampler, **kwargs)
        kwargs |= {"neighbor_sampler": node_sampler, "input_id": input_id}
        return GTTFLoader(self.data, node_sampler.num_neighbors, *given, **kwargs)


class LightningLinkData(theirs.LightningLinkData, _WithOurSampler):
    """PyG's `LightningLinkData`: the same arguments, nothing to compile.

    Its loaders are `GTTFLinkLoader`; see `LightningNodeData`.

    Args:
        data: and everything up to `eval_loader_kwargs`: see PyG's class of this name.
        **kwargs: of `GTTFSampler` (`num_neighbors`, ...), `GTTFLinkLoader` and torch's
            `DataLoader`.
    """

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
        kwargs |= {"neighbor_sampler": link_sampler, "input_id": input_id}
        kwargs["time_attr"] = link_sampler.time_attr
        return GTTFLinkLoader(self.data, link_sampler.num_neighbors, *given, **kwargs)
