#!/usr/bin/env bash
# Prints the path of the newest stable rustc that Debian has, with the library's source. Unpacks it into the target
# directory and installs nothing: the machine's own compilers stay as they are. Needs apt-get, and no root.
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
apt update >&2
chosen=
# The experimental suite (its code name is rc-buggy) has the compiler some weeks earlier, at times as a beta release.
for suite in rc-buggy sid; do
    printf 'Package: rustc rust-src libstd-rust*\nPin: release n=%s\nPin-Priority: 900\n' "$suite" >"$root/preferences"
    chosen=$(apt install --simulate rustc rust-src | sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1_\2/p' | sed 's/:/%3a/') || continue
    [[ $chosen == *~beta* ]] || break
done
[[ -n $chosen ]] || { echo "apt finds no set of packages for rustc" >&2; exit 1; }
if [[ $chosen != "$(cat "$root/chosen" 2>/dev/null)" ]]; then
    apt install --download-only rustc rust-src >&2
    rm -rf "$root/usr"
    for package in $chosen; do dpkg-deb --extract "$root"/cache/archives/"$package"_*.deb "$root"; done
    rm -r "$root/cache/archives"
    # It needs a newer C library than the machine's.
    mv "$root/usr/bin/rustc" "$root/usr/bin/rustc.debian"
    cat >"$root/usr/bin/rustc" <<EOF
#!/bin/sh
set -- "$root/usr/bin/rustc.debian" "\$@"
for lib in "$root"/usr/lib/*-linux-gnu*; do exec "\$lib"/ld-linux-*.so.* --library-path "\$lib" "\$@"; done
EOF
    chmod +x "$root/usr/bin/rustc"
    echo "$chosen" >"$root/chosen"
fi
"$root/usr/bin/rustc" --version >&2
echo "$root/usr/bin/rustc"
