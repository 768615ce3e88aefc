# Two commands: `make run` and `make test`. `make env` makes the environment alone.
#
# The locked packages live in VENV (6.7 GB; share one between checkouts: `make env VENV=/somewhere`, said once and
# remembered). Each checkout has a thin .venv that sees VENV's packages plus this checkout's own `zgcm`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: run run-slurm test test-fast test-full test-slurm lint env lock clean help

ifndef VENV
VENV := $(or $(shell cat .venv/packages 2>/dev/null),.packages)
endif
CORES ?= $(shell nproc)
RECIPE ?= config/tiny.yaml
PY := .venv/bin/python
export SLURM_LAB_DIR := $(CURDIR)/build/slurm-lab
# The profile suits hundreds of nodes and jobs of days; this is one machine, and its jobs last a minute.
QUICK := --jobs 4 --slurm-init-seconds-before-status-checks 3 --seconds-between-status-checks 3 --latency-wait 5
export OMP_NUM_THREADS := 1
export PATH := $(CURDIR)/.venv/bin:$(PATH)

run: env ## the whole pipeline on this machine's CPU (RECIPE=..., CORES=...)
	@$(PY) -m zgcm.cli run --recipe $(RECIPE) --cores $(CORES)

run-slurm: env ## the same through a real Slurm on this machine, training stages on two nodes, in runs/slurm
	@scripts/slurm-lab start
	@PATH="$(SLURM_LAB_DIR)/bin:$$PATH" $(PY) -m zgcm.cli run --recipe config/tiny.yaml --recipe config/tiny-slurm.yaml \
		--directory runs/slurm --profile slurm $(QUICK)

test: lint ## linters and all tests but the long ones (25 minutes at most on 2 cores)
	$(PY) -m pytest -m "not long and not slurm" tests

test-fast: lint ## the tests that take seconds (10 minutes at most)
	$(PY) -m pytest -m "not slow and not long and not slurm" tests

test-full: lint ## everything but Slurm, also the tests that take minutes each
	$(PY) -m pytest -m "not slurm" tests

test-slurm: env ## the tests on a real Slurm on this machine; says what to install when it is missing (some 20 minutes)
	@scripts/slurm-lab check --accounting
	$(PY) -m pytest -m "slurm and not long" tests/slurm

lint: env ## ruff, mypy, snakefmt, snakemake --lint
	$(PY) -m ruff check . && $(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m snakefmt --check Snakefile rules
	$(PY) -m snakemake --lint --quiet

env: .venv/ready ## the environment alone

# The interpreter: python3.12, python3.13, python3 or one of pyenv's, whichever is 3.12 or 3.13 first.
FIND_PYTHON = for p in python3.12 python3.13 python3 $$(ls -d $${PYENV_ROOT:-$$HOME/.pyenv}/versions/3.1[23].*/bin/python 2>/dev/null); do \
	"$$p" -c 'import sys, venv, ensurepip; sys.exit(not (3, 12) <= sys.version_info < (3, 14))' 2>/dev/null && command -v "$$p" && exit 0; done; \
	echo "zgcm needs Python 3.12 or 3.13 with its venv module (Debian, Ubuntu: apt install python3.12-venv; or: pyenv install 3.12)" >&2; exit 1

# The mark is a copy of the lock: a fresh checkout's lock is newer than a shared VENV, but mostly the same.
$(VENV)/ready: envs/laptop.lock
	@if cmp -s envs/laptop.lock $@; then touch $@; exit 0; fi; \
	python="$$($(FIND_PYTHON))"; \
	echo "Installing the locked packages into $(VENV) with $$python: 3 to 10 minutes, 6.7 GB when all are new"; \
	"$$python" -m venv "$(VENV)"; \
	"$(VENV)/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r envs/laptop.lock; \
	cp envs/laptop.lock $@

.venv/ready: $(VENV)/ready pyproject.toml
	@echo "Making .venv, with this checkout's zgcm and the locked packages of $(VENV): seconds"
	@"$(VENV)/bin/python" -m venv --without-pip --clear .venv
	@"$(VENV)/bin/python" -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
		> "$$(echo .venv/lib/python3.*/site-packages)/locked-packages.pth"
	@"$(VENV)/bin/python" -m pip --python .venv/bin/python install --quiet --disable-pip-version-check \
		--no-deps --no-build-isolation --no-index --editable .
	@printf '#!/bin/sh\nexec "$$(dirname "$$0")/python" -m snakemake "$$@"\n' > .venv/bin/snakemake && chmod +x .venv/bin/snakemake
	@echo "$(VENV)" > .venv/packages
	@touch $@

lock: ## resolve the pinned list anew (needs uv); then review the diff
	uv pip compile --python-version 3.12 --override envs/overrides.txt envs/laptop.in --no-annotate --no-header -o envs/laptop.lock

clean: ## remove the results of the tiny recipe, keep the environment
	rm -rf results .snakemake

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12
