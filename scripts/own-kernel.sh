#!/usr/bin/env bash
# Creates crates with `warpkov new` outside the workspace, of paths and of packages, tests them and runs them.
# WARPKOV=FILE is the program; without it, the script builds one.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath "${CARGO_TARGET_DIR:-target}")
root=$PWD
if [[ -z ${WARPKOV:-} ]]; then
    cargo build --quiet --bin warpkov
    WARPKOV=$target/debug/warpkov
fi
program=$(realpath "$WARPKOV")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Reuses compiled dependencies and the installed ptxas: with the settings of the workspace, those with equal features are the same.
export CARGO_TARGET_DIR=$target CARGO_NET_OFFLINE=true CUDA_LIBRARY_PATH=$root/toolchain/cuda/driver-stub
# All sections that begin with [profile.dev, without what a variable overrides.
awk -v debug="${CARGO_PROFILE_DEV_DEBUG:-}" '/^\[/ { copy = /^\[profile\.dev[].]/ } copy && !(debug && /^debug /)' Cargo.toml >"$folder/settings.toml"
settings=(--config "$folder/settings.toml")
cp rust-toolchain.toml "$folder"
cd "$folder"
"$program" new mine --path "$root"
cp "$root/Cargo.lock" mine
cd mine
cargo fmt --check
cargo test "${settings[@]}"
[[ $(cargo run --quiet "${settings[@]}") == *"x·y = 1001000"* ]]
# The PTX must contain the crate's own kernels, including those of a submodule, and none of warpkov's.
mkdir src/kernels
cat >src/kernels/reverse.rs <<'RUST'
use warpkov_device::device::{GlobalMut, kernel, shared, thread};

/// Reverses the thread indices through dynamic shared memory.
#[kernel]
pub fn reverse(out: GlobalMut<u32>) {
    let (memory, i) = (shared::dynamic_shared_mem::<u32>(), thread::thread_idx_x());
    memory.set(i, crate::kernels::reverse::twice(i));
    thread::sync_threads();
    out.set(i, memory.get(thread::block_dim_x() - 1 - i));
}

fn twice(i: u32) -> u32 {
    2 * i
}
RUST
echo 'pub mod reverse;' >>src/kernels.rs
cargo build --quiet "${settings[@]}"
for ptx in "$target"/ptx/mine/sm_*.ptx; do
    [[ ! -e $ptx || $(grep -o '\.entry [a-z0-9_]*' "$ptx" | sort | tr '\n' ' ') == ".entry dot_f32 .entry dot_f64 .entry reverse " ]]
done

# Published crates: the packages that cargo makes, beside their dependencies, take the registry's place.
# `make package` verifies them, which compiles all dependencies and kernels again, far longer than this script runs. `make test` also runs before a
# commit, so changed files are allowed.
cd "$root"
cargo package --workspace --exclude warpkov-python --exclude warpkov-capi --exclude warpkov-models --exclude warpkov-races --no-verify --allow-dirty --quiet
libraries=()
for manifest in {/usr,"${RUSTUP_HOME:-$HOME/.rustup}"/toolchains/*}/lib/rustlib/src/rust/library/Cargo.toml; do
    [[ ! -e $manifest ]] || libraries+=(--sync "$manifest")
done
# With what the device compiler's `core` is built from. Stable cargo does not read the manifest of that library.
RUSTC_BOOTSTRAP=1 CARGO_NET_OFFLINE=false cargo vendor --quiet --locked "${libraries[@]}" "$folder/registry" >/dev/null
for package in "$target"/package/warpkov*.crate; do
    tar -xzf "$package" -C "$folder/registry"
    sum=$(sha256sum "$package" | cut -d ' ' -f 1)
    echo "{\"files\":{},\"package\":\"$sum\"}" >"$folder/registry/$(basename "$package" .crate)/.cargo-checksum.json"
done
cd "$folder"
mkdir .cargo
cat >.cargo/config.toml <<TOML
[source.crates-io]
replace-with = "registry"
[source.registry]
directory = "$folder/registry"
TOML
# A target folder of its own: cargo would take the workspace's dependencies for changed, because their sources are elsewhere. Without
# optimisation: nothing compiled is left, and it runs for a moment.
export CARGO_TARGET_DIR=$folder/target CARGO_PROFILE_DEV_OPT_LEVEL=0 WARPKOV_GPUS=none
# But for the library of the device compiler.
mkdir "$folder/target"
ln -s "$target/nvptx" "$folder/target/nvptx"
"$program" new published
cd published
cargo test --quiet
[[ $(cargo run --quiet) == *"x·y = 1001000"* ]]

# The same for a model as Rust code.
cd "$folder"
"$program" new my-model --model
cd my-model
cargo fmt --check
cargo test
output=$(cargo run --quiet)
[[ $output == *"V within"* && $output == *"replaced up to a price of"* ]]
for ptx in "$folder"/target/ptx/my-model/sm_*.ptx; do
    [[ $(grep -c '\.entry machine_' "$ptx") == $(grep -c '\.entry' "$ptx") ]]
done
