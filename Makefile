# What one types; the build itself is CMake's (CMakePresets.json). `make help` lists the targets.
#   TORCH=DIR        use an installed torch package (the folder with lib/ and include/) instead of the pinned wheel
#   DEPS_DIR=DIR     where the pinned packages are (default .deps)
#   JOBS=N           compilations, or tests, at once (default: one per core)
#   CMAKE_ARGS=...   further arguments of the configuration, e.g. -DSATFORMER_BENCH=OFF
#   TEXT=PATH        make demo: train on this text instead of the dictionary
#   ARCHITECTURES=...  make demo: these instead of "satformer transformer", or all
#   PREFIX=DIR       make install: where to (default /usr/local)
TORCH ?=
DEPS_DIR ?= $(CURDIR)/.deps
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
CMAKE_ARGS ?=
TEXT ?=
ARCHITECTURES ?=
PREFIX ?= /usr/local
export TORCH DEPS_DIR CMAKE_ARGS TEXT ARCHITECTURES

BUILD := build/release

.PHONY: help setup build all test demo check asan install clean
.DEFAULT_GOAL := help

help:
	@echo 'make build     set up, configure and build the program: $(BUILD)/satformer'
	@echo 'make test      build everything and run all tests'
	@echo 'make demo      train a SATFormer and a Transformer on real text (TEXT=PATH for your own)'
	@echo 'make check     format, levels, file sizes, names, lint, configs'
	@echo 'make asan      build and test the parts without libtorch under the sanitizers'
	@echo 'make setup     only install what the build needs (Debian packages, pinned PyPI packages in .deps)'
	@echo 'make install   install program, libraries and headers under PREFIX (now $(PREFIX))'
	@echo 'make clean     remove build/ (not .deps, not demo/)'
	@sed -n 's/^#   /variables:     /p' Makefile | sed '2,$$s/variables: /           /'

setup:
	@tools/setup.sh

build: setup
	@tools/configure.sh release
	cmake --build $(BUILD) --target satformer -j $(JOBS)

all: setup
	@tools/configure.sh release
	cmake --build $(BUILD) -j $(JOBS)

test: all
	ctest --test-dir $(BUILD) -j $(JOBS) --output-on-failure --no-tests=error

asan: setup
	@tools/configure.sh asan
	cmake --build build/asan -j $(JOBS)
	ctest --test-dir build/asan -j $(JOBS) --output-on-failure --no-tests=error

demo: build
	@tools/demo.sh

check: setup
	@tools/check.sh

install: all
	cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	rm -rf build
