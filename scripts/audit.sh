#!/usr/bin/env bash
# Checks licences and sources of all dependencies; with cargo-deny, also known vulnerabilities.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/licences.py
if command -v cargo-deny >/dev/null; then
    cargo deny check
else
    echo "cargo-deny is not installed: no check for known vulnerabilities (cargo install cargo-deny)"
fi
