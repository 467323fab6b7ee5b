# Needs Python 3.11, 3.12 or 3.13, make and a package index; everything else is set up here, in
# .venv for 3.11 and in .venv-3.12 and .venv-3.13 next to it.

# A command such as python3.12, or the path of an interpreter; by default the first that is there.
ifndef PYTHON
PYTHON := $(shell sh tools/make_venv.sh --first)
endif
VERSION := $(shell sh tools/make_venv.sh --version '$(PYTHON)')
VENV := .venv$(patsubst -3.11,,-$(or $(VERSION),unknown))
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CONSTRAINTS := constraints/python$(VERSION).txt
EXTRAS := cli,ask,dev,docs,studies,scale
export PIP_DISABLE_PIP_VERSION_CHECK ?= 1
# One process per core in the tests; more threads inside each only get in each other's way. Each
# begins with half of the files, so that what the tests of a file share is made once.
WORKERS ?= 2
PYTEST := OMP_NUM_THREADS=1 TF_NUM_INTRAOP_THREADS=1 TF_NUM_INTEROP_THREADS=1 \
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# Next to NumPy 2, which Python 3.13 needs, pip installs GPflow only without its requirements.
WITHOUT_REQUIREMENTS := $(if $(filter 3.13,$(VERSION)),$(shell grep '^gpflow==' $(CONSTRAINTS)))

.PHONY: help setup demo bench lint test test-all test-alone test-all-alone durations test-data peers dist \
	wheel wheel-environment smoke smoke-tests lowest docs clean

help:
	@echo "make demo       set up, then fit and score a model on duels made without any download"
	@echo "make test       set up, then lint, type check and run the tests"
	@echo "make test-all   as make test, with the slow tests"
	@echo "make durations  set up, then name the tests that take long but are not marked slow"
	@echo "make test-data  set up, then run the tests that touch data with none within reach"
	@echo "make bench      measure what it costs on this machine, into build/bench; BENCHMARKS=sweep for one"
	@echo "make peers      run the code of other packages that is in docs/coming-from, in .venv-peers"
	@echo "make dist       set up, then build a wheel and an sdist into dist/ and check them"
	@echo "make wheel      install the wheel into a fresh environment, and run it from elsewhere"
	@echo "make smoke      as make wheel, then with all extras, then run the main tests there"
	@echo "make lowest     as make smoke, with the lowest versions that pyproject.toml allows"
	@echo "make lint       set up, then lint and type check"
	@echo "make docs       set up, then build the documentation into site/, without network"
	@echo "make clean      remove the environments and all caches"
	@echo "Each takes the first of python3.11, 3.12 and 3.13 that is there, or another one, as in"
	@echo "make demo PYTHON=python3.12."

setup: $(STAMP)

