#!/usr/bin/env bash
# kill -9 at 30 random times in a run with several checkpoints: after each resume the metrics
# (except perf/*) and the final weights equal those of the undisturbed run. Every second run folds its
# shared prefixes, and its run.json says so as that of the undisturbed run does.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"
run() { dpo --set save.every=4 --set steps=44 --set batch.fold_min=1 "$@"; }
run --set batch.fold=true --run folded >folded.log
grep -q '^ *folds .* tokens computed as ' folded.log ||
  { cat folded.log; fail "the run does not say that it folds"; }
began=$(date +%s%N)
run --set batch.fold=false --run whole >whole.log
took_ms=$((($(date +%s%N) - began) / 1000000))
! grep -q '^ *folds ' whole.log || fail "a run folds against its setting"
fold_of() { # RUN: its decision
  python3 -c 'import json, sys
fold = json.load(open(sys.argv[1] + "/run.json"))["fold"]
print({key: value for key, value in fold.items() if key != "deviation"})' "$1"
}
RANDOM=57
# Starts a run, or resumes it without repeating a setting: its folder has them.
go() { # RUN
  if [ -e "$1/run.json" ]; then
    "$xrun" "$root/recipes/dpo.lua" --run "$1" --resume
  else
    run --set batch.fold=$fold --run "$1"
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
  fold=$([ $((trial % 2)) = 0 ] && echo true || echo false)
  oracle=$([ $fold = true ] && echo folded || echo whole)
  # Up to three kills per trial, so that a resume is killed too.
  for _ in 1 2 3; do
    [ $hits = 30 ] || ! kill_once "run$trial" "log$trial" || hits=$((hits + 1))
  done
  go "run$trial" >"log$trial" 2>&1 ||
    { cat "log$trial"; fail "trial $trial does not resume"; }
  same_run $oracle "run$trial"
  [ "$(fold_of "run$trial")" = "$(fold_of $oracle)" ] ||
    fail "the decision of trial $trial is $(fold_of "run$trial"), wanted $(fold_of $oracle)"
  rm -rf "run$trial"
  [ $hits -lt 30 ] || break
done
echo "$hits kills"
[ $hits = 30 ] || fail "only $hits kills of 180 hit a running process"
