# `make demo` and `make test` set up everything they need in .venv and then run.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-large test-processors test-wheel lint types bench bench-fit bench-engine bench-vsbc bench-rescue bench-rescue-stan bench-shards accuracy coverage tail-shape auto-draws vsbc-verdicts truth fuzz soak paper horseshoe-nuts docs pictures clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

demo: $(VENV)/.run  ## fit and check the eight schools in two parametrizations, and write reports
	$(BIN)/vicheck demo

PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

test: $(VENV)/.dev  ## tests and doctests on all cores, without those marked slow
	$(PYTEST) -m "not slow" --durations 10 --durations-min 5 $(ARGS)

test-all: $(VENV)/.dev  ## all tests and doctests, on all cores
	$(PYTEST) $(ARGS)

test-large: $(VENV)/.large  ## tests against large libraries: Pyro with torch, pymc-extras
	$(BIN)/python -m pytest --numprocesses auto tests/pyro docs/libraries-pyro.md tests/adapters/test_pymc.py \
	    -k "pyro or dadvi"

test-processors: $(VENV)/.dev  ## statistics, some fits and examples, as other processors compute them
	.ci/test-processors $(ARGS)

test-wheel: $(VENV)/.dev  ## the wheel in bare environments of Python 3.11 to 3.13, where they are to be had
	.ci/test-wheel $(ARGS)

fuzz: $(VENV)/.dev  ## read 100,000 spoiled files by every reader, written to docs/
	$(BIN)/python -m tests.fuzzing.run

lint: $(VENV)/.dev  ## style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev  ## type check of src
	$(BIN)/mypy

docs: $(VENV)/.dev  ## build the documentation in site/, strictly
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

pictures: $(VENV)/.dev  ## the pictures of the documentation: reports, where there is a chromium, and the gallery
	$(BIN)/python docs/pictures/make.py

bench-fit bench-vsbc accuracy: export VICHECK_CACHE = off  # times of compiling are those of a first run

bench: $(VENV)/.bench  ## speed against peers, written to docs/
	$(BIN)/python benchmarks/psis.py

bench-fit: $(VENV)/.bench  ## fits and checks against peers, written to docs/; DATA= for leukemia
	$(BIN)/python benchmarks/fit.py $(if $(DATA),--data $(DATA))

bench-engine: $(VENV)/.bench  ## fresh processes and full rank, written to docs/; DIAMONDS= for that of posteriordb
	$(BIN)/python benchmarks/engine.py $(if $(DIAMONDS),--diamonds $(DIAMONDS))

bench-vsbc: $(VENV)/.bench  ## calibration against peers, written to docs/; DATA= for leukemia
	$(BIN)/python benchmarks/vsbc.py $(if $(DATA),--data $(DATA))

bench-rescue: $(VENV)/.dev  ## rescues of fits that fail, written to docs/; ARGS= for problems or --nuts
	PYTHONPATH=benchmarks $(BIN)/python benchmarks/rescue.py $(ARGS)

bench-rescue-stan: $(VENV)/.dev  ## rescues of all of posteriordb by Stan, written to docs/; POSTERIORDB= for a checkout
	$(BIN)/python benchmarks/rescue_stan.py $(POSTERIORDB) $(ARGS)

bench-shards: $(VENV)/.dev  ## ten million rows in files, on two workers, written to docs/
	$(BIN)/python benchmarks/shards.py --write

accuracy: $(VENV)/.dev  ## accuracy of fits and checks, written to docs/; DATA= for posteriordb
	$(BIN)/python benchmarks/acceptance.py $(if $(DATA),--data $(DATA))

paper: $(VENV)/.run  ## rerun the paper, written to docs/paper; DATA= for leukemia
	$(BIN)/vicheck paper run all --out docs/paper $(if $(DATA),--data $(DATA))
	$(BIN)/vicheck paper run all --as-scripted --out docs/paper $(if $(DATA),--data $(DATA))
	$(BIN)/python -m vicheck.paper.page docs/paper

horseshoe-nuts: $(VENV)/.dev  ## NUTS for the paper's Figure 7, once; DATA= for leukemia
	$(BIN)/python benchmarks/horseshoe_nuts.py $(if $(DATA),--data $(DATA))

coverage: $(VENV)/.run  ## coverage of khat's interval by simulation, written to docs/
	$(BIN)/python benchmarks/khat_coverage.py

tail-shape: $(VENV)/.run  ## tails that are not Pareto, coverage of errors, false alarms, written to docs/
	$(BIN)/python benchmarks/tail_shape.py

auto-draws: $(VENV)/.run  ## how often checks that stop early are wrong, written to docs/
	$(BIN)/python benchmarks/auto_draws.py

vsbc-verdicts: $(VENV)/.run  ## how often the verdict of VSBC is right by simulation, written to docs/
	$(BIN)/python benchmarks/vsbc_verdicts.py

truth: $(VENV)/.dev  ## verdicts against known posteriors, written to docs/; DATA= for moments of posteriordb
	PYTHONPATH=benchmarks $(BIN)/python -m truth $(if $(DATA),--moments $(DATA)) \
	    $(if $(POSTERIORDB),--posteriordb $(POSTERIORDB)) $(ARGS)

soak: $(VENV)/.dev  ## disturb runs at random moments (kill, Ctrl-C, full disk, ...), written to docs/
	$(BIN)/python benchmarks/soak.py

clean:  ## remove the environment and all caches
	rm -rf $(VENV) .jax_cache .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist site vicheck-demo

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "vicheck needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Setting up $(VENV); this happens once."
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# Each stamp is older than what it depends on exactly when an install is due.
$(VENV)/.run: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/.run

$(VENV)/.bench: $(VENV)/.dev
	$(INSTALL) --editable '.[bench]'
	@touch $@

$(VENV)/.large: $(VENV)/.dev
	$(INSTALL) --editable '.[pyro]' pymc-extras
	@touch $@
