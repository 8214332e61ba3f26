# Every target runs its tools from a virtual environment that is made on first use.

VENV ?= .venv
PYTHON ?= python3
ARGS ?=
CASES ?= 2000

PY := $(VENV)/bin/python
# pip writes into a log; where it fails, its own last words are shown.
LOG := $(VENV)/pip.log
PIP := pip() { $(PY) -m pip install --no-input --disable-pip-version-check \
    --progress-bar off -c constraints.txt "$$@" >>$(LOG) 2>&1 || { \
    tail -n 40 $(LOG) >&2; echo "pip could not set up $(VENV); all it said is in $(LOG)." >&2; \
    return 1; }; }; pip
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)

# A stamp is written last, so an interrupted set-up has none. MADE marks an
# environment as ours: only such a one is ever thrown away.
READY := $(VENV)/.ready-$(VERSION)
CPU_TORCH := No GPU is seen here: to spare 3 GB of CUDA libraries, set PIP_EXTRA_INDEX_URL to \
    PyTorch's index of CPU builds (its Get Started page names it) and start again.
BENCH := $(VENV)/.bench-$(VERSION)
DOCS := $(VENV)/.docs-$(VERSION)
MADE := $(VENV)/.made-by-make
NO_DGL := DGL is not installed (the package index has none for Python 3.12 and newer):

.PHONY: help demo test test-fast check bench bench-embedding reproduce \
    test-matrix package test-graphbolt test-resolve test-hosts fuzz stress docs clean python

help:
	@echo "make demo           Figure 1, a GCN in plain torch, GraphSAGE in PyG and in DGL"
	@echo "make test           run the tests and doctests; ARGS='-k forest' is passed on"
	@echo "make test-fast      the same without processes, compilers, examples and benchmarks"
	@echo "make test-matrix    run some with other versions of torch, PyG, DGL and Python"
	@echo "make test-graphbolt  run some with GraphBolt: torch 2.2.1, DGL 2.1.0"
	@echo "make test-resolve   resolve every set-up against the package index, Python 3.10 to 3.13"
	@echo "make test-hosts     run PyG's and DGL's own tests on us; PYG=checkout DGL=checkout"
	@echo "make fuzz           call everything with odd arguments; CASES=50000"
	@echo "make stress         kill writers and workers, watch memory over 2,000 batches"
	@echo "make check          check format, lint and types"
	@echo "make package        build wheel and sdist, and have twine check them"
	@echo "make docs           build the pages and the API reference into site/"
	@echo "make bench          'gttf bench'; TASK=step ARGS='--plot out.png'"
	@echo "make bench-embedding  AUC against seconds; ARGS='--edges FILE'"
	@echo "make reproduce      train every method of the paper; ARGS='--root DIR', ARGS=--list"
	@echo "make clean          remove the environment and everything generated"
	@echo "PYTHON (now $(PYTHON)) makes the environment in VENV (now $(VENV))."

demo: $(READY)
	$(PY) examples/walk_forest.py --png figure1.png
	$(PY) examples/torch_gcn.py
	$(PY) examples/pyg_sage.py
	@if $(PY) -c 'import dgl' 2>/dev/null; then $(PY) examples/dgl_sage.py; \
	    else echo "$(NO_DGL) GraphSAGE in DGL is left out."; fi

PYTEST := OMP_WAIT_POLICY=passive $(PY) -m pytest -q -n auto --maxprocesses 4 --dist worksteal
FAST := not process and not compile and not example and not bench

test: $(READY)
	$(PYTEST) $(ARGS)

test-fast: $(READY)
	$(PYTEST) -m "$(FAST)" $(ARGS)

test-matrix: | python
	$(PYTHON) tests/tools/matrix.py $(ARGS)

test-resolve: | python
	$(PYTHON) tests/tools/resolve.py $(ARGS)

test-graphbolt: | python
	$(PYTHON) tests/tools/matrix.py --only DGL=2.1.0 $(ARGS)

# The tests of the hosts that sample, load or walk, from checkouts of their sources.
SUITES_PYG := test/loader test/sampler test/data/lightning test/utils/test_trim_to_layer.py \
    test/nn/models/test_node2vec.py test/nn/models/test_basic_gnn.py
SUITES_DGL := python/common/dataloading python/common/sampling \
    python/pytorch/dataloading
OURS := $(CURDIR)/tests/tools:$(CURDIR):$(CURDIR)/adapters
HOSTED := $(abspath $(PY)) -P -m pytest -q -p host_suites -p no:cacheprovider

test-hosts: $(READY)
	@if [ -z "$(PYG)$(DGL)" ]; then \
	    echo "name a checkout of PyG's or DGL's tests: PYG=... DGL=..." >&2; exit 2; fi
	@if [ -n "$(PYG)" ]; then cd "$(PYG)" && PYTHONPATH=$(OURS) \
	    $(HOSTED) $(SUITES_PYG) $(ARGS); fi
	@if [ -n "$(DGL)" ]; then cd "$(DGL)/tests" && DGLBACKEND=pytorch DGL_TEST_DEV=cpu \
	    PYTHONPATH=$(OURS):. $(HOSTED) --import-mode=importlib $(SUITES_DGL) $(ARGS); fi

fuzz: $(READY)
	OMP_WAIT_POLICY=passive $(PY) tests/tools/fuzz.py --cases $(CASES) $(ARGS)

stress: $(READY)
	OMP_WAIT_POLICY=passive $(PY) tests/tools/stress.py $(ARGS)

check: $(READY)
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy

docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict
	@echo "Open site/index.html."

bench: $(BENCH)
	$(VENV)/bin/gttf bench $(or $(TASK),loader) $(ARGS)

reproduce: $(BENCH)
	$(PY) -m examples.reproduce $(ARGS)

bench-embedding: $(BENCH)
	$(PY) examples/bench_embedding.py $(ARGS)

package: $(READY)
	rm -rf dist
	$(PIP) install twine
	$(PY) -m build
	$(PY) -m twine check --strict dist/*

clean:
	@if [ -e $(MADE) ]; then rm -rf $(VENV); fi
	rm -rf build dist site *.egg-info figure1.png reproduce-results .matrix
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find adapters docs examples gttf_sampler tests -name __pycache__ -prune -exec rm -rf {} +

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { \
	    echo "gttf-sampler needs Python 3.10 or newer, but '$(PYTHON)' is" \
	    "$(or $(VERSION),not there); name another one with PYTHON=." >&2; exit 2; }

$(READY): setup.cfg pyproject.toml constraints.txt | python
	@if [ -e $(MADE) ] && [ ! -e $@ ]; then rm -rf $(VENV); fi
	@[ -e $(VENV) ] || { mkdir -p $(VENV) && touch $(MADE); }
	@rm -f $@
	@echo "Setting up $(VENV) (a minute or two the first time); pip writes to $(LOG)."
	@if [ "$$(uname -s)" = Linux ] && ! command -v nvidia-smi >/dev/null \
	    && [ -z "$$PIP_FIND_LINKS$$PIP_EXTRA_INDEX_URL" ]; then echo "$(CPU_TORCH)"; fi
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@$(PIP) setuptools
	@$(PIP) --no-build-isolation -e '.[dev]'
	@touch $@

$(BENCH): $(READY)
	@$(PIP) --no-build-isolation -e '.[bench]'
	@touch $@

$(DOCS): $(READY)
	@$(PIP) --no-build-isolation -e '.[docs]'
	@touch $@
