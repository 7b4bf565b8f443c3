#!/usr/bin/env python3
"""Times the exercises of the course on this machine's GPU, and prints a page with a table for each.

    benches/course.py PACK > benches/results/DATE-GPU-course.md

PACK comes from `warpkov learn pack exercises`, where `exercises` is a folder that holds a copy of `learn/exercises`: PACK/exercises has
the exercises as they are given to students, and PACK/reference has their solutions. The chapters of the book include the tables.
"""

import json
import subprocess
import sys
from pathlib import Path


def run(program, part):
    """The report of a part, or None where it does not pass: it may have a fault that a GPU does not see, or hang."""
    command = [program, "time", "--json", "--part", str(part)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return json.loads(done.stdout)["parts"][0]
    except (subprocess.TimeoutExpired, json.JSONDecodeError, IndexError, KeyError):
        return None


def seconds(report):
    """The seconds of a launch as text."""
    if report is None or not report["passed"]:
        return "–"
    return f"{1e6 * report['seconds']:.2f}" if "seconds" in report else "–"


def rate(report):
    """Bytes and operations per second as text."""
    rates = []
    if report.get("seconds"):
        if report["bytes"]:
            rates.append(f"{report['bytes'] / report['seconds'] / 1e9:.1f} GB/s")
        if report["flops"] > report["bytes"]:
            rates.append(f"{report['flops'] / report['seconds'] / 1e12:.2f} TFLOP/s")
    return ", ".join(rates)


def main():
    """Prints the page."""
    pack = Path(sys.argv[1]).resolve()
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    gpu = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    print(f"# The course's exercises on {gpu.split(',')[0]} (driver {gpu.split(',')[1].strip()})\n")
    print("Each time is the median of 21 launches after a first one, at the size that the exercise states for a GPU. *Before* is the")
    print("exercise as students get it, where its results are right on the GPU at that size. Written by `benches/course.py`.\n")
    for solution in sorted((pack / "reference").iterdir()):
        print(f"## {solution.name}\n\n<!-- ANCHOR: {solution.name} -->")
        print("| part | before (µs) | solution (µs) | rate of the solution |\n| --- | --- | --- | --- |")
        part = 1
        while (report := run(solution, part)) is not None:
            if not report["passed"]:
                failed = [step["name"] for step in report["checks"] if step["failure"]]
                sys.exit(f"{solution.name}, part {part}: {failed}")
            before = seconds(run(pack / "exercises" / solution.name, part))
            print(f"| {report['name']} | {before} | {seconds(report)} | {rate(report)} |")
            part += 1
        print(f"<!-- ANCHOR_END: {solution.name} -->\n")


if __name__ == "__main__":
    main()
