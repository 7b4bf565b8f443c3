#!/usr/bin/env bash
# Compares runs of many ranks with runs of one process, for each MPI library of scripts/mpi.sh.
# scripts/test-mpi.sh NAME LAUNCHER... does so under one launcher, to which `-n N` is appended.
# CLASSES="devices exchanges hmm pomdp mdp" chooses the parts, MOST=2 the largest number of ranks, WARPKOV=FILE the program.
set -euo pipefail
cd "$(dirname "$0")/.."

# The listing of devices, messages of right and wrong lengths, and the model classes.
classes=(devices exchanges hmm pomdp mdp)
[[ -z ${CLASSES:-} ]] || read -ra classes <<<"$CLASSES"
# Seconds that a rank waits for another: long, because other programs may keep the cores busy.
patience=20

if [[ -z ${WARPKOV:-} ]]; then
    cargo build --quiet --workspace --bin warpkov --example exchange
    WARPKOV=$(realpath "${CARGO_TARGET_DIR:-target}/debug/warpkov")
fi
export WARPKOV
folder=$(mktemp -d)
mkdir "$folder/alone" "$folder/ranks"
trap 'rm -rf "$folder"' EXIT

fail() {
    echo "$launcher_name: $*" >&2
    exit 1
}

# Runs warpkov as N ranks: ranks N ARGUMENTS...
ranks() {
    local n=$1
    shift
    ((n <= ${MOST:-$n})) || n=$MOST
    timeout --kill-after 5 400 "${launcher[@]}" -n "$n" "$WARPKOV" "$@"
}

