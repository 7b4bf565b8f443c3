#!/usr/bin/env python3
"""Checks that every dependency comes from crates.io, under a licence that deny.toml allows."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def allows(expression, allowed):
    """Whether the allowed licences satisfy an SPDX expression. Precedence: WITH before AND before OR."""
    # Some crates use the older form `MIT/Apache-2.0`.
    tokens = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))

    def alternatives():
        met = conjunction()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            met = conjunction() or met
        return met

    def conjunction():
        met = term()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            met = term() and met
        return met

    def term():
        name = tokens.pop(0)
        if name == "(":
            met = alternatives()
            if tokens.pop(0) != ")":
                raise ValueError("unclosed parenthesis")
            return met
        if tokens and tokens[0] == "WITH":
            tokens.pop(0)
            name = f"{name} WITH {tokens.pop(0)}"
        return name in allowed

    met = alternatives()
    if tokens:
        raise ValueError(f"unexpected {tokens[0]}")
    return met


def main():
    allowed = set(tomllib.loads((ROOT / "deny.toml").read_text())["licenses"]["allow"])
    metadata = json.loads(
        subprocess.run(
            ["cargo", "metadata", "--locked", "--format-version=1"], cwd=ROOT, check=True, stdout=subprocess.PIPE
        ).stdout
    )
    faults = []
    for package in metadata["packages"]:
        name = f"{package['name']} {package['version']}"
        # Path dependencies have no source. cargo reports this URL for crates.io even if a mirror is configured.
        source = package["source"]
        if source and not (source.startswith("registry+") and source.endswith("/rust-lang/crates.io-index")):
            faults.append(f"{name} comes from {source}")
        try:
            if not package["license"]:
                faults.append(f"{name} has no licence")
            elif not allows(package["license"], allowed):
                faults.append(f"deny.toml does not allow the licence of {name}: {package['license']}")
        except (IndexError, ValueError):
            faults.append(f"the licence of {name} is not an SPDX expression: {package['license']}")
    if faults:
        sys.exit("\n".join(faults))
    print(f"{len(metadata['packages'])} packages, all under allowed licences")


if __name__ == "__main__":
    main()
