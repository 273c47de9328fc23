#!/usr/bin/env bash
# kill -9 at 30 random times in a run with several checkpoints: after each resume the metrics
# (except perf/*) and the final weights equal those of the undisturbed run.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"
run() { dpo --set save.every=4 --set steps=44 "$@"; }
began=$(date +%s%N)
run --run whole >/dev/null
took_ms=$((($(date +%s%N) - began) / 1000000))
RANDOM=57
# Starts a run, or resumes it without repeating a setting: its folder has them.
go() { # RUN
  if [ -e "$1/run.json" ]; then
    "$xrun" "$root/recipes/dpo.lua" --run "$1" --resume
  else
    run --run "$1"
  fi
}
# Kills one start of a run at a random time; returns 1 if it had ended before.
kill_once() { # RUN LOG
  go "$1" >"$2" 2>&1 &
  local pid=$! status=0
  sleep "$(awk -v r=$RANDOM -v t=$took_ms \
    'BEGIN {printf "%.3f", (0.05 + 0.45 * r / 32768) * t / 1000}')"
  pkill -9 -P $pid 2>/dev/null || true
  wait $pid 2>/dev/null || status=$?
  [ $status = 137 ]
}
hits=0
for trial in $(seq 1 60); do
  # Up to three kills a trial, so that a resume is killed too.
  for _ in 1 2 3; do
    [ $hits = 30 ] || ! kill_once "run$trial" "log$trial" || hits=$((hits + 1))
  done
  go "run$trial" >"log$trial" 2>&1 ||
    { cat "log$trial"; fail "trial $trial does not resume"; }
  same_run whole "run$trial"
  rm -rf "run$trial"
  [ $hits -lt 30 ] || break
done
echo "$hits kills"
[ $hits = 30 ] || fail "only $hits kills of 180 hit a running process"
