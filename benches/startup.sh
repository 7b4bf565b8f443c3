#!/usr/bin/env bash
# Times of whole processes on a GPU, compared with a C program that only makes a context. Needs a GPU and a C compiler.
# Usage: benches/startup.sh WARPKOV [RUNS]. Runs are interleaved; times are in milliseconds. OTHER=PATH measures a second warpkov.
set -euo pipefail
export LC_ALL=C

warpkov=$(realpath "$1")
runs=${2:-10}
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

libcuda=$(ldconfig -p | sed -n 's/.*libcuda\.so\.1 .*x86-64.* => //p' | head -n 1)
"$(command -v cc || command -v gcc)" -O2 "$here/peers/context.c" -o "$work/context" "${libcuda:-/usr/local/nvidia/lib64/libcuda.so.1}"
"$warpkov" mdp generate grid --width 64 --height 64 --out "$work/grid.safetensors" >/dev/null
"$warpkov" hmm generate random --states 8 --symbols 6 --out "$work/chain.json" >/dev/null
"$warpkov" hmm sample "$work/chain.json" --sequences 100 --length 100 --out "$work/symbols.txt" >/dev/null

mdp() { "$1" mdp solve "$work/grid.safetensors" --device cuda:0 --json --out "$work/solution.npy"; }
hmm() { "$1" hmm score "$work/chain.json" "$work/symbols.txt" --device cuda:0 --json; }
# One line per case: name, whether the driver's cache is disabled, kind of device code, command.
cases() {
    echo "context 1 - $work/context"
    echo "devices 1 - $warpkov devices"
    for command in mdp hmm; do
        echo "$command,machine_code 1 machine $command $warpkov"
        echo "$command,PTX 1 ptx $command $warpkov"
        echo "$command,PTX,kept 0 ptx $command $warpkov"
        [[ -z ${OTHER:-} ]] || echo "$command,other 1 - $command $OTHER"
        [[ -z ${OTHER:-} ]] || echo "$command,other,kept 0 - $command $OTHER"
    done
}
cases >"$work/cases"
for ((run = 0; run <= runs; run++)); do
    while read -r name cache code command; do
        unset WARPKOV_CODE
        [[ $code == - ]] || export WARPKOV_CODE=$code
        export CUDA_CACHE_DISABLE=$cache CUDA_CACHE_PATH=$work/cache
        start=$EPOCHREALTIME
        $command >"$work/out" 2>"$work/err" || [[ $? == 1 ]] || { cat "$work/err" >&2; exit 1; }
        end=$EPOCHREALTIME
        # The first round fills the caches of the driver and of the system.
        ((run == 0)) || echo "$(((${end/./} - ${start/./}) / 10))" >>"$work/$name.times"
        [[ $name != context ]] || cat "$work/out" >>"$work/context.says"
    done <"$work/cases"
done

printf '%-20s %10s %10s %10s\n' case median least most
while read -r name _; do
    sort -n "$work/$name.times" | awk -v name="$name" '{ t[NR] = $1 / 100 }
        END { printf "%-20s %10.1f %10.1f %10.1f\n", name, (t[int((NR + 1) / 2)] + t[int(NR / 2) + 1]) / 2, t[1], t[NR] }'
done <"$work/cases"
sed 1d "$work/context.says"
