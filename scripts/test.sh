#!/usr/bin/env bash
# Runs all checks that a change must pass, and prints the seconds that each takes. Needs no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."

# Machine code for one GPU of each baseline: all six take three times as long, and only what is packed needs them.
export WARPKOV_REQUIRE_PTX=1 WARPKOV_GPUS=80,90
step() {
    local start=$SECONDS
    printf '\n== %s\n' "$*" >&2
    "$@"
    printf '== %s: %d s\n' "$*" $((SECONDS - start)) >&2
}
step cargo fmt --all --check
step cargo clippy --workspace --all-targets -- -D warnings
step cargo test --workspace
# The program that the tests built.
WARPKOV=$(realpath "${CARGO_TARGET_DIR:-target}/debug/warpkov")
export WARPKOV
step cargo clippy --package warpkov-mdp --all-targets --features metis -- -D warnings
RUSTDOCFLAGS="-D warnings" step cargo doc --workspace --no-deps
step scripts/test-learn.sh
step scripts/book.sh
step scripts/ptx-report.sh
step scripts/licences.py
step scripts/demo.sh >/dev/null
PEERS=1 step scripts/test-python.sh
PROFILE=dev step scripts/dist.sh >/dev/null
step scripts/own-kernel.sh
step scripts/test-mpi.sh
printf '\n== all: %d s\n' "$SECONDS" >&2
