#!/usr/bin/env bash
# Compares the outcomes in a table of `warpkov learn submit` (CSV) with the expected ones: outcomes.sh TABLE OUTCOMES
set -euo pipefail
for expected in $(<"$2"); do
    found=$(cut -d, -f3 "$1" | grep -cx "${expected%=*}" || true)
    [[ $found == "${expected#*=}" ]] || { echo "$1: $found × ${expected%=*}, expected ${expected#*=}" >&2; exit 1; }
done
