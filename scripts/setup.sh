#!/usr/bin/env bash
# Installs a device compiler, a C linker, ptxas, and what packs a release, unless they are installed already.
set -euo pipefail
cd "$(dirname "$0")/.."

device_compiler() {
    local version sysroot
    # The candidates of toolchain/build/src/compiler.rs. The rustc on the PATH may be rustup's proxy for the active
    # toolchain.
    for rustc in "${WARPKOV_DEVICE_RUSTC:-}" "$(command -v rustc)" \
        "${RUSTUP_HOME:-$HOME/.rustup}"/toolchains/*/bin/rustc /usr/bin/rustc; do
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

as_root() {
    if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

basics=()
command -v cc >/dev/null || basics+=(gcc)
[[ -e /usr/include/stdlib.h ]] || basics+=(libc6-dev)
python3 -c 'import ensurepip' 2>/dev/null || basics+=(python3-venv)
command -v strip >/dev/null || basics+=(binutils)
command -v xz >/dev/null || basics+=(xz-utils)
device=()
device_compiler || device=(rustc-web rust-web-src)

# If something cannot be installed, the script prints a message and continues: without a device compiler, the build
# still produces a binary for the CPU.
if ((${#basics[@]} + ${#device[@]})) && command -v apt-get >/dev/null; then
    as_root apt-get update -qq
    ((${#basics[@]} == 0)) || as_root apt-get install -y -qq --no-install-recommends "${basics[@]}"
    # Not every distribution with apt has these packages.
    ((${#device[@]} == 0)) || as_root apt-get install -y -qq --no-install-recommends "${device[@]}" || true
elif ((${#basics[@]})); then
    echo "Please install a C linker with the C library's headers, and Python 3.11 or newer with venv." >&2
fi
device_compiler || echo "GPU code needs rustc 1.96 or newer with its source: rustup component add rust-src" >&2
# Without ptxas, the driver compiles the kernels at run time.
scripts/ptxas.sh >/dev/null || echo "ptxas is missing, so there is no machine code; make ptx-report and make test fail." >&2
