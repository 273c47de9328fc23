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

# The vocabulary is the tokenizer's, its files are copied, and the seed determines the weights.
is "$(init tiny --tokenizer "$smol")" tiny
for file in tokenizer.json tokenizer_config.json; do
  [ ! -e "$smol/$file" ] || cmp "$smol/$file" "tiny/$file"
done
init again --tokenizer "$smol" >out; cmp tiny/model.safetensors again/model.safetensors
init other --tokenizer "$smol" --seed 1 >out
! cmp -s tiny/model.safetensors other/model.safetensors || fail "the seed changes nothing"
refuses 1 'already exists and is not empty' init tiny --tokenizer "$smol"
refuses 2 'cannot hold them' init b --tokenizer "$smol" --vocab 10
refuses 2 "there is no preset 'huge'" init b --preset huge
refuses 2 'excludes' init b --tied --untied
[ ! -e b ] || fail "a refused folder exists"
# LibTorch's errors are printed without their C++ frames.
refuses 1 "out of memory: " "$xrun" init-model b --tokenizer "$smol" --layers 1 \
  --hidden 1073741824 --ffn 32 --heads 2
! grep -q 'frame #' err || fail "C++ stack frames in the error: $(cat err)"
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

# A bad row is reported in its position, the others are processed, and the status is 1.
printf '{"ids":[1,131]}\n{"ids":"x"}\n{"a":1}\n{\n{"ids":[1,2]}\n' >rows
status=0; "$xrun" score --model "$golden" --json rows >out || status=$?
is $status 1
is "$(sed -n 1p out)" '{"error":"rows:1: the field \"ids\" holds 131, wanted whole numbers '\
'from 0 to 130: the model'"'"'s vocabulary"}'
is "$(sed -n 2p out)" \
  '{"error":"rows:2: the field \"ids\" has type string, wanted an array of token ids"}'
is "$(sed -n 3p out)" '{"error":"rows:3: wanted an object with the field \"ids\" or \"text\""}'
[[ $(sed -n 4p out) == '{"error":"rows:4:'* ]] || fail "$(sed -n 4p out)"
[[ $(sed -n 5p out) == '{"ids":[1,2],"logprobs":[null,-'* ]] || fail "$(sed -n 5p out)"

# Text and ids of the same tokens score alike; fp32 and bf16 do not.
"$xrun" tokenize --tokenizer "$smol" <<<'some words' | sed 's/,"offsets.*/}/' >ids
is "$(echo 'some words' | "$xrun" score --model tiny)" "$("$xrun" score --model tiny --json ids)"
[ "$("$xrun" score --model tiny --json --dtype bf16 ids)" != \
  "$("$xrun" score --model tiny --json ids)" ] ||
  fail "--dtype changes nothing"

# A model without a tokenizer can score only ids.
echo 'hi' >text
status=0; "$xrun" score --model "$golden" text >out || status=$?
is $status 1
grep -q '"error"' out || fail "a text without a tokenizer: $(cat out)"

# Sampling: a continuation of the requested length; only the text without --json.
echo '{"prompt":"some words"}' >prompts
"$xrun" sample --model tiny --json --max-new-tokens 3 prompts >out
grep -q '"finish":"\(length\|stop\)"' out || fail "$(cat out)"
is "$(grep -o '"logprobs":\[[^]]*' out | tr ',' '\n' | wc -l)" \
  "$(grep -o '"ids":\[[^]]*' out | tr ',' '\n' | wc -l)"
is "$(echo 'some words' | "$xrun" sample --model tiny --max-new-tokens 0)" ""
refuses 2 'model is required' "$xrun" sample
refuses 2 'no such folder' "$xrun" score --model nowhere
# At a temperature, score gives the sampler's log-probs, bit for bit in fp32.
echo '{"ids":[5,6,7]}' >prompts
"$xrun" sample --model tiny --json --dtype fp32 --temperature 0.7 --max-new-tokens 5 prompts >drawn
python3 - <<'PYTHON' >whole
import json
print(json.dumps({"ids": [5, 6, 7] + json.load(open("drawn"))["ids"]}))
PYTHON
for temperature in 0.7 1; do
  "$xrun" score --model tiny --json --dtype fp32 --temperature $temperature whole >"at_$temperature"
