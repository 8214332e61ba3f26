"""The CPU backend: kernels compiled by numba, run by threads.

The operations have the names, arguments and bits of the torch backend. What is missing
here, or has a dtype that numba does not know, is left to torch.
"""

from gttf_sampler._backends.numba.aggregate import (
    additive_gradient,
    additive_score,
    edge_dot,
    scatter_best,
    segment_best,
    segment_softmax,
    segment_sum,
    softmax_gradient,
    sound,
)
from gttf_sampler._backends.numba.batch import draw_for_remote, rooted
from gttf_sampler._backends.numba.draw import (
    draw_uniform,
    draw_weighted,
    weight_table,
)
from gttf_sampler._backends.numba.dropout import drop
from gttf_sampler._backends.numba.forest import walk_forest
from gttf_sampler._backends.numba.gather import gather, read_all, read_runs
from gttf_sampler._backends.numba.node2vec import (
    draw_node2vec,
    walk_node2vec,
    weigh_node2vec,
)
from gttf_sampler._backends.numba.optimizer import as_gradient, step_rows
from gttf_sampler._backends.numba.pairs import draw_alias, pair_pass, pair_scores
from gttf_sampler._backends.numba.relabel import relabel
from gttf_sampler._backends.numba.rows import (
    both_ways,
    edge_filter,
    group_by_row,
    has_edge,
    take_or_none,
    upper_bound,
)
