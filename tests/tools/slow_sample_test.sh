#!/usr/bin/env bash
# xrun sample with drawn tokens, stop strings and conversations; score and sample of an adapter.
set -euo pipefail
xrun=${XRUN_BUILD:?}/bin/xrun
smol=${XRUN_ROOT:?}/tests/data/tokenizers/smol
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export XRUN_CACHE=$work/cache

source "$XRUN_ROOT/tests/tools/checks.sh"
"$xrun" init-model tiny --tokenizer "$smol" --layers 1 --hidden 32 --heads 2 --ffn 32 \
  --max-length 64 >out

# Drawn tokens depend on the seed and the row's number, not on the other rows.
draw() { "$xrun" sample --model tiny --temperature 1 --max-new-tokens 12 "$@" | tr -d '\0'; }
printf 'a\nsome words\nb c\n' >three
printf 'quite another row\nsome words\n' >two
is "$(draw three)" "$(draw three --batch 1)"
is "$(draw three | sed -n 2p)" "$(draw two | sed -n 2p)"
[ "$(draw three)" != "$(draw three --seed 1)" ] || fail "the seed changes nothing"
greedy=$("$xrun" sample --model tiny --max-new-tokens 12 three)
[ "$(draw three)" != "$greedy" ] || fail "the temperature changes nothing"
for option in '--top-k 1' '--top-p 1e-9' '--min-p 1'; do
  # shellcheck disable=SC2086
  is "$(draw $option three)" "$greedy"
done
printf '{"prompt":"a"}\n{"ids":[5,6]}\n' >rows
draw --json --samples 2 --top-k 50 rows >out
is "$(wc -l <out)" 4
is "$(grep -c '"logprobs_kept":\[-.*"sample":[01]' out)" 4
is "$(sed -n 4p out | grep -o '"sample":.')" '"sample":1'

# A stop string ends the text before it and the ids after it.
echo '{"prompt":"some words"}' >one
whole=$(draw --json one | grep -o '"text":"[^"]*')
letter=$(cut -c9- <<<"$whole" | grep -o '[a-z]' | head -1)
draw --json --stop "$letter" --stop '%%%' one >out
grep -q '"finish":"stop_string"' out || fail "no stop at $letter: $(cat out)"
is "$(grep -o '"text":"[^"]*' out)" "${whole%%"$letter"*}"
# --rate prints the rate.
draw --rate two 2>&1 >out | grep -q 'xrun: .* new tokens in .* tokens/s' || fail "no rate"

# Rows of JSON without --json are continued as text, and a note says so once.
"$xrun" sample --model tiny --max-new-tokens 2 rows >out 2>err
is "$(wc -l <out)" 2
is "$(cat err)" 'xrun: note: rows:1: this row looks like JSON but is continued as text; --json reads it'
for words in '{"answer":"a"}' '{ no JSON' 'some words'; do
  "$xrun" sample --model tiny --max-new-tokens 2 <<<"$words" >out 2>err
  [ ! -s err ] || fail "a note on $words: $(cat err)"
done
# A model with a chat template continues plain prompts, and a note says once how to chat.
"$xrun" init-model chats --tokenizer "$XRUN_ROOT/tests/data/tiny_tokenizer" --layers 1 \
  --hidden 32 --heads 2 --ffn 32 >out
"$xrun" sample --model chats --max-new-tokens 2 two >out 2>err
is "$(cat err)" 'xrun: note: chats has a chat template, but its prompts are continued as plain text; '\
'--chat makes each one a user message, --json takes {"messages": [...]}'
for option in --chat --json; do
  "$xrun" sample --model chats --max-new-tokens 2 $option one >out 2>err || true
  ! grep -q 'has a chat template' err || fail "a note with $option: $(cat err)"
done
# --max-tokens is another name of --max-new-tokens.
"$xrun" sample --model tiny --json --ignore-eos --max-tokens 3 one >out
is "$(grep -o '"ids":\[[0-9,]*' out | tr -d -c , | wc -c)" 2

# A conversation uses the named template.
echo '{"messages":[{"role":"user","content":"hi"}]}' >chat
"$xrun" sample --model tiny --json --template chatml --max-new-tokens 2 chat >out 2>err
grep -q '"ids":\[' out || fail "$(cat out err)"
# A part of a row that the template does not render is noted.
echo '{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"a",
"reasoning_content":"thought"},{"role":"user","content":"hi"}]}' | tr -d '\n' >chat
"$xrun" sample --model tiny --json --template chatml --max-new-tokens 2 chat >out 2>err
grep -qF 'note: chat:1: LOST: the template leaves out the reasoning of earlier turns' err ||
  fail "$(cat err)"

# An adapter's folder gives the answers of the merged model, not of its base.
"$xrun" init-model base --tokenizer "$XRUN_ROOT/tests/data/tiny_tokenizer" --layers 1 --hidden 32 \
  --heads 2 --ffn 32 >out
"$xrun" "$XRUN_ROOT/recipes/dpo_lora.lua" --set model=base --run r --steps 3 --set optim.lr=0.05 \
  --set data.1.path="$XRUN_ROOT/tests/data/pairs.jsonl" >out
printf '{"ids":[5,6,7,8,9]}\n{"ids":[40,41,42]}\n' >rows
scores() { "$xrun" score --model "$1" --json rows | grep -o '\-[0-9.e-]*'; }
[ "$(scores base | wc -l)" = 6 ] || fail "scores: $(scores base)"
furthest() { # FOLDER: the largest difference of its scores from the adapter's
  paste <(scores "$1") <(scores r/hf/adapter) |
    awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > m) m = d } END { print (m < 1e-5) }'
}
is "$(furthest r/hf) $(furthest base)" "1 0"
say() { echo 'some words' | "$xrun" sample --model "$1" --max-new-tokens 8 | tr -d '\0'; }
is "$(say r/hf/adapter)" "$(say r/hf)"
mv base elsewhere
refuses 2 'r/hf/adapter: base_model_name_or_path of adapter_config.json: ' \
  "$xrun" score --model r/hf/adapter rows
