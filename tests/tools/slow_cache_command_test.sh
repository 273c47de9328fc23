#!/usr/bin/env bash
# xrun cache: ls lists a run's caches, verify finds a flipped byte, rm removes the named caches.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"
export XRUN_CACHE=$PWD/store
wants 0 'has no caches' "$xrun" cache ls
"$xrun" cache rm --all # of a store that is not there
cache_dpo() { "$xrun" cache "$root/recipes/dpo.lua" --set model=tiny --set data.1.path="$root/tests/data/pairs.jsonl" "$@"; }
(ulimit -f 1; wants 1 'File too large' cache_dpo) # 1 KiB
cache_dpo >dirs 2>ledger
is "$(wc -l <dirs)" 1
[ -f "$(cat dirs)/manifest.json" ] || fail "no folder on standard output: $(cat dirs)"
grep -q kept ledger || fail "no ledger on standard error: $(cat ledger)"
is "$(cache_dpo --json 2>/dev/null | sed 's/.*"dir":"\([^"]*\)".*/\1/')" "$(cat dirs)"
"$xrun" cache rm --all >/dev/null
dpo --steps 1 --run one >/dev/null
"$xrun" cache ls --json >list
is "$(grep -c '"state":"finished","row_type":"preference"' list)" 1
key=$(sed 's/.*"key":"\([0-9a-f]*\)".*/\1/' list)
wants 0 "${key:0:12}  finished  preference" "$xrun" cache ls
wants 0 'intact' "$xrun" cache verify
wants 0 '"ok":true' "$xrun" cache verify --json "${key:0:8}"
sidecar=$(echo store/columns/*/values.bin) # what the reference computed
cp "$sidecar" values
printf '\377' | dd of="$sidecar" bs=1 seek=50 conv=notrunc 2>/dev/null
wants 1 'values.bin: is damaged at byte 40' "$xrun" cache verify
wants 1 '"name":"reference_logprobs","ok":false' "$xrun" cache verify --json
wants 0 'values.bin: is damaged at byte 40; the values after it are computed again' \
  dpo --run damaged
mv values "$sidecar"
wants 0 'values of reference_logprobs, intact' "$xrun" cache verify
wants 0 "beside the token caches: columns " "$xrun" cache ls
grep -qF "while no run is active: rm -r $PWD/store/columns" out.txt || fail "no way to remove columns: $(cat out.txt)"
shard=store/data/$key/segment_000000.bin
printf '\377' | dd of="$shard" bs=1 seek=$(($(stat -c %s "$shard") - 100)) conv=notrunc 2>/dev/null
wants 1 'segment_000000.bin: page 0 (bytes' "$xrun" cache verify
wants 1 'is damaged' "$xrun" cache verify "store/data/$key"
wants 2 'give keys of caches, or --unfinished or --all' "$xrun" cache rm
wants 2 'with a key that begins with "zebra"' "$xrun" cache rm zebra
touch "store/data/$key/mine"
wants 1 'contains mine, which is not part of a cache' "$xrun" cache rm "$key"
rm "store/data/$key/mine"
"$xrun" cache rm --unfinished
[ -d "store/data/$key" ] || fail "--unfinished removed a finished cache"
wants 0 "/$key" "$xrun" cache rm "${key:0:6}" "$key" # named twice
[ ! -e "store/data/$key" ] || fail "the removed cache still exists"
wants 0 'has no caches' "$xrun" cache ls
mkdir -p store/file_digests
touch store/file_digests/{"$key.json","$key.json.tmp7"} store/file_digests/mine
wants 0 'forgot the digests of data files in' "$xrun" cache rm --all
grep -q 'columns .* while no run is active' out.txt || fail "rm does not say what remains: $(cat out.txt)"
is "$(ls store/file_digests)" mine
rm store/file_digests/mine
"$xrun" cache rm --all
[ ! -e store/file_digests ] || fail "the folder of digests still exists"
