#!/usr/bin/env bash
# Builds the book into target/book/html, with a page of each command and the documentation of the crates, and checks its links and
# how a browser shows its pages. WARPKOV=FILE is the program; without it, the script builds one.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$target/book
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
rm -rf "$out/commands"
"$WARPKOV" man --format markdown "$out/commands" >/dev/null
tool=(--quiet --locked --manifest-path book/tool/Cargo.toml --target-dir "$out/tool")
cargo fmt --check --manifest-path book/tool/Cargo.toml
cargo test "${tool[@]}"
cargo run "${tool[@]}" -- . "$out/commands" "$out"
cp -r "$target/doc" "$out/html/api"

scripts/book_check.py --self-test
scripts/book_check.py "$out/html"
