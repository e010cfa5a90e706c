# Everything needs Python 3.11 or later, pip and make; the rest is set up here.

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
# The first of these that is new enough; PYTHON=... chooses another.
PYTHON ?= $(shell for it in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$it -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$it && break; done)

# A seed replays only when sets and dicts are ordered alike in every process.
export PYTHONHASHSEED := 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: setup test check simulate demo bench lock clean

# The environment of exact, hash-checked versions; made anew only when the lock or the project's description changed.
setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "setup: Python 3.11 or later is needed; name it with PYTHON=..."; exit 1; }
	@echo "setup: making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || $(PYTHON) -m venv --clear --without-pip $(VENV)
	@echo "setup: installing $$(grep -c == requirements.lock) packages at their locked versions"
	@rm -f $(VENV)/.packages
	@{ $(call pip,--progress-bar off --require-hashes -r requirements.lock) && touch $(VENV)/.packages; } \
		| sed -n 's/^Collecting \([^ ]*\).*/setup:   \1/p'; test -e $(VENV)/.packages
	@echo "setup: installing millstream itself"
	@$(call pip,--quiet --no-deps --no-build-isolation --editable .)
	@$(PY) -m compileall -q src
	@touch $@

# The environment's own pip, or the machine's where it has no way to give the environment one.
pip = if [ -e $(VENV)/bin/pip ]; then $(PY) -m pip install $(1); \
	else $(PYTHON) -m pip --python $(PY) install $(1); fi

# All tests but those that run for minutes (`pytest -m long`); four at a time, for many of them wait more than they work.
# A worker that dies fails its test and is not replaced: pytest-xdist hangs when it shares out files anew. Files come in
# their own order, the slow ones of compatibility and pipelines first, so that nothing long is left for the end;
# two of the workers take those that run Spark (tests/lanes.py).
test: setup
	@if [ -x tests/compatibility/install ]; then \
		echo "test: installing the clients that compatibility is tested with"; tests/compatibility/install; fi
	@HYPOTHESIS_PROFILE=repeatable $(PY) -m pytest -q -n 4 --dist loadfile --no-loadscope-reorder --max-worker-restart 0 -m "not long"

# Format, lint and types.
check: setup
	@echo "check: format"
	@$(PY) -m ruff format --check --quiet . || { $(PY) -m ruff format --diff --quiet .; exit 1; }
	@echo "check: lint"
	@$(PY) -m ruff check --quiet .
	@echo "check: types"
	@$(PY) -m mypy

# Whole clusters on virtual time, each from a seed; SEEDS=2000 for more of them, FIRST=… to begin at another,
# SIMULATE="--seed 7" for its other options.
simulate: setup
	@$(PY) -m tests.simulation.cluster --seeds $(or $(SEEDS),200) --first $(or $(FIRST),0) $(SIMULATE)

# The main job, start to end, with a summary that proves its counts.
demo: setup
	@$(PY) -m demo

# The benchmark tables; ONLY=cluster, ONLY=scale or ONLY=name,… for parts of it, BENCH="--quick" for its other options.
bench: setup
	@$(PY) -m bench $(if $(ONLY),--only $(ONLY)) $(BENCH)

# Choose versions anew.  No index or machine path may enter the lock.
lock: setup
	@$(call pip,--quiet pip-tools)
	@CUSTOM_COMPILE_COMMAND="make lock" $(PY) -m piptools compile --quiet --upgrade \
		--extra dev --extra spark --extra connect --extra postgres --extra lake \
		--build-deps-for editable --allow-unsafe --strip-extras --generate-hashes --no-annotate \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options \
		--output-file requirements.lock pyproject.toml

clean:
	@rm -rf $(VENV) .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist millstream-data
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
