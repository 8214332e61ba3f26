"""The map in CONTRIBUTING, the order of imports and the engine's names for adapters."""

import ast
import configparser
import pathlib
import re

import pytest

import gttf_sampler
import matrix

ROOT = pathlib.Path(__file__).parents[2]
PACKAGES = ("gttf_sampler", "adapters/gttf_pyg", "adapters/gttf_dgl")

PROJECT = ("gttf_sampler", "adapters", "docs", "examples", "tests")
RIDDLE = re.compile(r"(What|Whether|How|Where|Which|Who|Whose)\b")
SOURCES = (".py", ".md", ".ipynb")
ASKS_INDEX = "pip install 'gttf-sampler"

# What adapters may use beyond the public names of `gttf_sampler` and of its rooms.
FOR_ADAPTERS = {
    "gttf_sampler._check": (
        "INTEGERS MAX_STEPS as_dense at_least count cpu_generator dense device_or_none "
        "fail finite fits functions integer integers mistyped model one_of randomness "
        "real shown size steps weights within yes_or_no"
    ),
    "gttf_sampler._backends.memory": "IDS empty_rows",
    "gttf_sampler._compat": "Shadows fetcher_of has_hooks hook_of version_of",
    "gttf_sampler._loading.prefetch": "PrefetchIterator is_thread_safe",
    "gttf_sampler._loading.seeded": (
        "BatchKey KeyedDataset KeyedIndex SeededLoader copied draw_key"
    ),
    "gttf_sampler._loading.streams": "StreamPipeline pipeline_on",
    "gttf_sampler._loading.state": (
        "CountedBatches EpochState SPOT described described_graph"
    ),
    "gttf_sampler._backends.streams": "streams_of",
    "gttf_sampler._swap": "Swap host_names",
    "gttf_sampler.bench.hosts": (
        "Calls Embedder EmbeddingSetting Host LoaderSetting MakeSampler Mode "
        "ModeGraph StepBatch StepModels Stepper StepSetting Trained"
    ),
    "gttf_sampler.bench.machine": "Missing first_line",
    "gttf_sampler.bench.measure": "Mapped Peer Work each",
    "gttf_sampler.bench.models": "attention mlp",
    "gttf_sampler.bench.graphs": "LINKS SEED_TYPE SPAN Typed seed_times",
    "gttf_sampler.bias.base": "as_bias",
    "gttf_sampler.distributed.write": "key_of",
    "gttf_sampler.embedding.fit": "fit",
    "gttf_sampler.embedding.settings": "Options Task",
    "gttf_sampler.embedding.optimizers": "zeros",
    "gttf_sampler.graph.tables": "ascends_in_time kept_of",
    "gttf_sampler.rooted.sample": "WeightedDraw draw_ids",
    "gttf_sampler.objectives.node2vec": "node2vec_loss walk_loss",
    "gttf_sampler.gather": "gather_columns gathers_into",
    "gttf_sampler.estimate": (
        "EXACT PARTS RATIO REFUSED WARNED Passes Trial UnbiasedReport arguments "
        "checked_model evaluating host_class no_estimate replaced row_of share "
        "warn_of_biased"
    ),
    "gttf_sampler.random": "NEGATIVE WORD new_key",
}
# What each room of the engine may import, beside itself.
BASE = {"_check", "_compat", "_backends", "random"}
WALKS = {*BASE, "graph", "draw", "forest", "traverse", "bias"}
MAY_IMPORT = {
    "_compat": set(),
    "_swap": set(),
    "random": {"_compat"},
    "_check": {"_backends", "_compat"},
    "_files": {"_check"},
    "_arrays": {"_check", "_files"},
    "_backends": BASE,
    "graph": {*BASE, "_arrays", "_files"},
    "aggregate": BASE,
    "dropout": BASE,
    "gather": BASE,
    "linear": {"_compat"},
    "features": {*BASE, "_arrays", "_files", "graph"},
    "draw": {*BASE, "graph"},
    "forest": {*BASE, "graph", "subgraph", "plot"},  # to draw itself, when asked to
    "bias": {*BASE, "estimate", "graph", "draw", "subgraph"},
    "traverse": {*BASE, "graph", "draw", "forest", "bias"},
    "estimate": {"_check", "_compat"},
    "subgraph": {*BASE, "estimate", "graph", "plot"},  # to draw itself as well
    "ppr": WALKS,
    "rooted": {*WALKS, "subgraph"},
    "objectives": WALKS,
    "embedding": {*WALKS, "objectives", "_loading", "_files"},
    "plot": {*BASE, "graph", "forest"},
    "_loading": {*BASE, "bias", "gather", "graph"},
    "distributed": {
        *(*WALKS, "_arrays", "_files"),
        *("rooted", "subgraph", "gather", "features"),
    },
}

