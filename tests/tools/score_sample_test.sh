#!/usr/bin/env bash
# xrun init-model, score and sample: rows in and out, bad rows, refusals with their exit status.
set -euo pipefail
xrun=${XRUN_BUILD:?}/bin/xrun
golden=${XRUN_ROOT:?}/tests/golden/models/untied
smol=$XRUN_ROOT/tests/data/tokenizers/smol
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

source "$XRUN_ROOT/tests/tools/checks.sh"
init() { "$xrun" init-model "$@" --layers 1 --hidden 32 --heads 2 --ffn 32 --max-length 64; }

# The vocabulary is the tokenizer's own, its files travel, the seed decides the weights.
is "$(init tiny --tokenizer "$smol")" tiny
for file in tokenizer.json tokenizer_config.json; do
  [ ! -e "$smol/$file" ] || cmp "$smol/$file" "tiny/$file"
done
init again --tokenizer "$smol" >out; cmp tiny/model.safetensors again/model.safetensors
init other --tokenizer "$smol" --seed 1 >out
! cmp -s tiny/model.safetensors other/model.safetensors || fail "the seed changes nothing"
refuses 1 'exists already and is not empty' init tiny --tokenizer "$smol"
refuses 2 'cannot hold them' init b --tokenizer "$smol" --vocab 10
refuses 2 "there is no preset 'huge'" init b --preset huge
refuses 2 'excludes' init b --tied --untied
[ ! -e b ] || fail "a refused folder exists"
# Files of a clone without Git LFS.
echo 'a word' >word
for file in config.json model.safetensors; do
  rm -rf clone; cp -r tiny clone
  printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n' >"clone/$file"
  refuses 1 "clone/$file: is a Git LFS pointer" "$xrun" score --model clone word
done
cp "clone/$file" clone/tokenizer.json
refuses 1 "clone/tokenizer.json: is a Git LFS pointer" "$xrun" tokenize --tokenizer clone word

# Ids need no tokenizer; the first token has no log-probability; order is kept.
printf '{"ids":[5,6,7]}\n\n{"ids":[9]}\n{"ids":[]}\n' >rows
"$xrun" score --model "$golden" --json rows >out
is "$(sed -n 1p out | cut -c1-33)" '{"ids":[5,6,7],"logprobs":[null,-'
is "$(sed -n 2p out)" '{"ids":[9],"logprobs":[null]}'
is "$(sed -n 3p out)" '{"ids":[],"logprobs":[]}'

# A bad row is said in its place, the others go on, and the status tells.
printf '{"ids":[1,131]}\n{"ids":"x"}\n{"a":1}\n{\n{"ids":[1,2]}\n' >rows
status=0; "$xrun" score --model "$golden" --json rows >out || status=$?
is $status 1
is "$(sed -n 1p out)" '{"error":"rows:1: the field \"ids\" holds 131, wanted whole numbers '\
'from 0 to 130: the model'"'"'s vocabulary"}'
is "$(sed -n 2p out)" \
  '{"error":"rows:2: the field \"ids\" is of kind string, wanted an array of token ids"}'
is "$(sed -n 3p out)" '{"error":"rows:3: wanted an object with the field \"ids\" or \"text\""}'
[[ $(sed -n 4p out) == '{"error":"rows:4:'* ]] || fail "$(sed -n 4p out)"
[[ $(sed -n 5p out) == '{"ids":[1,2],"logprobs":[null,-'* ]] || fail "$(sed -n 5p out)"

# Text and ids of the same tokens score alike; fp32 and bf16 do not.
"$xrun" tokenize --tokenizer "$smol" <<<'some words' | sed 's/,"offsets.*/}/' >ids
is "$(echo 'some words' | "$xrun" score --model tiny)" "$("$xrun" score --model tiny --json ids)"
[ "$("$xrun" score --model tiny --json --dtype bf16 ids)" != \
  "$("$xrun" score --model tiny --json ids)" ] ||
  fail "--dtype changes nothing"

