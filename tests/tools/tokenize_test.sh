#!/usr/bin/env bash
# xrun tokenize and the behaviour of the executable: rows, exit status, messages, start-up time.
set -euo pipefail
xrun=${XRUN_BUILD:?}/bin/xrun
tokenizers=${XRUN_ROOT:?}/tests/data/tokenizers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

source "$XRUN_ROOT/tests/tools/checks.sh"

tokenize() { "$xrun" tokenize --tokenizer "$tokenizers/smol" "$@"; }

# A plain line is a row; a last line needs no newline; an empty line is a row without tokens.
is "$(printf 'a\n\nb<|im_end|>' | tokenize --count | tr '\n' ' ')" "1 0 8 "
is "$(printf 'ab' | tokenize --json 2>&1)" \
  '{"error":"<stdin>:1:1: is not valid JSON: expected a value"}'
is "$(printf '\n{"text":"!\\u00e9"}\n' | tokenize --json)" '{"ids":[3,130,105],"offsets":[[0,1],[1,2],[2,3]]}'

# - is standard input; a byte order mark before JSON is skipped, UTF-16 is named.
is "$(echo a | tokenize --count -)" 1
is "$(printf '\xef\xbb\xbf{"text":"!"}\n' | tokenize --json --count)" 1
printf '\xff\xfe{\0' | tokenize --json >out || true
grep -q 'it is UTF-16, wanted UTF-8' out || fail "UTF-16 is called $(cat out)"

# A bad row is reported in its position, the others are processed, and the status is 1.
printf '{"text":"!"}\n{"txt":1}\n{"text":"!!"}\n' >rows
status=0; tokenize --json --count rows >out || status=$?
is $status 1
is "$(sed -n 2p out)" '{"error":"rows:2: wanted an object with the field \"text\""}'
is "$(sed -n '1p;3p' out | tr '\n' ' ')" "1 2 "

printf 'a\xff\n' | tokenize >out 2>err
grep -q '<stdin>: 1 byte of 1 line is not UTF-8; each invalid' err || fail "got $(cat err)"

# JSON without --json is a text; the command says so once.
refuses 0 'xrun: note: rows:1: this row looks like JSON but is tokenized as text; --json reads it' \
  tokenize --count rows
is "$(printf '{ braces }\n{"a":1}\n' | tokenize --count 2>&1 | wc -l)" 2

# --specials adds the post-processor's tokens.
is "$(echo hi | "$xrun" tokenize --tokenizer "$tokenizers/llama2" --specials | cut -c1-9)" '{"ids":[1'

refuses 2 'tokenizer is required' "$xrun" tokenize
refuses 2 'did you mean tokenize?' "$xrun" tokenise
refuses 2 'there is no command' "$xrun" xyzzy
refuses 2 'tokenizer "nowhere": there is no such folder' "$xrun" tokenize --tokenizer nowhere

# --tokenizer takes the names of --model: a repository of the Hugging Face cache.
snapshot=hub/models--org--tiny/snapshots/abc
mkdir -p "$snapshot" hub/models--org--tiny/refs
cp "$tokenizers/smol/"* "$snapshot"
echo '{}' >"$snapshot/config.json"
printf abc >hub/models--org--tiny/refs/main
is "$(echo a | HF_HUB_CACHE=$PWD/hub "$xrun" tokenize --tokenizer org/tiny --count)" 1
is "$(echo '{"messages": []}' | HF_HUB_CACHE=$PWD/hub "$xrun" render --tokenizer org/tiny --template chatml)" ""
refuses 1 'missing: cannot be opened' tokenize missing
[[ $("$xrun" help) == *tokenize* ]] || fail "help does not name tokenize"
[[ $("$xrun" --version) == "xrun "[0-9]* ]] || fail "--version"
[[ $("$xrun" tokenize --help) == *--count* ]] || fail "tokenize --help"

# A reader that closes the pipe causes no error message; a full disk does.
for ((i = 0; i < 20000; ++i)); do echo 'some words'; done >many
tokenize many 2>err | head -1 >out || true
[ ! -s err ] || fail "a closed pipe says: $(cat err)"
if [ -c /dev/full ]; then
  status=0; tokenize many >/dev/full 2>err || status=$?
  is $status 1
  grep -q 'No space left' err || fail "a full disk says: $(cat err)"
fi

# Start-up with public vocabularies of 32,000 to 151,643 pieces, if they are available, takes at most
# 30 ms of CPU time (the tests share the machine), the best of ten.
data=${XRUN_TEST_DATA:-$XRUN_ROOT/../shared/data}
: >empty
TIMEFORMAT='%U %S'
for folder in "$tokenizers/smol" "$data"/tokenizers/{gpt2,llama2,qwen} \
  "${XRUN_CACHE:-$HOME/.cache/xrun}/models/smollm2-135m-instruct"; do
  [ -d "$folder" ] || continue
  best=1000
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    took=$({ time "$xrun" tokenize --tokenizer "$folder" empty >out; } 2>&1 |
      awk '{ print int(1000 * ($1 + $2)) }')
    [ "$took" -ge $best ] || best=$took
  done
  [ ! -s out ] || fail "an empty file has rows"
  [ $best -lt 30 ] || fail "$folder: an empty file takes $best ms, wanted less than 30"
done

# An id that does not exist is an error of its row.
echo '{"ids":[999999]}' >unknown
status=0; tokenize --decode unknown >out || status=$?
is $status 1
grep -q '"error":".*id 999999, the tokenizer has' out || fail "no error in the row: $(cat out)"