LIBRARIES = {"torch", "numpy", "numba", "triton", "torch_geometric", "dgl"}
PRIVATE = re.compile(r"_(?!_)")
OF_NAMED_TUPLES = ("_replace", "_asdict", "_fields")
# Files that use private names of these outside of a `_compat.py`; none may be new.
USE_PRIVATE = {
    "adapters/gttf_dgl/_blocks.py",
    "adapters/gttf_dgl/_layers.py",
    "adapters/gttf_dgl/fused.py",
    "adapters/gttf_pyg/fused.py",
    "gttf_sampler/_backends/numba/rng.py",
    "gttf_sampler/_backends/streams.py",
}


def test_no_command_asks_the_index_for_this_package():
    """The name is on no index yet: commands are for a checkout, or name the library."""
    files = [*ROOT.glob("*.md"), ROOT / "setup.cfg"]
    for folder in ("gttf_sampler", "adapters", "docs", "examples"):
        files += [f for f in (ROOT / folder).rglob("*.*") if f.suffix in SOURCES]
    asked = [f for f in files if ASKS_INDEX in f.read_text("utf-8")]
    assert asked == []


def modules(package):
    """The modules of a package, as paths from the root."""
    found = sorted((ROOT / package).rglob("*.py"))
    return [path for path in found if not path.name.startswith("__")]


def imports(path):
    """(module, name) of what a file imports from the engine, beside names of types."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module.split(".")[0] == "gttf_sampler":
                yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "gttf_sampler":
                    yield alias.name, ""


def test_map_names_every_module_and_no_other():
    """A line per folder, its first word ending in /, then lines of its modules."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (tree,) = re.findall(r"```text\n(.*?)```", text, re.S)
    folders, named = [], []
    for line in tree.splitlines():
        words = line.split()
        if words[0].endswith("/"):
            depth = (len(line) - len(line.lstrip())) // 2
            folders[depth:] = [words[0].rstrip("/")]
        else:
            named += ["/".join([*folders, f"{word}.py"]) for word in words]
    there = [path.relative_to(ROOT).as_posix() for p in PACKAGES for path in modules(p)]
    assert sorted(named) == sorted(there)


def test_matrix_runs_tests_that_are_there():
    for line in matrix.ROWS.strip().splitlines():
        row = dict(zip(matrix.COLUMNS, line.split(), strict=True))
        assert [file for file in matrix.files(row) if not (ROOT / file).exists()] == []


