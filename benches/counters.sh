#!/usr/bin/env bash
# Measures the case `cuda:0::counters` of the kernels' tests with NVIDIA's profiler: counters.sh KERNELS OUT.
# KERNELS is the test program (cargo test --test kernels --no-run). Writes what ncu printed to OUT.
set -euo pipefail
kernels=$1 out=$2
known=$(ncu --query-metrics --chips gh100 || true)
metrics=launch__registers_per_thread
while read -r metric; do
    # Not every version of ncu knows all of them.
    if grep -q "^$metric\b" <<<"$known"; then metrics+=,$metric.sum; else echo "unknown: $metric" >&2; fi
done <<'METRICS'
l1tex__t_requests_pipe_lsu_mem_global_op_ld
l1tex__t_sectors_pipe_lsu_mem_global_op_ld
l1tex__t_requests_pipe_lsu_mem_global_op_st
l1tex__t_sectors_pipe_lsu_mem_global_op_st
l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld
l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st
smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ld
smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_st
smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld
smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st
smsp__sass_inst_executed_op_shared_ld
smsp__sass_inst_executed_op_shared_st
smsp__sass_inst_executed_op_global_ld
smsp__sass_inst_executed_op_global_st
smsp__sass_branch_targets_threads_divergent
METRICS
ncu --clock-control none --cache-control none --csv --page raw --print-units base --metrics "$metrics" --log-file "$out" \
    "$kernels" cuda:0::counters --exact
