#!/usr/bin/env bash
# Assembles the PTX for each generation of GPUs, and prints what every kernel uses.
# Fails where it does not assemble, or a kernel that scripts/spills-allowed.txt does not list needs a stack.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
WARPKOV_REQUIRE_PTX=1 cargo check --quiet
ptxas=$(scripts/ptxas.sh)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

pairs=("80 80" "80 90" "80 100" "90 90" "90 100")
for pair in "${pairs[@]}"; do
    read -r from to <<<"$pair"
    # Two at a time: ptxas uses one core.
    while (($(jobs -rp | wc -l) >= $(nproc))); do wait -n || true; done
    { "$ptxas" "-arch=sm_$to" -v -o /dev/null "$target/ptx/sm_$from.ptx" >"$work/$from-$to" 2>&1 ||
        touch "$work/$from-$to.failed"; } &
done
wait

failed=0
for pair in "${pairs[@]}"; do
    read -r from to <<<"$pair"
    if [[ -e $work/$from-$to.failed ]]; then
        echo "sm_$from.ptx does not assemble for sm_$to:" >&2
        grep -v '^ptxas info' "$work/$from-$to" >&2 || true
        failed=1
        continue
    fi
    printf '\nsm_%s.ptx on sm_%s\n' "$from" "$to"
    python3 scripts/ptx_table.py scripts/spills-allowed.txt <"$work/$from-$to" || failed=1
done
exit "$failed"
