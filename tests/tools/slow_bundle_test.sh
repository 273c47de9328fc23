#!/usr/bin/env bash
# Bundles: what is in them, all commands over them, data and weights that are found or missing.
source "$(dirname "${BASH_SOURCE[0]}")/bundle_fixture.sh"
cd maker

# Without a run there are no first steps.
wants 0 "first steps: none" "$xrun" bundle dpo.lua -o none.xrb
(cd .. && "$xrun" bundle maker/none.lua >/dev/null 2>&1) && fail "a missing recipe was bundled"
cp -r run torn && rm torn/recipe.lua && mkdir torn/recipe.lua
wants 1 "first steps cannot be recorded: recipe.lua cannot be read" "$xrun" bundle dpo.lua --run torn -o torn.xrb
python3 -c 'import zipfile, sys; z = zipfile.ZipFile("whole.xrb"); assert z.testzip() is None; print(*z.namelist())' >names
for member in bundle.json recipe/dpo.lua recipe/base.lua recipe/lib/scale.lua data/1/pairs.jsonl \
  model/tiny/model.safetensors model/tiny/tokenizer.json template/1/chat.jinja; do
  grep -qF "$member" names || fail "the bundle has no $member: $(cat names)"
done

# A run of the bundle, and the commands over both.
cd .. && mkdir other && cp maker/whole.xrb other/dpo.xrb && cd other
export XRUN_CACHE=$work/other_cache
"$xrun" dpo.xrb --run run >/dev/null
wants 0 "is finished" "$xrun" dpo.xrb --run run --resume
wants 0 "everything that it needs is here" "$xrun" verify dpo.xrb
wants 0 "unchanged since the run ended" "$xrun" verify run
wants 2 "is neither a bundle nor the folder of a run" "$xrun" verify run/hf
wants 0 "dpo.xrb/recipe/dpo.lua would train" "$xrun" check dpo.xrb
"$xrun" inspect dpo.xrb --json 2>/dev/null | grep -q '"tokens":' || fail "inspect shows no pack"
wants 0 "replaces 0.001  dpo.xrb/recipe/base.lua:3" "$xrun" explain --where optim.lr dpo.xrb
(cd ../maker && wants 0 "the same recipe and program" "$xrun" diff dpo.lua ../other/dpo.xrb)
wants 0 "bit for bit" "$xrun" diff dpo.xrb run
wants 0 "wrote start/dpo.lua" "$xrun" init start --from dpo.xrb
(cd start && wants 0 "would train" "$xrun" check dpo.lua)
# Settings of a bundle, and paths of a recipe that the new folder lacks, stand in the command.
cp ../maker/pairs.jsonl ../maker/more.jsonl
(cd ../maker && "$xrun" bundle dpo.lua --set data.1.path=more.jsonl --set beta=0.3 --with-data --with-model \
  -o set.xrb >/dev/null)
wants 0 "xrun dpo.lua --set data.1.path=data/1/more.jsonl --set beta=0.3" "$xrun" init settings --from ../maker/set.xrb
(cd settings && wants 0 "would train" "$xrun" check dpo.lua --set data.1.path=data/1/more.jsonl --set beta=0.3)
wants 0 "wrote again/base.lua" "$xrun" init again --from ../maker/dpo.lua
maker=$(cd ../maker && pwd)
grep -q "note: it reads model tiny, .* --set model=$maker/tiny$" out.txt || fail "the model has no setting: $(cat out.txt)"
eval "words=($(sed -n 's/^try it: .* dpo.lua//p' out.txt))"
(cd again && wants 0 "would train" "$xrun" check dpo.lua "${words[@]}")
wants 0 "not compared: this run has other settings (config.beta)" "$xrun" dpo.xrb --run set --set beta=0.2

# A bundle without data and weights: found by digest in the other bundle; else named with the fix.
cp ../maker/dpo.xrb lean.xrb
wants 0 "found by digest: " "$xrun" lean.xrb --run lean
same_run run lean
export XRUN_CACHE=$work/third_cache
wants 2 'data "pairs.jsonl" (6.0 KB, SHA-256 ' "$xrun" lean.xrb --run third
wants 2 'model "tiny"' "$xrun" lean.xrb --run third
grep -q 'to go on: .*xrun lean.xrb --run third --read FOLDER, which has pairs.jsonl and model.safetensors;' out.txt ||
  { cat out.txt; fail "no command that goes on"; }
# Found in the folders of --read. --set names other rows, also where the run continues.
wants 0 "everything that it needs is here" "$xrun" verify lean.xrb --read ../maker
(cd ../maker && wants 2 "lean.xrb --run no --read $PWD/pairs.jsonl --read $PWD/tiny" "$xrun" ../other/lean.xrb --run no)
cp ../maker/pairs.jsonl rows.jsonl && echo >>rows.jsonl
wants 0 "to continue" "$xrun" lean.xrb --run rows --set data.1.path=rows.jsonl --read ../maker --steps 2
wants 0 "resumed rows at step 2" "$xrun" lean.xrb --run rows --resume --read ../maker
wants 0 "to continue" "$xrun" lean.xrb --set data.1.path=rows.jsonl --read ../maker --steps 2
wants 0 "resumed runs/dpo-" "$xrun" lean.xrb --resume --read ../maker
cp ../maker/pairs.jsonl . && cp -r ../maker/tiny .
wants 0 "steps 0 to 3 are the bundle's" "$xrun" lean.xrb --run third

# Other bytes under a name are refused with the field; --force runs and reports.
sed -i 's/Paris/paris/; 1s/"/" /2' pairs.jsonl
wants 2 "data pairs.jsonl" "$xrun" lean.xrb --run fourth
wants 1 "differs: data pairs.jsonl" "$xrun" verify lean.xrb
wants 0 "running by --force" "$xrun" lean.xrb --run fourth --force

# A changed run and a changed bundle are found.
printf ' ' >>run/metrics.jsonl
wants 1 "metrics.jsonl has changed" "$xrun" verify run
python3 - <<'PYTHON'
data = bytearray(open("dpo.xrb", "rb").read())
data[data.index(b"require") + 1] ^= 1
open("broken.xrb", "wb").write(data)
PYTHON
wants 1 "its member recipe/dpo.lua has the SHA-256" "$xrun" verify broken.xrb
wants 2 "there is no such bundle" "$xrun" nowhere.xrb
wants 2 "is a bundle already" "$xrun" bundle dpo.xrb
