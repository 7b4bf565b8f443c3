#!/usr/bin/env bash
# Gives every planted fault to the four tools of compute-sanitizer: sanitizer.sh PLANTED OUT [JOBS].
# PLANTED is this crate's program. Writes a report per tool and fault to the folder OUT, and a table to standard output:
# number, tool, exit status (0: nothing found; 86: found; 124 or 137: the kernel did not end; else its own error).
set -uo pipefail
export planted=$1 out=$2
jobs=${3:-8}
mkdir -p "$out"
one() {
    local log=$out/$2.$1.$3.log
    timeout -k 1 25 compute-sanitizer --tool "$2" --error-exitcode 86 --print-limit 4 "$planted" "$1" "$3" >"$log" 2>&1
    echo "$1 $2 $3 $?"
}
export -f one
for number in $("$planted" | cut -f 1); do
    for tool in memcheck racecheck initcheck synccheck; do
        for broken in 1 0; do echo "$number $tool $broken"; done
    done
done | xargs -P "$jobs" -L 1 bash -c 'one "$@"' one
