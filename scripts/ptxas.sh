#!/usr/bin/env bash
# Prints the path of NVIDIA's PTX assembler, and installs it from PyPI first where it is missing. It needs no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${CARGO_TARGET_DIR:-target}/ptxas-venv
find_ptxas() {
    compgen -G "$venv/lib/python3*/site-packages/nvidia/cu13/bin/ptxas" | head -n 1
}
if [[ -z $(find_ptxas) ]]; then
    mkdir -p "$(dirname "$venv")"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check 'nvidia-cuda-nvcc>=13,<14' >&2
fi
ptxas=$(find_ptxas)
[[ -n $ptxas ]] || { echo "nvidia-cuda-nvcc holds no ptxas where it used to" >&2; exit 1; }
[[ -x $ptxas ]] || chmod +x "$ptxas"
echo "$ptxas"
