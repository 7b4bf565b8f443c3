#!/usr/bin/env bash
# Builds the archive and the wheel of the last commit twice: from clones in different folders, with different folders of outputs and of
# cargo, umasks and time zones. Compares PTX, machine code, the files of archive and wheel, and both as a whole, bit for bit; prints
# what differs, and fails. Each build compiles everything with link-time optimisation.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The same registry, in a folder of another name.
mkdir "$work/cargo"
ln -s "${CARGO_HOME:-$HOME/.cargo}"/* "$work/cargo"

# Builds a clone in $1 with outputs in $2, and copies what is compared to $3.
build() {
    local archive wheel out=$3
    git clone --quiet . "$1"
    export CARGO_TARGET_DIR=$2
    "$1/scripts/ptxas.sh" >/dev/null
    archive=$("$1/scripts/dist.sh")
    wheel=$("$1/scripts/wheel.sh")
    mkdir -p "$out"/{archive,wheel,machine-code}
    cp "$archive" "$wheel" "$out"
    tar -xf "$archive" -C "$out/archive"
    python3 -m zipfile -e "$wheel" "$out/wheel"
    cp -r "$2/ptx/warpkov-kernels" "$out/ptx"
    (cd "$2/machine-code/warpkov-kernels" && find . -name '*.cubin' -exec cp --parents {} "$out/machine-code" \;)
    # The table that the program embeds; program and wheel may have one each.
    find "$2/dist/build" -path '*/out/*' \( -name '*.code' -o -name warpkov_modules.rs \) -exec sha256sum {} + |
        sed 's, .*/, ,' | sort -u >"$out/table"
}
(build "$work/first" "$work/first/target" "$work/out/first")
(
    umask 077
    export TZ=Asia/Tokyo CARGO_HOME=$work/cargo
    build "$work/the/second" "$work/outputs" "$work/out/second"
)
cd "$work/out"
[[ -s first/table && -n $(find first/ptx first/machine-code -type f -size +0) ]]
diff --recursive --brief first second || { echo "the builds differ" >&2; exit 1; }
sha256sum first/*.tar.xz first/*.whl
