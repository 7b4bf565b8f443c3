#!/usr/bin/env bash
# Prints what every kernel uses on each GPU that there is machine code for.
# Fails where the PTX does not assemble, or a kernel that scripts/spills-allowed.txt does not list needs a stack.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/ptxas.sh >/dev/null
# The build script assembles what has changed, and keeps what the assembler says.
WARPKOV_REQUIRE_PTX=1 WARPKOV_REQUIRE_CUBIN=1 cargo check --quiet

failed=0
for folder in "${CARGO_TARGET_DIR:-target}"/machine-code/warpkov-kernels/sm_*; do
    printf '\n%s\n' "${folder##*/}"
    cat "$folder"/*.log | python3 scripts/ptx_table.py scripts/spills-allowed.txt || failed=1
done
exit "$failed"
