# `make demo` and `make test` are all a newcomer needs; each makes .venv on first use, of what it needs itself.
SHELL := /bin/bash -o pipefail
PYTHON ?= python3
BIN := .venv/bin
# Processes that share out the tests.
WORKERS ?= $(shell cores=$$(nproc); echo $$((cores < 8 ? cores : 8)))
CPP_FILES := git ls-files '*.cpp' '*.hpp' '*.cu'
CORE_SOURCES := $(shell find native include src -name '*.cpp' -o -name '*.hpp' -o -name '*.py' -o -name '*.cu') CMakeLists.txt pyproject.toml

.PHONY: demo test papers nightly lint style types format hooks site dev clean

demo: .venv/installed
	$(BIN)/hinterland demo $(if $(GRAPH),--graph $(GRAPH))

test: .venv/installed .venv/requirements papers
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m "not nightly"

# hinterland_papers, which is what only reproduces papers: builds its module into papers/, so that PYTHONPATH=papers sees it.
papers: .venv/tools
	$(BIN)/cmake -S . -B build/dev -G Ninja -DPython_EXECUTABLE=$(abspath $(BIN)/python) -DHINTERLAND_PAPERS=ON > /dev/null
	$(BIN)/cmake --build build/dev --target _papers_stub
	$(BIN)/cmake --install build/dev --component papers --prefix papers > /dev/null

# Hours: what is too long for every change.
nightly: .venv/installed .venv/requirements papers
	tools/nightly.sh

# Compiles nothing.
lint: style types

style: .venv/requirements
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $$($(CPP_FILES))
	PYTHONPATH=src $(BIN)/python -m pytest -q tests/test_imports.py tests/test_shape.py

# Those of the native module are known once it was built; until then everything of it may be anything.
types: .venv/requirements
	@rm -rf build/types && mkdir -p build/types && cp -r src/hinterland papers/hinterland_papers build/types
	@for package in hinterland hinterland_papers; do \
	  cp $$(find .venv src papers -path "*/$$package/_core.pyi" | head -n 1) build/types/$$package 2> /dev/null || \
	    printf 'from typing import Any\ndef __getattr__(name: str) -> Any: ...\n' > build/types/$$package/_core.pyi; \
	done
	cd build/types && ../../$(BIN)/mypy --config-file ../../pyproject.toml --cache-dir ../mypy -p hinterland -p hinterland_papers

format: .venv/requirements
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $$($(CPP_FILES))

# Has `git commit` try what is committed: .pre-commit-config.yaml says what.
hooks: .venv/requirements
	$(BIN)/python -m pip install -q -c constraints.txt $$($(BIN)/python tools/requirements.py hooks)
	$(BIN)/pre-commit install

site: .venv/requirements
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# What the library is built with and runs with. torch first and by its pin: resolving it with everything else could choose another build.
.venv/tools: constraints.txt pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  "Hinterland needs Python 3.11 or newer, and $(PYTHON) is older: make PYTHON=python3.11")'
	@echo "Installing torch and what the library is built with into .venv: a minute, and what the network takes"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -q -c constraints.txt torch
	@$(BIN)/python -m pip install -q -c constraints.txt scikit-build-core nanobind cmake ninja $$($(BIN)/python tools/requirements.py cli)
	@touch $@

.venv/requirements: .venv/tools
	@echo "Installing what tests and documentation need: a minute, and what the network takes"
	@$(BIN)/python -m pip install -q -c constraints.txt $$($(BIN)/python tools/requirements.py test docs)
	@touch $@

# pip says with -v which files the compiler is at.
.venv/installed: .venv/tools $(CORE_SOURCES)
	@echo "Compiling the library: two minutes on two cores"
	@mkdir -p build
	@$(BIN)/python -m pip install -v --no-build-isolation --no-deps . 2>&1 | tee build/install.txt | \
	  sed -un 's|.*\(\[[0-9]*/[0-9]*\]\) Building CXX.*native/\(.*\)\.o$$|\1 \2|p' || { tail -n 40 build/install.txt; exit 1; }
	@touch $@

# For working on the library: builds the native modules into src/ and papers/, so that PYTHONPATH=src:papers sees every change.
dev: .venv/requirements papers
	$(BIN)/cmake --build build/dev
	$(BIN)/cmake --install build/dev --prefix src > /dev/null

clean:
	rm -rf build dist .venv src/hinterland/_core* src/hinterland/include papers/hinterland_papers/_core*
