"""The single door to the hot code: every module calls `_ops`, never a backend."""

from gttf_sampler._ops_torch import (
    compress,
    draw_uniform,
    draw_weighted,
    expand,
    first_position,
    first_position_sorted,
    has_edge,
    sort_rows,
    take,
    take_or_none,
    upper_bound,
    weight_table,
)

__all__ = [
    "compress",
    "draw_uniform",
    "draw_weighted",
    "expand",
    "first_position",
    "first_position_sorted",
    "has_edge",
    "sort_rows",
    "take",
    "take_or_none",
    "upper_bound",
    "weight_table",
]