done
python3 - <<'PYTHON' || fail "--temperature of score"
import json
drawn, near, far = (json.load(open(name))["logprobs"] for name in ("drawn", "at_0.7", "at_1"))
assert near[3:] == drawn, (near, drawn)
assert all(a != b for a, b in zip(near[1:], far[1:])), (near, far)
PYTHON
refuses 2 '--temperature is 0, wanted a number above 0' "$xrun" score --model tiny --temperature 0
printf '{"prompt":""}\n{"prompt":5}\n' >prompts
status=0; "$xrun" sample --model tiny --json prompts >out || status=$?
is $status 1
is "$(grep -c '"error"' out)" 2

# In plain text each row gives one line, whatever its answer contains; a failed row leaves its line
# empty and its error goes to standard error.
# A model of tied random weights repeats its last token: here the newline of "assistant\n".
is "$(echo hi | "$xrun" sample --model tiny --chat --template chatml --max-new-tokens 2 2>err)" \
  '\n\n'
grep -q '^xrun: each line of the input is a conversation of its own' err || fail "$(cat err)"
is "$(printf '\\\n' | "$xrun" sample --model tiny --max-new-tokens 1)" '\\'
printf 'a\n\nb\n' >plain
status=0; "$xrun" sample --model tiny plain --max-new-tokens 20 >out 2>err || status=$?
is "$status $(wc -l <out)" "1 3"
is "$(sed -n 2p out)" ""
grep -q '^xrun: error: plain:2: the prompt is empty' err || fail "$(cat err)"
! grep -q 'error' out || fail "an error among the answers: $(cat out)"

# Options out of range are one error before any model is looked for.
refuses 2 '--top-p is 0, wanted' "$xrun" sample --model nowhere --temperature 1 --top-p 0
refuses 2 '--temperature is -1, wanted' "$xrun" sample --model nowhere --temperature -1
refuses 2 'change nothing at --temperature 0' "$xrun" sample --model nowhere --top-k 5
refuses 2 'a stop string is empty' "$xrun" sample --model nowhere --stop ''
refuses 2 '--samples: got 0' "$xrun" sample --model nowhere --samples 0

# Files that do not match are named, and nothing crashes.
cp -r tiny cut; truncate -s 2000 cut/model.safetensors
refuses 1 'truncated' "$xrun" score --model cut
cp -r tiny wide; sed -i 's/"vocab_size":[0-9]*/"vocab_size":7/' wide/config.json
refuses 1 'misshapen' "$xrun" score --model wide

# Arguments of tool calls that are JSON text are read as objects, as in training.
called() { # ARGUMENTS: the answer to a conversation with a call
  echo '{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"","tool_calls":
    [{"type":"function","function":{"name":"f","arguments":'"$1"'}}]},
    {"role":"tool","content":"3"}]}' | tr -d '\n' |
    "$xrun" sample --model called --template qwen2.5 --json --max-tokens 4 --temperature 0
}
"$xrun" init-model called --tokenizer "$smol" --layers 1 --hidden 32 --heads 2 --ffn 32 \
  --max-length 1024 >/dev/null
called '{"a": 1}' >objects 2>err || fail "$(cat err)"
grep -q logprobs objects || fail "no answer: $(cat objects)"
is "$(called '"{\"a\": 1}"' 2>/dev/null)" "$(cat objects)"
# So are tools that are JSON text.
offered() { # TOOLS: the answer to a conversation with tools
  echo '{"messages":[{"role":"user","content":"hi"}],"tools":'"$1"'}' |
    "$xrun" sample --model called --template qwen2.5 --json --max-tokens 4 --temperature 0
}
offered '[{"name": "f"}]' >objects 2>err || fail "$(cat err)"
is "$(offered '"[{\"name\": \"f\"}]"' 2>/dev/null)" "$(cat objects)"
