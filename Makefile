# make demo and make test set up everything they need: a virtual environment, pinned packages, the compiled engine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WHEEL := $(VENV)/wheel
PIP := $(BIN)/python -m pip --quiet --quiet --disable-pip-version-check
SOURCES := $(shell find src setup.py pyproject.toml constraints.txt -name '*.py' -o -name '*.toml' -o -name '*.txt' \
	-o -name '*.lua' -o -name '*.html' -o -name '*.css' -o -name '*.js')

# No run without an end: a test has 5 minutes of its own (pyproject.toml), all of a target's have these.
LIMIT := $(if $(shell command -v timeout),timeout --foreground --signal=INT --kill-after=60 25m)

.PHONY: install demo browser test test-profile uncompiled compiled wheel lint lowest bench docs site clean

install: $(VENV)/installed $(VENV)/packages

# What compiles the wheel; the rest comes while it does.
$(VENV)/compiler: constraints.txt pyproject.toml
	./scripts/system-packages
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt setuptools wheel "mypy[mypyc]" librt mypy_extensions
	touch $@

# What the demo needs: the core and reports.
$(VENV)/core: $(VENV)/compiler
	$(BIN)/python scripts/requirements.py report > $(VENV)/requirements-core.txt
	$(PIP) install -c constraints.txt -r $(VENV)/requirements-core.txt
	touch $@

# All extras but torch, and what development needs.
$(VENV)/packages: $(VENV)/core
	$(BIN)/python scripts/requirements.py > $(VENV)/requirements.txt
	$(PIP) install -c constraints.txt -r $(VENV)/requirements.txt
	touch $@

# 5 GB, more than all the others together, which only the tests of real steps need.
$(VENV)/torch: $(VENV)/packages
	$(BIN)/python scripts/requirements.py profile > $(VENV)/requirements-torch.txt
	$(PIP) install -c constraints.txt -r $(VENV)/requirements-torch.txt
	touch $@

# Compiled once, as the wheel that others would install.
$(WHEEL)/built: $(VENV)/compiler $(SOURCES)
	rm -rf $(WHEEL)
	[ ! -d build ] || find build -path 'build/lib*' -name '*.py' -delete  # modules that are no more would go along
	$(PIP) wheel --no-deps --no-build-isolation --wheel-dir $(WHEEL) .
	touch $@

# The installed package is the compiled one; src/ itself always runs uncompiled.
$(VENV)/installed: $(VENV)/core $(WHEEL)/built
	$(PIP) install --no-deps --force-reinstall $(WHEEL)/*.whl
	touch $@

demo:
	$(MAKE) --no-print-directory -j 2 $(VENV)/installed
	$(BIN)/dally demo

lint: $(VENV)/packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=src $(BIN)/lint-imports

# The lowest versions that pyproject.toml allows, in a virtual environment of their own; all else runs with the newest.
lowest: $(VENV)/compiler
	@echo "== the lowest versions that are allowed"
	$(LIMIT) $(BIN)/python scripts/check_lowest.py $(VENV)/lowest

# The browser that the tests of reports open. Debian's own; only tests need it.
browser:
	./scripts/system-packages test

# What runs compiled code is also run as plain Python; the rest (readers, pages, commands) is the same either way.
BOTH_WAYS := tests/cluster tests/engine tests/metrics tests/perf tests/policies tests/runs tests/testing tests/test_heap.py

uncompiled: $(VENV)/packages
	@echo "== uncompiled"
	PYTHONPATH=$(CURDIR)/src DALLY_EXPECT=uncompiled $(LIMIT) $(BIN)/pytest -n 2 $(BOTH_WAYS)

# All of it, compiled. Some only wait, for Slurm or Kubernetes: four at a time, each of those with its like.
compiled: install
	@echo "== compiled"
	DALLY_EXPECT=compiled $(LIMIT) $(BIN)/pytest -n 4

# `dally profile` with torch: real steps of small models on the CPU. Not part of `test`.
test-profile: $(VENV)/torch
	PYTHONPATH=$(CURDIR)/src $(LIMIT) $(BIN)/pytest -m torch tests/cli/test_profile.py

wheel: install
	@echo "== the wheel, in a fresh virtual environment outside the repository"
	$(LIMIT) $(BIN)/python scripts/check_wheel.py $(WHEEL)/*.whl

# Two at a time, but only one that installs.
test: browser
	$(MAKE) -j 2 $(WHEEL)/built lint lowest site
	$(MAKE) -j 2 install uncompiled wheel
	$(MAKE) compiled

bench: install
	$(BIN)/python -m benchmarks.engine
	$(BIN)/python -m benchmarks.waiting
	$(BIN)/python -m benchmarks.network
	$(BIN)/python -m benchmarks.throughput

docs: install
	$(BIN)/python scripts/cli_reference.py > docs/cli.md
	$(BIN)/python scripts/policies_page.py > docs/policies.md
	$(BIN)/python scripts/reconcile_page.py > docs/reconcile.md
	$(BIN)/python scripts/architecture_figure.py > docs/images/architecture.svg
	$(BIN)/python scripts/api_page.py > docs/api.md

# The documentation as pages for a web server, in site/; a link that leads nowhere is an error.
site: $(VENV)/packages
	@echo "== the documentation's site"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) build artifacts site .mypy_cache .ruff_cache .pytest_cache .hypothesis
