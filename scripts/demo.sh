#!/usr/bin/env bash
# Solves a grid world of 262144 states, on a GPU if there is one. WARPKOV=FILE is the program; without it, the script builds one.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p target/demo
if [[ -z ${WARPKOV:-} ]]; then
    cargo build --release
    WARPKOV=${CARGO_TARGET_DIR:-target}/release/warpkov
fi
"$WARPKOV" mdp generate grid --width 512 --height 512 --gamma 0.98 --out target/demo/grid.safetensors
"$WARPKOV" mdp solve target/demo/grid.safetensors \
    --plot target/demo/grid.png --plot target/demo/grid.svg --out target/demo/solution.json
echo "See target/demo/grid.png, grid.svg and solution.json."
