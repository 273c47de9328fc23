#!/usr/bin/env bash
# A bundle made in one folder runs in another to the same bits, and is refused with the field where
# something is different. slow_bundle_test.sh has the other commands over bundles,
# bundle_file_test.cpp hostile bundles.
source "$(dirname "${BASH_SOURCE[0]}")/bundle_fixture.sh"

# Two bundles of one recipe are the same bytes.
(cd maker && "$xrun" bundle dpo.lua --run run -o again.xrb >/dev/null)
cmp maker/dpo.xrb maker/again.xrb || fail "two bundles of one recipe differ"

# A run in place of its recipe, and a recipe in place of its bundle.
(cd maker && wants 2 'bundle dpo.lua --run run' "$xrun" bundle run) || fail "no recipe is named"
(cd maker && wants 2 'verify takes a bundle, or the folder of a run' "$xrun" verify dpo.lua) ||
  fail "verify takes a recipe"

# A run that was lengthened follows another schedule than a fresh one, so its steps are not recorded.
(
  cd maker && cp -r run longer
  "$xrun" dpo.lua --run longer --resume --set steps=6 >/dev/null
  wants 0 "first steps: none, see the note" "$xrun" bundle dpo.lua --run longer -o longer.xrb
  grep -qF "longer: was resumed with other settings (config.steps)" out.txt || fail "no reason: $(cat out.txt)"
  wants 0 "recorded no first steps" "$xrun" longer.xrb --trusted --run fresh
  wants 1 "longer was resumed at step 4" "$xrun" diff longer fresh
) || fail "the bundle of a lengthened run"

# In another folder, with nothing but the file: the same bits, and the run says so.
mkdir other && cp maker/whole.xrb other/dpo.xrb && cp maker/dpo.xrb other/lean.xrb && cd other
export XRUN_CACHE=$work/other_cache
wants 0 "steps 0 to 3 are the bundle's, bit for bit" "$xrun" dpo.xrb --run run
same_run ../maker/run run

# Other bytes under a name are refused with the field; no other bundle in this cache has the right ones.
export XRUN_CACHE=$work/third_cache
cp -r ../maker/tiny . && sed '1s/Paris/paris/; 1s/"/" /2' ../maker/pairs.jsonl >pairs.jsonl
wants 2 "data pairs.jsonl" "$xrun" lean.xrb --run other
# A changed bundle is found.
python3 - <<'PYTHON'
data = bytearray(open("dpo.xrb", "rb").read())
data[data.index(b"require") + 1] ^= 1
open("broken.xrb", "wb").write(data)
PYTHON
wants 1 "its member recipe/dpo.lua has the SHA-256" "$xrun" broken.xrb
