-- kd_step.lua: the time of a step with a cached teacher against a step of fine-tuning on the same
-- batch, in one process. Each body takes them in another order; the first one does not count.
--     bin/xrun tools/bench/kd_step.lua [--set teacher=NAME] [--set model=NAME] [--threads N]
-- Prints seconds of a step and the ratio to the step of fine-tuning, wall clock and CPU time:
-- median (lowest to highest). sft: cross entropy; kd: the divergence; both: their sum.
-- Checked: cross entropy has the same value with and without the divergence beside it.
local xrun = require "xrun"

local cfg = xrun.config {
  model      = { layers = 4, hidden = 256, tokenizer = "smollm2-135m-instruct" },
  teacher    = "smollm2-135m-instruct",
  data       = { { path = "recipes/data/text.txt" } },
  max_length = 256,
  columns    = 64,                                           -- of the teacher, for each token
  kd         = { loss = "topk", temperature = 1 },
  optim      = { lr = 1e-9, schedule = "constant" },         -- all steps see nearly one model
  batch      = { tokens = 2048, max_tokens = 2048 },
  steps      = 9,
}

local student = xrun.policy(cfg.model)
local teacher = xrun.frozen(cfg.teacher, { cache = "topk", k = cfg.columns })
local text    = xrun.text(cfg.data, student)
local adamw   = xrun.adamw(student, cfg.optim)

local objectives = {
  sft  = function(t) return -student:token_logprob(t) end,
  kd   = function(t) return xrun.kd(t, student, teacher, cfg.kd) end,
  both = function(t)
    local kd, ce = xrun.kd(t, student, teacher, cfg.kd), -student:token_logprob(t)
    return 0.5 * kd + 0.5 * ce, { ce = ce }
  end,
}
local order = { "sft", "kd", "both" }

-- Wall clock and CPU time of all threads, the second for a machine that runs other programs too.
local wall, cpu = { sft = {}, kd = {}, both = {} }, { sft = {}, kd = {}, both = {} }

local function spread(values)
  local sorted = { unpack(values) }
  table.sort(sorted)
  local n = #sorted
  local middle = (sorted[math.ceil(n / 2)] + sorted[math.floor(n / 2) + 1]) / 2
  return ("%.3f (%.3f to %.3f)"):format(middle, sorted[1], sorted[n])
end

local function ratios(times, name)
  local list = {}
  for i, s in ipairs(times[name]) do list[i] = s / times.sft[i] end
  return spread(list)
end

local run = xrun.run(cfg, { policy = student, adamw = adamw })
for step, batch in run:steps(text, cfg.batch) do
  xrun.kd(batch, student, teacher, cfg.kd)                   -- caches the teacher's columns
  local ce = {}
  for i = 1, 3 do
    local name = order[(i + step) % 3 + 1]
    local began = os.clock()
    local metrics = adamw:step(batch, objectives[name])
    if step > 0 then
      table.insert(cpu[name], os.clock() - began)
      table.insert(wall[name], metrics["perf/step_s"])
    end
    if name ~= "kd" then ce[name] = metrics[name == "both" and "train/ce" or "train/loss"] end
  end
  assert(math.abs(ce.both - ce.sft) < 1e-4, "cross entropy differs")
end
for _, name in ipairs(order) do
  print(("%-4s %s s, %s times sft; CPU %s s, %s times"):format(
    name, spread(wall[name]), ratios(wall, name), spread(cpu[name]), ratios(cpu, name)))
end
