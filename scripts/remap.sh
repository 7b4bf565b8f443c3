#!/usr/bin/env bash
# Releases name no folder of the machine that builds them. Prints the flags of rustc for that, as CARGO_ENCODED_RUSTFLAGS has them: the
# folders of sources have fixed names in messages of panics. Fetches the crates, whose folders are among them.
# scripts/remap.sh --check FILE_OR_FOLDER... fails if a file names such a folder.
set -euo pipefail
root=$(realpath "$(dirname "$0")/..")
target=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
cargo=${CARGO_HOME:-$HOME/.cargo}
library=$(cd "$root" && rustc --print sysroot)/lib/rustlib/src/rust

if [[ ${1:-} == --check ]]; then
    shift
    if grep --recursive --files-with-matches --fixed-strings -e "$root/" -e "$target/" -e "$cargo/" -e "$library/" "$@" >&2; then
        echo "these files name folders of this machine" >&2
        exit 1
    fi
    exit
fi

cd "$root"
cargo fetch --locked --quiet >&2
# Of several that fit, rustc takes the last one.
maps=("$root=." "$target=./target" "$library=/rustc/$(rustc --version --verbose | sed -n 's/^commit-hash: //p')")
for folder in "$cargo"/registry/src/*; do
    maps+=("$folder=/registry/src")
done
flags=$(printf -- '--remap-path-prefix=%s\x1f' "${maps[@]}")
printf '%s' "${flags%$'\x1f'}"
