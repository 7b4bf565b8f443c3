#!/usr/bin/env bash
# Prints the path of a linker whose programs run on x86-64 Linux from glibc 2.28 on: Zig from PyPI, which has the
# symbols of each version of glibc. Installs it if it is missing, with the tools of scripts/third_party.py.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=$(realpath -m "${CARGO_TARGET_DIR:-target}/linker-venv")
if ! [[ -x $venv/cc ]]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check \
        'ziglang>=0.15,<0.18' 'cargo-zigbuild>=0.20,<0.25' 'cyclonedx-python-lib[json-validation]>=11,<12' >&2
    cat >"$venv/cc" <<CC
#!/bin/sh
# The stub of the driver is empty, and Zig does not take an archive for a shared library.
for argument; do
    shift
    [ "\$argument" = -lcuda ] || set -- "\$@" "\$argument"
done
# cargo-zigbuild passes on the arguments of rustc that Zig understands.
export PATH="$venv/bin:\$PATH" ZIG_GLOBAL_CACHE_DIR="$venv/cache" CARGO_ZIGBUILD_CACHE_DIR="$venv/cache"
exec cargo-zigbuild zig cc -- -target x86_64-linux-gnu.2.28 "\$@"
CC
    chmod +x "$venv/cc"
fi
echo "$venv/cc"
