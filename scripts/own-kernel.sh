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
# Reuses the compiled dependencies and the installed ptxas.
export CARGO_TARGET_DIR=$target CARGO_NET_OFFLINE=true
cp rust-toolchain.toml "$folder"
cd "$folder"
"$program" new mine --path "$root"
cp "$root/Cargo.lock" mine
cd mine
cargo fmt --check
cargo test
[[ $(cargo run --quiet) == *"x·y = 1001000"* ]]
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
cargo check
for ptx in "$target"/ptx/mine/sm_*.ptx; do
    [[ ! -e $ptx || $(grep -o '\.entry [a-z0-9_]*' "$ptx" | sort | tr '\n' ' ') == ".entry dot_f32 .entry dot_f64 .entry reverse " ]]
done

# The same for a model as Rust code.
cd "$folder"
"$program" new my-model --model --path "$root"
cp "$root/Cargo.lock" my-model
cd my-model
cargo fmt --check
# Cargo compiles the library again, because the crate is outside its workspace. Without optimisation that takes a
# fraction of the time; the crate's own code, with the kernels, is optimised.
unoptimised=(--config profile.dev.package.warpkov.opt-level=0)
cargo test "${unoptimised[@]}"
output=$(cargo run --quiet "${unoptimised[@]}")
[[ $output == *"V within"* && $output == *"replaced up to a price of"* ]]
for ptx in "$target"/ptx/my-model/sm_*.ptx; do
    [[ ! -e $ptx || $(grep -c '\.entry machine_' "$ptx") == $(grep -c '\.entry' "$ptx") ]]
done
