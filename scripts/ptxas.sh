#!/usr/bin/env bash
# Prints the path of NVIDIA's PTX assembler, and installs it from PyPI first where it is missing. It needs no GPU.
# Machine code of CUDA 12 runs under drivers of 12 and later ones, that of 13 not under those of 12.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${CARGO_TARGET_DIR:-target}/ptxas-venv
find_ptxas() {
    compgen -G "$venv/lib/python3*/site-packages/nvidia/cuda_nvcc/bin/ptxas" | head -n 1
}
if [[ -z $(find_ptxas) ]]; then
    mkdir -p "$(dirname "$venv")"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check 'nvidia-cuda-nvcc-cu12>=12.9,<13' >&2
    # Has cargo run the build script again, which was not told where to look for what was not there.
    touch build.rs
fi
ptxas=$(find_ptxas)
[[ -n $ptxas ]] || { echo "nvidia-cuda-nvcc-cu12 holds no ptxas where it used to" >&2; exit 1; }
[[ -x $ptxas ]] || chmod +x "$ptxas"
echo "$ptxas"
