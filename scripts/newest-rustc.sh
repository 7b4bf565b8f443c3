#!/usr/bin/env bash
# Prints the path of the newest stable rustc that Debian has, with the library's source. Unpacks it into the target
# directory and installs nothing: the machine's own compilers stay as they are. Needs apt-get, and no root. With --wasm, it
# comes with what makes WebAssembly: the library, and beside rustc the programs `lld` and `wasm-opt`.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$(realpath "${CARGO_TARGET_DIR:-target}")/newest-rustc
mkdir -p "$root"/lists/partial "$root"/cache/archives/partial
repository=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1)
[[ -n $repository ]] || { echo "apt has no repository of Debian among its sources" >&2; exit 1; }

# What the compiler needs besides comes from the unstable suite, whatever is installed, but for a linker: the machine's.
keys=/usr/share/keyrings/debian-archive-keyring.gpg
for suite in sid experimental; do echo "deb [signed-by=$keys] $repository $suite main"; done >"$root/sources.list"
for package in gcc binutils; do
    printf 'Package: %s\nStatus: install ok installed\nArchitecture: all\nMulti-Arch: foreign\nVersion: 99\nProvides: libc-dev\n\n' "$package"
done >"$root/status"
apt() {
    apt-get -qq -y --no-install-recommends -o Dir::State::Lists="$root/lists" -o Dir::State::status="$root/status" \
        -o Dir::Etc::SourceList="$root/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::Etc::Preferences="$root/preferences" -o Dir::Cache="$root/cache" -o Debug::NoLocking=1 "$@"
}
# NAME=VERSION of each package that these need.
versions() {
    apt install --simulate "$@" | sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1=\2/p'
}
apt update >&2
chosen=
# The experimental suite (its code name is rc-buggy) has the compiler some weeks earlier, at times as a beta release.
for suite in rc-buggy sid; do
    printf 'Package: rustc rust-src libstd-rust*\nPin: release n=%s\nPin-Priority: 900\n' "$suite" >"$root/preferences"
    chosen=$(versions rustc rust-src) || continue
    [[ $chosen == *~beta* ]] || break
done
[[ -n $chosen ]] || { echo "apt finds no set of packages for rustc" >&2; exit 1; }
if [[ ${1:-} == --wasm ]]; then
    llvm=$(sed -n 's/^libllvm\([0-9]*\)=.*/\1/p' <<<"$chosen")
    chosen=$(versions rustc rust-src libstd-rust-dev-wasm32 "lld-$llvm" binaryen)
fi
# Another compiler replaces all; else what is there stays.
touch "$root/chosen"
if ! grep -qxF "$(grep '^rustc=' <<<"$chosen")" "$root/chosen"; then
    rm -rf "$root/usr"
    : >"$root/chosen"
fi
mapfile -t missing < <(grep -vxF -f "$root/chosen" <<<"$chosen" || true)
if ((${#missing[@]} > 0)); then
    mkdir -p "$root/packages"
    (cd "$root/packages" && apt download "${missing[@]}" >&2)
    for package in "$root"/packages/*.deb; do dpkg-deb --extract "$package" "$root"; done
    rm -r "$root/packages"
    # Programs need a newer C library than the machine's: start NAME PROGRAM [ARGUMENT]... writes a script that starts one with it.
    start() {
        local name=$1
        shift
        cat >"$root/usr/bin/$name" <<EOF
#!/bin/sh
set -- $* "\$@"
for lib in "$root"/usr/lib/*-linux-gnu*; do exec "\$lib"/ld-linux-*.so.* --library-path "\$lib" "\$@"; done
EOF
        chmod +x "$root/usr/bin/$name"
    }
    for package in "${missing[@]}"; do
        case $package in
            rustc=*) mv "$root"/usr/bin/rustc{,.debian} && start rustc "$root/usr/bin/rustc.debian" ;;
            binaryen=*) mv "$root"/usr/bin/wasm-opt{,.debian} && start wasm-opt "$root/usr/bin/wasm-opt.debian" ;;
            lld-*) start lld "$root/usr/lib/llvm-$llvm/bin/lld" ;;
        esac
    done
    printf '%s\n' "${missing[@]}" >>"$root/chosen"
fi
"$root/usr/bin/rustc" --version >&2
echo "$root/usr/bin/rustc"
