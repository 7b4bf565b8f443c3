# Every target is a script in scripts/, or one line.
.DEFAULT_GOAL := help
.PHONY: help setup demo book browser book-check dist wheel package test test-python test-slurm test-metis bench ptx-report gpu-bundle audit reproducible

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

setup: ## install what the build needs: the device compiler, and ptxas to make machine code
	@scripts/setup.sh

demo: setup ## solve a maze and draw it, into target/demo
	@scripts/demo.sh

book: ## build the book with its search, into target/book/html
	@scripts/book.sh

browser: ## compile the kernels of the course to WebAssembly, for the panels of the book
	@scripts/browser.sh

book-check: setup ## build the book with the API, and check its links, its listings and how a browser shows it
	@scripts/book.sh --check

dist: setup ## pack the program for machines without Rust, into target/dist
	@scripts/dist.sh

wheel: setup ## build the wheel of the Python package, into target/wheel/dist
	@scripts/wheel.sh

package: setup ## pack all crates for a registry, and compile each package from the others
	@scripts/package.sh

test: setup ## everything that CI checks; needs no GPU
	@scripts/test.sh

test-python: setup ## build a wheel, and test it in a new Python environment
	@scripts/test-python.sh

test-slurm: setup ## compare runs of many ranks with one process under Slurm on this machine; needs root
	@scripts/test-slurm.sh

test-metis: setup ## compare runs of METIS's parts with one process; needs a C compiler
	cargo test --package warpkov-mdp --features metis --test library metis
	cargo test --package warpkov-mdp --features metis --lib groups

bench: setup ## measure the solvers on this machine's GPU, or its CPU
	cargo run --release -- bench mdp

ptx-report: setup ## registers, spills and shared memory of every kernel
	@scripts/ptx-report.sh

gpu-bundle: setup ## pack target/gpu-bundle, to test and measure on a machine that has a GPU and no Rust
	@scripts/gpu-bundle.sh

reproducible: ## build archive and wheel twice, in different folders, and compare them bit for bit
	@scripts/reproducible.sh

audit: ## licences, sources and names of all dependencies, and known vulnerabilities where cargo-deny is installed
	@scripts/audit.sh
