#!/usr/bin/env bash
# Builds the examples in examples/c against the C interface as it is installed, shared and static, and runs them: each prints the text
# beside it, and valgrind finds nothing. scripts/test-c.sh [PREFIX] tests what is installed there; without it, the debug build.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
prefix=${1:-$folder/prefix}
if [[ -z ${1:-} ]]; then
    # The crates below are those that `cargo test --workspace` has compiled.
    cargo build --quiet --package warpkov-capi
    scripts/install-c.sh "$prefix" "${CARGO_TARGET_DIR:-target}/debug/libwarpkov_c.a"
fi
missing=()
for tool in pkg-config valgrind; do
    command -v "$tool" >/dev/null || missing+=("$tool")
done
if ((${#missing[@]})) && ((EUID == 0)) && command -v apt-get >/dev/null; then
    apt-get update -qq || true
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || true
fi
if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
    read -ra flags <<<"$(pkg-config --cflags --libs warpkov)"
    read -ra private <<<"$(pkg-config --static --libs-only-l --libs-only-other warpkov)"
else
    echo "pkg-config is not installed, so warpkov.pc was not tried" >&2
    flags=(-I"$prefix/include" -L"$prefix/lib" -lwarpkov)
    private=(-lwarpkov -lgcc_s -lutil -lrt -lpthread -lm -ldl)
fi
strict=(-Wall -Wextra -Wpedantic -Werror -O1 -g)
c=(cc -std=c99 "${strict[@]}") cpp=(c++ -std=c++11 "${strict[@]}")
# The header alone, in both languages.
for compile in c cpp; do
    declare -n command=$compile
    language=${compile/#cpp/c++}
    echo '#include <warpkov.h>' | "${command[@]}" -x "$language" -fsyntax-only -I"$prefix/include" -
done
cd examples/c
for source in *.c; do
    "${c[@]}" -o "$folder/${source%.*}" "$source" "${flags[@]}"
done
"${cpp[@]}" -pthread -o "$folder/solve" solve.cpp "${flags[@]}"
"${c[@]}" -o "$folder/static" thesis.c -I"$prefix/include" "$prefix/lib/libwarpkov.a" "${private[@]/#-lwarpkov/-lm}"
! objdump --private-headers "$folder/static" | grep 'NEEDED.*warpkov'
export LD_LIBRARY_PATH=$prefix/lib
# Valgrind does not know the ioctls of NVIDIA's driver.
checked=(env CUDA_VISIBLE_DEVICES= valgrind --quiet --error-exitcode=9 --leak-check=full --suppressions=valgrind.supp
    --show-leak-kinds=definite,indirect,possible --errors-for-leak-kinds=definite,indirect,possible)
if ! command -v valgrind >/dev/null; then
    echo "valgrind is not installed, so it did not look" >&2
    checked=()
fi
for example in thesis pomdp hmm solve; do
    diff "$example.txt" <("$folder/$example" 2>"$folder/log" || { echo "exit code $?"; cat "$folder/log"; })
    if ((${#checked[@]})); then
        "${checked[@]}" "$folder/$example" >"$folder/out" 2>"$folder/log" || { cat "$folder/log" >&2; exit 1; }
        diff "$example.txt" "$folder/out"
    fi
done
diff thesis.txt <("$folder/static" 2>/dev/null)
# A file in the thesis' own format.
[[ $("$folder/thesis" ../../data/forest.txt 2>/dev/null | grep -c '^state') == 3 ]]
echo "examples/c: all print what they should" >&2
