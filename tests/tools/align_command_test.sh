#!/usr/bin/env bash
# xrun align: pairs of texts and of ids, bad rows, the quality report, equal tokenizers.
set -euo pipefail
xrun=${XRUN_BUILD:?}/bin/xrun
tokenizers=${XRUN_ROOT:?}/tests/data/tokenizers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

source "$XRUN_ROOT/tests/tools/checks.sh"

bytes=$XRUN_ROOT/tests/data/tiny_tokenizer
align() { "$xrun" align --student "$bytes" --teacher "$tokenizers/smol" "$@"; }

# A plain line is a row; texts have no BOS unless asked for.
is "$(echo '!!' | align | sed 's/.*"pairs"/"pairs"/')" '"pairs":[[0,1,0,1,true],[1,2,1,2,true]]}'
is "$(echo '{"text":"a"}' | align --json)" "$(echo a | align)"
is "$(echo | align)" '{"student_ids":[],"teacher_ids":[],"pairs":[]}'
is "$(echo '{"text":"你"}' | align --report --json | cut -c1-33)" '{"documents":1,"student_tokens":3'

# Ids: the same pairs as those of the text; 32 and 33 spell " !" in bytes.
ids=$(echo '!' | "$xrun" tokenize --tokenizer "$tokenizers/smol" | sed 's/.*"ids":\(\[[0-9,]*\]\).*/\1/')
is "$(echo "{\"student_ids\":[33],\"teacher_ids\":$ids}" | align --json)" \
  "{\"student_ids\":[33],\"teacher_ids\":$ids,\"pairs\":[[0,1,0,1,true]]}"
is "$(echo "{\"student_ids\":[34],\"teacher_ids\":$ids}" | align --json 2>err)" \
  "{\"student_ids\":[34],\"teacher_ids\":$ids,\"pairs\":[[0,1,0,1,false]],\"differs_at\":0}"
grep -q 'the ids of 1 row spell different texts' err || fail "got $(cat err)"
grep -q 'warning: <stdin>: only 0.00 % of 1 student token' err || fail "got $(cat err)"

# A bad row is reported in its position, the others are processed, and the status is 1.
printf '{"text":"!"}\n{"txt":1}\n{"student_ids":[1]}\n{"text":2}\n{"student_ids":[-1],"teacher_ids":[]}\n\n{"text":"!"}\n' >rows
status=0; align --json rows >out || status=$?
is $status 1
is "$(wc -l <out)" 6
is "$(sed -n 2p out)" \
  '{"error":"rows:2: wanted an object with the field \"text\", or with \"student_ids\" and \"teacher_ids\""}'
is "$(sed -n 3p out)" '{"error":"rows:3: wanted an object with the field \"teacher_ids\""}'
is "$(sed -n 4p out)" '{"error":"rows:4: the field \"text\" has type integer, wanted a string"}'
is "$(sed -n 5p out)" '{"error":"rows:5: \"student_ids\"[0] is -1, wanted an id"}'
is "$(sed -n 6p out)" "$(sed -n 1p out)"

# Text and ids in one row, and options that --dp does not read, are refused.
status=0; echo '{"text":"!","student_ids":[1],"teacher_ids":[1]}' | align --json >out || status=$?
is $status 1
grep -q 'with \\"student_ids\\" and \\"teacher_ids\\"; got both"' out || fail "got $(cat out)"
status=0; echo '!' | align --dp --max-span 2 2>err || status=$?
is $status 2
status=0; echo '!' | align --max-span 0 2>err || status=$?
is $status 2
grep -q 'max-span: .* wanted a whole number of at least 1' err || fail "got $(cat err)"

# NeMo-RL's aligner compares strings: it finds no pair for a character that one side spells in bytes.
is "$(echo '!!' | align --dp)" "$(echo '!!' | align)"
is "$(echo '你' | "$xrun" align --student "$bytes" --teacher "$tokenizers/sp_bpe" --dp --report 2>err |
  grep -o '^coverage [0-9.]*')" "coverage 0.0000"
is "$(echo '你' | "$xrun" align --student "$bytes" --teacher "$tokenizers/sp_bpe" --report 2>err |
  grep -o '^coverage [0-9.]*')" "coverage 1.0000"

# Bytes that are not UTF-8 are aligned by their offsets, and counted.
is "$(printf 'a\xff\xfeb\n' | align --report 2>err | grep -o '^coverage [0-9.]*')" "coverage 1.0000"
grep -q '<stdin>: 2 bytes of 1 row are not UTF-8, the first in the row of line 1;' err || fail "got $(cat err)"

# The report.
printf 'one\ntwo words\n' | align --report >out
is "$(head -n 1 out | cut -d: -f1)" "2 documents"
# A .txt file has a row between blank lines, as in training.
printf 'one\ntwo\n\nthree\n' >rows.txt
is "$(align --report rows.txt | head -n 1 | cut -d: -f1)" "2 documents"
is "$(align rows.txt | wc -l)" 4
grep -q '^coverage 1.0000 of the student, 1.0000 of the teacher; 0 student tokens lose supervision$' out ||
  fail "got $(cat out)"

# Without a good row there is no coverage.
status=0; echo '{}' | align --report --json >out 2>err || status=$?
is $status 1
grep -q '"coverage":null' out || fail "got $(cat out)"

# Equal tokenizers are recognised, in whatever folder; --specials adds BOS.
cp -r "$tokenizers/llama2" copy
same() { "$xrun" align --student "$tokenizers/llama2" --teacher copy "$@"; }
is "$(echo a | same --specials 2>err | sed 's/.*"pairs"/"pairs"/')" \
  '"pairs":[[0,1,0,1,true],[1,2,1,2,true],[2,3,2,3,true]]}'
grep -q 'student and teacher have the same vocabulary' err || fail "got $(cat err)"

refuses 2 'student is required' "$xrun" align --teacher copy
refuses 1 '<stdin>: is empty; a report needs a text' align --report
refuses 2 'tokenizer "nowhere": there is no such folder' "$xrun" align --student copy --teacher nowhere
refuses 1 'missing: cannot be opened' same missing
[[ $("$xrun" align --help) == *--report* ]] || fail "align --help"
