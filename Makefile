# make tour   sets up and runs the main job        make test   sets up and runs every check
# make lint   ruff and mypy alone                  make bench  the benchmarks in bench/
# make docs   builds the site into site/           make clean  removes what these made
#
# Needed: Python 3.11 or newer with venv, and the package index. Everything goes into .venv.

SHELL := /bin/sh
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python python3.14; do \
	command -v $$p >/dev/null 2>&1 && \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && \
	{ echo $$p; break; }; done)
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check

.PHONY: tour test lint bench docs clean
.DELETE_ON_ERROR:

tour: $(VENV)/ready
	@$(PY) -m mmalab tour

test: $(VENV)/ready-test lint
	@MMALAB_REQUIRE_TOOLKIT=1 $(PY) -m pytest --quiet -n auto

lint: $(VENV)/ready-test
	@$(PY) -m ruff check --quiet --output-format concise
	@$(PY) -m mypy --no-error-summary

bench: $(VENV)/ready
	@set -e; for script in bench/*.py; do [ -e "$$script" ] || continue; $(PY) "$$script"; done

docs: $(VENV)/ready-docs
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict
	@echo "site/index.html (its search wants a server: $(PY) -m http.server -d site)"

# The stamps: a changed pyproject.toml installs again, anything else does not.
$(VENV)/ready: pyproject.toml
	@[ -n "$(PYTHON)" ] || { echo "Python 3.11 or newer with venv is needed" >&2; exit 2; }
	@[ -x $(PY) ] || { echo "setting up $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@$(PIP) --upgrade 'pip>=25.1'
	@$(PIP) --editable '.[toolchain,report]'
	@touch $@

$(VENV)/ready-test: $(VENV)/ready
	@$(PIP) --group test --group lint
	@touch $@

$(VENV)/ready-docs: $(VENV)/ready
	@$(PIP) --group docs
	@touch $@

clean:
	@rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
