#!/usr/bin/env bash
# Makes a crate with kernels of its own by `warpkov new`, outside of the workspace, tests it and runs it. Needs no network: its
# dependencies are among those of Cargo.lock.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath "${CARGO_TARGET_DIR:-target}")
root=$PWD
cargo build --quiet --bin warpkov
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Shares what is compiled already, and the folder of ptxas.
export CARGO_TARGET_DIR=$target CARGO_NET_OFFLINE=true
cp rust-toolchain.toml "$folder"
cd "$folder"
"$target/debug/warpkov" new mine --path "$root"
cp "$root/Cargo.lock" mine
cd mine
cargo fmt --check
cargo test
[[ $(cargo run --quiet) == *"x·y = 1001000"* ]]
# Its own kernels, and none of warpkov's.
for ptx in "$target"/ptx/mine/sm_*.ptx; do
    [[ ! -e $ptx || $(grep -o '\.entry [a-z0-9_]*' "$ptx" | sort | tr '\n' ' ') == ".entry dot_f32 .entry dot_f64 " ]]
done
