#!/usr/bin/env bash
# Builds the book into target/book/html. With --check: documents the crates too, and checks all links and how a browser shows the pages.
# The panels of the course need what scripts/browser.sh compiles; without it they say so. WARPKOV=FILE is the program, which writes the
# pages of the commands. Without it, the program that is built is used; without one, and without documented crates, a page tells how to
# get them.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$target/book
check=${1:-}
if [[ $check == --check ]]; then
    if [[ -z ${WARPKOV:-} ]]; then
        cargo build --quiet --bin warpkov
        WARPKOV=$target/debug/warpkov
    fi
    if ! command -v chromium >/dev/null && command -v apt-get >/dev/null; then
        as_root() { if ((EUID == 0)); then "$@"; else sudo "$@"; fi; }
        as_root apt-get update -qq
        as_root apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
    fi
    # The command of scripts/test.sh: another would document all again.
    scripts/examples.py --workspace --features metis --quiet
    cargo fmt --check --manifest-path book/tool/Cargo.toml
    scripts/browser.sh
    # And the program whose answers those of the panels must equal.
    cargo test --quiet --manifest-path learn/Cargo.toml --target-dir "$target/learn" --package learn-browser \
        --config 'profile.dev.package.learn-browser.opt-level = 0'
    scripts/listings.py --check
fi

tool=(--quiet --locked --manifest-path book/tool/Cargo.toml --target-dir "$out/tool")
[[ $check != --check ]] || cargo test "${tool[@]}"
rm -rf "$out/commands"
mkdir -p "$out/commands"
for program in "${WARPKOV:-}" "$target"/{release,debug}/warpkov; do
    if [[ -x $program ]]; then
        "$program" man --format markdown "$out/commands" >/dev/null
        break
    fi
done
later='`cargo build --release --bin warpkov` and `cargo doc --workspace`, and then `make book` again, write the pages that are missing here.'
[[ -e $out/commands/warpkov.md ]] || printf '# warpkov\n\n%s\n' "$later" >"$out/commands/warpkov.md"
cargo run "${tool[@]}" -- . "$out/commands" "$out"
if [[ -e $target/doc/warpkov/index.html ]]; then
    cp -r "$target/doc" "$out/html/api"
else
    mkdir -p "$out/html/api/warpkov"
    printf '<!DOCTYPE html><title>warpkov</title><p>%s\n' "$later" >"$out/html/api/warpkov/index.html"
fi

# The module of the panels, as text: pages that are opened as files cannot fetch it.
module=$target/browser/emulator.wasm
if [[ -e $module ]]; then text=$(gzip -9nc "$module" | base64 -w 0); fi
printf 'globalThis.emulatorModule = "%s";\n' "${text:-}" >"$out/html/src/emulator-module.js"

if [[ $check == --check ]]; then
    scripts/book_check.py --self-test
    scripts/book_check.py "$out/html" "$target/learn/debug/learn-browser"
fi
