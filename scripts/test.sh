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
# With METIS, which a C compiler builds: the code without it is compiled by the tests.
step cargo clippy --workspace --all-targets --features metis -- -D warnings
step cargo test --workspace --no-run
step cargo test --workspace
# The program that the tests built.
WARPKOV=$(realpath "${CARGO_TARGET_DIR:-target}/debug/warpkov")
export WARPKOV

# What needs no compiler waits for the other steps of its own, so it runs beside them: its output follows when it ends.
log=$(mktemp)
trap 'rm -f "$log"; kill $(jobs -p) 2>/dev/null || true' EXIT
{
    step scripts/demo.sh >/dev/null
    step scripts/test-mpi.sh
} >"$log" 2>&1 &
beside=$!
# `cargo doc`, and the examples of the items that it documents.
step scripts/examples.py --workspace --features metis
step scripts/test-learn.sh
step scripts/book.sh
step scripts/ptx-report.sh
step scripts/licences.py
PEERS=1 step scripts/test-python.sh
step scripts/test-c.sh
PROFILE=dev step scripts/dist.sh >/dev/null
step scripts/own-kernel.sh
code=0
wait "$beside" || code=$?
cat "$log"
((code == 0))
# The newest compiler for the kernels comes last, because the next build compiles them again by its own.
if command -v apt-get >/dev/null; then
    WARPKOV_DEVICE_RUSTC=$(scripts/newest-rustc.sh)
    export WARPKOV_DEVICE_RUSTC
    step scripts/ptx-report.sh
fi
printf '\n== all: %d s\n' "$SECONDS" >&2
