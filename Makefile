# `make help` lists the targets. A fresh machine needs python3 (3.11 or later) with venv, and make.
# The compiled build also needs a C compiler and the headers of Python (python3-dev on Debian).
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# -P keeps the source tree off sys.path, so that the installed build runs.
RUN    := $(BIN)/python -P
PYTEST := ANABRANCH_TEST_INSTALLED=1 $(RUN) -m pytest
# The tests that need nothing but this environment and redis-server. WITHOUT names a mark of further
# tests to leave out, for example `make test-pure WITHOUT=live`.
ORDINARY := not long and not install and not compose and not toxiproxy and not alerts
ORDINARY += and not examples and not spark and not console and not clients
ORDINARY += $(if $(WITHOUT),and not $(WITHOUT))
# How many processes share the tests. The files are dealt out whole. JOBS=0 keeps the tests in one
# process, for a debugger.
JOBS   ?= 2
SHARED := -n $(JOBS) --dist loadfile
SOURCES := $(shell sh deploy/install.sh sources)

# A Python program that prints all dependencies in pyproject.toml, without anabranch itself.
REQUIREMENTS := import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	extras = p['optional-dependencies']; print(*p['dependencies'], *extras['sim'], \
	*extras['examples'], \
	*(name for name in extras['dev'] if not name.startswith('anabranch')), sep='\n')

.DEFAULT_GOAL := help
.PHONY: help up test test-pure coverage test-install test-chaos test-compose test-alerts test-examples
.PHONY: test-newcomer test-console console-looks test-spark test-clients test-long test-sim test-mutants lint fmt bench bench-smoke docs dist clean
.PHONY: redis-server toxiproxy-server toxiproxy prometheus postgresql java chromium
.DELETE_ON_ERROR:

# A `##` comment in a target's line is its text in `make help`. ARGS passes flags on, for example
# `make up ARGS="--ephemeral"`, `make test ARGS="-k name"`, `make test-sim ARGS="--seeds 5000"`.
# test-mutants runs two programs: RUN_ARGS has the flags of the first, MECHANICAL_ARGS those of the
# second, for example `make test-mutants RUN_ARGS="--only 85" MECHANICAL_ARGS="--tests-only"`.
help: ## list the targets; ARGS="..." passes flags on to up, bench, and test* except test-mutants
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

up: $(VENV)/.venv ## install what runs, start three regions on this machine, and compile meanwhile
	@VENV=$(VENV) sh deploy/install.sh runs
	@$(BIN)/anabranch up $(ARGS)

test: $(VENV)/.installed redis-server ## run the test suite against the installed build
	$(PYTEST) -m "$(ORDINARY)" $(SHARED) $(ARGS)

test-pure: $(VENV)/.installed redis-server ## run the test suite with the interpreted modules
	ANABRANCH_PURE=1 $(PYTEST) -m "$(ORDINARY)" $(SHARED) $(ARGS)

# Interpreted: what a compiled module runs is not counted.
coverage: $(VENV)/.stubs ## count the branches of crdt, storage, codecs and links that tests reach
	$(BIN)/python -m coverage run -m pytest -o timeout=1800 \
	  -m "$(ORDINARY) and not live and not oracle" \
	  tests/crdt tests/resp tests/server tests/storage tests/sync tests/engine tests/driver \
	  tests/trust $(ARGS)
	$(BIN)/python -m coverage report

test-install: $(VENV)/.installed ## build archive and wheel; install each, and the checkout, in empty venvs
	$(PYTEST) -m install tests/packaging $(ARGS)

# The image has a build of its own, so this environment needs none. Where no Docker engine runs, the
# tests install one with apt and start it; that needs root.
test-compose: $(VENV)/.dev $(VENV)/.stubs ## build the image, start deploy/compose.yaml, break and mend the cluster
	$(BIN)/python -m pytest -m compose tests/compose $(ARGS)

# It takes about ten minutes: each alert has three regions and a Prometheus of its own.
test-alerts: $(VENV)/.installed prometheus ## make each alert fire, and ask each query of the dashboard
	$(PYTEST) -m alerts tests/alerts $(ARGS)

# Part of `make test`; alone it takes about a minute.
test-newcomer: $(VENV)/.installed redis-server ## paste the blocks of README and docs on a fresh cluster
	$(PYTEST) tests/newcomer tests/cli/test_learn_live.py $(ARGS)

