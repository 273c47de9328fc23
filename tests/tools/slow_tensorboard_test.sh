#!/usr/bin/env bash
# TensorBoard's own loader reads from a run's tb/ the values in metrics.jsonl, each once, also after
# a resume. Skipped unless $XRUN_TENSORBOARD_PYTHON (python3 by default) has tensorboard.
python=${XRUN_TENSORBOARD_PYTHON:-python3}
"$python" -c 'import tensorboard' 2>/dev/null || exit 77
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"

reads_alike() { # RUN
  "$python" "$root/tests/golden/make/tensorboard_events.py" check "$1/tb" >seen.txt 2>loader.err ||
    fail "the loader fails: $(tail -n 3 loader.err)"
  python3 - "$1" <<'PYTHON' || fail "TensorBoard reads other values in $1"
import json, sys
wanted = []
for line in open(sys.argv[1] + "/metrics.jsonl"):
    metrics = json.loads(line)
    step = metrics.pop("step")
    metrics.pop("nonfinite", None)  # the number of nulls in the line, not a metric
    wanted += [(name, step, value) for name, value in metrics.items() if value is not None]
seen = {}
for line in open("seen.txt"):
    tag, step, value = line.rsplit(" ", 2)
    if (tag, int(step)) in seen:
        sys.exit(f"{tag} appears twice at step {step}")
    seen[tag, int(step)] = float(value)
for name, step, value in wanted:
    got = seen.pop((name, step), None)
    if got is None or abs(got - value) > 1e-7 * abs(value) + 1e-37:  # float32
        sys.exit(f"{name} at step {step}: got {got}, wanted {value}")
if seen:
    sys.exit(f"tb/ has {len(seen)} values that metrics.jsonl lacks, first {list(seen)[:3]}")
if not wanted:
    sys.exit("metrics.jsonl has no values")
print(f"{len(wanted)} values are equal")
PYTHON
}
dpo --run whole >/dev/null
reads_alike whole
dpo --run cut --steps 5 --set save.every=3 >/dev/null
dpo --run cut --resume --set save.every=3 >/dev/null
[ "$(ls cut/tb | wc -l)" = 2 ] || fail "a resume did not write a new event file"
reads_alike cut
