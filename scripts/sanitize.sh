#!/usr/bin/env bash
# Runs the cases of the kernels' suite on a GPU under compute-sanitizer: sanitize.sh KERNELS [OUT]. Each case runs under one tool, which
# changes from case to case and with the day, so that a week sees all. Prints the cases in which a tool found something, and the number of
# cases for each tool. SANITIZE_SECONDS limits the whole (480 by default): what is left then is counted.
set -uo pipefail
kernels=$1 out=${2:-sanitizer}
mkdir -p "$out"
end=$(($(date +%s) + ${SANITIZE_SECONDS:-480}))
export kernels out end
one() {
    (($(date +%s) < end)) || { echo "$2 left $1"; return; }
    local log=$out/${1//[^a-zA-Z0-9]/-}.log code=0
    timeout -k 1 60 compute-sanitizer --report-api-errors no --tool "$2" --error-exitcode 86 --print-limit 4 "$kernels" --exact "$1" >"$log" 2>&1 || code=$?
    case $code in
    0) echo "$2 clean $1" ;;
    86) echo "$2 found $1" ;;
    124 | 137) echo "$2 slow $1" ;;
    *) echo "$2 failed:$code $1" ;;
    esac
}
export -f one
tools=(memcheck racecheck initcheck synccheck)
number=$(date +%j)
# The suite lists its longest cases first: they come last here.
"$kernels" cuda --list --skip thousands_of_solves 2>/dev/null | tac | sed -n 's/: test$//p' | while read -r case; do
    echo "$case ${tools[10#$number % 4]}"
    number=$((10#$number + 1))
done | xargs -P "${SANITIZE_JOBS:-8}" -L 1 bash -c 'one "$@"' one >"$out/table"
grep -v -e ' clean ' -e ' left ' "$out/table" | sort
cut -d ' ' -f 1,2 "$out/table" | sort | uniq -c
! grep -q -e ' found ' -e ' failed' "$out/table"
