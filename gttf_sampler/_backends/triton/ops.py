"""The operations of the GPU backend, by the names that `_backends.ops` looks for.

Same names, same arguments, same bits as the torch backend. What is missing here is left
to torch, and so is what a function returns None for. Nothing waits for the device but
`rooted`, once per hop, and once more in front where the first hop takes all.
"""

from gttf_sampler._backends.triton.forest import forest_by_mass, forest_uniform
from gttf_sampler._backends.triton.gather import gather
from gttf_sampler._backends.triton.node2vec import walk_node2vec
from gttf_sampler._backends.triton.rooted import rooted, rooted_padded

__all__ = [
    "forest_by_mass",
    "forest_uniform",
    "gather",
    "rooted",
    "rooted_padded",
    "walk_node2vec",
]
