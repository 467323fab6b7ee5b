# Needs Python 3.11, make and a package index; everything else is set up here, in .venv.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# TensorFlow's start-up notices hide what a person wants to read.
export TF_CPP_MIN_LOG_LEVEL ?= 2
export PIP_DISABLE_PIP_VERSION_CHECK ?= 1
# One process per core in the tests; more threads inside each only get in each other's way.
WORKERS ?= 2
PYTEST := OMP_NUM_THREADS=1 TF_NUM_INTRAOP_THREADS=1 TF_NUM_INTEROP_THREADS=1 \
	$(BIN)/python -m pytest -n $(WORKERS)

.PHONY: help setup demo lint test test-all docs clean

help:
	@echo "make demo      set up, then fit and score a model on duels made without any download"
	@echo "make test      set up, then lint, type check and run the tests"
	@echo "make test-all  as make test, with the slow tests"
	@echo "make lint      set up, then lint and type check"
	@echo "make docs      set up, then build the documentation into site/, without network"
	@echo "make clean     remove the environment and all caches"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt tools/make_venv.sh
	@sh tools/make_venv.sh $(VENV)
	@echo "Installing packages, which takes a minute or two."
	@# The variable, unlike the option, also holds for the packages that build this one.
	@PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --editable ".[cli,dev,docs,studies,scale]"
	@touch $@

demo: setup
	$(BIN)/sparse-prefgp demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(PYTEST) -m "not slow"

test-all: lint
	$(PYTEST)

docs: setup
	@# mkdocs-material advertises its successor otherwise.
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "Open site/index.html."

clean:
	rm -rf $(VENV) build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
