#!/usr/bin/env python3
"""Checks that every dependency of the workspaces comes from crates.io, under a licence that deny.toml allows, and that deny.toml does not
ban it. What deny.toml allows for a crate alone must not be linked into a release.

Crates without a Cargo.lock of their own have the dependencies of the first workspace; cargo-deny also checks those of fuzz/."""

import sys
import tomllib

import packages


WORKSPACES = (".", "learn", "book/tool")


def main():
    rules = tomllib.loads((packages.ROOT / "deny.toml").read_text())
    licences, banned = rules["licenses"], set(rules["bans"]["deny"])
    allowed = set(licences["allow"])
    exceptions = {entry["crate"]: set(entry["allow"]) for entry in licences["exceptions"]}
    released = {name for package in ("warpkov", "warpkov-python", "warpkov-capi") for name, _ in packages.linked(package)}
    # Packages of several workspaces are checked once.
    found = [packages.metadata(folder, "--all-features")["packages"] for folder in WORKSPACES]
    every = {package["id"]: package for workspace in found for package in workspace}
    faults = []
    for package in every.values():
        name = f"{package['name']} {package['version']}"
        # Path dependencies have no source. cargo reports this URL for crates.io even if a mirror is configured.
        source = package["source"]
        if source and not (source.startswith("registry+") and source.endswith("/rust-lang/crates.io-index")):
            faults.append(f"{name} comes from {source}")
        if package["name"] in banned:
            faults.append(f"deny.toml bans {name}")
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
    print(f"{len(every)} packages, none banned, all under allowed licences")


if __name__ == "__main__":
    main()
