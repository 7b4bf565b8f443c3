#!/usr/bin/env bash
# Tests the course: every exercise, hint and solution, GPU code of all solutions, and the way of a student and of a teacher through
# the program. WARPKOV=FILE is the program; without it, the script builds one.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
if [[ -z ${WARPKOV:-} ]]; then
    cargo build --quiet --bin warpkov
    WARPKOV=${CARGO_TARGET_DIR:-target}/debug/warpkov
fi
program=$(realpath "$WARPKOV")
# The library of the compiler is compiled for GPUs once, for the kernels of the course too.
mkdir -p "${CARGO_TARGET_DIR:-target}"/{learn,nvptx}
shared=${CARGO_TARGET_DIR:-target}/learn/nvptx
[[ -L $shared ]] || rm -rf "$shared"
ln -sfnT ../nvptx "$shared"
# The machine code for GPUs is not needed: the driver compiles the few kernels.
export CARGO_TARGET_DIR=$(realpath "${CARGO_TARGET_DIR:-target}")/learn WARPKOV_PTXAS=none
export CARGO_NET_OFFLINE=${CARGO_NET_OFFLINE:-false}

(
    cd learn
    cargo fmt --all --check
    cargo clippy --quiet --workspace --all-targets -- -D warnings
    cargo test --quiet --test course --test cheats
    # GPU code of all solutions at once, and a program with that of its own.
    LEARN_EXERCISE=solutions cargo build --quiet --features gpu --bin 13_registers_solution
    LEARN_EXERCISE=solutions/13_registers cargo build --quiet --features gpu --bin 13_registers_solution
)
# The listings in the book are the compiler's. Another version may choose other registers; what the page says of them stays.
for kernel in visits_indexed visits; do
    page=book/course/generated/13_registers/$kernel.ptx
    listing=$("$CARGO_TARGET_DIR/debug/13_registers_solution" ptx "$kernel")
    [[ $listing == *".entry $kernel("* ]]
    [[ -z ${WARPKOV_UPDATE_BOOK:-} ]] || echo "$listing" >"$page"
    local_memory() { grep -q '\.local ' && echo uses || echo none; }
    [[ $(local_memory <"$page") == "$(local_memory <<<"$listing")" ]] || { echo "$page is out of date" >&2; exit 1; }
done
book/figures/course.py --check

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# A student's copy of the sources, with what is not committed yet.
git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --create | tar --extract --one-top-level="$folder/warpkov"
cd "$folder/warpkov/learn"
# The device library has been compiled where it is.
sed -i "s|\"[./]*/toolchain/|\"$root/toolchain/|" Cargo.toml {harness,browser}/Cargo.toml

echo "A student: the steps before the first chapter, and the chapter" >&2
fails() {
    local code=0
    "$@" >"$folder/output" 2>&1 || code=$?
    [[ $code == 1 ]] || { cat "$folder/output" >&2; echo "exit code $code in place of 1: $*" >&2; return 1; }
}
mapfile -t first < <(ls exercises | head -n 5)
for exercise in "${first[@]}"; do
    [[ $("$program" learn next) == *"exercises/$exercise"* ]]
    fails "$program" learn check
    grep -q FAILED "$folder/output"
    [[ $("$program" learn hint) == "Hint 1 of "* ]]
    [[ $("$program" learn hint "$(sed 's/^[0-9_]*//' <<<"$exercise")") == "Hint 2 of "* ]]
    "$program" learn trace "$exercise" --out "$folder/trace.svg" >/dev/null 2>&1
    [[ $(head -c 4 "$folder/trace.svg") == "<svg" ]]
    # The student solves it.
    cp "solutions/$exercise"/*.rs "exercises/$exercise"
    "$program" learn check >"$folder/output" 2>&1
    [[ $("$program" learn check "$exercise" --json 2>/dev/null) == *'"passed":true'* ]]
done
[[ $("$program" learn list) == *"${#first[@]} of "*" solved"* ]]
[[ $("$program" learn beat 0 2>/dev/null) == *"0 of "*" counts are below the solution's"* ]]
# Watch mode sees a change, and ends when the exercise passes.
last=${first[-1]}
cp "$root/learn/exercises/$last"/*.rs "exercises/$last"
"$program" learn check "$last" --watch >"$folder/output" 2>&1 &
watch=$!
for _ in {1..600}; do grep -q Waiting "$folder/output" && break || sleep 0.1; done
cp "solutions/$last"/*.rs "exercises/$last"
wait "$watch"

echo "A teacher: ten students, some of them wrong, one that never ends" >&2
mkdir "$folder/class"
"$root/scripts/class.sh" "$folder/class" 10
"$program" learn pack "$folder"/class/student-* --course "$root/learn" --out "$folder/pack" >"$folder/output" 2>&1 ||
    { cat "$folder/output" >&2; exit 1; }
tail -n 1 "$folder/output"
# Without the course, as on a node that has no compiler.
cd /
"$program" learn submit "$folder"/pack/* --time-limit 20 --out "$folder/table.csv"
"$root/scripts/outcomes.sh" "$folder/table.csv" "$folder/class/outcomes"