def test_docstrings_begin_with_a_noun_or_a_verb():
    """The first line says what a thing is or does, not "What it is" or "How far"."""
    documented = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
    riddles = []
    for path in sorted(
        path for part in PROJECT for path in ROOT.glob(f"{part}/**/*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            text = ast.get_docstring(node) if isinstance(node, documented) else None
            if text and RIDDLE.match(text):
                place = f"{path.relative_to(ROOT)}:{node.body[0].lineno}"
                riddles.append(f"{place}: {text.splitlines()[0]}")
    assert riddles == []


def test_packages_are_all_installed():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    listed = setup["options"]["packages"].split()
    for folder in (ROOT / "gttf_sampler").rglob("__init__.py"):
        name = folder.parent.relative_to(ROOT).as_posix().replace("/", ".")
        assert name in listed


def test_metadata_is_true_and_renders():
    """A package index shows the long description alone, away from the other files."""
    markdown_it = pytest.importorskip("markdown_it", reason="rich brings it")
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    text = (ROOT / setup["metadata"]["long_description"].split()[1]).read_text()
    html = markdown_it.MarkdownIt("commonmark").enable("table").render(text)
    assert (
        html.count("<tr>") == sum(line.startswith("|") for line in text.split("\n")) - 1
    )
    assert html.count("<pre>") == text.count("```") / 2
    links = re.findall('(?:href|src)="([^"]+)"', html)
    assert all(link.startswith("https://") for link in links)
    (paper,) = re.findall("= (.*)", setup["metadata"]["project_urls"])
    assert paper in links
    assert f"]({paper})" in (ROOT / "README.md").read_text()


def test_release_is_published_without_a_secret_and_can_be_cited():
    text = (ROOT / ".github/workflows/publish.yml").read_text()
    assert "id-token: write" in text
    assert "secrets." not in text
    assert "password" not in text
    cited = (ROOT / "CITATION.cff").read_text()
    assert f"version: {gttf_sampler.__version__}\n" in cited


def test_imports_go_one_way():
    rooms = {}
    for path in modules("gttf_sampler"):
        room = path.relative_to(ROOT / "gttf_sampler").parts[0].removesuffix(".py")
        if room not in ("bench", "cli", "verify"):  # commands may use everything
            for module, name in imports(path):
                used = (module.split(".")[1:] or [name])[0]
                rooms.setdefault(room, set()).add(used)
    for room, used in rooms.items():
        assert used - {room} <= MAY_IMPORT[room], room


def private_names(tree):
    """(line, name) of what a module uses that has a private name and another owner."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            words = node.module.split(".")
            if words[0] in LIBRARIES:
                words += [alias.name for alias in node.names]
                yield from (
                    (node.lineno, word) for word in words if PRIVATE.match(word)
                )
        elif isinstance(node, ast.Attribute) and PRIVATE.match(node.attr):
            owner = getattr(node.value, "id", "")
            if owner not in ("self", "cls") and node.attr not in OF_NAMED_TUPLES:
                yield node.lineno, node.attr


def own_names(tree):
    """Names that a module gives to functions, classes and attributes of its own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def test_private_names_of_libraries_are_used_in_compat_alone():
    """Each file has a test that says what broke: tests/<package>/test_compat.py."""
    trees = {p: ast.parse(p.read_text()) for each in PACKAGES for p in modules(each)}
    own = {name for tree in trees.values() for name in own_names(tree)}
    used = {}
    for path, tree in trees.items():
        place = path.relative_to(ROOT).as_posix()
        found = {name for _, name in private_names(tree)} - own
        if found and path.name != "_compat.py" and place not in USE_PRIVATE:
            used[place] = found
    assert used == {}


def test_every_room_that_may_import_is_there():
    rooms = {path.stem for path in (ROOT / "gttf_sampler").iterdir()}
    assert MAY_IMPORT.keys() <= rooms


def test_engine_names_no_adapter():
    """Hosts hand in what they have by the entry points `gttf.hosts`."""
    named = set()
    for path in modules("gttf_sampler"):
        for node in ast.walk(ast.parse(path.read_text())):
            text = node.value if isinstance(node, ast.Constant) else ""
            if isinstance(text, str) and re.fullmatch(r"gttf_(pyg|dgl)[.\w]*", text):
                named.add((path.name, text))
    assert named == set()


def test_adapters_use_the_names_they_may():
    walks = ["graph", "bias", "rooted", "objectives", "embedding", "plot"]
    rooms = [*walks, "aggregate", "distributed", "dropout", "features", "linear"]
    public = {f"gttf_sampler.{room}" for room in rooms}
    used = {}
    for package in PACKAGES[1:]:
        for path in modules(package):
            for module, name in imports(path):
                if module == "gttf_sampler":
                    whole = name in ("random", "embedding")
                    assert whole or name in gttf_sampler.__all__, (path, name)
                elif module not in public:
                    used.setdefault(module, set()).add(name)
    assert used == {module: set(FOR_ADAPTERS[module].split()) for module in used}
    assert used.keys() == FOR_ADAPTERS.keys()
