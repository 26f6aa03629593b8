# SPDX-License-Identifier: Apache-2.0
# The daily entry. On a bare machine start with ./bootstrap demo or ./bootstrap test, which installs Debian's packages first.
SHELL := /bin/sh
PYTHON ?= /usr/bin/python3
BIN := .venv/bin
READY := .venv/.ready
TORCH := .venv/.torch
FUZZ_SECONDS ?= 60
CRASH_EVERY ?= 8
RECEIVER_KILLS ?= 50
ASAN_OPTIONS := detect_leaks=1:abort_on_error=1
UBSAN_OPTIONS := halt_on_error=1:print_stacktrace=1
export ASAN_OPTIONS UBSAN_OPTIONS
# meson and ninja are found by name
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help setup torch native demo lab lab-replica test lint fmt type contracts test-py crash test-c fuzz fuzz-corpus bench p4 clean
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(READY) ## virtual environment with everything, C core built

$(READY): pyproject.toml constraints.txt meson.build
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q --retries 8 -c constraints.txt meson-python meson ninja cffi setuptools wheel
	$(BIN)/pip install -q --retries 8 -c constraints.txt --no-build-isolation -e '.[dev]'
	# a user who may not write the build tree only asks whether it is up to date: opening the build's log would fail
	@echo "import os; os.access('$(CURDIR)/build/cp311', os.W_OK) or os.environ.setdefault('MESONPY_EDITABLE_VERBOSE', '1')" \
	    > "$$(echo .venv/lib/python3.*/site-packages)/flowcheck-net-reader.pth"
	@touch $@

torch: $(TORCH) ## PyTorch for the checkpoint commands and their tests (the extra `checkpoint`); a CPU build will do

$(TORCH): $(READY)
	$(BIN)/pip install -q --retries 8 -c constraints.txt 'torch>=2.4' 'safetensors>=0.4' 'ml_dtypes>=0.4' 'cryptography>=42'
	@touch $@

demo: setup ## the main job on the shipped examples: plan, apply, synthesize, replay, audit, report
	$(BIN)/flowcheck-net demo --output build/demo

lab: setup ## the second demo (root): the job on real Open vSwitch switches in namespaces, clean and with faults
	@command -v ovs-vswitchd >/dev/null && command -v nft >/dev/null || { echo "make lab needs Open vSwitch and nftables:" \
	    "apt-get install --no-install-recommends openvswitch-switch nftables iproute2 util-linux" >&2; exit 1; }
	$(BIN)/flowcheck-net lab demo --output build/lab

lab-replica: native torch ## a real training through the lab, 200 steps in fp32 and bf16: its replica, bit by bit (root; some minutes)
	$(BIN)/flowcheck-net lab replica

test: lint type contracts test-c fuzz-corpus test-py ## every gate and every test

lint: setup ## ruff: style and format (changes nothing)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

fmt: setup ## ruff: format and fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

type: setup ## mypy --strict
	$(BIN)/mypy

contracts: setup ## who may import what, in Python and in C
	# -S keeps out the editable install's import hook, through which the linter finds no module
	PYTHONPATH="$(CURDIR):$$(echo $(CURDIR)/.venv/lib/python3.*/site-packages)" $(BIN)/python -S $(BIN)/lint-imports
	! grep -rnE '#include <(rte_|pcap|Python)' receiver/core
	! grep -rnE '^ *(from|import) .*\b_native\b' flowcheck_net --include='*.py' | grep -vE '^flowcheck_net/receive/native(_[a-z]+)?\.py:'

native: setup ## build the C core if a source of it has changed
	$(BIN)/ninja -C build/cp311 --quiet

test-py: native torch ## pytest, two workers; then what needs the machine for itself
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m 'not alone'
	$(BIN)/python -m pytest -q -m alone

build/asan/build.ninja: meson.build $(READY)
	$(BIN)/meson setup $(if $(wildcard build/asan/build.ninja),--reconfigure) build/asan \
	    -Dbuildtype=debug -Db_sanitize=address,undefined -Db_lundef=false >/dev/null

crash: native torch ## SIGKILL around every CRASH_EVERY=8th message to a switch, RECEIVER_KILLS=50 times to the receiver, all over publishing
	FLOWCHECK_RECEIVER_KILLS=$(RECEIVER_KILLS) $(BIN)/python -m pytest -q -rP tests/dpdk/test_receiver_crash.py
	FLOWCHECK_CRASH=$(CRASH_EVERY) $(BIN)/python -m pytest -n 2 -q -rP --timeout=0 tests/conformance/test_moments.py tests/conformance/test_crash.py
	FLOWCHECK_CRASH=1 $(BIN)/python -m pytest -q -rP --show-capture=stdout tests/unit/test_checkpoint_publish_kills.py -k killed

test-c: setup build/asan/build.ninja ## cmocka tests of the C core under ASan and UBSan
	$(BIN)/meson test -C build/asan --suite core --print-errorlogs

fuzz-corpus: setup build/asan/build.ninja ## replay the fuzz corpora under ASan and UBSan
	$(BIN)/meson test -C build/asan --suite fuzz --print-errorlogs

fuzz: setup ## run every fuzz target for FUZZ_SECONDS=60 (make fuzz FUZZ_TARGETS=frame runs one)
	@if command -v clang >/dev/null; then receiver/fuzz/run $(FUZZ_SECONDS) $(FUZZ_TARGETS); else \
	    echo "clang is not installed (apt-get install clang): the corpora are replayed, nothing new is tried"; \
	    $(MAKE) --no-print-directory fuzz-corpus; fi

bench: setup torch ## measure beside peers, write build/bench.json (make bench ONLY=name runs one)
	$(BIN)/python -m tests.bench $(ONLY)

p4: setup ## compile the P4 program into p4/artefacts (needs p4c-bm2-ss on the path or FLOWCHECK_P4C=/path/to/it)
	$(BIN)/python -m tests.p4.artefacts

clean: ## remove what was built
	rm -rf build .venv
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
