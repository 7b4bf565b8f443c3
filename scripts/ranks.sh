#!/usr/bin/env bash
# Starts processes as torchrun does, by variables and without MPI: scripts/ranks.sh -n N PROGRAM ARGUMENTS...
# Each has RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT. Ends when all have ended, with the largest exit code.
# Each needs a GPU and NCCL. MOST=2 scripts/test-mpi.sh nccl scripts/ranks.sh compares two such ranks with one process.
set -uo pipefail

[[ ${1:-} == -n && ${2:-} =~ ^[0-9]+$ && $# -ge 3 ]] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
n=$2
shift 2
port=$(python3 -c '
import socket
with socket.socket() as first:
    first.bind(("", 0))
    print(first.getsockname()[1])
')
processes=()
trap 'kill "${processes[@]}" 2>/dev/null' INT TERM
for ((rank = 0; rank < n; ++rank)); do
    RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$n MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$@" &
    processes+=($!)
done
most=0
for process in "${processes[@]}"; do
    code=0
    wait "$process" || code=$?
    ((code <= most)) || most=$code
done
exit "$most"
