"""The tables of normalise.md: every layer of both hosts, and how far it is off.

`python -m docs.layers` measures all anew, in ten minutes, and writes docs/layers.json
and the page. The rows are those of `gttf_pyg._table` and `gttf_dgl._layers`.
"""

import importlib
import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "layers.json", HERE / "normalise.md"
ROUNDS, CHANCE = 400, 4.0  # batches, and standard errors that are put down to chance
TABLES = {"pyg": "gttf_pyg._table", "dgl": "gttf_dgl._layers"}
HEAD = ("layer", "unbiased", "what is done, or why not", "off as it is", "off unbiased")
Found = dict[str, dict[str, list[list[float]]]]


def cases(host: str) -> Any:
    """The module of the tests that has a case for every layer."""
    sys.path.insert(0, str(HERE.parent / "tests" / host))
    return importlib.import_module(f"{host}_layers")


def measure() -> Found:
    """Per host and case, [as it is, unbiased], each [directed, undirected]."""
    found: Found = {}
    for host in TABLES:
        module, found[host] = cases(host), {}
        for case in module.CASES:
            sys.stderr.write(f"{host} {case.name}\n")
            both = [_off(module, case, cured) for cured in (False, True)]
            if all(both):
                found[host][case.name] = both
    return found


def _off(module: Any, case: Any, cured: bool) -> list[float]:
    """Relative distances on both graphs, zero where chance explains them."""
    if cured and case.status == "refused":
        return [-1.0, -1.0]
    off = []
    for directed in (True, False):
        try:
            report = module.measured(case, cured, ROUNDS, directed)
        except Exception as error:  # a layer that a check cannot call
            sys.stderr.write(f"  not measured: {error}\n")
            return []
        worst = [one.bias for one in report.layers if one.errors > CHANCE]
        off.append(round(max(worst, default=0.0), 3))
    return off


def tables(found: Found) -> dict[str, str]:
    """Per mark of the page, the text that goes there."""
    return {f"layers {host}": table(host, found[host]) for host in TABLES}


def table(host: str, found: dict[str, list[list[float]]]) -> str:
    """A line per case, and one per layer without any."""
    module, code = cases(host), importlib.import_module(TABLES[host])
    lines = [HEAD, ("---",) * 3 + ("---:",) * 2]
    for case in module.CASES:
        both = [_percent(part) for part in found.get(case.name, [[], []])]
        if case.layer == "GPSConv":  # what a check sees are the layers within
            both = ["–", "–"]
        words = _words(code, case).replace("|", "\\|")
        lines.append((f"`{case.name}`", case.status, words, *both))
    for name, why in module.NOT_RUN.items():
        if name in code.TABLE:
            rule = code.TABLE[name]
            words = f"{rule.words} (not run: {why})".replace("|", "\\|")
            lines.append((f"`{name}`", rule.status, words, "–", "–"))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _words(code: Any, case: Any) -> str:
    """Says the treatment in this case, or the reason why there is none."""
    layer = case.make()
    trouble, rule = code.trouble_of(layer, "sum"), code.rule_of(layer)
    if trouble is not None:
        return str(trouble)
    if rule is None:
        return "as its layers"
    ratio = case.status == "ratio" and rule.status != "ratio"
    return "ratio of sums" if ratio else str(rule.words)


def _percent(off: list[float]) -> str:
    """Both distances for people."""
    if not off or min(off) < 0:
        return "–"
    return " / ".join(f"{part:.0%}".removesuffix("%") for part in off) + " %"


def written(page: str, found: Found) -> str:
    """The page with its tables between their marks."""
    for mark, text in tables(found).items():
        around = rf"(<!-- begin: {mark} -->\n\n).*?(\n\n<!-- end: {mark} -->)"
        page = re.sub(around, lambda m, t=text: m[1] + t + m[2], page, flags=re.DOTALL)
    return page


def main() -> None:
    """Measures, and writes the results and the page."""
    warnings.simplefilter("ignore")
    found = measure()
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    PAGE.write_text(written(PAGE.read_text(), found))


if __name__ == "__main__":
    main()
