#!/usr/bin/env bash
# Checks licence, source and name of every dependency, and known vulnerabilities if cargo-deny is installed.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/licences.py
if command -v cargo-deny >/dev/null; then
    for workspace in . learn book/tool fuzz; do
        cargo deny --manifest-path "$workspace/Cargo.toml" check --config "$PWD/deny.toml"
    done
else
    echo "cargo-deny is not installed, so vulnerabilities were not checked (cargo install cargo-deny)"
fi
