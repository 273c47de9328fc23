#!/usr/bin/env bash
# xrun inspect shows the packs that train, in every output form, refuses bad usage and leaves no files.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"
inspect() { "$xrun" inspect "$root/recipes/dpo.lua" --set model=tiny --set answers=0 \
  --set data.1.path="$root/tests/data/pairs.jsonl" --set batch.pairs=2 "$@"; }

inspect --json --step 3 >packs.jsonl 2>err || { cat err; fail "exit $?"; }
python3 - <<'PYTHON'
import json
pairs = set()
for line in open("packs.jsonl"):
    pack = json.loads(line)
    tokens = len(pack["tokens"])
    assert pack["step"] == 3 and tokens > 0
    for field in ("labels", "position_ids", "weights"):
        assert len(pack[field]) == tokens, field
    assert pack["cu_seqlens"][0] == 0 and pack["cu_seqlens"][-1] == tokens
    assert len(pack["rows"]) == len(pack["cu_seqlens"]) - 1
    for t in range(tokens):
        assert (pack["labels"][t] == -100) == (pack["weights"][t] == 0)
        assert pack["labels"][t] in (-100, pack["tokens"][t])
    for s, row in enumerate(pack["rows"]):
        assert row["file"].endswith("tests/data/pairs.jsonl") and row["line"] >= 1
        assert pack["position_ids"][pack["cu_seqlens"][s]] == 0
        assert (row["pair"], row["side"]) not in pairs
        pairs.add((row["pair"], row["side"]))
assert {side for _, side in pairs} == {"chosen", "rejected"} and len(pairs) == 4, pairs
PYTHON
[ ! -e runs ] || fail "inspect left a run"

inspect --color never --width 60 >narrow 2>/dev/null
grep -q '^pair 0 · ' narrow || fail "no pair: $(cat narrow)"
grep -q 'tests/data/pairs.jsonl:[0-9]' narrow || fail "no file and line: $(cat narrow)"
! grep -q $'\x1b' narrow || fail "colours were not asked for"
TERM=xterm-256color inspect --color always >colors 2>/dev/null
grep -q '48;5;' colors || fail "no 256 colours"
TERM=linux COLORTERM= inspect --color always >colors 2>/dev/null
grep -q $'\x1b\\[30;42m' colors || fail "no 16 colours"
COLUMNS=20 inspect 2>/dev/null | python3 -c '
import sys
for line in sys.stdin:
    assert len(line.rstrip("\n")) <= 20, line'
is_rows() { [ "$(inspect --rows 1 2>/dev/null | grep -c '^pair ')" = 1 ] || fail "--rows 1 shows more"; }
is_rows
inspect --html page.html >out 2>/dev/null
[ ! -s out ] || fail "text was printed beside the page"
grep -q '</html>' page.html || fail "no page"

wants 2 '--step 400 is beyond the last step: the recipe has' inspect --step 400
mv tiny/model.safetensors weights
wants 2 '--step 999 is beyond the last step: the recipe has' inspect --step 999
mv weights tiny/model.safetensors
wants 2 'wanted' inspect --step -1
wants 2 'give --html a file' inspect --html - --json
printf 'local xrun = require "xrun"\nlocal cfg = xrun.config { model = "tiny" }\n' >noloop.lua
wants 2 'noloop.lua:2: the recipe ends without a loop' "$xrun" inspect noloop.lua
printf 'local xrun = require "xrun"\nlocal x = nil\nx.y = 1\n' >broken.lua
wants 1 'broken.lua:3' "$xrun" inspect broken.lua
wants 2 'there is no such file' "$xrun" inspect nowhere.lua

cp "$root/tests/data/pairs.jsonl" rows.jsonl

# Control characters of a row are shown and do not move the cursor.
head -20 "$root/tests/data/pairs.jsonl" >hostile.jsonl
printf '{"\\u001b]0;owned\\u0007\\u001b[2Jfoo":1}\n' >>hostile.jsonl
hostile() { # STATUS COMMAND...: says what the row has, without its escapes
  wants "$1" 'owned' "${@:2}" --set model=tiny --set data.1.path=hostile.jsonl
  ! grep -q $'[\x1b\x07]' out.txt || fail "a row's escapes reach the terminal: ${*:2}"
}
hostile 1 "$xrun" inspect "$root/recipes/dpo.lua" --set strict=true
hostile 0 "$xrun" "$root/recipes/dpo.lua" --set answers=0 --set steps=1 --set batch.pairs=2

# A row that the recipe's own functions changed is traced through them.
cat >mapped.lua <<'LUA'
local xrun = require "xrun"
local cfg = xrun.config {
  model = "tiny", data = { { path = "rows.jsonl" } }, optim = { lr = 1e-3 },
  batch = { pairs = 2, max_tokens = 600 }, steps = 3,
}
local policy = xrun.policy(cfg.model)
local data = xrun.preference(cfg.data, policy, {
  map = function(row)
    if type(row.prompt) == "string" then row.prompt = row.prompt .. " Please." end
    return row
  end,
  filter = function(row) return row.prompt ~= nil end,
})
local adamw = xrun.adamw(policy, cfg.optim)
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for _, batch in run:steps(data, cfg.batch) do
  run:log(adamw:step(batch, function(p) return -policy:logprob(p.chosen) end))
end
LUA
"$xrun" inspect mapped.lua --width 200 >mapped 2>err || fail "$(cat err)"
grep -q 'Please' mapped || fail "the words of the map are missing: $(cat mapped)"
grep -q '^ *0 user ' mapped || fail "no roles: $(cat mapped)"
grep -q 'dropped: filter' mapped || fail "the filtered rows are not reported: $(tail -3 mapped)"

# The second loop's steps continue the count of the first.
phases() { (cd "$root" && "$xrun" inspect recipes/sft_dpo.lua --set model="$work/tiny" --rows 1 "$@"); }
phases --step 7 >first 2>err || fail "$(cat err)"
grep -q '8 sequences' first || fail "no sequences in the first loop: $(head -3 first)"
phases --step 8 >second 2>err || fail "$(cat err)"
grep -q '8 pairs' second || fail "no pairs in the second loop: $(head -3 second)"
