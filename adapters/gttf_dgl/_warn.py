"""Says so, once per sampler, when a layer divides by the degrees of a sample."""

import threading
import warnings
from collections.abc import Mapping
from typing import Any

from dgl import DGLGraph
from torch.utils.data import get_worker_info

from gttf_dgl._layers import is_cured, normalises
from gttf_sampler._loading.watch import Watch
from gttf_sampler.estimate import SampledDegreeWarning


class FirstBatch:
    """Watches what becomes of the first batch of a sampler, in the main process."""

    def __init__(self, fanouts: list[Any]) -> None:
        # where all neighbours are taken, degrees may be right: nothing to be said
        self._seen = all(_whole(fanout) for fanout in fanouts)

    def watch(self, batch: Any) -> None:
        """Watches the modules that are called while this batch is out."""
        here = threading.current_thread() is threading.main_thread()
        if get_worker_info() is not None or not here:
            return  # what is made ahead is used elsewhere, and later
        if self._seen:
            Watch.end()
            return
        self._seen = True
        graphs = batch if isinstance(batch, list) else [batch]
        sizes = {(graph.num_nodes(), graph.num_edges()) for graph in graphs}

        def look(module: Any, args: tuple[Any, ...]) -> bool:
            if not (args and isinstance(args[0], DGLGraph) and normalises(module)):
                return False
            graph = args[0]
            known = (graph.num_nodes(), graph.num_edges()) in sizes
            if is_cured(module) or not known:
                return False
            warnings.warn(
                f"{type(module).__name__} has divided by the degrees of a sampled "
                "batch, which are not those of the graph; call 'model = "
                "gttf_dgl.unbiased(model)' before the DataLoader starts",
                SampledDegreeWarning,
                stacklevel=4,
            )
            return True

        Watch(look, graphs[0])


def _whole(fanout: Any) -> bool:
    """Whether a layer takes all neighbours."""
    parts = fanout.values() if isinstance(fanout, Mapping) else [fanout]
    return all(part < 0 for part in parts)
