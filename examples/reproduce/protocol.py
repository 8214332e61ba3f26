"""The rules of every comparison; docs/reproduce.md tells what was changed since."""

SEEDS = {"cora": 10, "citeseer": 10}  # 0, 1, 2, … for every way of training alike
OTHER_SEEDS = 5
MARGIN = 0.5  # points that GTTF may lose and still be called no worse
LEVEL = 0.95  # of intervals; tests reject at 1 - LEVEL
RESERVED = 100  # first seed of searches and curves, whose runs are in no table


def seeds_of(dataset: str) -> int:
    """The number of seeds of a cell of this dataset."""
    return SEEDS.get(dataset, OTHER_SEEDS)
