#!/usr/bin/env bash
# Every recipe of recipes/ takes one step as a recipe that is not trusted, on a tiny model.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"

cp -r "$root/recipes" recipes
# PATTERN SETTING...: the settings, if the recipe has such a line.
set_if() {
  grep -q -- "$1" "$recipe" || return 0
  for setting in "${@:2}"; do sets+=(--set "$setting"); done
}
for recipe in recipes/*.lua; do
  sets=()
  set_if '^  model *= "' model=tiny
  set_if '^  model *= {' model.layers=1 model.hidden=32 model.heads=2 model.tokenizer=tiny
  set_if '^  teacher *= "' teacher=tiny
  set_if 'xrun\.prompts' template=chatml
  set_if '^  answers ' answers=0
  set_if '^  sampling ' sampling.samples=2 sampling.max_tokens=4
  set_if '^  batch .* pairs = ' batch.pairs=2
  set_if '^  batch .* prompts = ' batch.prompts=2
  set_if '^  batch .* groups = ' batch.groups=1
  set_if '^  batch .* tokens = ' batch.tokens=512
  set_if '^  sft ' sft.steps=1
  name=$(basename "$recipe" .lua)
  wants 0 "steps" "$xrun" "$recipe" --untrusted --steps 1 --threads 1 --run "runs/$name" "${sets[@]}"
  [ -s "runs/$name/metrics.jsonl" ] || fail "$recipe logged nothing"
done

# A folder with the name of the command is not one that the command line names.
mkdir inspect other
cp "$root/tests/data/pairs.jsonl" inspect/
sed 's|path *= *"[^"]*"|path = "inspect/pairs.jsonl"|' recipes/dpo.lua >other/dpo.lua
wants 1 "inspect/pairs.jsonl: may not be read" \
  "$xrun" inspect other/dpo.lua --untrusted --set model=tiny --set batch.pairs=2 --threads 1

# Nor is a file with the name of an option's value.
touch 90
wants 1 "inspect/pairs.jsonl: may not be read" "$xrun" inspect other/dpo.lua --width 90 --untrusted \
  --set model=tiny --set batch.pairs=2 --threads 1
