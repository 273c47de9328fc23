#!/usr/bin/env bash
# kill -9 at 30 random moments of a run with several checkpoints: each time resumed, the metrics
# (perf/* aside) and the final weights are those of the undisturbed run.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"
run() { dpo --set save.every=4 --set steps=44 "$@"; }
began=$(date +%s%N)
run --run whole >/dev/null
took_ms=$((($(date +%s%N) - began) / 1000000))
RANDOM=57
kills=0
for trial in $(seq 1 10); do
  # Three kills a trial, at moments spread over the run's own length.
  for kill in 1 2 3; do
    "$xrun" "$root/recipes/dpo.lua" --set model=tiny --set answers=0 --set save.every=4 \
      --set steps=44 --set data.1.path="$root/tests/data/pairs.jsonl" --set batch.pairs=2 \
      --run "run$trial" --resume >"log$trial.$kill" 2>&1 &
    pid=$!
    sleep "$(awk -v r=$RANDOM -v t=$took_ms 'BEGIN {printf "%.3f", (0.05 + 0.45 * r / 32768) * t / 1000}')"
    kill -9 $pid 2>/dev/null && kills=$((kills + 1))
    wait $pid 2>/dev/null || true
  done
  run --run "run$trial" --resume >"log$trial.end" 2>&1 || { cat "log$trial.end"; fail "trial $trial does not resume"; }
  same_run whole "run$trial"
  rm -rf "run$trial"
done
echo "$kills kills"
[ $kills -ge 15 ] || fail "only $kills of 30 kills hit a running process"
