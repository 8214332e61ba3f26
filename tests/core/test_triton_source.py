"""Rules for the text of Triton kernels, where the compiler keeps silent about a breach.

Triton visits the body of a loop once to find the variables that the loop carries: those
that end as another value than they began as. A variable that starts as `node` and takes
on `node` in the body ends as it began, and Triton leaves it what it was before the loop
for all iterations. Python, and Triton's interpreter with it, carry it.
"""

import ast
from pathlib import Path

import pytest

from gttf_sampler import _backends

FILES = sorted(Path(*_backends.__path__).glob("triton/*.py"))
SAME = {
    "to",
    "cast",
    "broadcast_to",
    "reshape",
    "view",
}  # may return what they are given


def copies(statements) -> list[tuple[str, str, int]]:
    """(target, source, line) of all assignments that give a value a second name."""
    found = []
    for node in (node for part in statements for node in ast.walk(part)):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=True))
            for name, value in pairs:
                source = source_of(value)
                if isinstance(name, ast.Name) and source is not None:
                    found.append((name.id, source, node.lineno))
    return found


def source_of(value: ast.expr) -> str | None:
    """The variable that an expression is, or may be where a call changes nothing."""
    if isinstance(value, ast.Name):
        return value.id
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return None
    if value.func.attr not in SAME:
        return None
    whole = [value.func.value, *value.args]
    names = [part.id for part in whole if isinstance(part, ast.Name)]
    return next((name for name in names if name != "tl"), None)


def reaching(name: str, pairs: list[tuple[str, str, int]]) -> set[str]:
    """All variables whose value `name` may hold, by one copy or by several."""
    found, more = set(), {name}
    while more:
        found |= more
        more = {source for target, source, _ in pairs if target in more} - found
    return found - {name}


def dropped(text: str) -> list[str]:
    """The loop variables that start as a variable which they take on in the loop."""
    found = []
    for kernel in ast.walk(ast.parse(text)):
        if not isinstance(kernel, ast.FunctionDef):
            continue
        loops = [n for n in ast.walk(kernel) if isinstance(n, ast.For | ast.While)]
        for loop in loops:
            before = [pair for pair in copies([kernel]) if pair[2] < loop.lineno]
            within = copies(loop.body)
            for name in sorted({target for target, _, _ in within}):
                shared = reaching(name, before) & reaching(name, within)
                found += [f"{kernel.name}: {name} is {other}" for other in shared]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_loop_variables_do_not_start_as_what_they_take_on(path):
    assert dropped(path.read_text()) == []


HEAD = "def kernel(node, n):\n    {0}\n    for i in range(n):\n        {1}\n"
ROTATION = "last, node = node, node + i"


@pytest.mark.parametrize(
    ("start", "body"),
    [
        ("last = node", ROTATION),
        ("last, zero = node, 0", ROTATION),
        ("last = node.to(tl.int64)", ROTATION),
        ("last = tl.broadcast_to(node, [4])", ROTATION),
        ("first = node; last = first", ROTATION),
        ("last = node", "old = node; node = node + i; last = old"),
        ("last = node", "\n        if i > 0:\n            last = node\n"),
    ],
)
def test_rule_sees(start, body):
    assert dropped(HEAD.format(start, body)) == ["kernel: last is node"]


@pytest.mark.parametrize(
    ("start", "body"),
    [
        ("last = tl.zeros_like(node) - 1", ROTATION),
        ("last = node + 0", ROTATION),
        ("waiting = node", "waiting = waiting & (node > i)"),
        ("last = other", ROTATION),
    ],
)
def test_rule_lets_pass(start, body):
    assert dropped(HEAD.format(start, body)) == []
