#!/usr/bin/env bash
# Installs the C interface into a prefix: scripts/install-c.sh PREFIX ARCHIVE. ARCHIVE is what cargo has built of host/capi. CC links the
# shared library.
set -euo pipefail
prefix=$(realpath -m "$1") archive=$(realpath "$2")
cd "$(dirname "$0")/.."

header=host/capi/warpkov.h
mkdir -p "$prefix"/{include,lib/pkgconfig}
cp "$header" "$prefix/include"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
sed "s/@VERSION@/$version/" host/capi/warpkov.pc.in >"$prefix/lib/pkgconfig/warpkov.pc"

# One object with what the functions of the header need. All other names are local to it: those of Rust's standard library, and the
# functions of NVIDIA's driver, which the library defines to find them at run time.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
functions=$(grep -o 'wk_[a-z_]*(' "$header" | tr -d '(' | sort -u)
mapfile -t roots < <(sed 's/^/--undefined=/' <<<"$functions")
ld -r --gc-sections --strip-debug "${roots[@]}" -o "$work/all.o" "$archive"
# Rust's own libraries carry bitcode, which is of no use once it is joined.
objcopy --strip-unneeded --remove-section='.llvm*' --wildcard "$work/all.o" "$work/needed.o"
objcopy --wildcard --keep-global-symbol='wk_*' "$work/needed.o" "$work/warpkov.o"
strip --strip-unneeded "$work/warpkov.o"
rm -f "$prefix/lib/libwarpkov.a"
ar crsD "$prefix/lib/libwarpkov.a" "$work/warpkov.o"
"${CC:-cc}" -shared -o "$work/libwarpkov.so" "$work/warpkov.o" -Wl,-soname,libwarpkov.so.0 -Wl,-z,defs -Wl,-z,relro -Wl,-z,now \
    -lgcc_s -lutil -lrt -lpthread -lm -ldl
strip --strip-unneeded -o "$prefix/lib/libwarpkov.so.0" "$work/libwarpkov.so"
ln -sf libwarpkov.so.0 "$prefix/lib/libwarpkov.so"

# The functions of the header, and nothing else, are for programs.
symbols=$(nm --dynamic --defined-only --format=just-symbols "$prefix/lib/libwarpkov.so.0" | sed 's/@.*//' | sort -u)
diff <(echo "$functions") <(echo "$symbols") >&2 || { echo "libwarpkov.so.0 exports other names than warpkov.h" >&2; exit 1; }
soname=$(objdump --private-headers "$prefix/lib/libwarpkov.so.0" | sed -n 's/ *SONAME *//p')
[[ $soname == libwarpkov.so.0 ]] || { echo "the soname is '$soname'" >&2; exit 1; }
