# Two commands to begin with: `make demo` and `make test`.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PACKAGES := $(patsubst %/__init__.py,%,$(wildcard */__init__.py))
SOURCES := $(shell find $(PACKAGES) -type f -not -name '*.pyc') pyproject.toml README.md

.PHONY: demo test test-slow gpu-test lint

# A fusion task of your own, solved without network or GPU: its reference is traced, checked and compiled for sm_90a.
demo: $(VENV)/installed
	$(BIN)/codasmith run examples/bias_softcap_residual.py --model builtin:tracer

test: $(VENV)/installed
	$(BIN)/pytest -q -n 2 --dist loadfile -m "not gpu and not slow"

# Many real compilations and hostile candidates: about a quarter of an hour of two cores.
test-slow: $(VENV)/installed
	$(BIN)/pytest -q -m "slow and not gpu"

# Where there is an H100 or H200.
gpu-test: $(VENV)/installed
	$(BIN)/pytest -q -m gpu

# mypy looks at the installed packages, so it runs from another folder.
lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	cd $(VENV) && bin/mypy --config-file $(CURDIR)/pyproject.toml $(addprefix -p codasmith.,$(PACKAGES))

# torch comes first and pinned, so that nothing else chooses its version.
$(VENV)/installed: $(SOURCES)
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if (3, 11) <= v < (3, 13) else "Codasmith needs Python 3.11 or 3.12, and $(PYTHON) is %d.%d; name another: make PYTHON=python3.12" % v[:2])'
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet torch==2.13.0
	rm -rf build
	$(BIN)/pip install --quiet ".[dev]"
	rm -rf build
	@touch $@
