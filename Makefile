PYTHON ?= python3
BIN := .venv/bin
APT := DEBIAN_FRONTEND=noninteractive timeout 900 apt-get -qq -o DPkg::Lock::Timeout=120
INSTALL = { $(APT) update; $(APT) install -y --no-install-recommends $(1); } >/dev/null 2>&1
OPENGL := libegl1 libgl1-mesa-dri libopengl0
CHROMIUM := chromium fonts-dejavu-core
# Debian packages that only tests need are installed where this is root; SYSTEM_PACKAGES=no leaves the system alone.
SYSTEM_PACKAGES ?= yes
MAY_INSTALL = test "$(SYSTEM_PACKAGES)" = yes && test "$$(id -u)" = 0 && command -v apt-get >/dev/null

.PHONY: help demo test announce browser opengl lint bench evidence fuzz
.DEFAULT_GOAL := help

help:
	@echo 'make demo    exact metrics, DQN with and without MICo, learnt against exact: figures in out/demo (3 minutes)'
	@echo 'make test    the test suite, without what is marked slow (15 minutes on two cores)'
	@echo 'make lint    style, types and layers'
	@echo 'make evidence  recomputes the numbers of the documentation from the committed results'
	@echo 'make fuzz    50,000 odd inputs, by number: FIRST=0 COUNT=50000 (15 minutes on one core)'
	@echo 'make bench   speed and memory against other libraries and methods'
	@echo 'Each makes .venv first if need be, which takes some minutes; PYTHON=... chooses the interpreter (3.11 or newer).'
	@echo 'As root, make test installs Debian packages: $(CHROMIUM) $(OPENGL); SYSTEM_PACKAGES=no does not.'

demo: .venv/.with-deep
	$(BIN)/mico demo

evidence: .venv/.installed
	$(BIN)/python docs/evidence.py

test: announce .venv/.with-torch browser opengl
	$(BIN)/python -m pytest

announce:
	@echo 'The tests take about 15 minutes on two cores; making .venv, the first time, takes some minutes more.'
	@missing=$$(command -v chromium >/dev/null || echo '$(CHROMIUM) '; dpkg -s $(OPENGL) >/dev/null 2>&1 || echo '$(OPENGL)'); \
		test -z "$$missing" || ! { $(MAY_INSTALL); } || \
		echo "As root, apt-get will install first (SYSTEM_PACKAGES=no skips this):" $$missing

browser:  # Debian's Chromium; where it cannot be had, the tests that need it are skipped
	@command -v chromium >/dev/null || { $(MAY_INSTALL) && echo 'installing $(CHROMIUM)' && $(call INSTALL,$(CHROMIUM)); } || \
		echo 'chromium is missing (apt-get install $(CHROMIUM)): tests that look at pages are skipped' >&2

opengl: .venv/.installed  # in software, Mesa's; where it cannot be had, the tests that need it are skipped
	@$(BIN)/python -c 'from mico.control_suite.graphics import back_end; back_end()' 2>/dev/null || \
		{ $(MAY_INSTALL) && echo 'installing $(OPENGL)' && $(call INSTALL,$(OPENGL)); } || \
		echo 'OpenGL is missing (apt-get install $(OPENGL)): tests that draw with it are skipped' >&2

lint: .venv/.with-torch
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo

FIRST ?= 0
COUNT ?= 50000
fuzz: .venv/.installed
	$(BIN)/python tests/support/fuzzing.py --first $(FIRST) --count $(COUNT)

bench: .venv/.installed
	$(BIN)/python benchmarks/tabular.py

.venv/.with-deep: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'Python 3.11 or newer is needed, as in: make PYTHON=python3.12 $(MAKECMDGOALS)' >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[deep]'
	@touch $@

.venv/.installed: .venv/.with-deep
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev,deep,features,cluster,atari,control,tensorboard,video]'
	@touch $@

.venv/.with-torch: .venv/.installed  # large, and only its tests and types need it
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[torch]'
	@touch $@
