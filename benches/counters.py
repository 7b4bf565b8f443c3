#!/usr/bin/env python3
"""Sums what counters.sh measured over the launches of each kernel: counters.py NCU.csv > COUNTERS.csv.

Columns as in tests/kernels/counters.rs; the last one, filled in by hand, says why the emulator counts otherwise. Bank conflicts are wavefronts beyond the fewest that the width of the accesses needs, which
ncu counts as l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld and _st.
"""

import csv
import sys

COLUMNS = [
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
]

with open(sys.argv[1], encoding="utf-8") as file:
    lines = [line for line in file if line.startswith('"')]
rows = csv.DictReader(lines)
kernels = {}
for row in rows:
    if not row["ID"]:
        continue  # the line of units
    sums = kernels.setdefault(row["Kernel Name"], [0] * (1 + len(COLUMNS)))
    sums[0] += 1
    for at, column in enumerate(COLUMNS, 1):
        sums[at] += int(row[column].replace(",", ""))
short = ["load_requests", "load_sectors", "store_requests", "store_sectors", "load_conflicts", "store_conflicts"]
print(",".join(["kernel", "launches", *short, "reason"]))
for name, sums in sorted(kernels.items()):
    print(",".join([name, *map(str, sums), ""]))
