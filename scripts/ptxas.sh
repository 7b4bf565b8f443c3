#!/usr/bin/env bash
# Prints the path of NVIDIA's PTX assembler. Installs it from PyPI if it is missing. Needs no GPU.
# The release is CUDA 12, because drivers load machine code of their own and earlier major CUDA versions only.
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
    # Makes cargo rerun the build script, which did not watch the path of a missing ptxas.
    touch build.rs
fi
ptxas=$(find_ptxas)
[[ -n $ptxas ]] || { echo "the package nvidia-cuda-nvcc-cu12 has no ptxas in nvidia/cuda_nvcc/bin" >&2; exit 1; }
[[ -x $ptxas ]] || chmod +x "$ptxas"
echo "$ptxas"
