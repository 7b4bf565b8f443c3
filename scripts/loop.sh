#!/usr/bin/env bash
# Measures what a developer waits for after an edit: adds a function to a file, builds, and prints the seconds. Then it removes the
# function again. scripts/loop.sh [EDIT]...; without arguments, all edits.
set -euo pipefail
cd "$(dirname "$0")/.."

# Name, file, and what is built.
edits=(
    "hmm host/hmm/train.rs test --package warpkov-hmm --no-run"
    "pomdp host/pomdp/belief.rs test --package warpkov-pomdp --no-run"
    "mdp host/mdp/certificate.rs test --package warpkov-mdp --no-run"
    "kernel kernels/src/hmm/forward.rs test --package warpkov-kernels --no-run"
    "suite kernels/src/hmm/forward.rs test --test kernels --no-run"
    "command host/cli/devices.rs build --bin warpkov"
)

saved=$(mktemp)
file=
restore() {
    [[ -z $file ]] || cp "$saved" "$file"
    file=
}
trap restore EXIT
for name in "$@"; do
    [[ " ${edits[*]%% *} " == *" $name "* ]] || { echo "there is no edit $name, expected ${edits[*]%% *}" >&2; exit 2; }
done
for edit in "${edits[@]}"; do
    read -r name path arguments <<<"$edit"
    [[ $# == 0 || " $* " == *" $name "* ]] || continue
    read -ra arguments <<<"$arguments"
    cargo "${arguments[@]}" --quiet
    file=$path
    cp "$file" "$saved"
    printf '\n#[doc(hidden)]\npub fn edited_by_loop() -> u32 {\n    %d\n}\n' "$RANDOM" >>"$file"
    start=$EPOCHREALTIME
    cargo "${arguments[@]}" --quiet
    end=$EPOCHREALTIME
    restore
    awk -v name="$name" -v file="$path" -v command="cargo ${arguments[*]}" -v seconds="$start $end" \
        'BEGIN { split(seconds, t, " "); printf "%-8s %6.1f s  %s: %s\n", name, t[2] - t[1], file, command }'
done