test-examples: $(VENV)/.installed postgresql ## run the tests of examples that need PostgreSQL
	$(PYTEST) -m examples tests/examples $(ARGS)

# Spark starts a Java process, and reads from regions that the tests start.
test-spark: $(VENV)/.installed $(VENV)/.spark java ## run batch and streaming queries in a real Spark
	$(PYTEST) -m spark tests/pipeline $(SHARED) $(ARGS)

# The page of the console, in a real Chromium, over regions that the tests start.
test-console: $(VENV)/.installed $(VENV)/.browser chromium ## drive the console's page in a real Chromium
	$(PYTEST) -m console tests/console $(ARGS)

console-looks: $(VENV)/.installed $(VENV)/.browser chromium ## make 32 pictures of the console's page, in build/console/looks
	$(PYTEST) -m console tests/console/test_looks.py $(ARGS)

# Programs over the client libraries of these languages. A language whose tools are missing fails.
LANGUAGES ?= python node go java
CLIENTS := $(VENV)/.clients

test-clients: $(VENV)/.installed redis-server $(LANGUAGES:%=$(CLIENTS)/.%) ## run client libraries of four languages over regions
	$(PYTEST) -m clients $(LANGUAGES:%=tests/clients/test_%.py) $(ARGS)

test-long: $(VENV)/.installed redis-server toxiproxy-server ## run all tests, also those that take many minutes
	$(PYTEST) --timeout=3600 \
	  -m "not install and not compose and not alerts and not examples and not spark and not console \
	  and not clients" $(ARGS)

test-mutants: $(VENV)/.dev $(VENV)/.stubs ## check that planted and mechanical bugs are found
	@mkdir -p build
	@failed=0; \
	$(BIN)/python -m anabranch.sim.mutants run --tests build/mutants.testmondata $(RUN_ARGS) \
	  || failed=1; \
	$(BIN)/python -m anabranch.sim.mutants mechanical \
	  --sample 300 --seed 1 --out build/mutants.jsonl $(MECHANICAL_ARGS) || failed=1; \
	exit $$failed

# The name of the commit determines the 1,000 seeds. A fifth as many also run with forgotten
# restores, in meshes of three and of four regions.
test-sim: $(VENV)/.installed ## simulate 1,000 seeds, some with restores, and all that ever failed
	$(RUN) -m anabranch.sim.ci $(ARGS)

# First the tests that need toxiproxy-server. Then three runs, about five minutes together: three
# regions, then with replies before the commit, then five regions. `python -m anabranch.chaos.mutants`
# shows that such runs find planted bugs.
test-chaos: $(VENV)/.installed toxiproxy-server ## break real regions and their links for five minutes
	@mkdir -p build
	$(PYTEST) -m toxiproxy tests
	$(BIN)/anabranch chaos --seed 7 --seconds 80 --out build/chaos $(ARGS)
	$(BIN)/anabranch chaos --seed 8 --seconds 60 --appendfsync everysec --no-tapes --out build/chaos \
	  tests/trust $(ARGS)
	$(BIN)/anabranch chaos --seed 9 --seconds 80 --regions 5 --out build/chaos $(ARGS)

lint: $(VENV)/.dev $(VENV)/.stubs ## run ruff, mypy --strict, import-linter and the rules of tests/house
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict -p anabranch
	$(BIN)/mypy --strict -p examples
	$(BIN)/mypy --strict -p tests
	$(BIN)/mypy --strict setup.py
	$(BIN)/lint-imports
	$(BIN)/python -m tests.house.rules

fmt: $(VENV)/.dev ## format the code, and apply ruff's automatic fixes
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: $(VENV)/.installed redis-server ## measure a region beside redis-server (docs/performance.md)
	$(BIN)/anabranch bench $(ARGS)

# Machines are noisy, so it fails only if a ratio is less than half of the recorded one.
bench-smoke: $(VENV)/.installed redis-server ## measure a few rows, and compare them with recorded ones
	$(BIN)/anabranch bench --smoke $(ARGS)

docs: $(VENV)/.dev $(VENV)/.stubs ## write the parts of docs/ that are generated from tables
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/generate_scenarios.py
	$(BIN)/python docs/generate_learn.py
	$(BIN)/python docs/generate_performance.py
	$(BIN)/python docs/generate_animation.py

