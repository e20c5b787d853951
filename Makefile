# SPDX-License-Identifier: Apache-2.0
# The everyday commands. CMake and Ninja do the work, in build/<preset>.

prefix  ?= /usr/local
DESTDIR ?=
JOBS    ?= $(shell nproc)

.PHONY: all help setup demo test check oclgrind format asan tsan fuzz fuzz-run model bench bench-train bench-ddp bench-collectives bench-device parity
.PHONY: bench-torch install clean fresh full
.DEFAULT_GOAL := all

all: dev ## build everything for development (build/dev)

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install missing Debian packages (needs root)
	@scripts/setup

# build/<preset>, configured once and brought up to date.
.PHONY: dev release build-asan build-tsan
dev release: setup
	@scripts/build $@ $(JOBS)
build-asan build-tsan: setup
	@scripts/build $(@:build-%=%) $(JOBS)

demo: release ## build, train handwritten digits on four ranks, draw a page about it
	@scripts/demo build/release

test: dev ## build and run all tests; results in build/test-report.tsv
	@scripts/test dev $(JOBS)

asan: build-asan ## the tests under the address and undefined-behaviour sanitizers
	@scripts/test asan $(JOBS)

tsan: build-tsan ## the tests under the thread sanitizer
	@scripts/test tsan $(JOBS)

fuzz: ## build the fuzz targets with clang (build/fuzz/fuzz)
	@scripts/setup fuzz
	@scripts/build fuzz $(JOBS)

fuzz-run: fuzz ## run each fuzz target for a short while (FUZZ_SECONDS=10)
	@scripts/fuzz $(or $(FUZZ_SECONDS),10)

model: ## check the models of the shared-memory protocol (spin)
	@scripts/setup model
	@scripts/model

oclgrind: dev ## kernels of accelerators under oclgrind: bounds, races, barriers
	@scripts/setup oclgrind
	@scripts/oclgrind build/dev

check: dev ## formatting, layers, sizes, headers, symbols, words, locks, errors
	@scripts/setup check
	@checks/run

# Hours: what is left out or cut short elsewhere, and the README's commands on a new machine.
full: ## everything: all tests under all sanitizers, ten minutes per fuzz target, a fresh machine
	@CI_SECONDS=$(or $(CI_SECONDS),43200) FUZZ_SECONDS=$(or $(FUZZ_SECONDS),600) TORCH_SIZES='2 3 4' TUTTI_TEST_ALL=1 TUTTI_TEST_KILLS=500 \
		LEAVE_TRIALS=1000 PG_LATE_TRIALS=1000 PG_FAULT_TRIALS=600 TRAINING_FAULT_TRIALS=400 \
		.ci/run test check+model asan tsan test-torch oclgrind parity fuzz-run fresh

fresh: ## README's commands in a clean Debian 12 (as root; chroots in /var/tmp)
	@scripts/setup fresh
	@scripts/fresh

format: ## bring all C files into the form that `make check` wants
	@scripts/setup check
	@checks/check_format -i

bench: release ## measure, against PyTorch too; results in build/bench
	@scripts/setup torch
	@scripts/bench kernels

bench-train: release ## measure whole training steps; results in build/bench
	@scripts/setup torch
	@scripts/bench train

bench-ddp: release ## measure data-parallel steps against PyTorch's DDP; results in build/bench
	@scripts/setup torch
	@scripts/bench ddp

bench-collectives: release ## measure collectives against MPIs and Gloo; results in build/bench
	@scripts/setup bench
	@scripts/bench collectives

bench-device: release ## measure OpenCL devices against plain OpenCL; results in build/bench
	@scripts/setup device
	@scripts/bench device

bench-torch: release ## measure the PyTorch plug-in against Gloo; results in build/bench
	@scripts/setup torch
	@scripts/bench torch

parity: release ## compare numbers with PyTorch, in an environment of its own under build/
	@scripts/setup torch
	@scripts/parity

.PHONY: test-torch test-torch-full
test-torch: dev ## build the PyTorch plug-in and test it, with PyTorch's own suite too
	@scripts/setup torch
	@scripts/test-torch

test-torch-full: dev ## run PyTorch's suite over Gloo and Tutti and write the table of results anew
	@scripts/setup torch
	@scripts/test-torch full

install: release ## install into $(DESTDIR)$(prefix)
	@DESTDIR=$(DESTDIR) cmake --install build/release --prefix $(prefix)

clean: ## remove build/
	rm -rf build