# Runs a command as one process and as N ranks, and compares the results: both NAME N EXTENSION COMMAND...
# EXTENSION is that of --out.
both() {
    local name=$1 n=$2 extension=$3 one=$folder/alone/$1 many=$folder/ranks/$1 code plot=()
    shift 3
    # The picture of the ranks' times.
    [[ "$1 $2" == "hmm score" ]] || plot=(--plot "ranks:$many.svg")
    if [[ ! -e $one.code ]]; then
        code=0
        "$WARPKOV" "$@" --device "${device:-cpu}" --json --out "$one.$extension" >"$one.stdout" 2>"$one.stderr" || code=$?
        mv "$one.$extension" "$one.out"
        echo "$code" >"$one.code"
    fi
    rm -f "$many".*
    code=0
    ranks "$n" "$@" --device "${device:-cpu}" --json --out "$many.$extension" --timeout "$patience" \
        "${plot[@]}" >"$many.stdout" 2>"$many.stderr" || code=$?
    echo "$code" >"$many.code"
    if ((${#plot[@]} && code < 2)) && ! grep -qs '^waiting$' "$many.svg"; then
        fail "$n ranks draw no picture of their times: warpkov $*"
    fi
    if ! { mv "$many.$extension" "$many.out" && scripts/compare_ranks.py "$one" "$many" "$@"; }; then
        head -n 20 "$many.stderr" >&2
        fail "$n ranks differ from one process: warpkov $*"
    fi
    echo "$launcher_name, $n ranks: $name"
}

# Tests that a bad file is one message, on the standard error, and exit code 2: refused COMMAND...
refused() {
    local code=0 many=$folder/ranks/refused
    ranks 2 "$@" --timeout "$patience" >"$many.stdout" 2>"$many.stderr" || code=$?
    if ((code != 2)) || [[ -s $many.stdout || $(grep -c '^error:' "$many.stderr") != 1 ]]; then
        head -n 20 "$many.stdout" "$many.stderr" >&2
        fail "exit code $code and not one message: warpkov $*"
    fi
    echo "$launcher_name, 2 ranks: one message for a bad file"
}

# Starts two ranks with different commands, and waits for them. Their output goes to the files `many` of the caller. srun of Slurm 22.05 sometimes
# goes on for ever after both have ended; then there is another try: pair [COMMAND OF RANK 0] -- [COMMAND OF RANK 1]
pair() {
    local first=() code
    while [[ $1 != -- ]]; do
        first+=("$1")
        shift
    done
    shift
    for _ in 1 2 3; do
        code=0
        timeout --kill-after 5 400 "${launcher[@]}" -n 1 "$WARPKOV" "${first[@]}" : -n 1 "$WARPKOV" "$@" \
            >"$many.stdout" 2>"$many.stderr" || code=$?
        [[ ${launcher[0]} == srun && -z $(processes) ]] && ((code == 124 || code == 137)) || break
    done
    return "$code"
}

# Tests that ranks with different inputs end with exit code 2, each with an error that names the difference, and without a result:
# differ DIFFERENCE [COMMAND OF RANK 0] -- [COMMAND OF RANK 1]. `extension` is that of --out.
differ() {
    local difference=$1 code=0 many=$folder/ranks/differ out=$folder/ranks/differ.${extension:-npy} word commands=()
    local both=(--timeout "$patience" --out "$out")
    shift
    for word in "$@"; do
        [[ $word != -- ]] || commands+=("${both[@]}")
        commands+=("$word")
    done
    rm -f "$many".*
    pair "${commands[@]}" "${both[@]}" || code=$?
    if ((code != 2)) || [[ -s $many.stdout || -e $out ]] ||
        [[ $(grep -c "^error: the ranks differ in .*$difference.*on rank 1" "$many.stderr") != 2 ]]; then
        head -n 20 "$many.stdout" "$many.stderr" >&2
        fail "exit code $code and not two errors about $difference: warpkov $*"
    fi
    echo "$launcher_name, 2 ranks: different $difference"
}

# Prints the process of a rank of the test's warpkov, or those of all ranks without an argument.
processes() {
    local process
    for process in /proc/[0-9]*; do
        if [[ $process/exe -ef $WARPKOV ]] && grep -q "$folder" "$process/cmdline" &&
            tr '\0' '\n' <"$process/environ" | grep -qE "^((PMI|PMIX)_)?RANK=${1:-}"; then
            echo "${process#/proc/}"
        fi
    done 2>/dev/null
}

# Starts two ranks with a time limit, and waits for the process of one. Sets `job` and `process` of the caller, whose files are
# `many`: started RANK LIMIT COMMAND...
started() {
    local rank=$1 limit=$2
    shift 2
    ranks 2 "$@" --device cpu --quiet --timeout "$limit" >"$many.stdout" 2>"$many.stderr" &
    job=$!
    for _ in {1..1000}; do
        process=$(processes "$rank")
        [[ -z $process ]] || break
        sleep 0.01
    done
}

# Kills one of two ranks of a long solve, this many seconds after its start. All must end, soon and without success:
# killed RANK SECONDS COMMAND...
killed() {
    local rank=$1 delay=$2 many=$folder/ranks/killed code=0 job process='' start
    shift 2
    started "$rank" "$patience" "$@"
    sleep "$delay"
    start=$SECONDS
    if [[ -z $process ]] || ! kill -KILL "$process"; then
        head -n 20 "$many.stderr" >&2
        kill "$job" 2>/dev/null || true
        fail "there is no rank $rank to kill: warpkov $*"
    fi
    wait "$job" || code=$?
    if ((code == 0 || SECONDS - start > patience + 10)); then
        head -n 20 "$many.stderr" >&2
        fail "exit code $code $((SECONDS - start)) s after rank $rank was killed: warpkov $*"
    fi
    [[ -z $(processes) ]] || fail "ranks are left after rank $rank was killed: warpkov $*"
    echo "$launcher_name, 2 ranks: exit code $code after rank $rank was killed, $delay s after its start"
}

# Waits until no process but these is left of the test's warpkov, at most the time limit of `halted` and two seconds, with a second for
# this test: ended_but [PROCESS]
ended_but() {
    local start=$EPOCHREALTIME
    while [[ $(processes) != "${1:-}" && -n $(processes) ]]; do
        if (($(python3 -c "print(int($EPOCHREALTIME - $start > $limit + 3))"))); then
            return 1
        fi
        sleep 0.1
    done
}

# Stops one of two ranks of a long solve by SIGSTOP, SECONDS after its process has started: while MPI starts, or later. The other must
# end in time, with exit code 3 and an error that names the rank, which may be on another node: halted RANK SECONDS COMMAND...
halted() {
    local rank=$1 delay=$2 limit=4 many=$folder/ranks/halted code=0 job process='' right=1
    shift 2
    started "$rank" "$limit" "$@"
    sleep "$delay"
    kill -STOP "$process" && ended_but "$process" || right=0
    kill -KILL "$process" 2>/dev/null || true
    wait "$job" || code=$?
    if ((!right || code == 0)) || grep -q panicked "$many.stderr" ||
        ! grep -qE "^error: rank [0-9]+ waited .*rank $rank(,| is stopped| has no process)" "$many.stderr"; then
        head -n 20 "$many.stderr" >&2
        fail "exit code $code after rank $rank was halted: warpkov $*"
    fi
    echo "$launcher_name, 2 ranks: an error $delay s after the start of rank $rank, which is halted then"
}

# Starts a rank beside one that ends with a usage error. Both must end in time: absent COMMAND...
absent() {
    local limit=4 many=$folder/ranks/absent code=0 job right=1
    pair "$@" --timeout "$limit" -- "$@" --nonsense &
    job=$!
    sleep 1
    ended_but || right=0
    wait "$job" || code=$?
    grep -qE "^(rank 1: )?error: unexpected argument '--nonsense'" "$many.stderr" || right=0
    if ((!right || code == 0)); then
        head -n 20 "$many.stderr" >&2
        fail "exit code $code beside a rank with a usage error: warpkov $*"
    fi
    echo "$launcher_name, 2 ranks: exit code $code beside a rank with a usage error"
}

# Sends SIGTERM to one of two ranks of a solve. Both must end with 130 and one checkpoint, from which one process goes on to the
# values of an uninterrupted run: resumed RANK COMMAND...
resumed() {
    local rank=$1 many=$folder/ranks/resumed code=0 job process=''
    shift
    rm -f "$many".*
    ranks 2 "$@" --device cpu --quiet --timeout "$patience" --checkpoint "$many.checkpoint" >"$many.stdout" 2>"$many.stderr" &
    job=$!
    for _ in {1..100}; do
        process=$(processes "$rank")
        # Until the rank handles the signal, number 15.
        if [[ -n $process ]] && ((16#$(awk '/^SigCgt:/ { print $2 }' "/proc/$process/status" 2>/dev/null || echo 0) & 1 << 14)); then
            break
        fi
        process=''
        sleep 0.1
    done
    sleep 0.2
    if [[ -z $process ]] || ! kill -TERM "$process"; then
        head -n 20 "$many.stderr" >&2
        kill "$job" 2>/dev/null || true
        fail "there is no rank $rank to stop: warpkov $*"
    fi
    wait "$job" || code=$?
    if ((code != 130)) || [[ ! -s $many.checkpoint ]]; then
        head -n 20 "$many.stderr" >&2
        fail "exit code $code after SIGTERM to rank $rank, expected 130 and a checkpoint: warpkov $*"
    fi
    "$WARPKOV" "$@" --device cpu --quiet --out "$many.whole.npy" >/dev/null
    "$WARPKOV" "$@" --device cpu --quiet --resume "$many.checkpoint" --out "$many.resumed.npy" >/dev/null
    cmp "$many.whole.npy" "$many.resumed.npy" || fail "a resumed run has other values: warpkov $*"
    ranks 3 "$@" --device cpu --quiet --resume "$many.checkpoint" --out "$many.resumed.npy" --timeout "$patience" >/dev/null
    cmp "$many.whole.npy" "$many.resumed.npy" || fail "3 resumed ranks have other values: warpkov $*"
    echo "$launcher_name, 2 ranks: resumed after SIGTERM to rank $rank"
}

devices() {
    local many=$folder/ranks/devices
    ranks 3 devices --json >"$many" || fail "3 ranks do not list their devices"
    python3 -c '
import json, sys
ranks = json.load(open(sys.argv[1]))["ranks"]
assert len(ranks) > 1 and [of_rank["rank"] for of_rank in ranks] == list(range(len(ranks))), ranks
assert all(of_rank["node"] and "found" in of_rank["devices"]["mpi"] for of_rank in ranks), ranks
' "$many" || fail "the listing of 3 ranks is incomplete"
    echo "$launcher_name, 3 ranks: devices"
}

# Messages arrive in their order, whichever is waited for first, and one of another length is an error that names its rank.
exchanges() {
    local lengths expected found
    while read -r lengths expected; do
        found=$(timeout --kill-after 5 60 "${launcher[@]}" -n 2 "$(dirname "$WARPKOV")/examples/exchange" ${lengths//,/ } </dev/null 2>/dev/null)
        grep -qxF "$expected" <<<"$found" || fail "messages of $lengths bytes: found $found, expected $expected"
    done <<END
8,8,8 [[1, 1, 1, 1, 1, 1, 1, 1], [2, 2, 2, 2, 2, 2, 2, 2], [3, 3, 3, 3, 3, 3, 3, 3]]
8,5 rank 1 sent 5 bytes, expected 8
8,0 rank 1 sent 0 bytes, expected 8
8,13 rank 1 sent more than the expected 8 bytes
END
    echo "$launcher_name, 2 ranks: messages of right and wrong lengths"
    local start=$SECONDS code=0
    found=$(timeout --kill-after 5 60 "${launcher[@]}" -n 2 "$(dirname "$WARPKOV")/examples/exchange" late </dev/null 2>/dev/null) || code=$?
    if ((code == 0 || SECONDS - start > 15)) || ! grep -qE "rank 0 waited .*rank 1" <<<"$found"; then
        fail "exit code $code after $((SECONDS - start)) s before the end of MPI: found $found"
    fi
    echo "$launcher_name, 2 ranks: an error where a rank does not come to the end of MPI"
}

hmm() {
    local files=$folder/hmm
    if [[ ! -e $files ]]; then
        mkdir "$files"
        "$WARPKOV" hmm generate random --states 4 --symbols 6 --seed 3 --out "$files/truth.json"
        "$WARPKOV" hmm sample "$files/truth.json" --sequences 30 --length 50 --out "$files/data.txt"
        "$WARPKOV" hmm sample "$files/truth.json" --sequences 2 --length 80 --out "$files/two.txt"
        "$WARPKOV" hmm generate random --states 3 --symbols 6 --seed 9 --out "$files/start.json"
        "$WARPKOV" hmm generate left-right --states 3 --dimensions 2 --full --ends --out "$files/word.json"
        "$WARPKOV" hmm sample "$files/word.json" --sequences 25 --out "$files/words.csv"
        "$WARPKOV" hmm generate random --states 16 --symbols 16 --out "$files/large.json"
        "$WARPKOV" hmm sample "$files/large.json" --sequences 200 --length 200 --out "$files/large.txt"
        "$WARPKOV" hmm generate random --states 16 --symbols 16 --seed 2 --out "$files/large-start.json"
        echo '{"pi": [0.5, 0.4], "A": [[1, 0], [0, 1]], "B": [[1], [1]]}' >"$files/bad.json"
    fi
    both hmm-train 2 json hmm train "$files/start.json" "$files/data.txt" --iterations 30
    both hmm-restarts 3 json hmm train "$files/start.json" "$files/data.txt" --iterations 20 --restarts 4 --seed 7
    both hmm-prior 2 json hmm train "$files/start.json" "$files/data.txt" --tolerance 1e-4 --pseudocount 0.5
    both hmm-variational 2 json hmm train "$files/start.json" "$files/data.txt" --by variational --iterations 20
    both hmm-gaussian 2 json hmm train "$files/word.json" "$files/words.csv" --iterations 15
    both hmm-few 3 json hmm train "$files/start.json" "$files/two.txt" --iterations 10
    both hmm-score 2 csv hmm score "$files/truth.json" "$files/data.txt"
    refused hmm train "$files/bad.json" "$files/data.txt"
    differ json hmm score "$files/start.json" "$files/data.txt" -- hmm score "$files/truth.json" "$files/data.txt"
    differ txt hmm score "$files/truth.json" "$files/two.txt" -- hmm score "$files/truth.json" "$files/data.txt"
    extension=json
    differ txt hmm train "$files/start.json" "$files/two.txt" -- hmm train "$files/start.json" "$files/data.txt"
    differ --pseudocount hmm train "$files/start.json" "$files/data.txt" -- \
        hmm train "$files/start.json" "$files/data.txt" --pseudocount 2
    extension=
    # Open MPI needs a second to start.
    killed 0 1.5 hmm train "$files/large-start.json" "$files/large.txt" --iterations 1000000 --tolerance 0
}

pomdp() {
    local files=$folder/pomdp
    if [[ ! -e $files ]]; then
        mkdir "$files"
        "$WARPKOV" pomdp generate tiger --out "$files/tiger.json"
        "$WARPKOV" pomdp generate hallway --out "$files/hallway.json"
        echo '{"S": 2' >"$files/bad.json"
    fi
    both pomdp-gap 2 alpha pomdp solve "$files/tiger.json" --seed 1 --gap 0.01
    both pomdp-large 3 alpha pomdp solve "$files/hallway.json" --seed 1 --gap 0.4
    both pomdp-limit 2 alpha pomdp solve "$files/hallway.json" --seed 5 --iterations 12
    refused pomdp solve "$files/bad.json"
    # Another checkpoint at the same place on another node.
    mkdir -p "$files/stale"
    "$WARPKOV" pomdp solve "$files/hallway.json" --quiet --device cpu --iterations 3 --checkpoint "$files/kept" >/dev/null 2>&1 || true
    "$WARPKOV" pomdp solve "$files/hallway.json" --quiet --device cpu --iterations 40 --checkpoint "$files/stale/kept" >/dev/null 2>&1 || true
    extension=alpha differ kept pomdp solve "$files/hallway.json" --resume "$files/kept" --checkpoint "$files/kept" -- \
        pomdp solve "$files/hallway.json" --resume "$files/stale/kept" --checkpoint "$files/stale/kept"
    extension=alpha differ --gap pomdp solve "$files/hallway.json" --gap 1 -- pomdp solve "$files/hallway.json" --gap 1e-4
    # In the start of MPI, and after it.
    killed 1 0.03 pomdp solve "$files/hallway.json" --gap 1e-9 --time 60
    killed 1 1.5 pomdp solve "$files/hallway.json" --gap 1e-9 --time 60
    halted 1 0 pomdp solve "$files/hallway.json" --gap 1e-9 --time 60
    halted 0 2.5 pomdp solve "$files/hallway.json" --gap 1e-9 --time 60
    absent pomdp solve "$files/hallway.json" --gap 1e-9 --time 60
}

mdp() {
    local files=$folder/mdp method rank n
    if [[ ! -e $files ]]; then
        mkdir "$files"
        "$WARPKOV" mdp generate grid --width 16 --height 12 --gamma 0.95 --out "$files/grid.json"
        "$WARPKOV" mdp generate garnet --states 150 --ragged --out "$files/garnet.json"
        "$WARPKOV" mdp generate garnet --states 200 --ragged --terminals 0.02 --seed 4 --out "$files/traps.json"
        "$WARPKOV" mdp generate consensus --out "$files/coin.json"
        "$WARPKOV" mdp generate consensus --processes 4 --bound 40 --out "$files/large.safetensors"
        "$WARPKOV" mdp generate grid --width 60 --height 50 --walls 0.2 --out "$files/grid.safetensors"
        head -c -100 "$files/grid.safetensors" >"$files/bad.safetensors"
        "$WARPKOV" mdp generate grid --width 500 --height 500 --gamma 0.9995 --out "$files/long.safetensors"
        echo '{"S": 2, "A": 1, "gamma": 0.9, "P": 3}' >"$files/bad.json"
    fi
    for method in values modified krylov; do
        both "mdp-grid-$method" 2 json mdp solve "$files/grid.json" --method "$method"
        both "mdp-garnet-$method" 3 json mdp solve "$files/garnet.json" --method "$method"
    done
    device=emulated both mdp-projected 2 json mdp solve "$files/garnet.json" --method projected
    both mdp-reach 2 json mdp solve "$files/traps.json" --criterion reach --goal "$(terminal "$files/traps.json")"
    both mdp-average 2 json mdp solve "$files/garnet.json" --criterion average
    both mdp-total 2 json mdp solve "$files/coin.json" --criterion total --goal finished
    both mdp-total-least 2 json mdp solve "$files/coin.json" --criterion total --goal finished --minimize
    both mdp-horizon 2 json mdp solve "$files/garnet.json" --horizon 12
    refused mdp solve "$files/bad.json"
    refused mdp solve "$files/bad.safetensors"
    # Another file at the same place on another node, another model, and other options.
    mkdir -p "$files/stale"
    "$WARPKOV" mdp generate grid --width 60 --height 50 --walls 0.2 --seed 9 --out "$files/stale/grid.safetensors"
    differ grid.safetensors mdp solve "$files/grid.safetensors" -- mdp solve "$files/stale/grid.safetensors"
    differ json mdp solve "$files/garnet.json" -- mdp solve "$files/traps.json"
    differ --minimize mdp solve "$files/garnet.json" -- mdp solve "$files/garnet.json" --minimize
    differ --epsilon mdp solve "$files/grid.safetensors" -- mdp solve "$files/grid.safetensors" --epsilon 1e-3
    differ --generate mdp solve --generate "garnet --states 500" -- mdp solve --generate "garnet --states 500 --seed 2"
    if [[ ! -e $files/kept ]]; then
        for node in . stale; do
            "$WARPKOV" mdp solve --generate "garnet --states 150 --seed ${#node}" --device cpu --quiet --out "$files/$node/values.npy"
            "$WARPKOV" mdp solve "$files/grid.safetensors" --device cpu --quiet --theta "1e-${#node}" --checkpoint "$files/$node/kept"
        done >/dev/null
    fi
    differ values.npy mdp solve "$files/garnet.json" --values "$files/values.npy" -- \
        mdp solve "$files/garnet.json" --values "$files/stale/values.npy"
    differ values.npy mdp solve "$files/garnet.json" --horizon 3 --terminal-values "$files/values.npy" -- \
        mdp solve "$files/garnet.json" --horizon 3 --terminal-values "$files/stale/values.npy"
    differ kept mdp solve "$files/grid.safetensors" --resume "$files/kept" --checkpoint "$files/kept" -- \
        mdp solve "$files/grid.safetensors" --resume "$files/stale/kept" --checkpoint "$files/stale/kept"
    differ command mdp solve "$files/garnet.json" -- pomdp solve "$files/garnet.json"
    for n in 2 3; do
        parts "mdp-parts-$n" "$n" mdp solve "$files/grid.safetensors" --method values --theta 1e-9
    done
    first_writes "out checkpoint" mdp solve "$files/grid.safetensors" --device cpu
    first_writes "out checkpoint" mdp solve "$files/garnet.json" --device cpu
    first_writes "out all-steps" mdp solve "$files/garnet.json" --horizon 4 --device cpu
    parts mdp-generated 3 mdp solve --generate 'garnet --states 3000 --ragged --window 40' --method values --theta 1e-9
    generated mdp generate garnet --states 3000 --ragged --power-law
    resumed 1 mdp solve "$files/long.safetensors" --method values --precision f64 --no-skip
    for rank in 0 1; do
        killed "$rank" 1.5 mdp solve "$files/large.safetensors" --criterion total --goal finished
    done
}

# Compares NumPy's arrays of ranks, which read and write their parts, with those of one process: parts NAME N COMMAND...
parts() {
    local name=$1 n=$2 one=$folder/alone/$1 many=$folder/ranks/$1 array
    shift 2
    [[ -e $one.npy ]] || "$WARPKOV" "$@" --device cpu --out "$one.npy" >/dev/null
    rm -f "$many".*
    ranks "$n" "$@" --device cpu --out "$many.npy" --timeout "$patience" >"$many.stdout" 2>"$many.stderr" ||
        { head -n 20 "$many.stderr" >&2; fail "$n ranks do not solve: warpkov $*"; }
    grep -qE 'each rank (reads|makes) a part' "$many.stdout" || fail "$n ranks have no parts: warpkov $*"
    for array in npy policy.npy; do
        cmp "$one.$array" "$many.$array" || fail "$n ranks write another $array than one process: warpkov $*"
    done
    echo "$launcher_name, $n ranks: $name"
}

# Tests that the first rank's options of outputs count for all: first_writes "OPTION..." COMMAND...
first_writes() {
    local many=$folder/ranks/first option options=$1 given=()
    shift
    rm -f "$many".*
    for option in $options; do
        given+=("--$option" "$many.$option.npy")
    done
    pair "$@" --timeout "$patience" "${given[@]}" -- "$@" --timeout "$patience" || fail "not solved: warpkov $*"
    for option in $options; do
        [[ -s $many.$option.npy ]] || fail "the first of 2 ranks has not written --$option: warpkov $*"
    done
    echo "$launcher_name, 2 ranks: the first writes $options"
}

# Compares the file of a model that ranks write together with that of one process: generated COMMAND...
generated() {
    local one=$folder/alone/generated.safetensors many=$folder/ranks/generated.safetensors
    "$WARPKOV" "$@" --out "$one"
    ranks 3 "$@" --out "$many" --timeout "$patience"
    cmp "$one" "$many" || fail "3 ranks write another model than one process: warpkov $*"
    echo "$launcher_name, 3 ranks: a model written in parts"
}

# Prints the number of a model's first state without actions.
terminal() {
    python3 -c '
import json, sys
choices = json.load(open(sys.argv[1]))["choices"]
print(next(s for s, (i, j) in enumerate(zip(choices, choices[1:])) if i == j))
' "$1"
}

# Tests all classes under a launcher: under NAME LAUNCHER...
under() {
    launcher_name=$1 launcher=("${@:2}")
    for class in "${classes[@]}"; do
        "$class"
    done
}

if (($#)); then
    under "$@"
else
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    mpich=$(scripts/mpi.sh mpich)
    openmpi=$(scripts/mpi.sh openmpi)
    under mpich "$mpich"
    under openmpi "$openmpi" --oversubscribe
    WARPKOV_MPI=$(dirname "$mpich")/../lib/libmpi.so.12 under mpich-libmpi.so.12 "$mpich"
fi
