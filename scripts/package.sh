#!/usr/bin/env bash
# Packs the crates that users need, in order of their dependencies, and compiles each package from the others: `cargo package` with verification.
# Needs the registry, and a working tree without changes.
set -euo pipefail
cd "$(dirname "$0")/.."

# Cargo takes a package of a known version for unchanged, so what it compiled of earlier ones must not be there.
target=$(mktemp -d)
registry=${CARGO_HOME:-$HOME/.cargo}/registry
clean() { rm -rf "$target" "$registry"/{src,cache}/-*/warpkov*; }
trap clean EXIT
rm -rf "$registry"/{src,cache}/-*/warpkov*
export CARGO_TARGET_DIR=$target WARPKOV_REQUIRE_PTX=1 WARPKOV_GPUS=none
cargo package --workspace --exclude warpkov-python --exclude warpkov-capi --exclude warpkov-models --exclude warpkov-races
