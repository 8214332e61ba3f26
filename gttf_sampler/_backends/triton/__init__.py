"""The GPU backend: fused Triton kernels and what launches them.

The operations have the names, arguments and bits of the torch backend. What is missing
here is left to torch, and so is what a function returns None for. Nothing waits for the
device but `rooted`, once per hop, and once more in front where the first hop takes all.
"""

from gttf_sampler._backends.triton.aggregate import (
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
from gttf_sampler._backends.triton.batch import rooted, rooted_padded
from gttf_sampler._backends.triton.forest import walk_forest
from gttf_sampler._backends.triton.gather import gather
from gttf_sampler._backends.triton.node2vec import walk_node2vec
