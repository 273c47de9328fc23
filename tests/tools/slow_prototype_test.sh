#!/usr/bin/env bash
# The prompt over a recipe and inside a running one: a script, a pseudo-terminal, --repl-at, SIGUSR1.
source "$(dirname "${BASH_SOURCE[0]}")/checks.sh"
set -euo pipefail
xrun=${XRUN_BUILD:?}/bin/xrun
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME=$work/state PYTHONPATH=${XRUN_ROOT:?}/tests/tools OMP_NUM_THREADS=1 \
  XRUN_CACHE=$work/cache TMPDIR=$work/tmp
mkdir "$TMPDIR"
cd "$work"
cp "$XRUN_ROOT/tests/data/pairs.jsonl" .
"$xrun" init-model tiny --tokenizer "$XRUN_ROOT/tests/data/tiny_tokenizer" --layers 2 --hidden 64 \
  --heads 4 >init.txt 2>&1
cat >dpo.lua <<'LUA'
local xrun = require "xrun"
local cfg = xrun.config {
  model = "tiny", data = { { path = "pairs.jsonl" } }, beta = 0.1, optim = { lr = 1e-3 },
  batch = { pairs = 4, max_tokens = 600 }, steps = 6,
}
local policy = xrun.policy(cfg.model)
local reference = policy:reference()
local train = xrun.preference(cfg.data, policy)
local adamw = xrun.adamw(policy, cfg.optim)
local function dpo(p)
  local chosen = policy:logprob(p.chosen) - reference:logprob(p.chosen)
  local rejected = policy:logprob(p.rejected) - reference:logprob(p.rejected)
  local margin = cfg.beta * (chosen - rejected)
  return -margin:log_sigmoid(), { margin = margin, accuracy = (margin:sign() + 1) / 2 }
end
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, batch in run:steps(train, cfg.batch) do
  run:log(adamw:step(batch, dpo))
end
run:export(policy)
LUA
losses() { grep -o '"train/loss":[^,]*' "$1/metrics.jsonl"; }

"$xrun" dpo.lua --run plain --threads 1 >plain.txt

# A script over the recipe; it leaves no files.
printf 'm = step()\nassert(math.abs(m.loss - math.log(2)) < 1e-6)\nassert(again().loss == m.loss)\n%s\n' \
  'assert(gradcheck(dpo).worst < 1e-6)' | "$xrun" repl dpo.lua --threads 1 >script.txt 2>&1 ||
  fail "the script: $(cat script.txt)"
is "$(ls "$TMPDIR")" ""
[ ! -e runs ] || fail "a run folder was made"

# A session that changes nothing, and one that changes the objective.
printf 'step()\ncontinue()\n' | "$xrun" dpo.lua --run visited --repl-at 2 --threads 1 >visited.txt
is "$(losses visited)" "$(losses plain)"
cmp visited/hf/model.safetensors plain/hf/model.safetensors
grep -q '"interactive":true' visited/run.json || fail "run.json does not mark the prompt"
grep -q interactive plain/run.json && fail "a run without a prompt is marked"
printf 'dpo = function(p) return 0 * policy:logprob(p.chosen) + 9 end\n' |
  "$xrun" dpo.lua --run changed --repl-at 2 --threads 1 >changed.txt
is "$(losses changed | head -2)" "$(losses plain | head -2)"
is "$(losses changed | tail -1)" '"train/loss":9.0'
"$xrun" diff plain changed >differences.txt && fail "a run with a prompt counts as the same run"
grep -q 'a prompt was opened *no *yes' differences.txt ||
  fail "diff does not report the prompt: $(cat differences.txt)"
grep -q 'dpo = function(p) return 0' changed/log.txt || fail "log.txt lacks the input: $(cat changed/log.txt)"

# The prompt ends the run where it is, whole: evaluated, exported, finished.
printf 'run:stop("enough")\n' | "$xrun" dpo.lua --run ended --repl-at 2 --threads 1 >ended.txt
grep -q 'run:stop(), then Ctrl-D, ends the run here' ended.txt || { cat ended.txt; fail "no way to end"; }
grep -q 'stopped *enough' ended.txt || { cat ended.txt; fail "the run continued"; }
is "$(losses ended)" "$(losses plain | head -2)"
[ -s ended/hf/model.safetensors ] || fail "a run that was ended exports nothing"

cat >drive.py <<'PYTHON'
import re, signal, sys, time
from terminal import Terminal

xrun = sys.argv[1]
t = Terminal([xrun, "repl", "dpo.lua", "--threads", "1"])
t.until("xrun> ")
t.send("step()\r")
t.until("train/loss = 0.693147")
t.send("side = 'choosen' dpo = function(p) return 0 * policy:logprob(p[side]) + 4 end\r")
t.until("xrun> ")
t.send("step()\r")  # the recipe waits in its body
t.until("hint")
t.send("side = 'chosen'\r")
t.until("xrun> ")
t.send("step()\r")
t.until("train/loss = 4")
t.send("print(600 * 70) while true do end\r")
t.until("42000")  # it runs
t.send("\x03")
t.until("interrupted")
t.send("again()\r")
t.until("the same loss as before")
t.send("\x04")
assert t.wait() == 0

# SIGUSR1 to a run; Ctrl-D continues training.
t = Terminal([xrun, "dpo.lua", "--run", "signalled", "--threads", "1", "--set", "steps=150"])
t.until("step ")
time.sleep(0.3)
t.kill(signal.SIGUSR1)
t.until("xrun> ")
t.send("step()\r")
t.until("train/loss")
t.send("\x04")
t.until("signalled/hf", timeout=120)
assert t.wait() == 0
PYTHON
python3 drive.py "$xrun"
grep -q 'prompt at step .*: opened' signalled/log.txt || fail "log.txt lacks the visit"
is "$(ls "$TMPDIR")" ""
