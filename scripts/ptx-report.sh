#!/usr/bin/env bash
# Prints registers, spills, stack frame and shared memory of every kernel, for each GPU with machine code.
# Fails if PTX cannot be assembled, or if a kernel has spills or a stack frame and is not in scripts/spills-allowed.txt.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/ptxas.sh >/dev/null
# The build script assembles the changed kernels and saves the assembler's logs.
WARPKOV_GPUS=${WARPKOV_GPUS:-all} WARPKOV_REQUIRE_PTX=1 WARPKOV_REQUIRE_CUBIN=1 cargo check --quiet --package warpkov-runtime

failed=0
for folder in "${CARGO_TARGET_DIR:-target}"/machine-code/warpkov-kernels/sm_*; do
    printf '\n%s\n' "${folder##*/}"
    cat "$folder"/*.log | python3 scripts/ptx_table.py scripts/spills-allowed.txt || failed=1
done
exit "$failed"
