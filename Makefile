# The one entry, for people and for CI. What takes more than three lines is in scripts/.

PREFIX ?= $(HOME)/.local
CARGO  ?= cargo

.DEFAULT_GOAL := help
.PHONY: help build demo test sweep replay check bench install fmt lint doc real-trees

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

build: ## build the program
	$(CARGO) build --workspace

demo: build ## see a whole run on a small repository
	scripts/demo

test: ## run every test, as the user you are (and, for root, once more as another)
	$(CARGO) test --workspace $(TEST_ARGS)

sweep: ## the tests that take minutes, which `make test` leaves out
	$(CARGO) test --workspace -- --ignored

replay: ## the merges of a long history, ours beside git's own
	$(CARGO) test --lib -- --ignored --nocapture the_merges_of_a_long_history

fmt: ## format the code
	$(CARGO) fmt --all

lint: ## formatting and lints, warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

doc: ## build the code's documentation, broken links are errors
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" $(CARGO) doc --workspace --no-deps --document-private-items

real-trees: build ## try it on real source trees: small, over 1,000 files, over 10,000
	scripts/real-trees

check: lint doc test demo ## everything that must hold before a change is done
	scripts/real-trees --smallest

bench: ## measure, beside plain git
	scripts/bench

install: ## install the program into PREFIX/bin (default ~/.local)
	$(CARGO) install --path . --locked --no-track --force --root "$(PREFIX)"
