"""Pages say what is so: blocks run, commands parse, names, files and links exist."""

import ast
import configparser
import contextlib
import doctest
import io
import os
import pathlib
import re
import shlex
import subprocess
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec

import pytest

import gttf_sampler
from gttf_sampler.cli.main import COMMANDS, Parser, functions, main

ROOT = pathlib.Path(__file__).parents[2]
GUIDES = sorted((ROOT / "docs").glob("*.md"))
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *GUIDES,
    ROOT / "adapters" / "README.md",
    *sorted((ROOT / "examples").rglob("*.md")),
]
HOSTS = {"torch_geometric": "gttf_pyg", "dgl": "gttf_dgl"}
WHOLE_PAGE = {
    "pyg.md": "torch_geometric",
    "dgl.md": "dgl",
    "graphbolt.md": "dgl.graphbolt",
    "relational.md": "relbench",
    "lightning.md": "lightning",
}
SHELL = ("cookbook.md",)  # whose commands run, too, with the files that blocks made
COMPILED = {  # packages that few have, by the line that imports them
    "torch_cluster": "from torch_cluster import",
    "torch_sparse": "from torch_sparse import",
    "dgl.graphbolt": "from dgl import graphbolt",
}
NOISE = {  # of libraries that a page shows, by its name
    "relational.md": ("The given NumPy array", "Series.dt.dayofweek"),
    "lightning.md": (
        r"`isinstance\(treespec",  # its own use of torch
        "The '.*' does not have many workers",
        "The number of training batches",
    ),
}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
PATH = re.compile(r"(?:adapters|docs|examples|gttf_sampler|tests)/[\w./]*\w")
PLACEHOLDERS = {"DIR", "FILE"}


def of(page):
    return str(page.relative_to(ROOT) if page.is_relative_to(ROOT) else page)


each_page = pytest.mark.parametrize("page", PAGES, ids=of)


def blocks(page):
    """(line, language, text) of every fenced block."""
    text = page.read_text("utf-8")
    for found in FENCE.finditer(text):
        yield text[: found.start()].count("\n") + 1, found[1], found[2]


def spans(page):
    """Every piece of inline code."""
    prose = FENCE.sub("", page.read_text("utf-8"))
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]


# Python


def run_beside(code, text, names):
    """Runs one of two blocks that stand side by side.

    "Before" is the host's own code, with our classes where PyG's need what is compiled;
    it leaves no names behind. A missing package must stop a block at its import.
    """
    missing = [name for name, line in COMPILED.items() if line in text]
    missing = [name for name in missing if not importable(name)]
    before = text.startswith("# before")
    swapped = before and "torch_geometric" in text
    ours = import_module("gttf_pyg").installed if swapped else contextlib.nullcontext
    stops = pytest.raises(ImportError) if missing else contextlib.nullcontext()
    with ours(), stops:
        exec(code, dict(names) if before else names)


def run_commands(text):
    """Runs the lines of a block that a reader of the page would run at this point."""
    for line in text.splitlines():
        command, *words = shlex.split(line, comments=True)
        if command == "gttf":
            assert main(words) == 0, line
        else:
            command = [sys.executable, *words]
            paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
            subprocess.run(command, env=paths, check=True, capture_output=True)


def importable(name):
    """True if a module can be imported."""
    try:
        import_module(name)
    except ImportError:
        return False
    return True


