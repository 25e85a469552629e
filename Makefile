PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || echo python3)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

TORCH_INDEX ?=
PIP    = $(BIN)/python -m pip install --quiet --disable-pip-version-check
UV     ?= $(shell command -v uv)

WORKERS ?= 2
PART    ?= 1/1
LONG    := faults or cluster or browser or slow

.PHONY: env demo test test-all test-part lint docs clean

env: $(STAMP)
	@echo "The environment is in $(VENV). Next:"
	@echo "  source $(BIN)/activate"
	@echo "  python -m sweeper doctor     # what this machine has"
	@echo "  python -m sweeper pareto     # a first sweep; or 'make demo'"

# torch comes first and pinned: an open range would bring the newest build, and gigabytes with it. TORCH_INDEX names the
# index of another build (docs/install.md). pip's configuration may name a CPU build or a package index, and uv does not
# read it, so pip installs torch even if uv installs the rest, and pip installs the rest if uv fails.
$(STAMP): pyproject.toml constraints.txt
	command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) not found; name a Python >= 3.11 with 'make $(MAKECMDGOALS) PYTHON=...'" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -c constraints.txt torch $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
	$(if $(UV),$(UV) pip install --quiet --python $(BIN)/python --compile-bytecode -c constraints.txt -e '.[dev]' ||) \
	$(PIP) -c constraints.txt -e '.[dev]'
	touch $@

demo: $(STAMP)
	$(BIN)/python -m sweeper pareto

# The units, and every command once against real Ray and MLflow (tests/contract). Files are given out in the order of
# their names: those that last longest are not among the last.
test: $(STAMP)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not ($(LONG))"

test-all: test test-part

# The long tests one after the other, because most of them use every core: all of them, or PART=2/3 of them.
test-part: $(STAMP)
	$(BIN)/python -m pytest -p tests.part --part $(PART) --minutes $(or $(MINUTES),600) -m "$(LONG)"

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
