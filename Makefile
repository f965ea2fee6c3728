# make lab     install what is missing and start the lab      make lab PORT=7861
# make test    install what is missing and run the tests      make test ARGS="tests/evals -x"
# make test-all  the slow rest: kills, two processes, other tools, the network   (make test comes first)
# make check   format, lint, types, imports, tests: what must hold before a commit
# make fix     format, and mend what the linter can mend
# make docs    build the site of docs/ into build/docs, every link checked
# make bench   measure, as ratios against a named reference
# make setup   only install what the lab needs                make setup PYTHON=python3.12
# make setup-tests  only install, with what tests and checks need
# make lock    write constraints.txt anew from requirements*.txt

VENV := .venv
BIN := $(VENV)/bin
PORT ?=
HOST ?=
ARGS ?=
WORKERS ?= auto
TORCH_INDEX ?=
PYTHONS := python3.11 python3.12 python3.13 python3.14 python3
# The first that runs and is new enough, looked for once and only when it is needed.
PYTHON ?= $(eval PYTHON := $(shell for name in $(PYTHONS); do \
	  $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; \
	done))$(PYTHON)
# A file's tests stay in one process, so what they share is built once. tests/workers.py says how many
# processes auto means, and which files come first: xdist would put files of few tests last, however long.
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
SETUP = $(if $(PYTHON),$(PYTHON),python3) install.py --venv $(VENV) $(if $(TORCH_INDEX),--torch-index $(TORCH_INDEX))
NO_PYTHON = { status=$$?; [ $$status -lt 126 ] || \
	  echo "setup stopped: no such Python. Install 3.11 or newer, or name one: make lab PYTHON=python3.12"; \
	  exit $$status; } >&2

.PHONY: help lab test test-all check docs fix bench setup setup-tests lock

help:
	@sed -n 's/^# //p' Makefile

setup:
	@$(SETUP) || $(NO_PYTHON)

setup-tests:
	@$(SETUP) --tests || $(NO_PYTHON)

lab: setup
	@$(BIN)/assay lab $(if $(HOST),--host $(HOST)) $(if $(PORT),--port $(PORT)) $(ARGS)

test: setup-tests
	@$(PYTEST) -m "not slow and not network" $(ARGS)

test-all: setup-tests
	@$(PYTEST) -m "slow or network" $(ARGS)

check: setup-tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/ty check
	$(BIN)/python -m tests.budgets
	$(BIN)/python -m pytest tests/test_architecture.py
	$(PYTEST) -m "not slow and not network" $(ARGS)

docs: setup-tests
	@$(BIN)/python -m zensical build --strict --clean

fix: setup-tests
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup-tests
	@$(BIN)/python -m tests.bench $(ARGS)

lock:
	@$(SETUP) --lock || $(NO_PYTHON)
