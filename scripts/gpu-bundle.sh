#!/usr/bin/env bash
# Builds a folder of executables for tests and benchmarks on a GPU machine without Rust. There, run
# target/gpu-bundle/run.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

export WARPKOV_REQUIRE_PTX=1 WARPKOV_REQUIRE_CUBIN=1
target=${CARGO_TARGET_DIR:-target}
bundle=$target/gpu-bundle

# One command, so that the library is compiled once. Tests bring the programs of their packages with them.
messages=$(cargo test --release --no-run --package warpkov --package warpkov-mdp --package warpkov-models \
    --package warpkov-cuda --test kernels --test library --test devices --example driver --message-format=json-render-diagnostics)

# Prints the path of a cargo target's executable.
executable() {
    python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and message["target"]["name"] == sys.argv[1]:
        print(message["executable"])
' "$1" <<<"$messages" | tail -n 1
}

rm -rf "$bundle"
mkdir -p "$bundle/data" "$bundle/peers"
for program in warpkov kernels library warpkov-models; do
    strip -o "$bundle/$program" "$(executable "$program")"
done
strip -o "$bundle/models" "$(executable devices)"
# The bill of materials.
tools=$(dirname "$(scripts/linker.sh)")
"$tools/bin/python" scripts/third_party.py --tests warpkov,warpkov-mdp,warpkov-models,warpkov-cuda "$bundle" \
    "$bundle"/{warpkov,kernels,library,warpkov-models,models}
for file in data/*.json; do
    [[ ! -e $file ]] || cp "$file" "$bundle/data/"
done
# The course: 30 students' programs, the exercises as they are given, and the solutions.
class=$(mktemp -d)
trap 'rm -rf "$class"' EXIT
scripts/class.sh "$class" 30
mkdir -p "$class/exercises"
cp -r learn/exercises "$class/exercises/exercises"
CARGO_TARGET_DIR=$(realpath "$target")/learn WARPKOV_PTXAS=none WARPKOV_REQUIRE_CUBIN=0 "$bundle/warpkov" learn pack "$class"/*/ \
    --course learn --out "$bundle/course"
cp scripts/outcomes.sh scripts/sanitize.sh "$class/outcomes" benches/course.py "$bundle"
cp benches/startup.sh scripts/device_faults.py "$target/release/examples/libdriver.so" "$bundle"
cp benches/peers/context.c "$bundle/peers"
cat >"$bundle/run.sh" <<'RUN'
#!/usr/bin/env bash
# Runs tests and benchmarks on this machine's GPU. With --faults: fails each call of the driver, in each way. With --sanitize: runs the
# kernels' cases under the four tools of compute-sanitizer, each case under one of them, in turn.
set -euo pipefail
cd "$(dirname "$0")"
case ${1:-} in
--faults)
    driver=$(ldconfig -p | awk '/libcuda\.so\.1 .*x86-64|libcuda\.so\.1 .*AArch64/ { print $NF; exit }')
    exec ./device_faults.py ./warpkov ./libdriver.so --behind "${WARPKOV_DRIVER:-$driver}" --every-code
    ;;
--sanitize) exec ./sanitize.sh ./kernels ;;
esac
WARPKOV_REQUIRE_GPU=1 ./kernels cuda
# Each of these measures the process, so it runs alone.
./kernels cuda --ignored --test-threads 1
./library reference
WARPKOV_REQUIRE_GPU=1 ./models
./warpkov learn submit course/student-* course/reference --device cuda --time-limit 20 --out course.csv
./outcomes.sh course.csv outcomes
./course.py course >course.md
./warpkov devices
./warpkov bench mdp
! command -v cc >/dev/null || ./startup.sh ./warpkov
RUN
chmod +x "$bundle/run.sh"

echo "$bundle: $(du -sm "$bundle" | cut -f1) MB"
