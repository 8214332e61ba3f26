"""Options of a test in pairs: any two values of two options meet in some case.

Most defects need one value of one option or two of two. With three options or more, all
pairs are far fewer cases than the product, which the same test would have otherwise.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, combinations
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., None])


def covering(sizes: Iterable[int]) -> list[tuple[int, ...]]:
    """Rows of numbers below `sizes` in whose columns every two numbers meet.

    Greedy, and the same for the same sizes: a row begins with the first pair that is
    left and takes, column by column, what settles most of the others.
    """
    numbers = [range(size) for size in sizes]
    columns = range(len(numbers))
    left = {
        ((i, a), (j, b))
        for i, j in combinations(columns, 2)
        for a in numbers[i]
        for b in numbers[j]
    }
    rows = []
    while left:
        row = dict(min(left))
        for column in columns:
            if column not in row:
                settles = [_settled(row, column, a, left) for a in numbers[column]]
                row[column] = settles.index(max(settles))
        left -= set(combinations(sorted(row.items()), 2))
        rows.append(tuple(row[column] for column in columns))
    return rows


def _settled(row: Mapping[int, int], column: int, number: int, left: set[Any]) -> int:
    """The pairs in `left` that a row has with this number."""
    new = column, number
    return sum((min(new, old), max(new, old)) in left for old in row.items())


def all_pairs(test: Test) -> Test:
    """Runs a test on all pairs, not on the product, of the options stacked below."""
    marks = [mark for mark in test.pytestmark if mark.name == "parametrize"]
    names = [_names(mark.args[0]) for mark in marks]
    values = [list(mark.args[1]) for mark in marks]
    cases = []
    for row in covering(map(len, values)):
        case: list[Any] = []
        for name, choice, number in zip(names, values, row, strict=True):
            case += choice[number] if len(name) > 1 else [choice[number]]
        cases.append(case)
    test.pytestmark = [mark for mark in test.pytestmark if mark.name != "parametrize"]
    return pytest.mark.parametrize(",".join(chain.from_iterable(names)), cases)(test)


def _names(given: str | Sequence[str]) -> list[str]:
    return given.split(",") if isinstance(given, str) else [*given]