def run(page):
    """The names that the blocks of a page leave behind, and how many there were."""
    names, printed, tested = {}, "", 0
    for line, language, text in blocks(page):
        needs = (host for host, ours in HOSTS.items() if host in text or ours in text)
        if any(find_spec(host) is None for host in needs):
            names["missing"] = printed = None
        elif language == "python":
            code = compile("\n" * line + text, str(page), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as out:
                if text.startswith(("# before", "# after")):
                    run_beside(code, text, names)
                else:
                    exec(code, names)
            printed, tested = out.getvalue(), tested + 1
        elif language == "sh" and page.name in SHELL:
            run_commands(text)
        elif language == "pycon":
            test = doctest.DocTestParser().get_doctest(text, names, "", None, line)
            runner = doctest.DocTestRunner(optionflags=FLAGS)
            assert runner.run(test, clear_globs=False).failed == 0, f"{page}:{line}"
            tested += 1
        elif language == "text" and printed:
            assert text == printed, f"{of(page)}, line {line}"
            printed = ""
    return names, tested


@pytest.mark.example
@pytest.mark.parametrize("page", [ROOT / "README.md", *GUIDES], ids=of)
def test_python_runs_and_prints_what_it_says(page, tmp_path, monkeypatch):
    pytest.importorskip(WHOLE_PAGE.get(page.name, "torch"))
    monkeypatch.chdir(tmp_path)
    import torch

    torch.manual_seed(0)
    with warnings.catch_warnings():
        for words in NOISE.get(page.name, ()):
            warnings.filterwarnings("ignore", words)
        if page.name == "pyg.md":  # forked workers, and one that sees threads
            warnings.filterwarnings("ignore", "This process .* is multi-threaded")
        names, tested = run(page)
    text = page.read_text("utf-8")
    assert tested == len(re.findall("^```py", text, re.MULTILINE)) or "missing" in names
    if page.name == "pyg.md":
        from torch_geometric.data.lightning import datamodule

        monkeypatch.setattr(datamodule, "_pl_is_available", True, raising=False)
        monkeypatch.setattr(datamodule, "no_pytorch_lightning", False, raising=False)
        assert len(list(names["data_module"]().train_dataloader())) == 1


def test_python_check_can_fail(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    with pytest.raises(AssertionError):
        run(page)
    page.write_text("```python\nimport gttf_sampler\ngttf_sampler.no_such_name\n```\n")
    with pytest.raises(AttributeError):
        run(page)


@pytest.mark.parametrize("page", [ROOT / "README.md", *GUIDES], ids=of)
def test_python_uses_no_name_from_where_it_has_moved(page):
    for line, language, text in blocks(page):
        if language != "python":
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module == "gttf_sampler":
                imported = {alias.name for alias in node.names}
                assert imported <= set(gttf_sampler.__all__), f"{of(page)}, line {line}"


# Commands


def commands(page):
    """Every command of a shell block or of inline code, as words."""
    found = [text for _, language, text in blocks(page) if language == "sh"]
    starts = ("gttf ", "make ", "pip ", "python -m ", "python examples/")
    found += [span for span in spans(page) if span.startswith(starts)]
    for text in found:
        for line in text.replace("\\\n", " ").splitlines():
            if words := shlex.split(line, comments=True):
                yield words


@each_page
def test_commands_exist(page):
    if page.name == "CHANGELOG.md":
        return  # what has been there once
    for words in commands(page):
        check(words)


def check(words):
    """Fails if a command, an option or a file that it names does not exist."""
    command, *rest = words
    if command == "gttf":
        check_gttf(rest)
    elif command == "make":
        check_make(rest)
    elif command == "pip":
        check_extras(rest)
    elif command.endswith("python") and set(rest[1:2]) & set(HOSTS.values()):
        assert (ROOT / "adapters" / rest[1] / "__main__.py").exists()
    elif command.endswith("python") and rest[0] == "-m":
        check_script(module_file(rest[1]), rest[2:])
    elif command.endswith("python"):
        check_script(ROOT / rest[0], rest[1:])
    elif command == "torchrun":
        place = next(i for i, word in enumerate(rest) if word.endswith(".py"))
        check_script(ROOT / rest[place], rest[place + 1 :])
    elif command == "pytest":
        assert all((ROOT / word).exists() for word in rest if "/" in word)
    else:
        assert (ROOT / command).exists(), words


def check_gttf(rest):
    if rest[0] in COMMANDS and len(rest) == 1:
        return  # named in passing
    assert rest[0] in COMMANDS or rest[0].startswith("--"), rest
    parser = Parser(prog="gttf")
    functions(rest[0])[0](parser)
    parser.parse_args(rest[1:])


def check_make(rest):
    text = (ROOT / "Makefile").read_text("utf-8")
    target = next(word for word in rest if "=" not in word)
    rule = re.search(rf"^{re.escape(target)}:.*\n((?:\t.*\n)*)", text, re.MULTILINE)
    assert rule, f"make {target}"
    for name, _, value in (word.partition("=") for word in rest if "=" in word):
        assert f"$({name})" in text or f"{name})" in rule[1], name
        script = re.search(r"\$\(PY(?:THON)?\) (?:-m ([\w.]+)|(\S+\.py))", rule[1])
        if name != "ARGS" or not script or script[1] == "pytest":
            assert all((ROOT / w).exists() for w in value.split() if "/" in w), value
            continue
        file = module_file(script[1]) if script[1] else ROOT / script[2]
        check_script(file, shlex.split(value))


def check_extras(rest):
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", "utf-8")
    known = set(config["options.extras_require"])
    for extras in re.findall(r"\[([\w,-]+)\]", " ".join(rest)):
        assert set(extras.split(",")) <= known, extras


def module_file(name):
    if name in ("build", "pytest", "mkdocs"):
        return None
    file = ROOT / name.replace(".", "/")
    return file / "__main__.py" if file.is_dir() else file.with_suffix(".py")


def check_script(file, rest):
    if file is None:
        return
    assert file.exists(), file
    options = [word.partition("=")[0] for word in rest if word.startswith("--")]
    text = file.read_text("utf-8")
    assert all(f'"{option}"' in text for option in options), (file, options)


@pytest.mark.parametrize(
    "line",
    [
        "make no-such-target",
        "make fuzz NUMBER=3",
        'make bench-scaling ARGS="--no-such-option"',
        "gttf bench no-such-task",
        "gttf embed edges.txt",
        "pip install '.[no-such-extra]'",
        "python examples/no_such_file.py",
        "python examples/walk_forest.py --jpg figure.jpg",
        "torchrun --nproc-per-node 2 examples/no_such_file.py",
        "torchrun examples/pyg_ddp.py --no-such-option",
        "no-such-command",
    ],
)
def test_commands_check_can_fail(line, capsys):
    with pytest.raises((AssertionError, SystemExit)):
        check(shlex.split(line))


# Names and files


@each_page
def test_files_exist(page):
    if page.name == "CHANGELOG.md":
        return
    for span in spans(page):
        for path in PATH.findall(span):
            made = path.startswith("docs/images") or "results/longer" in path
            assert made or (ROOT / path).exists(), path


@each_page
def test_tests_exist(page):
    for file, name in re.findall(r"(tests/[\w/]+\.py)::(\w+)", page.read_text("utf-8")):
        assert f"\ndef {name}(" in (ROOT / file).read_text("utf-8"), name


def test_names_exist():
    from gttf_sampler import bias, objectives

    known = {*gttf_sampler.__all__, *bias.__all__, *objectives.__all__}
    for page in (ROOT / "README.md", *GUIDES):
        text = page.read_text("utf-8")
        told = set(re.findall(r"`(\w+(?:Bias|Acc))\b", text))
        if page.name == "paper.md":
            told -= {"N2vBias", "GatBias", "N2vAcc", "WysAcc"}
        assert told <= known, page.name
    tables = (ROOT / "docs" / "engine.md").read_text("utf-8")
    built_in = {n for n in gttf_sampler.__all__ if n.endswith(("Bias", "Acc"))}
    assert built_in - {"Bias"} <= set(re.findall(r"^\| `(\w+)", tables, re.MULTILINE))


@pytest.mark.parametrize("name", ["gttf_pyg", "gttf_dgl"])
def test_names_of_an_adapter_are_in_its_guide(name):
    host = {ours: host for host, ours in HOSTS.items()}[name]
    pytest.importorskip(host)
    guide = (ROOT / "docs" / f"{name[5:]}.md").read_text("utf-8")
    for public in import_module(name).__all__:
        assert f"`{public}" in guide, public


def test_every_public_package_has_a_page_of_reference():
    pages = [file.read_text("utf-8") for file in (ROOT / "docs" / "api").glob("*.md")]
    told = set(re.findall(r"^::: (\S+)", "\n".join(pages), re.MULTILINE))
    rooms = {
        f"gttf_sampler.{init.parent.name}"
        for init in (ROOT / "gttf_sampler").glob("[a-z]*/__init__.py")
        if "__all__" in init.read_text("utf-8")
    }
    assert told == {"gttf_sampler", *HOSTS.values(), *rooms}


# Links


def slugs(page):
    """The anchors of the headings of a page."""
    text = FENCE.sub("", page.read_text("utf-8"))
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def broken(page):
    """The links of a page that lead nowhere in this project."""
    text = FENCE.sub("", page.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)]+)\)", text):
        path, _, anchor = target.partition("#")
        if target.startswith("https://"):
            continue
        file = page.parent / path if path else page
        if not file.exists() or (anchor and anchor not in slugs(file)):
            yield target


