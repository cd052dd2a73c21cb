# The two commands of the README. PYTHON picks the interpreter that the virtual environment is made with.
PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?= -n 2 --dist loadfile --no-loadscope-reorder
BIN := $(VENV)/bin
MAKEFLAGS += --jobs=2  # lint beside the tests, which leave the processors idle now and then

.PHONY: demo test test-all tests lint clean

demo: $(VENV)/.installed
	$(BIN)/autokernel kb run --level 1 --minutes 4

test: lint tests

# All attacks, all whole evaluations of KernelBench's ways, all plans: half an hour and more on two cores.
test-all: export AUTOKERNEL_SLOW_TESTS = 1
test-all: export AUTOKERNEL_ALL_EXPLOITS = 1
test-all: export AUTOKERNEL_ALL_COMPAT = 1
test-all: export AUTOKERNEL_ALL_PLANS = 1
test-all: lint tests

tests: $(VENV)/.installed-test
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache

$(BIN)/python:
	$(PYTHON) -m venv $(VENV) || { echo "No virtual environment could be made: install Python 3.10 or newer with its venv module (Debian: python3-venv), or set PYTHON."; rm -rf $(VENV); exit 3; }

# An index that hiccups once should not fail the whole run: each install is tried twice. Byte code is left to the first import: compiling
# all of torch takes as long as the rest of the install, and most of it is never imported.
$(VENV)/.installed: $(BIN)/python setup.py pyproject.toml
	$(BIN)/python -m pip install --quiet --no-compile -e . || { sleep 10; $(BIN)/python -m pip install --quiet --no-compile -e .; }
	touch $@

$(VENV)/.installed-test: $(BIN)/python setup.py pyproject.toml
	$(BIN)/python -m pip install --quiet --no-compile -e '.[test]' || { sleep 10; $(BIN)/python -m pip install --quiet --no-compile -e '.[test]'; }
	touch $@ $(VENV)/.installed
