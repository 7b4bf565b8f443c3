#!/usr/bin/env bash
# Checks the licence and the source of every dependency, and known vulnerabilities if cargo-deny is installed.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/licences.py
if command -v cargo-deny >/dev/null; then
    cargo deny check
else
    echo "cargo-deny is not installed, so vulnerabilities were not checked (cargo install cargo-deny)"
fi
