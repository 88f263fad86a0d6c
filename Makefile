# Two doors: `make run` and `make test`. Both set up what is missing first. `make help` lists the rest.
.DEFAULT_GOAL := help
.PHONY: help setup build run test bench bench-report dev tsan fuzz format lint install clean

JOBS ?= $(shell nproc)
PROMPT ?= Why do cats purr? Answer in two sentences.
ARGS ?=
TARGETS ?= all
PREFIX ?= /usr/local
FUZZ_SECONDS := $(if $(filter command line,$(origin SECONDS)),$(SECONDS),60)

# Through the environment, so that quotes, dollars and newlines in the prompt arrive as they are.
export MNEME_PROMPT = $(value PROMPT)
export CTEST_PARALLEL_LEVEL ?= $(JOBS)

# configure(<preset>): only once; afterwards Ninja itself sees when CMake has to run again.
configure = @test -f $(2)/build.ninja || cmake --preset $(1) -Wno-dev

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## (.*)/make \1\t\2/' | expand -t 20

setup:  ## install what is missing: Debian packages, LibTorch, the default model
	@scripts/setup.sh

run: setup  ## generate text with the default model; PROMPT="..." ARGS="--max-new-tokens 64"
	$(call configure,release,build)
	@cmake --build build --target mneme_program -j $(JOBS)
	@build/mneme generate --chat --prompt "$$MNEME_PROMPT" $(if $(findstring --max-new-tokens,$(ARGS)),,--max-new-tokens 256) $(ARGS)

build: setup  ## release build of everything, in build/
	$(call configure,release,build)
	@cmake --build build -j $(JOBS)

test: build  ## release build, then every test; ARGS go to ctest
	@ctest --preset release $(ARGS)

bench: setup  ## build and run benchmarks/: JSON lines, one for each figure
	$(call configure,release,build)
	@cmake --build build --target benchmarks -j $(JOBS)
	@for program in build/*_bench; do $$program || exit 1; done

bench-report: setup  ## measure alone and beside other libraries (benchmarks/peers) and draw it into docs/; ARGS go to compare.py
	$(call configure,release,build)
	@cmake --build build --target mneme_program mneme_worker cache_bench -j $(JOBS)
	@benchmarks/peers/setup.sh
	@benchmarks/alone.py --out build/bench/alone.json
	@benchmarks/peers/compare.py --out build/bench/peers.json $(ARGS)
	@benchmarks/report.py build/bench/peers.json build/bench/alone.json

dev: setup  ## debug build with AddressSanitizer and UndefinedBehaviorSanitizer in build-dev/, then its tests
	$(call configure,dev,build-dev)
	@cmake --build build-dev --target $(TARGETS) -j $(JOBS)
	@ctest --preset dev $(ARGS)

tsan: setup  ## ThreadSanitizer build in build-tsan/, then the tests that have Concurrent in their name
	$(call configure,tsan,build-tsan)
	@cmake --build build-tsan --target tests -j $(JOBS)
	@ctest --preset tsan $(ARGS)

fuzz: setup  ## libFuzzer targets under AddressSanitizer in build-fuzz/; SECONDS=60 each
	@scripts/setup.sh tools
	$(call configure,fuzz,build-fuzz)
	@cmake --build build-fuzz --target fuzzers -j $(JOBS)
	@scripts/fuzz.sh $(FUZZ_SECONDS) $(JOBS)

format:  ## clang-format every source
	@scripts/setup.sh tools
	@scripts/lint.sh format

lint: setup  ## style, architecture, clang-tidy on what changed since it passed; ARGS=--all for everything
	@scripts/setup.sh tools
	@scripts/lint.sh $(ARGS)

install: setup  ## install library, headers, program and CMake package under PREFIX=/usr/local
	$(call configure,release,build)
	@cmake --build build --target libmneme.so mneme_program -j $(JOBS)
	@cmake --install build --prefix $(PREFIX)

clean:  ## remove every build folder; the cache of LibTorch and the model stays
	@rm -rf build build-dev build-tsan build-fuzz build-lint