# A model without a tokenizer can score ids and nothing else.
echo 'hi' >text
status=0; "$xrun" score --model "$golden" text >out || status=$?
is $status 1
grep -q '"error"' out || fail "a text without a tokenizer: $(cat out)"

# Sampling: a continuation of the asked length, the text alone without --json.
echo '{"prompt":"some words"}' >prompts
"$xrun" sample --model tiny --json --max-new-tokens 3 prompts >out
grep -q '"finish":"\(length\|stop\)"' out || fail "$(cat out)"
is "$(grep -o '"logprobs":\[[^]]*' out | tr ',' '\n' | wc -l)" \
  "$(grep -o '"ids":\[[^]]*' out | tr ',' '\n' | wc -l)"
is "$(echo 'some words' | "$xrun" sample --model tiny --max-new-tokens 0)" ""
refuses 2 'model is required' "$xrun" sample
refuses 2 'no such folder' "$xrun" score --model nowhere
printf '{"prompt":""}\n{"prompt":5}\n' >prompts
status=0; "$xrun" sample --model tiny --json prompts >out || status=$?
is $status 1
is "$(grep -c '"error"' out)" 2

# In plain text a row is a line, whatever its answer holds; what failed is on standard error and
# leaves its line empty.
# A model of tied random weights says its last token again: here the newline of "assistant\n".
is "$(echo hi | "$xrun" sample --model tiny --chat --template chatml --max-new-tokens 2 2>err)" \
  '\n\n'
is "$(printf '\\\n' | "$xrun" sample --model tiny --max-new-tokens 1)" '\\'
printf 'a\n\nb\n' >plain
status=0; "$xrun" sample --model tiny plain --max-new-tokens 20 >out 2>err || status=$?
is "$status $(wc -l <out)" "1 3"
is "$(sed -n 2p out)" ""
grep -q '^xrun: error: plain:2: the prompt is empty' err || fail "$(cat err)"
! grep -q 'error' out || fail "an error among the answers: $(cat out)"

# Drawn tokens: the seed and the row's number decide, whatever the other rows are.
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

# A stop string ends the text before it, the ids behind it.
echo '{"prompt":"some words"}' >one
whole=$(draw --json one | grep -o '"text":"[^"]*')
letter=$(cut -c9- <<<"$whole" | grep -o '[a-z]' | head -1)
draw --json --stop "$letter" --stop '%%%' one >out
grep -q '"finish":"stop_string"' out || fail "no stop at $letter: $(cat out)"
is "$(grep -o '"text":"[^"]*' out)" "${whole%%"$letter"*}"

# Options out of range are one error before any model is looked for; the rate is said if asked for.
refuses 2 '--top-p is 0, wanted' "$xrun" sample --model nowhere --temperature 1 --top-p 0
refuses 2 '--temperature is -1, wanted' "$xrun" sample --model nowhere --temperature -1
refuses 2 'change nothing at --temperature 0' "$xrun" sample --model nowhere --top-k 5
refuses 2 'a stop string is empty' "$xrun" sample --model nowhere --stop ''
refuses 2 '--samples: got 0' "$xrun" sample --model nowhere --samples 0
draw --rate two 2>&1 >out | grep -q 'xrun: .* new tokens in .* tokens/s' || fail "no rate"

# A conversation goes through the template that is named.
echo '{"messages":[{"role":"user","content":"hi"}]}' >chat
"$xrun" sample --model tiny --json --template chatml --max-new-tokens 2 chat >out 2>err
grep -q '"ids":\[' out || fail "$(cat out err)"

# The folder of an adapter is its base under it: not the base's answers, but the merged model's.
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

# Files that do not fit are named, and nothing crashes.
cp -r tiny cut; truncate -s 2000 cut/model.safetensors
refuses 1 'truncated' "$xrun" score --model cut
cp -r tiny wide; sed -i 's/"vocab_size":[0-9]*/"vocab_size":7/' wide/config.json
refuses 1 'misshapen' "$xrun" score --model wide
