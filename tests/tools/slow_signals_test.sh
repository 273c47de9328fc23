#!/usr/bin/env bash
# Signals during products change no bit: oneDNN's AVX-512 kernels keep values below the stack
# pointer, where a handler's frame would be (core/run/signals.cpp).
source "$(dirname "${BASH_SOURCE[0]}")/checks.sh"
set -euo pipefail
xrun=${XRUN_BUILD:?}/bin/xrun
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XRUN_CACHE=$work/cache OMP_NUM_THREADS=1
cd "$work"
cp "$XRUN_ROOT/tests/data/pairs.jsonl" .
"$xrun" init-model tiny --tokenizer "$XRUN_ROOT/tests/data/tiny_tokenizer" --layers 2 --hidden 64 \
  --heads 4 >init.txt 2>&1
run() {
  "$xrun" "$XRUN_ROOT/recipes/dpo.lua" --run "$1" --threads 1 --set model=tiny \
    --set data.1.path=pairs.jsonl --set data.1.keep='{}' --set valid.fraction=0 --set answers=0 \
    --set steps=60 --set batch.pairs=4 >"$1.txt" 2>&1
}
run quiet
run stormy &
pid=$!
# The handler of SIGALRM does nothing unless a stop was requested.
python3 - "$pid" <<'PYTHON'
import os, subprocess, sys, time
shell = int(sys.argv[1])
deadline = time.time() + 120
child = None
while child is None and time.time() < deadline:
    found = subprocess.run(["pgrep", "-P", str(shell)], capture_output=True, text=True).stdout.split()
    child = int(found[0]) if found else None
# Until its handlers are installed, the signal would end it.
while "step 1/" not in open("stormy.txt").read() and time.time() < deadline:
    time.sleep(0.01)
sent = 0
while time.time() < deadline:
    try:
        os.kill(child, 14)
    except ProcessLookupError:
        break
    sent += 1
    time.sleep(0.0005)
assert sent > 100, sent
PYTHON
wait "$pid" || fail "a run under signals ended: $(tail -3 stormy.txt)"
cmp quiet/hf/model.safetensors stormy/hf/model.safetensors
