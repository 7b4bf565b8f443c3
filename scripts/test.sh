#!/usr/bin/env bash
# Runs all checks that a change must pass. Needs no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."

export WARPKOV_REQUIRE_PTX=1
step() { printf '\n== %s\n' "$*" >&2; "$@"; }
step cargo fmt --all --check
step cargo clippy --workspace --all-targets -- -D warnings
step cargo test --workspace
step cargo clippy --all-targets --features metis -- -D warnings
RUSTDOCFLAGS="-D warnings" step cargo doc --workspace --no-deps
step scripts/own-kernel.sh
step scripts/ptx-report.sh
step scripts/licences.py
PROFILE=dev step scripts/demo.sh >/dev/null
step scripts/test-mpi.sh
