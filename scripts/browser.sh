#!/usr/bin/env bash
# Compiles the kernels of the course and the emulator to WebAssembly, for the panels of the book: target/browser/emulator.wasm. Needs a
# rustc with the library for wasm32-unknown-unknown, and Binaryen's wasm-opt; where they are missing, takes Debian's packages.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$target/browser
libraries=$(rustc --print target-libdir --target wasm32-unknown-unknown 2>/dev/null || true)
if [[ ! -d $libraries ]] || ! command -v wasm-opt >/dev/null; then
    tools=$target/newest-rustc/usr/bin
    [[ -x $tools/wasm-opt && -x $tools/lld ]] || scripts/newest-rustc.sh --wasm >/dev/null
    export PATH=$tools:$PATH RUSTC=$tools/rustc CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$tools/lld
fi

# The module is small without names, which only a debugger needs.
export CARGO_PROFILE_DEV_DEBUG=false CARGO_INCREMENTAL=0
cargo rustc --quiet --locked --manifest-path learn/Cargo.toml --package learn-browser --lib --crate-type cdylib \
    --target wasm32-unknown-unknown --target-dir "$out" -- -C link-arg=--export=__stack_pointer
compiled=$out/wasm32-unknown-unknown/debug/learn_browser.wasm
# The emulator's coroutines: toolchain/device/src/emulator/stack/unwound.rs.
if [[ ! $out/emulator.wasm -nt $compiled ]]; then
    # Local variables are few after these passes; `-O1` takes twice the time.
    wasm-opt --asyncify --pass-arg=asyncify-imports@stack.suspend --simplify-locals-nonesting --vacuum --coalesce-locals \
        --reorder-locals --vacuum --strip-debug "$compiled" -o "$out/emulator.wasm"
fi
echo "$out/emulator.wasm: $(($(stat --format %s "$out/emulator.wasm") / 1024)) KiB"
