# One-word commands for people and for CI. Each sets up what it needs; nothing has to be installed by hand
# but Python 3.10 or later.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo test bench lint docs clean

demo: $(VENV)/.installed engine
	$(BIN)/parhelion demo

test: $(VENV)/.installed-dev engine
	$(BIN)/python -m pytest

# The engines that ours is compared with pin other packages than the test extras do, so they get their own environment.
bench: $(VENV)-bench/.installed engine-bench
	$(VENV)-bench/bin/python bench/run.py

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check src tests bench docs
	$(BIN)/ruff check src tests bench docs
	$(BIN)/mypy

docs: $(VENV)/.installed-docs
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) $(VENV)-bench site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

# System libraries that no Python package carries: LLVM compiles the CPU kernels.
.PHONY: engine engine-bench
engine:
	@sh tools/ensure-engine.sh $(BIN)/python
engine-bench:
	@sh tools/ensure-engine.sh $(VENV)-bench/bin/python

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@ $(VENV)/.installed

$(VENV)-bench/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-bench
	$(VENV)-bench/bin/pip install --quiet --disable-pip-version-check -e '.[bench]'
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@
