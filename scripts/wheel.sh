#!/usr/bin/env bash
# Builds the wheel of the Python package and prints its path: scripts/wheel.sh [PROFILE] (default release). Installs
# maturin into a Python environment of its own if it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=${1:-release}
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}/wheel")
maturin=$folder/tools/bin/maturin
if ! [[ -x $maturin ]]; then
    python3 -m venv "$folder/tools"
    "$folder/tools/bin/pip" install --quiet --disable-pip-version-check 'maturin>=1.9,<2' >&2
fi
rm -rf "${folder:?}/$profile"
options=(--profile "$profile")
[[ $profile == dev ]] || options+=(--strip)
"$maturin" build --quiet --manifest-path python/Cargo.toml --out "$folder/$profile" "${options[@]}" >&2
echo "$folder/$profile"/*.whl
