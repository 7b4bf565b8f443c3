#!/usr/bin/env bash
# Builds a wheel, installs it into a new Python environment with NumPy and SciPy alone, and tests it there: tests,
# examples in docstrings and in the book, types and stubs. PROFILE=release tests the wheel that `make wheel` builds.
# PEERS=1 also compares with mdptoolbox, QuantEcon, Gymnasium and hmmlearn, trains by scikit-learn, and draws.
set -euo pipefail
cd "$(dirname "$0")/.."

wheel=$(scripts/wheel.sh "${PROFILE:-dev}")
venv=$(mktemp -d)
trap 'rm -rf "$venv"' EXIT
python3 -m venv "$venv"
install() { "$venv/bin/pip" install --quiet --disable-pip-version-check "$@"; }
install "$wheel" pytest mypy
if [[ -n ${PEERS:-} ]]; then
    install pymdptoolbox quantecon 'gymnasium[toy-text]' hmmlearn scikit-learn matplotlib
fi
# Not from python/, whose sources would hide the installed package.
"$venv/bin/pytest" --quiet -p no:cacheprovider --rootdir python --config-file python/pyproject.toml python/tests
package=$("$venv/bin/python" -c 'import warpkov; print(warpkov.__path__[0])')
"$venv/bin/pytest" --quiet -p no:cacheprovider --rootdir "$package" --config-file python/pyproject.toml \
    --doctest-modules "$package"
"$venv/bin/mypy" --config-file python/pyproject.toml --package warpkov
"$venv/bin/stubtest" --mypy-config-file python/pyproject.toml warpkov._warpkov
