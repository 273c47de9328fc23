# Shared by the tests of whole runs: a tiny model, a recipe, and comparisons. Sourced.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
xrun=${XRUN_BUILD:-$root/build}/bin/xrun
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
export XRUN_CACHE=$work/cache OMP_NUM_THREADS=1
cd "$work"
"$xrun" init-model tiny --tokenizer "$root/tests/data/tiny_tokenizer" --layers 2 --hidden 32 \
  --heads 2 --kv-heads 1 --ffn 64 >/dev/null

source "$root/tests/tools/checks.sh"
# STATUS TEXT COMMAND...: the command ends with the status and prints the text.
wants() {
  local status=0
  "${@:3}" >out.txt 2>&1 </dev/null || status=$?
  [ "$status" = "$1" ] || { cat out.txt; fail "status $status, wanted $1: ${*:3}"; }
  grep -qF -- "$2" out.txt || { cat out.txt; fail "does not say '$2': ${*:3}"; }
}
# Makes every weight of the tiny model NaN; the headers stay.
spoil_weights() {
  python3 - <<'PYTHON'
with open("tiny/model.safetensors", "r+b") as file:
    head = int.from_bytes(file.read(8), "little")
    values = file.seek(0, 2) - 8 - head
    file.seek(8 + head)
    file.write(b"\xff" * values)
PYTHON
}
# The shipped recipe on the tiny model; further arguments follow.
dpo() {
  "$xrun" "$root/recipes/dpo.lua" --set model=tiny --set answers=0 --set steps=11 \
    --set data.1.path="$root/tests/data/pairs.jsonl" --set batch.pairs=2 "$@"
}
# RUN RUN: checks equal metrics (except perf/*) and equal weights.
same_run() {
  python3 - "$1" "$2" <<'PYTHON' || fail "$1 and $2 differ"
import json, sys
def metrics(run):
    lines = [json.loads(line) for line in open(run + "/metrics.jsonl")]
    return [{k: v for k, v in line.items() if not k.startswith("perf/")} for line in lines]
a, b = (metrics(run) for run in sys.argv[1:])
if a != b:
    for x, y in zip(a, b):
        if x != y:
            sys.exit(f"{x}\n{y}")
    sys.exit(f"{len(a)} and {len(b)} lines")
PYTHON
  cmp "$1/hf/model.safetensors" "$2/hf/model.safetensors" || fail "weights of $1 and $2 differ"
}