dist: $(VENV)/.dev ## build the source archive and the wheel into dist/
	rm -rf dist
	$(BIN)/python -m build --outdir dist .

clean: ## remove the venv, builds and caches, but no data directories
	rm -rf $(VENV) build *.egg-info
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# toxiproxy-server stands between regions, to break their links. It is a Go module.
TOXIPROXY := github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0

toxiproxy: $(BIN)/toxiproxy-server ## build toxiproxy-server, which breaks links between regions

$(BIN)/toxiproxy-server: | $(VENV)/.dev
	@command -v go >/dev/null || { \
	  echo "go is not installed, and toxiproxy-server is built with it. Install Go 1.23 or later," \
	    "or put toxiproxy-server 2.12 on PATH."; exit 1; }
	@mkdir -p build/toxiproxy
	GOBIN=$(CURDIR)/build/toxiproxy go install $(TOXIPROXY)
	@mv build/toxiproxy/server $@

# Tests of links need toxiproxy-server. Without it, and without Go to build it, they fail.
toxiproxy-server: $(VENV)/.dev
	@command -v toxiproxy-server >/dev/null || $(MAKE) --no-print-directory toxiproxy \
	  || echo "toxiproxy-server is missing: tests of links through it will fail."

# Tests of alerts need prometheus and promtool, from Debian's package. It is unpacked and not
# installed, which needs no root, and starts no service.
prometheus: $(VENV)/.dev ## fetch prometheus and promtool, which test-alerts needs
	@{ [ -x $(BIN)/prometheus ] && [ -x $(BIN)/promtool ]; } \
	|| { command -v prometheus && command -v promtool; } >/dev/null || { \
	  command -v apt-get >/dev/null && command -v dpkg >/dev/null || { \
	    echo "there is no prometheus, and no apt to fetch it. Put prometheus and promtool 2.42 or" \
	      "later on PATH."; exit 1; }; \
	  rm -rf build/prometheus && mkdir -p build/prometheus && cd build/prometheus \
	  && { apt-get -qq download prometheus \
	    || { apt-get -qq update && apt-get -qq download prometheus; }; } \
	  && dpkg -x prometheus_*.deb . && cd $(CURDIR) \
	  && mv build/prometheus/usr/bin/prometheus build/prometheus/usr/bin/promtool $(BIN)/ \
	  && rm -rf build/prometheus; }

# An environment with pip, and nothing else.
$(VENV)/.venv:
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" \
	  || { echo "$(PYTHON) is too old: give PYTHON=python3.11 or later"; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 \
	  || { $(PYTHON) -m venv --clear $(VENV) && $(BIN)/python -m pip --version >/dev/null; } \
	  || { rm -rf $(VENV); echo "no venv with pip could be made: on Debian, install python3-venv"; \
	    exit 1; }
	@touch $@

# Development tools and all dependencies, without anabranch itself.
$(VENV)/.dev: pyproject.toml | $(VENV)/.venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --upgrade "setuptools>=77" wheel
	$(BIN)/python -c "$(REQUIREMENTS)" > $(VENV)/requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $(VENV)/requirements.txt
	@touch $@

# anabranch itself, compiled (see setup.py). It is built without build isolation, so that nothing is
# downloaded twice and unchanged C files are kept.
$(VENV)/.installed: $(VENV)/.dev $(SOURCES)
	@VENV=$(VENV) sh deploy/install.sh compiled
	@$(RUN) -c "from anabranch import build; print('anabranch build:', build.describe())"
	@touch $@

$(VENV)/.stubs: $(VENV)/.dev anabranch/sync/generate.py $(shell find proto -name "*.proto")
	$(BIN)/python anabranch/sync/generate.py
	@touch $@

# The extra `spark` of pyproject.toml.
$(VENV)/.spark: $(VENV)/.dev pyproject.toml
	$(BIN)/python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	  print(*p['optional-dependencies']['spark'], sep='\n')" > $(VENV)/spark.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $(VENV)/spark.txt
	@touch $@

# The extra `browser` of pyproject.toml: Playwright, without a browser.
$(VENV)/.browser: $(VENV)/.dev pyproject.toml
	$(BIN)/python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	  print(*p['optional-dependencies']['browser'], sep='\n')" > $(VENV)/browser.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $(VENV)/browser.txt
	@touch $@

