#!/usr/bin/env python3
"""Checks that a program starts on each Linux from a version of glibc on: scripts/glibc.py PROGRAM VERSION.

It may link only libraries of glibc, and only symbols that have been in them since this version."""

import re
import subprocess
import sys

LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1", "ld-linux-x86-64.so.2"}


def objdump(option, program):
    return subprocess.run(["objdump", option, program], check=True, stdout=subprocess.PIPE, text=True).stdout


def main():
    program, allowed = sys.argv[1:]

    def key(version):
        return [int(part) for part in version.split(".")]

    needed = re.findall(r"NEEDED\s+(\S+)", objdump("--private-headers", program))
    symbols = re.findall(r"\*UND\*\s+\S+\s+\(?(\w+?)_([\d.]+)\)?\s+(\S+)", objdump("--dynamic-syms", program))
    newer = sorted({f"{name}@{set}_{v}" for set, v, name in symbols if set != "GLIBC" or key(v) > key(allowed)})
    if "libc.so.6" not in needed or not symbols:
        sys.exit(f"{program} has no dynamic symbols of glibc")
    if foreign := sorted(set(needed) - LIBRARIES):
        sys.exit(f"{program} needs libraries other than glibc's: {' '.join(foreign)}")
    if newer:
        sys.exit(f"{program} needs symbols newer than glibc {allowed}: {' '.join(newer)}")
    newest = max((v for _, v, _ in symbols), key=key)
    print(f"{program} needs {' '.join(needed)}, and glibc {newest} or newer", file=sys.stderr)


if __name__ == "__main__":
    main()
