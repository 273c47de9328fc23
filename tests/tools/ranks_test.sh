#!/usr/bin/env bash
# A recipe on two ranks has the metrics and weights of one process, and a run changes between the two.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"
small="--set steps=4 --set batch.pairs=5 --set batch.max_tokens=240 --threads 1"
dpo $small --run one >one.log
ranks=2
on_ranks() { "$xrun" launch -n $ranks "$root/recipes/dpo.lua" --set model=tiny --set answers=0 \
  --set data.1.path="$root/tests/data/pairs.jsonl" $small "$@"; }
on_ranks --run two >two.log 2>&1 || { cat two.log; fail "two ranks"; }
same_run one two
grep -q 'step 3' two/log.txt || { cat two/log.txt; fail "no steps in log.txt"; }
python3 - <<'PYTHON' || fail "run.json does not have the number of ranks"
import json
assert json.load(open("two/run.json"))["machine"]["ranks"] == 2
PYTHON

# A run of one process resumes on two ranks, and the other way round.
dpo $small --run grown --steps 2 >/dev/null
on_ranks --run grown --resume >grown.log 2>&1 || { cat grown.log; fail "one process to two ranks"; }
same_run one grown