$(STAMP): pyproject.toml $(wildcard constraints/*.txt) tools/make_venv.sh
	@sh tools/make_venv.sh '$(VENV)' '$(PYTHON)'
	@echo "Installing packages, which takes a minute or two."
ifneq ($(WITHOUT_REQUIREMENTS),)
	@# What is there from an earlier time would be called a conflict.
	@$(BIN)/python -m pip uninstall --yes -qq gpflow
endif
	@# The variable, unlike the option, also holds for the packages that build this one.
	@PIP_CONSTRAINT=$(CONSTRAINTS) $(BIN)/python -m pip install --quiet --editable ".[$(EXTRAS)]"
ifneq ($(WITHOUT_REQUIREMENTS),)
	@$(BIN)/python -m pip install --quiet --no-deps $(WITHOUT_REQUIREMENTS)
endif
	@touch $@

demo: setup
	$(BIN)/sparse-prefgp demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Side by side: while one core lints, the other one imports and collects.
test test-all: setup
	$(MAKE) --no-print-directory -j2 lint $@-alone

test-alone: setup
	$(PYTEST) -m "not slow"

test-all-alone: setup
	$(PYTEST)

# Processor time, which tells less of what else the machine does than the time on the wall; the
# median of three runs, which stay in build/ until the next time.
DURATIONS := $(patsubst %,build/durations-%.csv,1 2 3)

durations: setup
	rm -f $(DURATIONS)
	for file in $(DURATIONS); do $(PYTEST) -q -m "not slow" --processor-times $$file || exit 1; done
	$(BIN)/python -m tests.processor_time $(DURATIONS)

# Copied to where no folder with data lies next to it: what a stranger's clone has.
test-data: setup
	sh tools/without_data.sh $(abspath $(BIN))/python -m pytest -n $(WORKERS) -m "data and not slow"

BENCHMARKS := exact sweep sets roofline engines svgp optimise stream scaling gpu

bench: setup
	for one in $(BENCHMARKS); do \
		$(BIN)/python -m experiments.benchmarks.$$one --out build/bench || exit 1; \
	done

# Some gigabytes, as BoTorch brings PyTorch; NumPy is newer there than GPflow allows.
peers: setup
	@sh tools/make_venv.sh .venv-peers '$(PYTHON)'
	.venv-peers/bin/python -m pip install --quiet -r experiments/peers/requirements.txt
	SPARSE_PREFGP_PEERS=.venv-peers/bin/python $(PYTEST) tests/integration/test_peers_pages.py

# What everything else stands on: normals, reference cases of EP, gradients, files, commands.
CENTRAL := $(patsubst %,tests/%.py,$(addprefix integration/test_,readme commands) \
	$(addprefix unit/,factors/test_truncated_normal evidence/test_evidence models/test_gradients \
	support/test_plain_numbers disk/test_saving io/test_io))
# And what uses each package of the extras.
OF_EXTRAS := $(patsubst %,tests/unit/%.py,io/test_formats workflow/test_pictures \
	ask/test_server datasets/test_datasets_fetching lab/test_ablation_configuration models/test_part_cluster \
	learning/test_tensorboard)
TESTED_WITH := pytest pytest-xdist hypothesis mpmath httpx
# Of its own, so that what pip does today is seen, and removed when all went well.
WHEEL := build/wheel-$(VERSION)
PIP := PIP_CONSTRAINT=$(CONSTRAINTS) $(WHEEL)/bin/python -m pip
TRY := $(WHEEL)/bin/python tools/try_wheel.py

# By way of the sdist, which so has all that a wheel is built from.
dist: setup
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*

wheel: wheel-environment
	rm -rf $(WHEEL)

# First as a library, without any extra, then with that of the command line.
wheel-environment:
	rm -rf $(WHEEL) build/lib build/bdist.*
	@sh tools/make_venv.sh '$(WHEEL)' '$(PYTHON)'
	$(PIP) wheel --quiet --no-deps --wheel-dir $(WHEEL)/dist .
	$(PIP) install --quiet $(WHEEL)/dist/*.whl
ifneq ($(WITHOUT_REQUIREMENTS),)
	$(PIP) install --quiet --no-deps $(WITHOUT_REQUIREMENTS)
endif
	$(TRY) core
	$(PIP) install --quiet "$$(echo $(WHEEL)/dist/*.whl)[cli]"
	$(TRY) cli

smoke: wheel-environment
	$(PIP) install --quiet $(TESTED_WITH) "$$(echo $(WHEEL)/dist/*.whl)[$(EXTRAS)]"
	$(WHEEL)/bin/python tools/check_packages.py $(CONSTRAINTS)
	$(MAKE) --no-print-directory smoke-tests VENV=$(WHEEL)
	rm -rf $(WHEEL)

smoke-tests:
	$(PYTEST) -m "not slow" $(CENTRAL)

lowest:
	@$(MAKE) --no-print-directory smoke CONSTRAINTS=constraints/lowest.txt \
		WHEEL=build/lowest-$(VERSION) EXTRAS=cli,ask,studies,scale,tensorboard \
		CENTRAL="$(CENTRAL) $(OF_EXTRAS)"

docs: setup
	@# mkdocs-material advertises its successor otherwise.
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "Open site/index.html."

clean:
	rm -rf .venv .venv-3.* .venv-peers build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
