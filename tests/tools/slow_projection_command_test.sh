#!/usr/bin/env bash
# xrun projection build | import | show | diff as a user calls them.
set -euo pipefail
xrun=${XRUN_BUILD:?}/bin/xrun
tree=${XRUN_ROOT:?}/tests
source "$tree/tools/checks.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export XRUN_CACHE=$dir/cache
pair=(--student "$tree/data/tokenizers/smol" --teacher "$tree/data/tokenizers/llama2")
back=(--student "$tree/data/tokenizers/llama2" --teacher "$tree/data/tokenizers/smol")
has() { grep -q -- "$2" "$1" || fail "$1 lacks '$2': $(cat "$1")"; }

# Help and bad usage.
for command in "" build import show diff; do
  "$xrun" projection $command --help >help
done
refuses 2 "subcommand is missing" "$xrun" projection
refuses 2 "teacher is required" "$xrun" projection build --student "$tree/data/tokenizers/smol" x
refuses 2 "OUT is required" "$xrun" projection build "${pair[@]}"
refuses 2 "top-k" "$xrun" projection build "${pair[@]}" --top-k 0 x
refuses 2 "nemo" "$xrun" projection build "${pair[@]}" --no-scale-trick x
refuses 2 "both --student and --teacher" "$xrun" projection show "${pair[@]:0:2}" x
refuses 2 "nowhere" "$xrun" projection build --student nowhere --teacher nowhere x
refuses 1 "nothing.safetensors" "$xrun" projection show nothing.safetensors
[ ! -e x ] || fail "bad usage wrote a file"

# The same input gives the same bytes, whatever the folders' paths.
"$xrun" projection build "${pair[@]}" a.safetensors >summary
has summary "706 student tokens x 903 teacher tokens"
has summary "exact rows      611"
cp -r "$tree/data/tokenizers/smol" smol
"$xrun" projection build --student smol/ --teacher "$tree/data/tokenizers/llama2" b.safetensors >out
cmp a.safetensors b.safetensors || fail "a copied folder gives other bytes"
is "$(ls ./*.safetensors* | wc -l)" 2

# show checks the tokenizers, and has numerals and examples.
"$xrun" projection show a.safetensors >out
has out "give --student and --teacher"
"$xrun" projection show a.safetensors "${pair[@]}" --examples 2 >out
has out "1 digit "
has out '"7" -> "7" 1\|"0" -> "0" 1'
is "$(grep -c -- ' -> ' out)" 3
refuses 1 "made for the student tokenizer smol .* and the teacher tokenizer llama2 .*other direction" \
  "$xrun" projection show a.safetensors "${back[@]}"
refuses 1 "build it again" "$xrun" projection show a.safetensors "${pair[@]:0:3}" \
  "$tree/data/tokenizers/llama3"
"$xrun" projection show a.safetensors "${pair[@]}" --json >out
python3 - <<'E2' || fail "show --json"
import json
p = json.load(open("out"))
assert p["student_vocab"] == 706 and p["exact"] + p["several"] + p["empty"] == 706, p
assert [n["digits"] for n in p["numerals"]] == [1, 2, 3, 4], p["numerals"]
assert p["made_by"]["command"] == "build" and p["made_by"]["settings"]["top_k"] == 4, p["made_by"]
for row in p["examples"]:
    weights = [w for _, _, w in row["entries"]]
    assert weights == sorted(weights, reverse=True) and abs(sum(weights) - 1) < 1e-5, row
E2

# diff, as diff(1).
"$xrun" projection diff a.safetensors b.safetensors >out || fail "equal files differ"
has out "0 of 706 rows differ"
"$xrun" projection build "${pair[@]}" --top-k 2 --no-reverse c.safetensors >out
status=0
"$xrun" projection diff a.safetensors c.safetensors --examples 1 >out || status=$?
is $status 1
has out "row .*: distance 0"
"$xrun" projection build "${back[@]}" d.safetensors >out
refuses 2 "different tokenizers" "$xrun" projection diff a.safetensors d.safetensors
refuses 2 "missing" "$xrun" projection diff a.safetensors missing

# import: NeMo-RL's file is what --nemo makes; a hostile one is refused and leaves nothing.
golden=(--student "$tree/data/tokenizers/deepseek" --teacher "$tree/data/tokenizers/smol")
"$xrun" projection import "${golden[@]}" "$tree/golden/projection_dense.pt" imported >out
has out "800 student tokens x 706 teacher tokens"
"$xrun" projection build "${golden[@]}" --nemo --prep-top-k 8 built >out
"$xrun" projection diff imported built >out || fail "--nemo differs from NeMo-RL: $(cat out)"
tail -c +2 "$tree/data/fuzz/torch_file/calls_system" >evil.pt
refuses 1 "evil.pt: data.pkl, byte 2: refers to posix.system" \
  "$xrun" projection import "${golden[@]}" evil.pt hostile
[ ! -e hostile ] || fail "a refused import wrote a file"
refuses 1 "xrun projection import" "$xrun" projection show "$tree/golden/projection_dense.pt"

# A projection that cannot be written keeps the old one.
cp a.safetensors before
status=0
XRUN_FILE_FAULT=fsync:1 "$xrun" projection build "${pair[@]}" --top-k 1 a.safetensors >out 2>&1 || status=$?
is $status 1
cmp a.safetensors before || fail "a failed write changed the old file"
[ ! -e a.safetensors.unfinished ] || fail "a failed write left its file"
