#!/usr/bin/env python3
"""Documents crates, and checks that every public item of the toolchain's crates has an example that compiles.

    scripts/examples.py [OPTION]...

Runs `cargo doc` with these options. It calls this script in place of rustdoc, which then also writes the items of the toolchain's
crates as JSON: nothing is compiled twice. Items are modules, types, traits and their methods, functions, and macros, also those that
another module exports: rustdoc's own `--show-coverage` leaves these out.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Beside `doc`, which the book publishes.
FOLDER = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "items"
CRATES = ["warpkov_build", "warpkov_cuda", "warpkov_device", "warpkov_device_macros"]
COUNTED = {"enum", "function", "macro", "module", "proc_attribute", "proc_derive", "proc_macro", "struct", "trait", "union"}
# A block of anything else, such as `text` or `ignore`, is no example.
RUST = {"compile_fail", "no_run", "rust", "should_panic"}


def clippy():
    """What `cargo clippy -- -D warnings` sets. With it, cargo takes the metadata of the crates that clippy left, and checks none again."""
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    driver = Path(sysroot) / "bin" / "clippy-driver"
    hackery = "__CLIPPY_HACKERY__"
    return {"RUSTC_WORKSPACE_WRAPPER": str(driver), "CLIPPY_ARGS": f"-D{hackery}warnings{hackery}"} if driver.exists() else {}


def rustdoc(arguments):
    """What cargo runs in place of rustdoc. Both runs inherit the files of cargo's jobserver."""
    code = subprocess.run(["rustdoc", *arguments], close_fds=False).returncode
    if code == 0 and any(crate in CRATES for option, crate in zip(arguments, arguments[1:]) if option == "--crate-name"):
        # Stable compilers write JSON, too, if the variable is set. Only here: build scripts run again where it changes.
        arguments[arguments.index("-o") + 1] = str(FOLDER)
        json_too = ["rustdoc", *arguments, "-Z", "unstable-options", "--output-format", "json"]
        code = subprocess.run(json_too, env=os.environ | {"RUSTC_BOOTSTRAP": "1"}, close_fds=False).returncode
    return code


def has_example(text):
    """Whether a block of code in the text is one that rustdoc compiles."""
    # Every other fence ends a block.
    fences = re.findall(r"^\s*```(.*)$", text or "", re.MULTILINE)[::2]
    return any(set(re.split(r"[,\s]+", fence.strip())) - {""} <= RUST for fence in fences)


def items(crate):
    """The public items of a crate: place, name, and documentation of each."""
    index, seen, found = crate["index"], set(), []

    def visit(number, path, of_trait=False):
        item = index.get(str(number))
        if item is None or number in seen:
            return
        seen.add(number)
        ((kind, inner),) = item["inner"].items()
        if kind == "use":
            # A glob exports the items of a module, which is not public itself.
            target = index.get(str(inner["id"]))
            for child in target["inner"]["module"]["items"] if target and inner["is_glob"] else [inner["id"]]:
                visit(child, path)
            return
        if kind == "impl":
            for child in inner["items"] if inner["trait"] is None else []:
                visit(child, path)
            return
        if kind not in COUNTED or not (of_trait or item["visibility"] == "public"):
            return
        path = f"{path}::{item['name']}" if path else item["name"]
        found.append((item["span"]["filename"], item["span"]["begin"][0], path, item["docs"]))
        if kind in ("module", "trait", "struct", "enum", "union"):
            for child in inner["items" if kind in ("module", "trait") else "impls"]:
                visit(child, path, kind == "trait")

    visit(crate["root"], "")
    return found


def main():
    # The second option makes cargo run rustdoc again after a `cargo doc` without this script.
    flags = "-D warnings --cfg warpkov_examples"
    environment = os.environ | clippy() | {"RUSTDOC": str(Path(__file__).resolve()), "RUSTDOCFLAGS": flags}
    code = subprocess.run(["cargo", "doc", "--no-deps", *sys.argv[1:]], cwd=ROOT, env=environment).returncode
    if code:
        sys.exit(code)
    found = [item for name in CRATES for item in items(json.loads((FOLDER / f"{name}.json").read_text()))]
    lacking = sorted({(file, line, path) for file, line, path, docs in found if not has_example(docs)})
    for file, line, path in lacking:
        print(f"{file}:{line}: {path} has no example")
    if lacking:
        sys.exit(1)
    print(f"{len(found)} public items, all with an example")


if __name__ == "__main__":
    if os.environ.get("RUSTDOC") == str(Path(__file__).resolve()):
        sys.exit(rustdoc(sys.argv[1:]))
    else:
        main()
