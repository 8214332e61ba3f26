"""The single door to the hot code: every module calls `_ops`, never a backend."""

from gttf_sampler._ops_torch import (
    arrive,
    compress,
    draw_uniform,
    draw_weighted,
    expand,
    first_position,
    first_position_sorted,
    forest_uniform,
    has_edge,
    row_range,
    sort_rows,
    take,
    take_or_none,
    upper_bound,
    weight_table,
)

__all__ = [
    "arrive",
    "compress",
    "draw_uniform",
    "draw_weighted",
    "expand",
    "first_position",
    "first_position_sorted",
    "forest_uniform",
    "has_edge",
    "row_range",
    "sort_rows",
    "take",
    "take_or_none",
    "upper_bound",
    "weight_table",
]
