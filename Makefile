# Every command sets up what it needs first, and does nothing twice: stamps hang on pyproject.toml and package-lock.json.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo lab check test ci lint python-lint js-lint python-tests js-tests browser-tests gallery bench bench-diagnoses bench-limits bench-programs bench-ui programs fuzz compilers warp-suite warp-releases docs pictures packaging notebook format clean distclean setup system test-setup

PYTHON  ?= python3
WORKERS ?= 2
VENV    := .venv
BIN     := $(VENV)/bin
# the browser that tests drive; where there is none yet, apt-get puts it there
CHROMIUM ?= $(or $(shell command -v chromium chromium-browser google-chrome google-chrome-stable | head -1),/usr/bin/chromium)
export CHROMIUM
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# images of containers set it; without bytecode each process that tests start takes twice as long
unexport PYTHONDONTWRITEBYTECODE
export PATH := $(CURDIR)/$(BIN):$(PATH)

PY_STAMP     := $(VENV)/.installed
UV_STAMP     := $(VENV)/.installed-uv
DOCS_STAMP   := $(VENV)/.installed-docs
BENCH_STAMP  := $(VENV)/.installed-bench
NPM_STAMP    := js/node_modules/.installed
JS_STAMP     := build/.js-built
SYSTEM_STAMP := $(VENV)/.system
NOTEBOOKS_STAMP := build/.notebooks-run

