#!/usr/bin/env bash
# xrun bench prints a line or an object per figure, fails with a failed check, and names missing packages.
source "$(dirname "${BASH_SOURCE[0]}")/checks.sh"
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p "$work"/{tools,build/bin,path,recipes/data}
cp "$XRUN_ROOT/tools/run_bench" "$work/tools/"
touch "$work/build/build.ninja"
printf '#!/bin/sh\nexit 0\n' >"$work/path/ninja"
printf '#!/bin/sh\nexit 1\n' >"$work/path/python3" # no package is installed
chmod +x "$work"/path/*
program() { # NAME BODY: a fake benchmark
  printf '#!/bin/sh\n%s\n' "$2" >"$work/build/bin/$1"
  chmod +x "$work/build/bin/$1"
}
bench() { PATH=$work/path:$PATH XRUN_BUILD=$work/build "$work/tools/run_bench" "$@"; }

program adamw_bench 'if [ -n "$XRUN_BENCH_JSON" ]; then echo "{\"name\":\"a\"}"; else echo "a: 1 ms"; fi'
program pack_bench 'echo "a pack has 9 tokens, the \"capacity\" is 8" >&2; exit 1'
is "$(bench adamw)" $'adamw\na: 1 ms'
is "$(bench adamw --json)" '{"benchmark":"adamw","name":"a"}'
status=0; bench pack >"$work/out" || status=$?
is $status 1
is "$(head -n 3 "$work/out")" $'pack\npack: FAILED\n  a pack has 9 tokens, the "capacity" is 8'
is "$(bench pack --json | head -n 1)" \
  '{"benchmark":"pack","failed":"a pack has 9 tokens, the \"capacity\" is 8"}'
is "$(bench pack --json | tail -n 1)" \
  '{"benchmark":"pack","note":"peer not installed: pip install numpy pyarrow trl==1.16.0"}'
# Without its peer a benchmark has xrun's own figure: of the steps after the first.
program xrun 'while [ $# -gt 0 ]; do [ "$1" != --run ] || run=$2; shift; done
[ -z "$run" ] || { mkdir -p "$run"; for s in 9 4 2 3; do echo "{\"step\":0,\"perf/step_s\":$s}"; done >"$run/metrics.jsonl"; }'
is "$(bench sft)" $'sft\n  peer not installed: pip install torch transformers trl==1.16.0
sft: 3.00 s per step (2.00 to 4.00), 3 runs'
is "$(bench sft --json | tail -n 1)" \
  '{"benchmark":"sft","name":"sft","value":3,"unit":"s per step","low":2,"high":4,"runs":3}'
program xrun 'echo "no such model" >&2; exit 1'
status=0; bench sft >"$work/out" || status=$?
is $status 1
is "$(tail -n 2 "$work/out")" $'sft: FAILED\n  no such model'
refuses 2 'there are: head step' bench speed
refuses 2 'unknown option --fast' bench --fast
# The real program finds the script relative to itself.
is "$("${XRUN_BUILD:?}/bin/xrun" bench --help | sed -n 2p)" "Usage: xrun bench [NAME] [--json]"
