#!/usr/bin/env bash
# Packs warpkov, the program and the C interface, for x86-64 Linux from glibc 2.28 on into target/dist, unpacks the archive
# elsewhere, and tries it there. Prints the path of the archive. PROFILE=dev packs the program that `cargo test` has built, and
# the C interface that scripts/test-c.sh has, with the system's linker and for the system's glibc.
set -euo pipefail
cd "$(dirname "$0")/.."

glibc=2.28
profile=${PROFILE:-dist}
# What is released has the code for GPUs, and names no folder of this machine.
if [[ $profile != dev ]]; then
    CARGO_ENCODED_RUSTFLAGS=$(scripts/remap.sh)
    export CARGO_ENCODED_RUSTFLAGS WARPKOV_REQUIRE_PTX=1 WARPKOV_REQUIRE_CUBIN=1
fi
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
linker=$(scripts/linker.sh)
tools=$(dirname "$linker")

folder=$target/${profile/#dev/debug}
built=$folder/warpkov
if [[ $profile == dev ]]; then
    cargo build --quiet --package warpkov-capi >&2
else
    # The other linker is an argument of the last crate alone, so all others are those of `cargo build`.
    cargo rustc --profile "$profile" --package warpkov --bin warpkov -- -C linker="$linker" >&2
    cargo build --profile "$profile" --package warpkov-capi >&2
    scripts/glibc.py "$built" "$glibc"
fi
version=$("$built" --version | cut -d' ' -f2)
name=warpkov-$version-x86_64-linux
root=$target/dist/$profile/$name
rm -rf "${root:?}"
mkdir -p "$root"/{bin,share/{man/man1,doc/warpkov,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}}
program=$root/bin/warpkov
strip -o "$program" "$built"
if [[ $profile == dev ]]; then
    scripts/install-c.sh "$root" "$folder/libwarpkov_c.a"
else
    CC=$linker scripts/install-c.sh "$root" "$folder/libwarpkov_c.a"
    scripts/glibc.py "$root/lib/libwarpkov.so.0" "$glibc"
fi
"$program" man "$root/share/man/man1" >&2
"$program" completions bash >"$root/share/bash-completion/completions/warpkov"
"$program" completions zsh >"$root/share/zsh/site-functions/_warpkov"
"$program" completions fish >"$root/share/fish/vendor_completions.d/warpkov.fish"
cp README.md CHANGELOG.md LICENSE-* "$root/share/doc/warpkov"
"$tools/bin/python" scripts/third_party.py warpkov "$root/share/doc/warpkov" "$program" "$root/lib/libwarpkov.so.0"
# A debug build names folders in its messages.
checked=$root
[[ $profile != dev ]] || checked=$root/share
scripts/remap.sh --check "$checked"

# The same sources give the same bytes. The archive of a debug build is a test's, so it is packed quickly.
archive=$target/dist/$name.tar level=-9
[[ $profile == dist ]] || archive=$target/dist/$profile/$name.tar level=-0
date=$(git log -1 --format=%ct 2>/dev/null || echo 0)
tar --create --file "$archive" --directory "$(dirname "$root")" --sort=name --owner=0 --group=0 --numeric-owner \
    --mtime="@$date" --mode=go=rX,u+rw "$name"
xz --force --threads=1 "$level" "$archive"
rm -rf "$root"

try=$(mktemp -d)
trap 'rm -rf "$try"' EXIT
# As the README unpacks it.
mkdir "$try/prefix"
tar -xf "$archive.xz" --strip-components=1 -C "$try/prefix"
[[ $profile == dev ]] || scripts/test-c.sh "$try/prefix"
cd "$try/prefix"
[[ -e lib/libwarpkov.so && -s lib/libwarpkov.a && -s include/warpkov.h && -s lib/pkgconfig/warpkov.pc ]]
[[ $(bin/warpkov --version) == "warpkov $version" ]]
[[ -s share/doc/warpkov/THIRD-PARTY.txt && -s share/doc/warpkov/sbom.cdx.json ]]
bin/warpkov mdp generate grid --width 16 --height 16 --out "$try/grid.json"
bin/warpkov mdp solve "$try/grid.json" --out "$try/solution.json" >/dev/null
bash -n share/bash-completion/completions/warpkov
! command -v zsh >/dev/null || zsh -n share/zsh/site-functions/_warpkov
! command -v fish >/dev/null || fish --no-execute share/fish/vendor_completions.d/warpkov.fish
if command -v groff >/dev/null; then
    problems=$(groff -man -Kutf8 -Tutf8 -ww -z share/man/man1/*.1 2>&1 || echo "groff failed")
    [[ -z $problems ]] || { echo "$problems" >&2; exit 1; }
else
    echo "groff is not installed, so the manual pages were not rendered" >&2
fi
printf '%s: %s bytes\n' "$archive.xz" "$(stat -c %s "$archive.xz")" >&2
echo "$archive.xz"
