#!/usr/bin/env python3
"""Checks that every dependency comes from crates.io, under a licence that deny.toml allows. What deny.toml allows for a crate alone
must not be linked into a release."""

import sys
import tomllib

import packages


def main():
    licences = tomllib.loads((packages.ROOT / "deny.toml").read_text())["licenses"]
    allowed = set(licences["allow"])
    exceptions = {entry["crate"]: set(entry["allow"]) for entry in licences["exceptions"]}
    released = {name for package in ("warpkov", "warpkov-python", "warpkov-capi") for name, _ in packages.linked(package)}
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
            elif not packages.allows(expression, allowed | exceptions.get(package["name"], set())):
                faults.append(f"deny.toml does not allow the licence of {name}: {expression}")
        except (IndexError, ValueError):
            faults.append(f"the licence of {name} is not an SPDX expression: {expression}")
    faults += [f"{name} is allowed as a tool, and a release links it" for name in sorted(exceptions.keys() & released)]
    if faults:
        sys.exit("\n".join(faults))
    print(f"{len(metadata['packages'])} packages, all under allowed licences")


if __name__ == "__main__":
    main()
