#!/usr/bin/env bash
# Solves a grid world of 262144 states, on a GPU if there is one. PROFILE=dev uses the dev profile, as the tests do.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=${PROFILE:-release}
mkdir -p target/demo
cargo build --profile "$profile"
warpkov() { cargo run --quiet --profile "$profile" -- "$@"; }
warpkov mdp generate grid --width 512 --height 512 --gamma 0.98 --out target/demo/grid.safetensors
warpkov mdp solve target/demo/grid.safetensors \
    --plot target/demo/grid.png --plot target/demo/grid.svg --out target/demo/solution.json
echo "See target/demo/grid.png, grid.svg and solution.json."
