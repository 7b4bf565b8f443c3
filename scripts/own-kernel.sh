#!/usr/bin/env bash
# Creates crates with `warpkov new` outside the workspace, tests them and runs them. Needs no network, because Cargo.lock
# contains all their dependencies. WARPKOV=FILE is the program; without it, the script builds one.
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
# Reuses the compiled dependencies and the installed ptxas: with the settings of the workspace, dependencies are the same. The crates
# of the solvers, which are outside of the new crates' workspaces, compile again; without optimisation that takes a fraction of the time.
export CARGO_TARGET_DIR=$target CARGO_NET_OFFLINE=true CUDA_LIBRARY_PATH=$root/toolchain/cuda/driver-stub
{
    cat <<'TOML'
[profile.dev]
opt-level = 1
[profile.dev.package."*"]
debug = false
[profile.dev.package]
warpkov.opt-level = 0
warpkov-common.opt-level = 0
warpkov-mdp.opt-level = 0
warpkov-runtime.opt-level = 0
TOML
    grep -E '^[a-z0-9_-]+\.opt-level = ' Cargo.toml
} >"$folder/settings.toml"
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
    out.set(i as usize, memory.get(thread::block_dim_x() - 1 - i));
}

fn twice(i: u32) -> u32 {
    2 * i
}
RUST
echo 'pub mod reverse;' >>src/kernels.rs
cargo check "${settings[@]}"
for ptx in "$target"/ptx/mine/sm_*.ptx; do
    [[ ! -e $ptx || $(grep -o '\.entry [a-z0-9_]*' "$ptx" | sort | tr '\n' ' ') == ".entry dot_f32 .entry dot_f64 .entry reverse " ]]
done

# The same for a model as Rust code.
cd "$folder"
"$program" new my-model --model --path "$root"
cp "$root/Cargo.lock" my-model
cd my-model
cargo fmt --check
cargo test "${settings[@]}"
output=$(cargo run --quiet "${settings[@]}")
[[ $output == *"V within"* && $output == *"replaced up to a price of"* ]]
for ptx in "$target"/ptx/my-model/sm_*.ptx; do
    [[ ! -e $ptx || $(grep -c '\.entry machine_' "$ptx") == $(grep -c '\.entry' "$ptx") ]]
done
