#!/usr/bin/env bash
# Every recipe of tests/hostile in a process of its own, with short limits; signals, statuses and
# limits of the child.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"

python3 "$root/tests/tools/hostile.py" "$xrun" "$work" alone 2
mkdir trusted && cp -r tiny trusted/
python3 "$root/tests/tools/hostile.py" "$xrun" "$work/trusted" trusted 2

limited() { dpo --untrusted "$@"; }
# In the background, where the pid must be that of the program.
start_limited() {
  "$xrun" "$root/recipes/dpo.lua" --untrusted --set model=tiny --set answers=0 --set steps=100000 \
    --set data.1.path="$root/tests/data/pairs.jsonl" --set batch.pairs=2 --run "$1" >log 2>&1 &
  pid=$!
  until [ -s "$1/metrics.jsonl" ]; do sleep 0.1; done
}
# The same bits, with and without limits.
dpo --run free >/dev/null
limited --run limited >/dev/null
same_run free limited
# A signal to the parent saves as it does without limits; the status is the child's.
start_limited stopped
kill -TERM $pid
status=0; wait $pid || status=$?
[ $status = 143 ] || fail "SIGTERM gave status $status: $(cat log)"
grep -q "saved in stopped" log || fail "SIGTERM did not save: $(cat log)"
# The death of the parent is the end of the child.
start_limited killed
child=$(cat /proc/$pid/task/$pid/children)
kill -KILL $pid
for _ in $(seq 50); do [ -d "/proc/${child% }" ] || break; sleep 0.1; done
[ ! -d "/proc/${child% }" ] || fail "the child outlived its parent"
# Time, files.
wants 2 "--limit-seconds limits recipes that are not trusted; add --untrusted" \
  dpo --run unlimited --limit-seconds 3
wants 1 "the recipe ran longer than --limit-seconds 3" limited --set steps=100000 --run time --limit-seconds 3
ls time/checkpoints >/dev/null || fail "the end by time did not save"
wants 1 "--limit-files" limited --set steps=100000 --set save.every=1 --set save.keep=1000 --run files --limit-files 4

# Bundles. Their recipes run with limits, and say so.
mkdir -p made && cp "$root/tests/data/pairs.jsonl" outside/pairs.jsonl
cp -r tiny made/ && cd made
sed "s|recipes/data/preferences.jsonl|$work/outside/pairs.jsonl|" "$root/recipes/dpo.lua" >reads.lua
echo 'local xrun = require "xrun"
local cfg = xrun.config { answers = 1 }
print(cfg.answers, io.open("/etc/passwd"))' >opens.lua
"$xrun" bundle reads.lua --set model=tiny -o reads.xrb >/dev/null
"$xrun" bundle opens.lua -o opens.xrb >/dev/null
wants 2 "may not read it" "$xrun" reads.xrb --run one
grep -q "to go on: .*reads.xrb --run one --read $work/outside/pairs.jsonl" out.txt || { cat out.txt; fail "no command that goes on"; }
wants 0 "not trusted, so it runs with limits" "$xrun" reads.xrb --run two --read ../outside \
  --set steps=2 --set batch.pairs=2 --set answers=0
wants 1 "is not for a recipe that is not trusted" "$xrun" opens.xrb
wants 2 "is not for a recipe that is not trusted" "$xrun" check opens.xrb
wants 0 "1" "$xrun" opens.xrb --trusted
# A file that is no bundle ends in a message, at once and whatever its size.
truncate -s 1T bomb.xrb
mkdir folder.xrb && mkfifo pipe.xrb && ln -s /dev/zero device.xrb
python3 - <<'PYTHON'
import zipfile
def bundle(name, lock):
    with zipfile.ZipFile(name, "w") as z: z.writestr("bundle.json", lock)
bundle("deep.xrb", "[" * 1000000)
bundle("long.xrb", '{"members": "' + "x" * 10000000 + '"}')
bundle("number.xrb", '{"format": 1e999999}')
PYTHON
for file in bomb folder pipe device deep long number; do
  for command in "" check verify "explain --where beta"; do
    status=0
    timeout 60 "$xrun" $command $file.xrb >out.txt 2>&1 </dev/null || status=$?
    [ $status = 1 ] || [ $status = 2 ] || { cat out.txt; fail "$command $file.xrb: status $status"; }
    grep -q "xrun: error: " out.txt || { cat out.txt; fail "$command $file.xrb: no message"; }
  done
done
