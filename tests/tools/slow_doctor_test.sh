#!/usr/bin/env bash
# xrun doctor prints a line for each subject, a fix for what is missing, and trains a tiny model.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"

wants 0 'this machine can train' "$xrun" doctor
for subject in processor memory LibTorch GPU 'CUDA plug-in' NCCL cache runs sentencepiece pip 'demo model'; do
  grep -qE "^(ok|note|missing|wrong) +$subject " out.txt || { cat out.txt; fail "no line of $subject"; }
done
bytes='[0-9.,]+ [kMGT]?B'
for line in '(ok|note) +processor +.*, [0-9,]+ threads?, (avx512|avx2|portable) kernels' \
  "(ok|note) +memory +$bytes free of $bytes" \
  'ok +LibTorch +[0-9]+\.[0-9]+\.[0-9]+, [A-Z0-9]+, [0-9]+ threads?, in /.*' \
  "(ok|note) +cache +$work/cache: writes $bytes a second, reads $bytes, $bytes free" \
  "(ok|note) +runs +$work/runs: writes $bytes a second, reads $bytes, $bytes free" \
  '(ok|missing) +sentencepiece +/.*/libxrun_sentencepiece.so.*' \
  'ok +training +16 steps of DPO on a tiny model: loss 0.6931 \(ln 2\) to [0-9.]+ in [0-9.]+ s'; do
  grep -qE "^$line" out.txt || { cat out.txt; fail "no line like $line"; }
done
# A missing requirement has its fix on the next line.
awk '/^(missing|wrong)/ { held = $0; next } held != "" && !/->/ { print held; bad = 1 } { held = "" }
  END { exit bad }' out.txt || fail "a line without a fix"
[ ! -e runs ] || fail "doctor left a folder"
[ -z "$(ls -A "$XRUN_CACHE" 2>/dev/null)" ] || fail "doctor left something in the cache"

"$xrun" doctor --quick --json >lines
python3 - <<'PYTHON' || fail "json"
import json
for line in open("lines"):
    found = json.loads(line)
    assert found["verdict"] in ("ok", "note", "missing", "wrong"), line
    assert found["verdict"] in ("ok", "note") or found["remedy"], line
    assert isinstance(found["needed"], bool)
PYTHON
! grep -q '"training' lines || fail "--quick trains"

# An unwritable cache is wrong, with the fix; a missing GPU counts only if it was requested.
touch file
XRUN_CACHE=$work/file/cache wants 1 'set XRUN_CACHE to a folder' "$xrun" doctor --quick
CUDA_VISIBLE_DEVICES='' wants 1 'need a fix' "$xrun" doctor --quick --device cuda
XRUN_CPU=portable wants 0 'portable kernels' "$xrun" doctor --quick
XRUN_CPU=sse wants 2 'XRUN_CPU: got sse, wanted one that this machine can run: ' "$xrun" doctor --quick
grep -q ': .*portable$' out.txt || { cat out.txt; fail "the kernels are not named"; }
XRUN_MEMORY_MB=x wants 1 'unset XRUN_MEMORY_MB' "$xrun" doctor --quick
TMPDIR=$work/nowhere wants 1 'set TMPDIR to one that can be written' "$xrun" doctor
# A failed run is reported with its last message.
XRUN_MEMORY_MB=1 wants 1 'ended with status' "$xrun" doctor
echo ok
