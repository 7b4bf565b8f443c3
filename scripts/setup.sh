#!/usr/bin/env bash
# Installs the device compiler, a C linker and ptxas. Does nothing where they are there.
set -euo pipefail
cd "$(dirname "$0")/.."

device_compiler() {
    local version sysroot
    for rustc in "${WARPKOV_DEVICE_RUSTC:-}" "${RUSTUP_HOME:-$HOME/.rustup}"/toolchains/1.96.0*/bin/rustc /usr/bin/rustc; do
        [[ -x $rustc ]] || continue
        version=$("$rustc" --version | sed 's/^rustc \([0-9]*\)\.\([0-9]*\).*/\1 \2/')
        sysroot=$("$rustc" --print sysroot)
        read -r major minor <<<"$version"
        if ((major > 1 || minor >= 96)) && [[ -d $sysroot/lib/rustlib/src/rust/library/core ]]; then
            return 0
        fi
    done
    return 1
}

packages=()
device_compiler || packages+=(rustc-web rust-web-src)
command -v cc >/dev/null || packages+=(gcc)
[[ -e /usr/include/stdlib.h ]] || packages+=(libc6-dev)
python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv)

if ((${#packages[@]})); then
    if ! command -v apt-get >/dev/null; then
        echo "This is not Debian, so please install these yourself:" >&2
        echo "  Rust 1.96.0 and its source: rustup toolchain install 1.96.0 -c rust-src" >&2
        echo "  a C linker with the C library's headers, and Python 3.11 or newer with venv" >&2
        exit 1
    fi
    sudo=()
    ((EUID == 0)) || sudo=(sudo)
    "${sudo[@]}" apt-get update -qq
    "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${packages[@]}"
    device_compiler || {
        echo "The distribution's rustc is older than 1.96: rustup toolchain install 1.96.0 -c rust-src" >&2
        exit 1
    }
fi

scripts/ptxas.sh >/dev/null
echo "Everything is there: cargo build --release"
