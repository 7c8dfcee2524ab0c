# The front door. Meson does the building; this names the jobs and prepares what they need.
SHELL = /bin/bash
PREFIX ?= /usr/local
BUILD = build
# Seconds for each fuzzer of `make fuzz`.
FUZZ_SECONDS ?= 60

.DEFAULT_GOAL = help
.PHONY: help build demo check check-exhaustive bench lint format fuzz compare install clean setup

help:
	@echo 'make build             install what is missing, build build/floodmark'
	@echo 'make demo              the same, then show the main jobs'
	@echo 'make check             install what is missing, build, pass every test'
	@echo 'make check-exhaustive  the long tests of the numbers: every input there is (hours)'
	@echo 'make bench             measurements, as JSON lines'
	@echo 'make lint              layering, format, clang-tidy, cppcheck'
	@echo 'make format            clang-format over every source'
	@echo 'make fuzz              each fuzzer for FUZZ_SECONDS ($(FUZZ_SECONDS))'
	@echo 'make compare           comparisons with other software (fetches it from PyPI)'
	@echo 'make install           into PREFIX ($(PREFIX)), below DESTDIR when set'
	@echo 'make clean             remove the build directories'

build:
	@tools/setup build
	@tools/build $(BUILD)

demo: build
	@tools/demo

check:
	@tools/setup check
	@tools/check

check-exhaustive: build
	@tools/check-exhaustive

bench: build
	@tools/bench

lint:
	@tools/setup lint
	@tools/lint

format:
	@tools/setup lint
	@tools/sources | xargs clang-format -i

fuzz:
	@tools/setup check
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/fuzz

compare: build
	@tools/compare

install:
	@tools/setup build
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' tools/install

clean:
	rm -rf build build-asan build-clang build-fuzz build-install
