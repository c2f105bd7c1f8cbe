PYTHON ?= python3
BIN := .venv/bin
APT := DEBIAN_FRONTEND=noninteractive timeout 900 apt-get -qq -o DPkg::Lock::Timeout=120
INSTALL = { $(APT) update; $(APT) install -y --no-install-recommends $(1); } >/dev/null 2>&1
OPENGL := libegl1 libgl1-mesa-dri libopengl0

.PHONY: help demo test browser opengl lint bench
.DEFAULT_GOAL := help

help:
	@echo 'make demo    exact metrics, DQN with and without MICo, learnt against exact: figures in out/demo'
	@echo 'make test    the test suite, without what is marked slow (pytest -m slow)'
	@echo 'make lint    style, types and layers'
	@echo 'make bench   speed and memory against other ways to the same metrics'
	@echo 'Each makes .venv first if need be; PYTHON=... chooses the interpreter (3.11 or newer).'

demo: .venv/.installed
	$(BIN)/mico demo

test: .venv/.with-torch browser opengl
	$(BIN)/python -m pytest

browser:  # Debian's Chromium; where it cannot be had, the tests that need it are skipped
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		echo 'installing chromium, which tests look at pages with' && \
		$(call INSTALL,chromium fonts-dejavu-core); } || \
		echo 'chromium is missing (apt-get install chromium): tests that look at pages are skipped' >&2

opengl: .venv/.installed  # in software, Mesa's; where it cannot be had, the tests that need it are skipped
	@$(BIN)/python -c 'from mico.physics.graphics import back_end; back_end()' 2>/dev/null || \
		{ test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		echo 'installing OpenGL, which tasks of control are drawn with' && $(call INSTALL,$(OPENGL)); } || \
		echo 'OpenGL is missing (apt-get install $(OPENGL)): tests that draw with it are skipped' >&2

lint: .venv/.with-torch
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo

bench: .venv/.installed
	$(BIN)/python benchmarks/tabular.py

.venv/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'Python 3.11 or newer is needed, as in: make PYTHON=python3.12 $(MAKECMDGOALS)' >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev,deep,features,cluster,atari,control,tensorboard,video]'
	@touch $@

.venv/.with-torch: .venv/.installed  # large, and only its tests and types need it
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[torch]'
	@touch $@
