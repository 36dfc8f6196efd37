# Every target sets up what it needs in .venv: made if missing, quick when it is there.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help run site test test-all test-native test-kills fuzz audit lint bench bench-quick bench-peers pip-audit screenshots clean

PYTHON ?= python3
BIN := .venv/bin
NATIVE := setup.py $(wildcard src/transom/kernels/native/*.[ch]pp)
FOR_RUN := .venv/.ready-to-run
FOR_WORK := .venv/.ready-to-work
PEERS := .venv-peers
AUDIT := .venv-audit

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18
	@echo "  To choose the Python that .venv is made with: make PYTHON=python3.12 run"

run: $(FOR_RUN)  ## "The cat sat" through self-attention, a translation, an arrow knocked out
	@$(BIN)/transom tour --html out/tour.html

# Recorded runs are arguments: make site RECORD='--record "SmolLM2=models/smollm2:The cat sat" --licence SmolLM2=Apache-2.0'
RECORD ?=
site: $(FOR_RUN)  ## a static site for any web host: the translator in the browser, all lessons (out/site)
	@$(BIN)/transom site out/site $(RECORD)

test: $(FOR_WORK)  ## the tests, without the slow ones
	@$(BIN)/python -m pytest -n 2 -m "not slow"

test-all: $(FOR_WORK)  ## all tests
	@$(BIN)/python -m pytest -n 2

test-native: $(FOR_WORK)  ## the native engine under the sanitizers, and its choice of instruction sets
	@$(BIN)/python -m pytest tests/kernels/test_sanitized.py tests/kernels/test_dispatch.py

test-kills: $(FOR_WORK)  ## a training run killed 200 times, and the same as one that never was
	@KILLS=200 $(BIN)/python -m pytest tests/training/test_kills.py

# The long form of a closing check: make fuzz SECONDS=600
SECONDS ?= 20
fuzz: $(FOR_WORK)  ## random and damaged input for kernels, files and the server, one line of counts each
	@$(BIN)/python -m fuzz --seconds $(SECONDS)

audit: $(FOR_WORK)  ## every architecture of transformers, built small and watched: docs/audit.md (about twenty minutes)
	@$(BIN)/python -m audit

lint: $(FOR_WORK)  ## Python: ruff (lint and format) and pyright; C++: clang-format; JavaScript, CSS, HTML: deno
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/pyright
	@DENO_NO_UPDATE_CHECK=1 $(BIN)/deno lint --quiet
	@DENO_NO_UPDATE_CHECK=1 $(BIN)/deno fmt --quiet --check
	@$(BIN)/clang-format --dry-run --Werror src/transom/kernels/native/*.[ch]pp tests/kernels/native/*.cpp

bench: $(FOR_WORK)  ## Transom beside its peers, all questions: out/bench/bench.md (half an hour and more)
	@$(MAKE) -s bench-peers || echo "Without the peers that need .venv-peers; the table says which." >&2
	@$(BIN)/python -m bench

bench-quick: $(FOR_WORK)  ## the same in three minutes: small shapes, peers of .venv only; out/bench-quick/bench.md
	@$(BIN)/python -m bench --quick

bench-peers: $(PEERS)/.ready  ## the peers, in an environment of their own (.venv-peers)

# --strict: a package that the advisory service could not be asked about is a failure, not a package without advisories.
pip-audit: $(AUDIT)/.ready  ## known vulnerabilities of the tested set of packages (asks the advisory service)
	@$(AUDIT)/bin/pip-audit --strict --no-deps --disable-pip --progress-spinner off -r constraints.txt

screenshots: $(FOR_WORK)  ## the pictures of the docs, drawn anew (the photographs need Chromium)
	@$(BIN)/python docs/draw_pictures.py
	@$(BIN)/python docs/photograph_page.py

clean:  ## remove .venv, .venv-peers, .venv-audit and what the tools leave behind
	@rm -rf .venv $(PEERS) $(AUDIT) .pytest_cache .ruff_cache .hypothesis build

$(FOR_RUN): pyproject.toml constraints.txt $(NATIVE)
	$(call installed,.,)
	@touch $@

$(FOR_WORK): pyproject.toml constraints.txt $(NATIVE)
	$(call installed,.[dev],$() with what its tests and linters need)
	@touch $@ $(FOR_RUN)

# JoeyNMT wants a protobuf of 2022 that nothing else here works with, so it comes without its requirements.
$(PEERS)/.ready: bench/peers/requirements.txt constraints.txt
	@echo "[1/3] making $(PEERS)" >&2; $(PYTHON) -m venv $(PEERS)
	@echo "[2/3] installing torch once more (about 200 MB as a CPU build)" >&2; $(call peer_pip,torch)
	@echo "[3/3] installing TransformerLens, nnsight, BertViz, captum, llama.cpp, JoeyNMT" >&2
	@$(call peer_pip,-r bench/peers/requirements.txt); $(call peer_pip,--no-deps joeynmt==2.3.0)
	@touch $@

# An environment of its own: what pip-audit itself needs is not part of the tested set.
$(AUDIT)/.ready:
	@echo "making $(AUDIT) with pip-audit" >&2; $(PYTHON) -m venv $(AUDIT)
	@$(AUDIT)/bin/python -m pip install -q --disable-pip-version-check 'pip-audit>=2.10,<3'
	@touch $@

# pip warns about every find-links folder that is not there; nothing else it says is hidden.
pip = $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt $(1) \
	2> >(grep -v '^WARNING: Location' >&2 || true)

peer_pip = $(PEERS)/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt $(1) \
	2> >(grep -v '^WARNING: Location' >&2 || true)

define installed
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo "Transom needs Python 3.11 or newer, but $(PYTHON) is not; name one, as in: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
@if $(BIN)/python -c '' 2> /dev/null; then echo "[1/3] .venv is there" >&2; \
	else echo "[1/3] making .venv with $$($(PYTHON) --version)" >&2; $(PYTHON) -m venv .venv; fi
@echo "[2/3] installing torch (about 200 MB as a CPU build; a few minutes the first time)" >&2; $(call pip,torch)
@echo "[3/3] installing transom$(2) (its engine is compiled in some seconds, or given up after five minutes)" >&2; $(call pip,-e '$(1)')
@test -e src/transom/kernels/native/generic.so || \
	echo "      no native engine: the C++ compiler is missing or failed (pip install -v -e . says how); attention runs on PyTorch's" >&2
endef
