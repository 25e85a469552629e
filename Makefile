PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || echo python3)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

TORCH_INDEX ?=

.PHONY: env demo test lint docs clean

env: $(STAMP)
	@echo "The environment is in $(VENV). Next:"
	@echo "  source $(BIN)/activate"
	@echo "  python -m sweeper doctor     # what this machine has"
	@echo "  python -m sweeper pareto     # a first sweep; or 'make demo'"

# torch comes first and pinned: an open range would bring the newest build, and gigabytes with it. TORCH_INDEX names the
# index of another build (docs/install.md).
$(STAMP): pyproject.toml constraints.txt
	command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) not found; name a Python >= 3.11 with 'make $(MAKECMDGOALS) PYTHON=...'" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(STAMP)
	$(BIN)/python -m sweeper pareto

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile --ignore=tests/e2e
	$(BIN)/python -m pytest tests/e2e

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet -f docs/site/mkdocs.yml
	@echo "The site is in build/site: open build/site/index.html, or with its search: python -m http.server -d build/site"

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache
