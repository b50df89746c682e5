# `make help` lists what there is. A fresh machine needs python3 (3.11 or later) with venv, make, and a C compiler for the fast build.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# -P keeps the source tree off sys.path: what is installed is what runs.
RUN    := $(BIN)/python -P
PYTEST := ANABRANCH_TEST_INSTALLED=1 $(RUN) -m pytest
PACKAGES := crdt region sync cli sim bench
SOURCES := $(shell find $(PACKAGES) proto anabranch -type f \( -name '*.py' -o -name '*.proto' -o -name '*.sql' \) ! -name '*_pb2*' 2>/dev/null) setup.py

REQUIREMENTS := import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	extras = p['optional-dependencies']; print(*p['dependencies'], *extras['sim'], *(name for name in extras['dev'] if not name.startswith('anabranch')), sep='\n')

.DEFAULT_GOAL := help
.PHONY: help up test test-pure test-long test-sim test-mutants lint fmt bench docs clean redis-server
.DELETE_ON_ERROR:

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

up: $(VENV)/.installed ## install what is missing and start three regions on this machine; ARGS="--ephemeral" passes flags on
	@$(BIN)/anabranch up $(ARGS)

test: $(VENV)/.installed redis-server ## the whole test suite, against the installed build; ARGS="-k name" passes flags on
	$(PYTEST) -m "not long" $(ARGS)

test-pure: $(VENV)/.installed redis-server ## the same with the interpreted modules
	ANABRANCH_PURE=1 $(PYTEST) -m "not long" $(ARGS)

test-long: $(VENV)/.installed redis-server ## everything, the tests that take many minutes included
	$(PYTEST) --timeout=3600 $(ARGS)

test-mutants: $(VENV)/.dev $(VENV)/.stubs ## bugs put in on purpose, by hand and mechanically: are they seen? ARGS="--jobs 4" passes flags on
	@mkdir -p build
	@failed=0; \
	$(BIN)/python -m anabranch.sim.mutants run $(ARGS) || failed=1; \
	$(BIN)/python -m anabranch.sim.mutants mechanical --sample 300 --seed 1 --out build/mutants.jsonl $(ARGS) || failed=1; \
	exit $$failed

test-sim: $(VENV)/.installed ## 1,000 seeds of the simulator that the commit chooses, and every seed that ever failed; ARGS="--seeds 5000" passes flags on
	$(RUN) -m anabranch.sim.ci $(ARGS)

lint: $(VENV)/.dev $(VENV)/.stubs ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict -p anabranch
	$(BIN)/mypy --strict setup.py
	$(BIN)/lint-imports

fmt: $(VENV)/.dev ## format, and fix what ruff can fix
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: $(VENV)/.installed redis-server ## benchmarks, beside redis-server where there is one
	$(BIN)/anabranch bench $(ARGS)

docs: $(VENV)/.dev ## write the parts of docs/ that derive from tables
	$(BIN)/python docs/generate.py

clean: ## remove the venv, builds and caches; data directories stay
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# Development tools and all dependencies, without anabranch itself.
$(VENV)/.dev: pyproject.toml
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || { echo "$(PYTHON) is too old: give PYTHON=python3.11 or later"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "no venv could be made: install the package python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "setuptools>=77" wheel
	$(BIN)/python -c "$(REQUIREMENTS)" > $(VENV)/requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $(VENV)/requirements.txt
	@touch $@

# anabranch itself, compiled (see setup.py). Without build isolation, so that nothing is downloaded twice and unchanged C is kept.
$(VENV)/.installed: $(VENV)/.dev $(SOURCES)
	rm -rf build/lib* build/bdist*
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall .
	@$(RUN) -c "from anabranch import build; print('anabranch build:', build.describe())"
	@touch $@

$(VENV)/.stubs: $(VENV)/.dev $(wildcard sync/generate.py proto/*.proto proto/*/*.proto)
	@if [ -f sync/generate.py ]; then $(BIN)/python sync/generate.py; fi
	@touch $@

# Tests compare with a real redis-server. It comes with apt where we may; else tests that need it say so.
redis-server:
	@command -v redis-server >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing redis-server, which tests compare with"; \
	    apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y redis-server redis-tools >/dev/null; \
	  else echo "redis-server is not installed: tests that compare with it will say so. Install the package redis-server."; fi; }
