"""The operations of the CPU backend, by the names that `_backends.ops` looks for.

Same names, same arguments, same bits as the torch backend. What is missing here, or has
a dtype that numba does not know, is left to torch.
"""

from gttf_sampler._backends.numba.csr import both_ways, group_by_row
from gttf_sampler._backends.numba.disk import read_all, read_runs
from gttf_sampler._backends.numba.draw import draw_uniform, draw_weighted, weight_table
from gttf_sampler._backends.numba.forest import forest_uniform
from gttf_sampler._backends.numba.gather import gather
from gttf_sampler._backends.numba.node2vec import (
    draw_node2vec,
    walk_node2vec,
    weigh_node2vec,
)
from gttf_sampler._backends.numba.optimizer import as_gradient, step_rows
from gttf_sampler._backends.numba.pairs import (
    draw_alias,
    pair_gradients,
    pair_pass,
    pair_scores,
)
from gttf_sampler._backends.numba.relabel import Numbers, compress, first_position
from gttf_sampler._backends.numba.rooted import asked, rooted
from gttf_sampler._backends.numba.rows import (
    edge_filter,
    has_edge,
    take_or_none,
    upper_bound,
)

__all__ = [
    "Numbers",
    "as_gradient",
    "asked",
    "both_ways",
    "compress",
    "draw_alias",
    "draw_node2vec",
    "draw_uniform",
    "draw_weighted",
    "edge_filter",
    "first_position",
    "forest_uniform",
    "gather",
    "group_by_row",
    "has_edge",
    "pair_gradients",
    "pair_pass",
    "pair_scores",
    "read_all",
    "read_runs",
    "rooted",
    "step_rows",
    "take_or_none",
    "upper_bound",
    "walk_node2vec",
    "weigh_node2vec",
    "weight_table",
]
