#!/usr/bin/env python3
"""Checks that every dependency comes from crates.io, under a licence that deny.toml allows."""

import sys
import tomllib

import packages


def main():
    allowed = set(tomllib.loads((packages.ROOT / "deny.toml").read_text())["licenses"]["allow"])
    metadata = packages.metadata()
    faults = []
    for package in metadata["packages"]:
        name = f"{package['name']} {package['version']}"
        # Path dependencies have no source. cargo reports this URL for crates.io even if a mirror is configured.
        source = package["source"]
        if source and not (source.startswith("registry+") and source.endswith("/rust-lang/crates.io-index")):
            faults.append(f"{name} comes from {source}")
        expression = packages.expression(package)
        try:
            if not expression:
                faults.append(f"{name} has no licence")
            elif not packages.allows(expression, allowed):
                faults.append(f"deny.toml does not allow the licence of {name}: {expression}")
        except (IndexError, ValueError):
            faults.append(f"the licence of {name} is not an SPDX expression: {expression}")
    if faults:
        sys.exit("\n".join(faults))
    print(f"{len(metadata['packages'])} packages, all under allowed licences")


if __name__ == "__main__":
    main()