# The libraries and programs of tests/clients, each language in a folder of its own below $(CLIENTS).
# Where a tool is missing, a line names it, no stamp is written, and the tests of the language fail.
$(CLIENTS)/.python: tests/clients/python/requirements.txt | $(VENV)/.dev
	$(BIN)/python -m venv --clear $(CLIENTS)/python
	$(CLIENTS)/python/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

$(CLIENTS)/.node: tests/clients/node/package.json tests/clients/node/package-lock.json | $(VENV)/.dev
	@rm -f $@; if command -v node >/dev/null && command -v npm >/dev/null; then \
	  mkdir -p $(CLIENTS)/node && cp $^ $(CLIENTS)/node/ \
	  && npm ci --prefix $(CLIENTS)/node --silent --no-audit --no-fund && touch $@; \
	else \
	  echo "node or npm is not installed: the tests of clients in Node.js will fail." \
	    "Install Node.js 20 or later, with npm."; \
	fi

$(CLIENTS)/.go: $(wildcard tests/clients/go/*) | $(VENV)/.dev
	@rm -f $@; if command -v go >/dev/null; then \
	  mkdir -p $(CLIENTS)/go && GOBIN=$(abspath $(CLIENTS))/go \
	    go -C tests/clients/go install -mod=readonly . && touch $@; \
	else \
	  echo "go is not installed: the tests of clients in Go will fail. Install Go 1.26 or later."; \
	fi

$(CLIENTS)/.java: $(wildcard tests/clients/java/*) | $(VENV)/.dev
	@rm -f $@; if command -v javac >/dev/null && command -v mvn >/dev/null; then \
	  mkdir -p $(CLIENTS)/java && rm -rf $(CLIENTS)/java/* \
	  && mvn --quiet --batch-mode -Dstyle.color=never -f tests/clients/java/pom.xml dependency:copy-dependencies \
	    -DoutputDirectory=$(abspath $(CLIENTS))/java/lib \
	  && javac -cp "$(CLIENTS)/java/lib/*" -d $(CLIENTS)/java/classes tests/clients/java/*.java \
	  && touch $@; \
	else \
	  echo "javac or mvn is not installed: the tests of clients in Java will fail." \
	    "Install the packages openjdk-17-jdk-headless and maven."; \
	fi

# Playwright drives Debian's Chromium. As root, apt installs it. Without it, the tests fail with a
# line that names it.
chromium:
	@command -v chromium chromium-browser google-chrome >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing Chromium, in which the console is tested"; \
	    apt-get -qq update \
	      && DEBIAN_FRONTEND=noninteractive \
	        apt-get -qq install -y --no-install-recommends chromium fonts-dejavu-core >/dev/null; \
	  else \
	    echo "Chromium is not installed: the tests of the console's page will fail." \
	      "Install the package chromium."; \
	  fi; }

# Spark needs Java. As root, apt installs it. Without it, the tests fail with a line that names it.
java:
	@command -v java >/dev/null || [ -n "$$JAVA_HOME" ] || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing Java, which Spark needs"; \
	    apt-get -qq update \
	      && DEBIAN_FRONTEND=noninteractive \
	        apt-get -qq install -y openjdk-17-jre-headless >/dev/null; \
	  else \
	    echo "Java is not installed, and Spark needs it: install openjdk-17-jre-headless."; \
	  fi; }

# Tests compare with a real redis-server. As root, apt installs it. Without it, the tests that need
# it fail.
redis-server:
	@command -v redis-server >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing redis-server, which tests compare with"; \
	    apt-get -qq update \
	      && DEBIAN_FRONTEND=noninteractive \
	        apt-get -qq install -y redis-server redis-tools >/dev/null; \
	  else \
	    echo "redis-server is not installed: tests that compare with it will fail." \
	      "Install the package redis-server."; \
	  fi; }

# The tests of examples start a PostgreSQL server of their own. As root, apt installs it. Without it,
# these tests fail.
postgresql:
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing postgresql, with which the example is tested"; \
	    apt-get -qq update \
	      && DEBIAN_FRONTEND=noninteractive \
	        apt-get -qq install -y --no-install-recommends postgresql >/dev/null; \
	  else \
	    echo "PostgreSQL is not installed: the tests of examples will fail." \
	      "Install the package postgresql."; \
	  fi; }
