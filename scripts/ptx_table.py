#!/usr/bin/env python3
"""Prints a table of `ptxas -v` output read from standard input.

Fails if a kernel has spills or a stack frame and the file named by the first argument does not list it.
"""

import re
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    allowed = {line.split("#")[0].strip() for line in file}

kernels = {}
current = {}
for line in sys.stdin:
    if match := re.search(r"(?:Compiling entry function|Function properties for) '?([\w$]+)", line):
        current = kernels.setdefault(match[1], {"registers": 0, "spill": 0, "stack": 0, "shared": 0})
    for name, pattern in [
        ("registers", r"Used (\d+) registers"),
        ("shared", r"(\d+) bytes smem"),
        ("stack", r"(\d+) bytes stack frame"),
    ]:
        if match := re.search(pattern, line):
            current[name] = int(match[1])
    if match := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
        current["spill"] = int(match[1]) + int(match[2])

if not kernels:
    sys.exit("the output of ptxas contains no kernel")
width = max(map(len, kernels))
print(f"{'kernel':{width}} {'registers':>9} {'spills':>7} {'stack':>7} {'shared':>7}")
refused = []
for name, use in sorted(kernels.items()):
    print(f"{name:{width}} {use['registers']:9} {use['spill']:7} {use['stack']:7} {use['shared']:7}")
    if (use["spill"] or use["stack"]) and name not in allowed:
        refused.append(name)
if refused:
    sys.exit(f"kernels with spills or a stack frame that {sys.argv[1]} does not list: {', '.join(refused)}")
