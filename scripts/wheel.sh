#!/usr/bin/env bash
# Builds the wheel of the Python package for x86-64 Linux from glibc 2.28 on (manylinux_2_28), with the licences and the
# bill of materials of what it contains, and prints its path: scripts/wheel.sh [PROFILE] (default dist). Installs
# maturin into a Python environment of its own if it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=${1:-dist}
# What is released has the code for GPUs, and names no folder of this machine.
if [[ $profile != dev ]]; then
    CARGO_ENCODED_RUSTFLAGS=$(scripts/remap.sh)
    export CARGO_ENCODED_RUSTFLAGS WARPKOV_REQUIRE_PTX=1 WARPKOV_REQUIRE_CUBIN=1
fi
# The date of the files in the wheel.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 315532800)
export SOURCE_DATE_EPOCH
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}/wheel")
maturin=$folder/tools/bin/maturin
if ! [[ -x $maturin ]]; then
    python3 -m venv "$folder/tools"
    "$folder/tools/bin/pip" install --quiet --disable-pip-version-check 'maturin>=1.13,<2' >&2
fi
linker=$(scripts/linker.sh)
# pyproject.toml names them, from the folder of the package.
third_party=$PWD/python/third-party
"$(dirname "$linker")/bin/python" scripts/third_party.py warpkov-python "$third_party"
rm -rf "${folder:?}/$profile"
options=(--profile "$profile")
[[ $profile == dev ]] || options+=(--strip)
# The other linker is an argument of the last crate alone, so all others are those of `cargo build`. maturin checks the
# symbols.
"$maturin" build --quiet --manifest-path python/Cargo.toml --out "$folder/$profile" --compatibility manylinux_2_28 \
    --sbom-include "$third_party/sbom.cdx.json" "${options[@]}" -- -C linker="$linker" >&2
wheel=$(echo "$folder/$profile"/*.whl)
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
python3 -m zipfile -e "$wheel" "$unpacked"
cmp "$third_party/sbom.cdx.json" "$unpacked"/*.dist-info/sboms/sbom.cdx.json >&2
[[ $profile == dev ]] || scripts/remap.sh --check "$unpacked"
echo "$wheel"
