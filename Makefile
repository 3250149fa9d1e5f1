# Each target makes what it needs: `make test` on a fresh clone creates .venv, installs and tests.
PYTHON ?= python3
BIN := .venv/bin
RUN := MPLBACKEND=agg $(BIN)/python
# LAPACK calls on many small matrices: one thread each is up to twenty times faster than two that wait for each other
export OPENBLAS_NUM_THREADS := 1

.PHONY: help setup demo test test-all browser check docs dist bench reproduce clean

help:           ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

setup: .venv/.test  ## create .venv and install the package with the tested versions

# the first interpreter that is new enough and can make an environment; some, such as pyenv's shims, are found but do not run
.venv/bin/python:
	@[ -e .venv ] || new=.venv; for python in "$(PYTHON)" python3 python3.13 python3.12 python3.11; do \
	  if "$$python" -c '$(FIT)' >/dev/null 2>&1; then \
	    echo "$$python -m venv .venv"; "$$python" -m venv .venv && exit 0; rm -rf $$new; fi; done; \
	echo "matrix-mlp needs Python 3.11 or newer with venv (Debian: apt-get install python3.12 python3.12-venv), but $(PYTHON)" \
	  "is $$("$(PYTHON)" --version 2>&1 | head -n 1); install one, or name it: make setup PYTHON=/path/to/python3.12" >&2; exit 1
FIT := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))

.venv/.%: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[test$(if $(filter-out test,$*),$(comma)$*)]"
	touch $@
comma := ,

demo: setup     ## the tour: three small runs and a page to open, demo/index.html (a few minutes)
	$(RUN) -m mmlp.cli demo

test: setup     ## the fast tests, in three minutes
	$(RUN) -m pytest -n 2 --dist worksteal -m "not slow"

test-all: setup .venv/.docs browser  ## all tests, those of the documentation and of web pages too
	$(RUN) -m pytest -n 2 --dist worksteal -o faulthandler_timeout=1800

FIND_BROWSER := import sys; sys.path.insert(0, "tests/support"); import browser; browser.find_executable()
browser: setup  ## a Chromium for the tests of web pages, unless there is one (by apt-get)
	@$(BIN)/python -c '$(FIND_BROWSER)' 2>/dev/null || { \
	root=$$([ "$$(id -u)" = 0 ] || echo sudo -n); $$root apt-get update --quiet=2 && \
	$$root env DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --no-install-recommends chromium fonts-dejavu-core; } \
	|| { echo "No browser: install Chromium or Chrome by hand, then run this again." >&2; exit 1; }

check: setup    ## before a commit: format, lint, types, fast tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(MAKE) test

docs: .venv/.docs  ## build the documentation into docs/_build/html (the examples run first: a few minutes)
	$(BIN)/python -m sphinx -W --keep-going -q docs docs/_build/html
	@echo "docs/_build/html/index.html"

dist: .venv/.dist  ## build dist/*.whl and *.tar.gz, install each into an empty environment and use it
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	for package in dist/*; do PYTHON=$(CURDIR)/$(BIN)/python CONSTRAINTS=$(CURDIR)/constraints.txt tests/project/smoke.sh $$package || exit 1; done

bench: .venv/.bench  ## speed, accuracy and scaling; results/speed.json and so docs/speed.md
	$(RUN) benchmarks/accuracy.py
	$(RUN) benchmarks/low_rank.py
	$(RUN) benchmarks/speed.py
	$(RUN) benchmarks/peers.py
	$(RUN) benchmarks/first_fit.py

TARGETS ?= all
reproduce: setup  ## the paper's tables and figures, into report/index.html; TARGETS="density --quick" for less
	$(RUN) -m reproduction $(TARGETS)

clean:          ## remove the environment and caches
	rm -rf .venv .cache .pytest_cache .ruff_cache docs/_build docs/gallery dist
