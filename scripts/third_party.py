#!/usr/bin/env python3
"""Writes what programs owe to others: scripts/third_party.py [--tests] PACKAGE[,PACKAGE...] FOLDER [PROGRAM...]. The first package gives
the bill its name. With --tests, the programs are tests, too, linked with the system's libgcc_s, and only the bill is written.

- THIRD-PARTY.txt: the licence of each package that is linked, with its texts;
- COPYRIGHT-library.html: the notices of Rust's standard library;
- sbom.cdx.json: the bill of materials, CycloneDX 1.6.

With programs or libraries, checks that the bill lists each crate that a panic message in such a file names. Needs cyclonedx-python-lib,
to validate the bill."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
import uuid
from pathlib import Path

import packages
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

# Zig's unwinder is linked statically, in libgcc_s's place.
UNWINDER = "LLVM libunwind"


def rustc(*arguments):
    command = ["rustc", *arguments]
    return subprocess.run(command, cwd=packages.ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def unwinder():
    """The version of Zig, and the folder of its unwinder's sources."""
    import ziglang
    from importlib.metadata import version

    return version("ziglang"), Path(ziglang.__file__).parent / "lib" / "libunwind"


def notices(linked):
    """The text of THIRD-PARTY.txt. Equal texts appear once."""
    numbers, lines, bodies = {}, [], []

    def number(path):
        text = path.read_text(errors="replace").strip("\n")
        key = " ".join(text.split())
        if key not in numbers:
            numbers[key] = len(numbers) + 1
            bodies.append(f"{'=' * 34} text {numbers[key]} {'=' * 34}\n\n{text}\n")
        return numbers[key]

    for package in linked:
        if not package["source"]:
            continue
        name, expression = f"{package['name']} {package['version']}", packages.expression(package)
        found = packages.texts(package)
        if not found and not packages.allows(expression, {"Apache-2.0"}):
            sys.exit(f"{name} comes without the text of its licence, {expression}")
        used = ", ".join(str(number(path)) for path in found or [packages.ROOT / "LICENSE-APACHE"])
        note = "" if found else ", used under Apache-2.0; the package has no text"
        lines.append(f"{name} ({expression}{note}): {used}")
    zig, folder = unwinder()
    lines.append(f"{UNWINDER} of Zig {zig} (Apache-2.0 WITH LLVM-exception): {number(folder / 'LICENSE.TXT')}")
    head = "The packages that are linked, each with its licence and the numbers of its texts below.\n"
    standard = "Rust's standard library and what it contains: COPYRIGHT-library.html\n"
    return "\n".join([head, *lines, "", standard, *bodies])


def bill(root, linked, nodes, tests):
    """The bill of materials. It depends on Cargo.lock and the toolchain alone, so it is reproducible."""
    lock = tomllib.loads((packages.ROOT / "Cargo.lock").read_text())["package"]
    checksums = {(entry["name"], entry["version"]): entry.get("checksum") for entry in lock}

    def component(package, kind="library"):
        name, version = package["name"], package["version"]
        purl = f"pkg:cargo/{name}@{version}"
        part = {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}
        part["licenses"] = [{"expression": packages.expression(package)}]
        if checksum := checksums[name, version]:
            part["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        return part

    def other(name, version, licence):
        part = {"type": "library", "bom-ref": f"{name}@{version}", "name": name, "version": version}
        return part | {"licenses": [{"expression": licence}]}

    references = {package["id"]: f"pkg:cargo/{package['name']}@{package['version']}" for package in linked}
    others = [other("std", rustc("--version").split()[1], "MIT OR Apache-2.0")]
    if not tests:
        others.append(other("libunwind", f"zig-{unwinder()[0]}", "Apache-2.0 WITH LLVM-exception"))
    kinds = {None, "dev"} if tests else {None}
    graph = []
    for node in nodes:
        if node["id"] in references:
            used = (edge["pkg"] for edge in node["deps"] if any(kind["kind"] in kinds for kind in edge["dep_kinds"]))
            parts = sorted({references[part] for part in used if part in references})
            if node["id"] == root["id"]:
                parts += [part["bom-ref"] for part in others]
            graph.append({"ref": references[node["id"]], "dependsOn": parts})
    components = [component(package) for package in linked if package is not root] + others
    digest = hashlib.sha256(json.dumps(components).encode()).hexdigest()
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "version": 1,
        "metadata": {"component": component(root, "application")},
        "components": components,
        "dependencies": sorted(graph, key=lambda entry: entry["ref"]),
    }


def main():
    arguments = sys.argv[1:]
    if tests := arguments[0] == "--tests":
        arguments.pop(0)
    roots, folder, programs = arguments[0].split(","), Path(arguments[1]), arguments[2:]
    keys = packages.linked(*roots, tests=tests)
    metadata = packages.metadata()
    linked = [package for package in metadata["packages"] if (package["name"], package["version"]) in keys]
    root = next(package for package in linked if package["name"] == roots[0])
    folder.mkdir(parents=True, exist_ok=True)
    if not tests:
        (folder / "THIRD-PARTY.txt").write_text(notices(linked))
        shutil.copy(Path(rustc("--print", "sysroot")) / "share/doc/rust/COPYRIGHT-library.html", folder)
    text = json.dumps(bill(root, linked, metadata["resolve"]["nodes"], tests), indent=1)
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        sys.exit(f"the bill of materials is not CycloneDX 1.6: {error}")
    (folder / "sbom.cdx.json").write_text(text + "\n")
    print(f"{folder}: {len(linked)} packages", file=sys.stderr)
    for program in programs:
        # Sources of crates in the registry, as rustc writes them into panic messages; releases leave out the folder of the registry's name.
        pattern = rb"/registry/src/(?:[^/\0]+/)?([A-Za-z0-9_-]+)-(\d+\.\d+\.\d+[^/\0]*)/"
        inside = {(name.decode(), version.decode()) for name, version in re.findall(pattern, Path(program).read_bytes())}
        if not inside or inside - keys:
            sys.exit(f"{program} names crates that the bill does not: {sorted(inside - keys) or 'none found'}")


if __name__ == "__main__":
    main()
