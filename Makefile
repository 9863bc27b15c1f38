# One command for each thing a person wants from this tree. `make` lists them.

CARGO ?= cargo
HOST := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
# Each version of Rust brings lints of its own: only those of this one are errors.
LINTED_WITH := 1.95
DENY := $(if $(filter $(LINTED_WITH).%,$(shell rustc --version 2>/dev/null)),-D warnings)
# The dependencies of a recorded version; a build never changes them behind one's back.
LOCKED := --locked

.DEFAULT_GOAL := help

.PHONY: help
help: ## list these commands
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

.PHONY: setup
setup: ## install what building and testing need and this machine lacks (apt)
	@packaging/setup

.PHONY: build
build: setup ## build everything, for release
	$(CARGO) build $(LOCKED) --workspace --release

.PHONY: test
test: setup ## formatter, lints, all tests, licences, layers: at most 20 minutes on 2 CPUs
	$(CARGO) fmt --all --check
	$(CARGO) fetch $(LOCKED) --quiet --target $(HOST)
	$(CARGO) clippy $(LOCKED) --workspace --all-targets -- $(DENY)
	$(CARGO) test $(LOCKED) --workspace --no-fail-fast

.PHONY: clean
clean: ## remove what was built
	$(CARGO) clean
	rm -rf dist
