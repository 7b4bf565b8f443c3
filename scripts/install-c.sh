#!/usr/bin/env bash
# Installs the C interface into a prefix: scripts/install-c.sh PREFIX FOLDER. FOLDER has what cargo has built of host/capi.
set -euo pipefail
prefix=$(realpath -m "$1") built=$(realpath "$2")
cd "$(dirname "$0")/.."

mkdir -p "$prefix"/{include,lib/pkgconfig}
strip --strip-unneeded -o "$prefix/lib/libwarpkov.so.0" "$built/libwarpkov_c.so"
ln -sf libwarpkov.so.0 "$prefix/lib/libwarpkov.so"
strip --strip-debug -o "$prefix/lib/libwarpkov.a" "$built/libwarpkov_c.a"
cp host/capi/warpkov.h "$prefix/include"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
sed "s/@VERSION@/$version/" host/capi/warpkov.pc.in >"$prefix/lib/pkgconfig/warpkov.pc"

# The functions of the header, and nothing else, are for programs.
functions() { grep -o 'wk_[a-z_]*(' "$prefix/include/warpkov.h" | tr -d '(' | sort -u; }
symbols() { nm --dynamic --defined-only --format=just-symbols "$prefix/lib/libwarpkov.so.0" | sed 's/@.*//' | sort -u; }
diff <(functions) <(symbols) >&2 || { echo "libwarpkov.so.0 exports other symbols than warpkov.h" >&2; exit 1; }
soname=$(objdump --private-headers "$prefix/lib/libwarpkov.so.0" | sed -n 's/ *SONAME *//p')
[[ $soname == libwarpkov.so.0 ]] || { echo "the soname is '$soname'" >&2; exit 1; }
