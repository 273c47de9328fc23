#!/usr/bin/env bash
# verify-resume reports equality, or the first difference of a recipe that is not reproducible, and
# leaves no files.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"
export TMPDIR=$work/temporary
mkdir "$TMPDIR"
ln -s "$root/recipes" recipes
verify() {
  "$xrun" verify-resume "$@" --set model=tiny --set data.1.path="$root/tests/data/pairs.jsonl" \
    --set batch.pairs=2
}
wants 0 'gives the same bits' verify "$root/recipes/dpo.lua" --set answers=0
for line in 'ok +undisturbed +3 steps' 'ok +killed +with SIGKILL after step 1' \
  'ok +killed +with SIGKILL after step 2' 'ok +metrics +4 lines of .* equal' 'ok +policy .* equal bit' \
  'ok +adamw .* equal bit' 'ok +run.state +equal'; do
  grep -qE "^$line" out.txt || { cat out.txt; fail "no line $line"; }
done
[ -z "$(ls -A "$TMPDIR")" ] || fail "verify-resume left $(ls "$TMPDIR")"
[ ! -e runs ] || fail "verify-resume left a run"

# Two phases, killed in both; --json.
wants 0 '"verdict":"ok"' verify "$root/recipes/sft_dpo.lua" --steps 10 --kill-at 4 --kill-at 9 --json

# Pairs of a common prompt that do not fit one micro-batch: the step computes the prompt once.
python3 - >group.jsonl <<'PYTHON'
import json
asked = "which of the many old houses near the river would you like to see today ? " * 8
for i in range(8):
    print(json.dumps({"prompt": asked, "chosen": f"the house {i} .", "rejected": f"none of {i} ."}))
PYTHON
group() {
  "$xrun" "$1" "$root/recipes/dpo.lua" --set model=tiny --set answers=0 --set batch.pairs=4 \
    --set data.1.path=group.jsonl --set max_length=665 --set batch.max_tokens=665 --set epochs=4
}
wants 0 'folds 6.9x: 5,000 tokens computed as 723' group check
grep -q '5,000 tokens in 4 micro-batches' out.txt || { cat out.txt; fail "the group fits"; }
wants 0 'gives the same bits' group verify-resume

# A counter in a local is not restored: the first step that differs is named, and the
# resume as its cause. A clock makes undisturbed runs differ.
sed 's|^for step, batch in.*|local seen = 0\n&\n  seen = seen + 1|; s|run:log(adamw:step(batch, dpo))|adamw:step(batch, dpo) run:log({ seen = seen })|' \
  "$root/recipes/dpo.lua" >counter.lua
wants 1 'step 2: recipe/seen is 3 in the undisturbed run, 1 in the resumed one' \
  verify counter.lua --set answers=0 --kill-at 2
grep -q 'so the resume is at fault' out.txt || { cat out.txt; fail "counter"; }
sed 's|run:log(adamw:step(batch, dpo))|run:log({ clock = os.clock() })\n  &|' \
  "$root/recipes/dpo.lua" >clock.lua
wants 1 'two undisturbed runs differ too' verify clock.lua --set answers=0
[ -z "$(ls -A "$TMPDIR")" ] || fail "verify-resume left $(ls "$TMPDIR")"

# The time of a recipe does not end the runs.
wants 0 'gives the same bits' verify "$root/recipes/dpo.lua" --set answers=0 --set stop.after=0.0001

# A kill after the last save proves nothing, and is not reported as if it did. The run may even end.
verify "$root/recipes/dpo.lua" --set answers=0 --set save.every=100 >out.txt 2>&1 || true
grep -qE 'has no step to repeat|ended before it was killed' out.txt || { cat out.txt; fail "vacuous"; }

# Bad input: a step beyond the run, a recipe that fails, one that trains nothing.
wants 2 '--kill-at 9: the run takes 4 steps' "$xrun" verify-resume nowhere.lua --steps 4 --kill-at 9
wants 2 '--kill-at 3: the run takes 3 steps; wanted a step below 3, or more --steps' verify "$root/recipes/dpo.lua" --set answers=0 --kill-at 3
wants 2 'there is no key `betta`' verify "$root/recipes/dpo.lua" --set betta=1
echo 'print(1)' >none.lua
wants 1 'saves no checkpoint' "$xrun" verify-resume none.lua
wants 2 'wanted a whole number of at least 2' "$xrun" verify-resume none.lua --steps 1
echo 'error("no")' >fails.lua
wants 1 'first run the recipe by itself' "$xrun" verify-resume fails.lua
[ -z "$(ls -A "$TMPDIR")" ] || fail "verify-resume left $(ls "$TMPDIR")"
echo ok
