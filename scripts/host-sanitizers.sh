#!/usr/bin/env bash
# Runs the host's `unsafe` code and its threads under the tools that this machine has: host-sanitizers.sh [TOOL...]. Prints a line for each
# tool and for each crate or command, and why a tool cannot run. The tools, all by default:
#
#   memcheck  valgrind: accesses out of bounds and after free, uninitialised memory. It runs what `cargo test` compiles.
#   address   AddressSanitizer of a nightly compiler: the first two, and leaks. It knows AVX-512, which valgrind does not.
#   thread    ThreadSanitizer of a nightly compiler with the source of its library (rust-src), which must be compiled for it too.
#   miri      undefined behaviour in code without foreign functions: rustup's component of that name.
#
# book/reference/security.md says which files they reach. ONLY=TEXT takes the crates and commands that contain TEXT.
set -uo pipefail
cd "$(dirname "$0")/.."

host=$(rustc --version --verbose | sed -n 's/^host: //p')
built=$(realpath -m "${CARGO_TARGET_DIR:-target}")
logs=$built/sanitizers/logs
mkdir -p "$logs"
failed=0

# Crates whose tests call their `unsafe` code or start threads, and which tests. Pictures take long.
crates=("common --lib -- --skip plot" "cuda --lib --" "runtime --lib -- --skip gpu" "hmm --lib -- product" "capi --lib -- tests::")
# Commands that call what tests do not: the layouts of patterns, the searches with AVX2, kernels in the emulator, the allocator.
models=("mdp generate grid --width 24 --height 16 --out grid.safetensors" "mdp generate garnet --states 8 --actions 2 --branching 2 --out tiny.json"
    "pomdp generate tiger --out tiger.json" "hmm generate random --states 3 --symbols 4 --out hmm.json"
    "hmm sample hmm.json --sequences 4 --length 20 --out symbols.txt")
commands=("mdp solve grid.safetensors --method values --storage patterns --device cpu" "mdp solve tiny.json --method krylov --device cpu"
    "mdp solve tiny.json --method values --max-sweeps 3 --device emulated" "mdp solve tiny.json --method modified --max-sweeps 3 --device emulated"
    "pomdp solve tiger.json --iterations 4 --device cpu" "pomdp solve tiger.json --expansion random --beliefs 2 --iterations 1 --device emulated"
    "hmm train hmm.json symbols.txt --iterations 2 --device cpu --out trained.json" "hmm score hmm.json symbols.txt --device emulated")

missing() {
    echo "$1: not run: $2"
}
# run TOOL NAME COMMAND...: says whether the command found something. Exit code 1 is that of a run that has not converged.
run() {
    local tool=$1 name=$2 log code=0 seconds=$SECONDS
    log=$logs/$tool-${name//[^a-z0-9]/-}.log
    shift 2
    [[ $name == *"${ONLY:-}"* ]] || return 0
    "$@" >"$log" 2>&1 || code=$?
    if ((code == 0)) || [[ $name == *--device* && $code == 1 ]]; then
        echo "$tool, $name: nothing found, $((SECONDS - seconds)) s"
    else
        failed=1
        echo "$tool, $name: FAILED with exit code $code, see $log"
    fi
}
# tests TOOL COMMAND...: the tests of all crates.
tests() {
    local tool=$1 arguments
    shift
    for arguments in "${crates[@]}"; do
        # shellcheck disable=SC2086
        run "$tool" "${arguments%% *}" "$@" --package warpkov-$arguments --test-threads 2
    done
}
# programs TOOL PROGRAM DRIVER: the commands, and those on a GPU with the library that stands in for the driver.
programs() {
    local folder command
    folder=$(mktemp -d)
    for command in "${models[@]}"; do
        (cd "$folder" && $2 $command >/dev/null) || { failed=1; echo "$1: $command failed"; }
    done
    for command in "${commands[@]}"; do
        # shellcheck disable=SC2086
        run "$1" "$command" env -C "$folder" $2 $command
    done
    run "$1" "device_faults.py" scripts/device_faults.py "$2" "$3" --jobs 1 --uses ""
    rm -rf "$folder"
}

memcheck() {
    command -v valgrind >/dev/null || { missing memcheck "valgrind is not installed"; return; }
    # One thread runs at a time: without fairness, one that waits could starve the others.
    local valgrind="valgrind --quiet --error-exitcode=86 --fair-sched=yes --num-callers=20" runner program=$logs/../warpkov-memcheck
    runner=CARGO_TARGET_$(tr a-z- A-Z_ <<<"$host")_RUNNER
    tests memcheck env "$runner=$valgrind" cargo test --quiet
    cargo build --quiet --package warpkov --package warpkov-cuda --bin warpkov --example driver || { failed=1; return; }
    printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$valgrind" "$built/debug/warpkov" >"$program"
    chmod +x "$program"
    programs memcheck "$program" "$built/debug/examples/libdriver.so"
}

# nightly TOOL COMMAND...: what `cargo` of a nightly compiler needs.
nightly() {
    rustup run nightly rustc --version >/dev/null 2>&1 || { missing "$1" "no nightly compiler"; return 1; }
}
address() {
    nightly address || return
    # Kernels are not optimised, which would take longest.
    tests address env RUSTFLAGS=-Zsanitizer=address cargo +nightly test --quiet \
        --config profile.dev.package.warpkov-kernels.opt-level=0 --target "$host" --target-dir "$built/sanitizers/address"
}
thread() {
    nightly thread || return
    [[ -e $(rustup run nightly rustc --print sysroot)/lib/rustlib/src/rust/library ]] || { missing thread "the nightly compiler has no rust-src"; return; }
    tests thread env RUSTFLAGS=-Zsanitizer=thread cargo +nightly test --quiet -Zbuild-std --target "$host" --target-dir "$built/sanitizers/thread"
}
miri() {
    cargo +nightly miri --version >/dev/null 2>&1 || { missing miri "the nightly compiler has no component miri"; return; }
    tests miri env MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --target-dir "$built/sanitizers/miri"
}

(($#)) || set -- memcheck address thread miri
for tool; do
    "$tool"
done
exit "$failed"