@each_page
def test_links_lead_somewhere(page):
    assert list(broken(page)) == []


def test_links_check_can_fail(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One\n[a](page.md#one) [b](page.md#two) [c](other.md) [d](#one)")
    assert list(broken(page)) == ["page.md#two", "other.md"]


def test_links_stay_inside_the_site():
    """The folder docs/ is what is rendered: nothing outside of it can be linked."""
    for page in GUIDES:
        assert "](../" not in page.read_text("utf-8"), page.name


def test_links_of_the_long_description_make_sense_anywhere():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", "utf-8")
    assert config["metadata"]["long_description"] == "file: docs/about.md"
    about = (ROOT / "docs" / "about.md").read_text("utf-8")
    links = re.findall(r"\]\(([^)]+)\)", about)
    assert links
    assert all(link.startswith("https://") for link in links)


# README


def test_readme_is_short_and_opens_like_the_long_description():
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.split()) <= 900
    assert text.startswith((ROOT / "docs" / "about.md").read_text("utf-8"))


def test_readme_numbers_are_those_of_the_benchmarks():
    about = (ROOT / "docs" / "about.md").read_text("utf-8")
    measured = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    cells = set(re.findall(r"\d+(?:\.\d+)?", measured.replace(",", "")))
    times = re.findall(r"([\d.]+) ms", about.replace(",", ""))
    assert len(times) == 10  # five, each beside its peer
    for time in times:
        assert time in cells or any(_rounds_to(cell, time) for cell in cells), time


def _rounds_to(cell, time):
    digits = len(time.partition(".")[2])
    return cell.count(".") == 1 and f"{float(cell):.{digits}f}" == time


# The site


def test_diagrams_are_those_of_the_pages():
    from docs import diagrams

    versions = diagrams.versions((ROOT / "docs" / "robustness.md").read_text("utf-8"))
    for name, drawn in {"samplers": diagrams.tree(), "versions": versions}.items():
        file = ROOT / "docs" / "images" / f"{name}.svg"
        assert file.read_text("utf-8") == drawn, "run: python -m docs.diagrams"
        assert "prefers-color-scheme: dark" in drawn


def test_site_is_searched_from_a_disk():
    """The offline plugin's own script comes from another host, so ours stands in."""
    config = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert "\n  - offline" in config
    (script,) = re.findall(r"polyfills:\n    - (\S+)", config)
    assert "iframe-worker" in script  # by which the plugin knows that there is one
    assert "IFrameWorker" in (ROOT / "docs" / script).read_text("utf-8")


def test_home_page_does_not_say_that_guides_are_elsewhere():
    about = (ROOT / "docs" / "about.md").read_text("utf-8").splitlines()
    first = (ROOT / "docs" / "index.md").read_text("utf-8").splitlines()[0]
    assert first == '--8<-- "about.md::-3"'  # all but a blank line and the last one
    assert about[-2] == ""
    assert about[-1].startswith("Guides, the API reference and all measurements are in")
