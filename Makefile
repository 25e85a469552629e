PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || echo python3)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: env demo test lint clean

env: $(STAMP)

# torch comes first and pinned: an open range would bring the CUDA build and gigabytes with it.
$(STAMP): pyproject.toml constraints.txt
	command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) not found; name a Python >= 3.11 with 'make $(MAKECMDGOALS) PYTHON=...'" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: env
	$(BIN)/python -m sweeper pareto

test: env
	$(BIN)/python -m pytest

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache
