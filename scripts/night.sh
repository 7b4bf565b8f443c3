#!/usr/bin/env bash
# Has the verifier check what every method, precision, storage and device claims on random models: the CPU, the emulator, and a GPU if there
# is one. Prints the seeds. scripts/night.sh [--seed S] [COUNT]; by default 1000 models of each class, from a seed of the day.
set -euo pipefail
cd "$(dirname "$0")/.."

seed=$(($(date +%s) / 86400 * 1000000))
if [[ ${1-} == --seed ]]; then
    seed=${2:?a seed}
    shift 2
fi
count=${1:-1000}

echo "night: $count models of each class from seed $seed"
WARPKOV_SEED=$seed WARPKOV_MODELS=$count cargo test --package warpkov-verify --tests -- --nocapture
echo "night: seeds $seed to $((seed + count - 1)): none violated"
