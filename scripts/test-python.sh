#!/usr/bin/env bash
# Builds a wheel, installs it into a new Python environment with NumPy and SciPy alone, and tests it there: tests,
# examples in docstrings and in the book, types and stubs. PROFILE=dist tests the wheel that `make wheel` builds.
# PEERS=1 then installs the wheel into a second environment, beside the packages in $peers, and runs the tests that need
# them: comparisons, scikit-learn's conventions, plots, and the notebooks.
set -euo pipefail
cd "$(dirname "$0")/.."

peers=(pymdptoolbox quantecon 'gymnasium[toy-text]' hmmlearn scikit-learn matplotlib nbclient ipykernel jax)

wheel=$(scripts/wheel.sh "${PROFILE:-dev}")
venvs=$(mktemp -d)
trap 'rm -rf "$venvs"' EXIT
# Creates the environment $1 with the wheel and further packages.
environment() {
    python3 -m venv "$venvs/$1"
    "$venvs/$1/bin/pip" install --quiet --disable-pip-version-check "$wheel" pytest "${@:2}"
}
# Runs tests in the environment $1. Not from python/, whose sources would hide the installed package.
tests() {
    "$venvs/$1/bin/pytest" --quiet -p no:cacheprovider --rootdir python --config-file python/pyproject.toml "${@:2}"
}

environment alone mypy
tests alone python/tests
package=$("$venvs/alone/bin/python" -c 'import warpkov; print(warpkov.__path__[0])')
"$venvs/alone/bin/pytest" --quiet -p no:cacheprovider --rootdir "$package" --config-file python/pyproject.toml \
    --doctest-modules "$package"
"$venvs/alone/bin/mypy" --config-file python/pyproject.toml --package warpkov
"$venvs/alone/bin/stubtest" --mypy-config-file python/pyproject.toml warpkov._warpkov
if [[ -n ${PEERS:-} ]]; then
    environment peers "${peers[@]}"
    mapfile -t files < <(grep --files-with-matches importorskip python/tests/test_*.py)
    tests peers "${files[@]}"
fi