JS_SOURCES := $(shell find js/src js/style js/schema -type f 2>/dev/null) \
              $(wildcard js/*.mjs js/*.js js/*.json)

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

## ------------------------------------------------------------------ set-up
$(VENV)/bin/python:
	@PYTHON="$(PYTHON)" scripts/create-venv.sh $(VENV)

$(PY_STAMP): pyproject.toml | $(VENV)/bin/python
	@echo "make: installing the Python side into $(VENV)"
	@# the labextension is linked, not copied, so that a rebuild of js/ shows at once; unlink before the installer looks at it
	@rm -rf $(VENV)/share/jupyter/labextensions/tapedebug
	@mkdir -p tapedebug/static tapedebug/labextension
	@SKIP_JUPYTER_BUILDER=1 scripts/install.sh $(VENV) --editable '.[test]'
	@rm -rf $(VENV)/share/jupyter/labextensions/tapedebug
	@mkdir -p $(VENV)/share/jupyter/labextensions
	@ln -s $(CURDIR)/tapedebug/labextension $(VENV)/share/jupyter/labextensions/tapedebug
	@touch $@

$(UV_STAMP): | $(PY_STAMP)
	@{ $(BIN)/python -m uv --version >/dev/null 2>&1 || $(BIN)/python -m pip install -qq 'uv>=0.5'; } && touch $@

$(DOCS_STAMP): $(PY_STAMP)
	@echo "make: installing Sphinx"
	@# the package itself is there already, with its labextension linked
	@scripts/install.sh $(VENV) $$($(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"])') && touch $@

$(BENCH_STAMP): $(PY_STAMP)
	@echo "make: installing warp-lang and JAX (to compare with)"
	@scripts/install.sh $(VENV) 'warp-lang>=1.10' 'jax>=0.4.30' && touch $@

$(NPM_STAMP): js/package.json js/package-lock.json | $(VENV)/bin/python
	@$(BIN)/python scripts/need_node.py
	@echo "make: installing the JavaScript side into js/node_modules"
	@cd js && npm ci --no-audit --no-fund --no-update-notifier --loglevel=error >/dev/null && touch node_modules/.installed

# the labextension builder is a Python program, hence PY_STAMP
$(JS_STAMP): $(JS_SOURCES) | $(NPM_STAMP) $(PY_STAMP)
	@echo "make: building the panel, the report and the JupyterLab extension"
	@mkdir -p build && cd js && { npm run --silent build >../build/js-build.log 2>&1 || { cat ../build/js-build.log; exit 1; }; }
	@touch $@

$(SYSTEM_STAMP): scripts/system-packages.sh | $(VENV)/bin/python
	@scripts/system-packages.sh
	@touch $@

# the documentation shows the notebooks with their outputs, which git does not hold
$(NOTEBOOKS_STAMP): $(wildcard notebooks/*) $(shell find tapedebug -name '*.py') scripts/run_notebooks.py | $(PY_STAMP) $(JS_STAMP)
	@echo "make: running the notebooks"
	@mkdir -p build && $(BIN)/python scripts/run_notebooks.py docs/notebooks notebooks/*.ipynb 2>build/notebooks.log || { cat build/notebooks.log; exit 1; }
	@touch $@

system: $(SYSTEM_STAMP)  ## Chromium and Graphviz, which the tests drive

# Python, npm and apt at the same time: they wait for different servers
setup:  ## install and build everything, run nothing
	@$(MAKE) -s --no-print-directory -j3 $(PY_STAMP) $(NPM_STAMP) $(JS_STAMP)

## ------------------------------------------------------------------ using it
demo: setup  ## descend along a wrong gradient, find its line, fix it; writes build/report.html
	@mkdir -p build
	@$(BIN)/python notebooks/demo.py --report build/report.html

lab: setup  ## open JupyterLab on the quickstart notebook
	@$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks/quickstart.ipynb

## ------------------------------------------------------------------ checking it
# the bundles that Python tests read are those of the last build: to build takes longer than what is checked here
check: $(PY_STAMP) $(NPM_STAMP) $(if $(wildcard tapedebug/static/widget.js),,$(JS_STAMP))  ## lint, types and the tests near what changed, in two minutes (CHECK_ARGS='--base HEAD~3')
	@$(BIN)/python -m scripts.check --workers $(WORKERS) $(CHECK_ARGS)

test:  ## every test: ruff, mypy, tsc, biome, vitest, browser, pytest; prints time and memory of each step
	@MAKE="$(MAKE)" $(PYTHON) scripts/steps.py test-setup browser-tests+python-lint,js-lint,js-tests,python-tests

ci:  ## all that CI runs: test, demo, packaging and docs
	@MAKE="$(MAKE)" $(PYTHON) scripts/steps.py test-setup demo packaging,browser-tests+docs,python-lint,js-lint,js-tests,python-tests

test-setup:
	@$(MAKE) -s --no-print-directory -j3 $(PY_STAMP) $(NPM_STAMP) $(JS_STAMP) $(SYSTEM_STAMP)

lint: python-lint js-lint  ## ruff, mypy, tsc, biome

python-lint: $(PY_STAMP)
	@echo "== ruff"  && $(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "== mypy"  && $(BIN)/mypy

js-lint: $(NPM_STAMP)
	@echo "== tsc"   && cd js && npm run --silent types && echo "== biome" && npm run --silent lint

js-tests: $(NPM_STAMP)  ## vitest
	@echo "== vitest" && cd js && npm run --silent test

browser-tests: setup system  ## real JupyterLab in real Chromium
	@# a PYTHON that make was given makes the environment; the tests run in it
	@echo "== browser" && cd js && PYTHON=$(CURDIR)/$(BIN)/python npm run --silent test:browser
	@echo "What the browsers showed: build/screenshots"

python-tests: setup  ## pytest
	@echo "== pytest" && $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -p scripts.cpu_times --cpu 20 --cpu-log build/cpu-times.tsv $(PYTEST_ARGS)
	@echo "== pytest, compiled by Numba: a sample of make compilers" && \
	$(BIN)/python -m pytest -q -n $(WORKERS) --compiler numba $(addprefix tests/compiler/test_,statements.py half.py unpack.py)

packaging: $(UV_STAMP)  ## build sdist and wheel, use them in bare environments, test oldest and newest dependencies
	@echo "== packaging" && $(BIN)/python scripts/check_packages.py --jobs $(WORKERS) $(PACKAGING_ARGS) build/packaging

gallery: $(PY_STAMP)  ## wrong and right adjoints, programs with bugs and without, errors of all sizes, their verdicts; writes docs/gallery.md and docs/detection.md
	@TAPEDEBUG_SWEEPS=full $(BIN)/python -m pytest -n $(WORKERS) tests/gallery tests/scenarios $(PYTEST_ARGS)
	@$(BIN)/python -m tests.gallery.table
	@$(BIN)/python -m tests.gallery.detection

bench: $(PY_STAMP) $(BENCH_STAMP)  ## all beside warp-lang, JAX and Numba by hand; writes docs/performance.md (BENCH_ARGS='--only heat': a part)
	@$(BIN)/python -m tests.benchmarks --write $(BENCH_ARGS)
	@$(BIN)/python -m tests.benchmarks.compile_times
	@$(BIN)/python -m tests.benchmarks.recording
	@$(BIN)/python -m tests.benchmarks.tracking
	@$(BIN)/python -m tests.benchmarks.memory_budget
	@$(BIN)/python -m tests.benchmarks.watching
	@$(BIN)/python -m tests.benchmarks.diagnosing

bench-diagnoses: $(PY_STAMP)  ## time and memory of diagnoses beside those of their tapes; writes a table of docs/performance.md
	@$(BIN)/python -m tests.benchmarks.diagnosing --write

bench-limits: $(PY_STAMP)  ## diagnoses of six tapes with three time limits each; writes a table of docs/performance.md
	@$(BIN)/python -m tests.benchmarks.diagnosing --limits --write

bench-programs: build/programs/.installed  ## real programs, whole: on Warp, here, diagnosed, watched; writes a table of docs/performance.md (BENCH_ARGS='quickstart')
	@build/programs/bin/python -m tests.benchmarks.programs --write $(BENCH_ARGS)

bench-ui: setup system  ## how fast the panel opens and moves on tapes of 100,000 and 1,000,000 launches (BENCH_ARGS='--json')
	@PYTHON=$(CURDIR)/$(BIN)/python node tests/browser/bench/run.mjs $(BENCH_ARGS)

fuzz: $(PY_STAMP)  ## 5,000 random kernels, 1,000 programs, 1,000 chains of operations (FUZZ_ARGS='--count 500'), 10,000 damaged files, 200 interrupts, all sweeps
	@$(BIN)/python -m tests.compiler.fuzz --jobs $(WORKERS) $(FUZZ_ARGS)
	@$(BIN)/python -m tests.compiler.fuzz --programs --jobs $(WORKERS) $(FUZZ_ARGS)
	@$(BIN)/python -m tests.compiler.fuzz --operations --jobs $(WORKERS) $(FUZZ_ARGS)
	@TAPEDEBUG_SWEEPS=full $(BIN)/python -m pytest -q -n $(WORKERS) tests/trace/test_fuzz.py tests/diagnose/test_interrupts.py
	@TAPEDEBUG_SWEEPS=full $(BIN)/python -m pytest -q -n $(WORKERS) -m "sweep or unoptimized" tests --ignore tests/gallery

compilers: $(PY_STAMP)  ## every test of the language with what Numba compiles (config.compiler = "numba"); an hour and more
	@TAPEDEBUG_SWEEPS=full $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --compiler numba tests/lang tests/compiler tests/seeds $(PYTEST_ARGS)

docs: setup $(DOCS_STAMP) $(NOTEBOOKS_STAMP)  ## build/docs/index.html, warnings are errors
	@$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "The documentation: build/docs/index.html"

# public programs on NVIDIA Warp, in an environment of their own: some 6 GB with PyTorch
build/programs/.installed: pyproject.toml tests/programs/catalog.py | $(VENV)/bin/python
	@echo "make: installing the programs that are watched into build/programs"
	@$(BIN)/python -m venv build/programs && SKIP_JUPYTER_BUILDER=1 build/programs/bin/python -m pip install -qq \
	  --editable . $$($(BIN)/python -m tests.programs --requirements) && touch $@

programs: build/programs/.installed  ## watch programs of other packages on NVIDIA Warp, write docs/watched-programs.md; an hour
	@build/programs/bin/python -m tests.programs --all --write

warp-suite: $(PY_STAMP)  ## run the unit tests of the installed warp-lang on this engine, write docs/warp-unit-tests.md; half an hour
	@$(BIN)/python -m pip show -qq warp-lang 2>/dev/null || scripts/install.sh $(VENV) 'warp-lang==1.19'
	@$(BIN)/python -m tests.warp_suite --all $(WARP_SUITE_ARGS) --write

warp-releases: $(UV_STAMP)  ## run tests/watch with each minor release of warp-lang, write the table of docs/watching.md; half an hour, 10 GB (RELEASES='1.10 1.19': these)
	@nice $(BIN)/python -m tests.watch.releases $(RELEASES)

pictures: setup system  ## what pages of the documentation show: the output of their programs, pictures of the panel
	@$(BIN)/python -m scripts.finding_pages
	@$(BIN)/python scripts/pictures.py

notebook: $(PY_STAMP)  ## strip the outputs of notebooks/*.ipynb
	@$(BIN)/python scripts/strip_notebook.py notebooks/*.ipynb || true

format: $(PY_STAMP)  ## ruff, in place
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

clean:  ## remove what was built, keep what was installed
	rm -rf build dist docs/_build tapedebug/static tapedebug/labextension .pytest_cache .mypy_cache .ruff_cache

distclean: clean  ## remove what was installed, too
	rm -rf $(VENV) js/node_modules
