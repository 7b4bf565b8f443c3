#!/usr/bin/env bash
# Solves a maze of 64 × 64 cells, on a GPU if there is one: README shows the picture. WARPKOV=FILE is the program; without it, the script builds one.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p target/demo
if [[ -z ${WARPKOV:-} ]]; then
    cargo build --release
    WARPKOV=${CARGO_TARGET_DIR:-target}/release/warpkov
fi
"$WARPKOV" mdp generate grid --width 64 --height 64 --walls 0.38 --obstacles 0.06 --connected --gamma 0.98 \
    --out target/demo/grid.safetensors
"$WARPKOV" mdp solve target/demo/grid.safetensors \
    --plot target/demo/grid.png --plot target/demo/grid.svg --out target/demo/solution.json
echo "See target/demo/grid.png, grid.svg and solution.json."
