#!/usr/bin/env bash
# Writes the folders of COUNT students of the course into FOLDER: class.sh FOLDER COUNT. Each has a solution of one of the first five
# chapters; some are wrong, and one never ends. FOLDER/outcomes says what `warpkov learn submit` finds, as OUTCOME=NUMBER.
set -euo pipefail
folder=$(realpath "$1")
count=$2
cd "$(dirname "$0")/../learn"

# Chapters, without the steps between them.
mapfile -t first < <(ls exercises | grep -v '^[0-9]*_[0-9]' | head -n 5)
declare -A outcomes=([passed]=0 [failed]=0 [does_not_compile]=0 [missing]=0 [time_limit]=0 [crashed]=0) sent=()
for number in $(seq -w "$count"); do
    student=$folder/student-$number/exercises
    exercise=${first[$((10#$number / 2 % 5))]}
    own=$student/$exercise
    mkdir -p "$own"
    cp "solutions/$exercise"/*.rs "$own"
    outcome=passed
    case $((10#$number % 10)) in
    # One in five has not begun, one in ten does not compile, and one in ten has not sent in anything.
    3 | 8)
        cp "exercises/$exercise"/*.rs "$own"
        outcome=failed
        # A pack is built for GPUs, and the audit refuses the barrier in a branch that this exercise begins with.
        [[ $exercise != 04_transpose ]] || outcome=does_not_compile
        ;;
    5)
        sed -i 's/use warpkov_device/use warpkov/' "$own/kernels.rs"
        outcome=does_not_compile
        ;;
    7)
        rm -r "$own"
        outcome=missing
        ;;
    0)
        # The first such student's program never ends. Of a kernel, the emulator would report that.
        if ((10#$number == 10)); then
            sed -i 's/^        let shape = .*/&\n        while std::hint::black_box(n) > 0 {}/' "$own/main.rs"
            grep -q black_box "$own/main.rs"
            outcome=time_limit
        fi
        ;;
    esac
    if [[ $outcome != missing ]]; then
        outcomes[$outcome]=$((${outcomes[$outcome]} + 1))
        sent[$exercise]=1
    fi
done
# A student has not sent in all the other exercises.
outcomes[missing]=$((count * ${#sent[@]} - outcomes[passed] - outcomes[failed] - outcomes[does_not_compile] - outcomes[time_limit]))
for outcome in "${!outcomes[@]}"; do
    echo "$outcome=${outcomes[$outcome]}"
done >"$folder/outcomes"
