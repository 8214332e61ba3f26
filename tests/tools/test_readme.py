import contextlib
import io
import pathlib
import re
from importlib.util import find_spec

import gttf_sampler

README = pathlib.Path(__file__).parents[2] / "README.md"
HOSTS = ("torch_geometric", "dgl")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks():
    """(line, language, text) of every fenced block."""
    text = README.read_text("utf-8")
    for found in FENCE.finditer(text):
        yield text[: found.start()].count("\n") + 1, found[1], found[2]


def test_readme_python_runs_and_prints_what_it_says():
    names, printed, tested = {}, "", 0
    for line, language, text in blocks():
        missing = [host for host in HOSTS if host in text and not find_spec(host)]
        if language == "python" and not missing:
            code = compile("\n" * line + text, str(README), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(code, names)
            printed = out.getvalue()
            tested += 1
        elif language == "text":
            assert text == printed, f"README.md, line {line}"
    assert tested >= 4


def test_readme_names_exist():
    text = README.read_text("utf-8")
    public = re.findall(r"`(\w+(?:Bias|Acc))\b", text)
    assert set(public) <= set(gttf_sampler.__all__)
    built_in = {n for n in gttf_sampler.__all__ if n.endswith(("Bias", "Acc"))}
    assert built_in <= set(public)  # each one is in its table


def test_readme_links_exist():
    for target in re.findall(r"\]\(([^)]+)\)", README.read_text("utf-8")):
        if not target.startswith("https://"):
            assert (README.parent / target).exists(), target
