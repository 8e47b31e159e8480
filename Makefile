# A fresh clone needs only Python 3.11 or later, make and a package registry.
# Each target makes the virtual environment it runs in; repeat runs reuse it.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# A worker for each core; one that has no tests left takes some from another.
PYTEST := $(BIN)/pytest --numprocesses=logical --dist=worksteal
PIP    := $(BIN)/python -m pip install --disable-pip-version-check --no-input -qq

# A stamp is newer than pyproject.toml while what it stands for is installed.
DEMO_STAMP := $(VENV)/.stamp-demo
DEV_STAMP  := $(VENV)/.stamp-dev
STUDIO_STAMP := $(VENV)/.stamp-studio
# Where `make studio` keeps its study and its data.
STUDIO := build/studio

.DEFAULT_GOAL := help
.PHONY: help demo studio test thorough quick lint types all-tests fast-tests bench docs docs-serve docs-tables pythons clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(DEMO_STAMP) ## plan and release tables of a survey of 61,395 workers
	@$(BIN)/python -m noiseplan.demo

studio: $(STUDIO_STAMP) ## design the demonstration's study in the browser
	@mkdir -p $(STUDIO)
	@test -e $(STUDIO)/wages.toml || (cd $(STUDIO) && $(CURDIR)/$(BIN)/noiseplan init --example wages)
	@cd $(STUDIO) && $(CURDIR)/$(BIN)/noiseplan studio wages.toml

# Every test runs. At everyday depth random tests draw a part of their cases, grids of parameters
# that take long run for every value of every parameter, not for every combination of them, and of
# other cases that take long a few run (tests/depth.py). All cases, as .ci/run has them: make thorough, or NOISEPLAN_TEST_DEPTH=full make test.
test: lint ## lint, formatting, types and all tests, random and long ones with a part of their cases
	@$(MAKE) --no-print-directory --jobs=2 types all-tests

thorough: export NOISEPLAN_TEST_DEPTH = full
thorough: test ## the same with all cases, as before a change lands

quick: lint ## the same without the files of tests that take long: within a minute
	@$(MAKE) --no-print-directory --jobs=2 types fast-tests

lint: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV_STAMP)
	$(BIN)/mypy

all-tests: $(DEV_STAMP)
	$(PYTEST)

fast-tests: $(DEV_STAMP)
	$(PYTEST) --quick

bench: $(DEV_STAMP) ## run the benchmarks and print their tables
	@$(BIN)/python -m benchmarks

docs: $(DEV_STAMP) ## build the documentation as a site in build/site; open index.html there
	@rm -rf build/site
	@$(BIN)/python docs/site/build.py build/site

docs-serve: docs ## the same, served on this machine: http://localhost:8000
	@$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site 8000

docs-tables: $(DEV_STAMP) ## run the benchmarks and write docs/results.md and its pages
	@mkdir -p docs
	@$(BIN)/python -m benchmarks --write docs/results.md

pythons: ## the smoke tests under every Python from 3.11 on that is found
	@$(PYTHON) tests/pythons.py

clean: ## remove the virtual environment, caches and builds
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Order-only: the interpreter is a link whose own date says nothing about what is installed.
$(DEMO_STAMP): pyproject.toml | $(BIN)/python
	@echo "installing noiseplan[pandas] into $(VENV); the first time takes a minute or two"
	@$(PIP) --editable '.[pandas]'
	@touch $@

$(STUDIO_STAMP): pyproject.toml | $(BIN)/python
	@echo "installing noiseplan[studio] into $(VENV); the first time takes a minute or two"
	@$(PIP) --editable '.[studio]'
	@touch $@

# [dev] holds all that the demo and the studio need, so its stamp stands for all three.
$(DEV_STAMP): pyproject.toml | $(BIN)/python
	@echo "installing noiseplan[dev] into $(VENV); the first time takes a few minutes"
	@$(PIP) --editable '.[dev]'
	@touch $(DEMO_STAMP) $(STUDIO_STAMP) $@
