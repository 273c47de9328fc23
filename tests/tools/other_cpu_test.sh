#!/usr/bin/env bash
# Runs on a processor without AVX-512, which libraries and kernels are told that this one is.
set -euo pipefail
xrun=${XRUN_BUILD:?}/bin/xrun
golden=${XRUN_ROOT:?}/tests/golden/models/untied
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

source "$XRUN_ROOT/tests/tools/checks.sh"
printf '{"ids":[5,6,7,8,9,10,11,12]}\n' >rows
"$xrun" score --model "$golden" --json rows >usual
for isa in AVX2 SSE41; do
  ONEDNN_MAX_CPU_ISA=$isa ATEN_CPU_CAPABILITY=default XRUN_CPU=portable \
    "$xrun" score --model "$golden" --json rows >out
  python3 - usual out <<'PY'
import json, sys
one, other = (json.load(open(name))["logprobs"][1:] for name in sys.argv[1:])
assert len(one) == 7 and max(abs(a - b) for a, b in zip(one, other)) < 1e-5, (one, other)
PY
done
