// run:steps, run:evaluate, run:stop and run.state, in a run and after a resume.

#include "core/model/weights/safetensors.h"
#include "tests/lua/bind/session_fixture.h"

namespace xrun::run_test {

using RunBinding = SessionTest;

TEST_F(RunBinding, SlowRandomNumbersOfARecipeAreTheSameInEveryRunAndResumed) {
  expect_same_when_resumed(head() + R"(
local first = xrun.rand({1}):item() + math.random()
local function noisy(p)
  local loss, metrics = dpo(p)
  metrics.drawn, metrics.lua = xrun.rand({p.size}), math.random()
  return loss, metrics
end
run:log(run:evaluate(valid, noisy, "before"))
for step, batch in run:steps(train, cfg.batch) do
  run:log { first = first, atend = math.random() }
  if step % 2 == 0 then run:log(run:evaluate(valid, noisy)) end
  run:log(adamw:step(batch, noisy, { lr = 1e-3 * xrun.rand({1}):item() * math.random() }))
end
local between = xrun.rand({1}):item() + math.random()
for step, batch in run:steps(train, { pairs = 2, max_tokens = 600, steps = 2 }) do
  run:log(adamw:step(batch, noisy, { lr = 1e-3 * between }))
end
)" + kExport,
                           {1, 2, 4, 5});
  ASSERT_EQ(run("local xrun = require 'xrun'\nassert(xrun.rand({1}):item() ~= nil)\n", "x"), "");
}

TEST_F(RunBinding, SlowAnEvaluationOutsideTheLoopsComesBackOnAResume) {
  expect_same_when_resumed(head() + R"(
local base = run:evaluate(valid, dpo)                        -- never logged
assert(base.loss and base.accuracy == 0.5)
local function score(s) return #s.topic end
local shown = run:sample(policy, valid, 0, { max_tokens = 2, score = score })
for step, batch in run:steps(train, cfg.batch) do
  run:log(adamw:step(batch, dpo, { lr = base.loss / 1000 }))
end
local middle = run:evaluate(valid, dpo)
run:log(middle)
assert(shown["sample/length"] > 0 and shown.score > 1)
for step, batch in run:steps(train, { pairs = 2, max_tokens = 600, steps = 3 }) do
  run:log(adamw:step(batch, dpo, { lr = middle.loss / 1000 }))
end
)" + kExport,
                           {2, 4, 6});
}

TEST_F(RunBinding, MetricsOfAnEmptySetReadAsNil) {
  EXPECT_EQ(run(head("fraction = 0") + R"(
local none = run:evaluate(valid, dpo)
assert(none.loss == nil and #none == 0)
local some = run:evaluate(train, dpo)
assert(#some >= 3 and some.margin == 0)
local ok, e = pcall(function() return some.los end)
assert(not ok and e.message == "there is no metric `los`" and e.hint:find("loss"), e.message)
)",
                "r"),
            "");
}

TEST_F(RunBinding, TheSecondLoopContinuesTheStepCount) {
  const std::string loops = R"(
local seen = {}
local function bad(p)
  if run.step == 5 then return policy:logprob(p.chosen) * 0 / 0 end
  return (dpo(p))
end
for step, batch in run:steps(train, { pairs = 4, steps = 3 }) do
  assert(step == batch.step and step == run.step and batch.total_steps == 3)
  adamw:step(batch, dpo)
end
for step, batch in run:steps(train, { pairs = 2, steps = 4 }) do
  assert(step == batch.step and step == run.step and batch.total_steps == 4 and step >= 3)
  FIVE
  adamw:step(batch, dpo)
end
)";
  const auto with = [&](const std::string& line) {
    std::string text = head() + loops;
    return text.replace(text.find("FIVE"), 4, line);
  };
  const std::string step = run(with("adamw:step(batch, bad)"), "a");
  has(step, "is nan (step 5, micro-batch 1 of 1)");
  EXPECT_EQ(read_json("a/failed_batch.json").at("step").as_int(), 5);
  has(run(with("if step == 5 then run:evaluate(valid, bad) end"), "b"), "is nan (step 5,");
}

// An evaluation has other micro-batches than the step, so batch.pairs is not the wanted length.
TEST_F(RunBinding, AWrongLengthInAnEvaluationSaysSo) {
  has(run(head() + R"(
run:evaluate(valid, function(p) return policy:logprob(p.chosen):narrow(0, 0, 1) end)
)",
          "r"),
      "(one per pair of this micro-batch of the evaluation)");
}

TEST_F(RunBinding, ALoopInsideABodyIsRefused) {
  const std::string text = run(head() + R"(
for step, batch in run:steps(train, cfg.batch) do
  adamw:step(batch, dpo)
  if step == 1 then for inner, more in run:steps(train, cfg.batch) do adamw:step(more, dpo) end end
end
)",
                               "r");
  has(text, "test.lua:20: run:steps: a loop inside a body of another loop");
  EXPECT_TRUE(std::filesystem::exists("r/checkpoints/step_0000002"));
  EXPECT_EQ(run(head() + R"(
for step, batch in run:steps(train, cfg.batch) do
  adamw:step(batch, dpo)
  if step == 1 then break end
end
for step, batch in run:steps(train, cfg.batch) do adamw:step(batch, dpo) end
assert(run.step == 6)
)",
                "left"),
            "");
}

// The second update of body 2 fails: the resume begins at body 2, not after half of it.
TEST_F(RunBinding, AnErrorInTheSecondUpdateOfABodyUndoesTheFirst) {
  const auto with = [&](const std::string& fails) {
    return head() + R"(
local now
local function other(p)
  if )" + fails +
           R"( then error("no second update") end
  return (dpo(p))
end
for step, batch in run:steps(train, cfg.batch) do
  now = step
  run:log(adamw:step(batch, dpo))
  run:log(adamw:step(batch, other))
end
)" + kExport;
  };
  const std::string good = with("false"), bad = with("now == 2");
  ASSERT_EQ(run(good, "whole"), "");
  has(run(bad, "r"), "no second update");
  has(output_, "the bodies of this loop make several updates");
  EXPECT_TRUE(std::filesystem::exists("r/checkpoints/step_0000002"));
  ASSERT_EQ(run(good, "r", {.resume = true, .force = true}), "");
  EXPECT_EQ(metrics("r"), metrics("whole"));
  EXPECT_EQ(read_file("r/hf/model.safetensors"), read_file("whole/hf/model.safetensors"));
}

TEST_F(RunBinding, SlowCodeAfterABreakResumesToTheSame) {
  expect_same_when_resumed(head() + R"(
for step, batch in run:steps(train, cfg.batch) do
  run:log(adamw:step(batch, dpo))
  coroutine.wrap(function() run:log(run:evaluate(valid, dpo, "inside")) end)()
  if step == 1 then break end
end
local left = run:evaluate(valid, dpo, "left")
run:log(left)
run:log { at = run.step }
local drawn = xrun.rand({1}):item()
for step, batch in run:steps(train, cfg.batch) do
  run:log { drawn = drawn }
  run:log(adamw:step(batch, dpo, { lr = left.loss / 1000 }))
end
)" + kExport,
                           {1, 2, 3, 5});
}

TEST_F(RunBinding, ALoopMayBeIteratedByHand) {
  EXPECT_EQ(run(head() + R"(
local next_step, loop = run:steps(train, cfg.batch)
local step, batch = next_step(loop)
while step do
  run:log(adamw:step(batch, dpo))
  assert(run.step == step)
  step, batch = next_step(loop, step)
end
assert(run.step == 4)
)",
                "r"),
            "");
}

TEST_F(RunBinding, AChangedConfigIsAnErrorBeforeAndAfterABody) {
  std::string text = head() + R"(
for _, batch in run:steps(train, cfg.batch) do
  run:log(adamw:step(batch, dpo))
  local optim = cfg.optim
  optim.lr = 1e-2
end
)";
  const std::string error = run(text, "body");
  has(error,
      "cfg.optim.lr is 0.01, xrun.config and --set gave 0.001: cfg is read-only; change the value "
      "in xrun.config or with --set optim.lr=0.01, or use a local variable");
  text.insert(text.find("local run ="), "local own = cfg\nown.beta = 5\n");
  has(run(text, "before"), "cfg.beta is 5, xrun.config and --set gave 0.1");
}

TEST_F(RunBinding, StopEndsTheRunAndPrintsTheReason) {
  EXPECT_EQ(run(head() + R"(
for step, batch in run:steps(train, cfg.batch) do
  adamw:step(batch, dpo)
  if step == 1 then run:stop("good enough") end
end
assert(run.step == 2)
)",
                "r"),
            "");
  has(output_, "good enough");
  EXPECT_EQ(output_.find("loss"), std::string::npos) << "none was logged, so none is shown";
  EXPECT_TRUE(read_json("r/run.json").at("finished").as_bool());
}

TEST_F(RunBinding, ALoopThatNeverUpdatesIsNotedAtTheEnd) {
  const std::string note = "no step updated the weights: the loop never calls adamw:step";
  ASSERT_EQ(run(head() + "for step, batch in run:steps(train, cfg.batch) do end\n", "r"), "");
  has(output_, note);
  ASSERT_EQ(run(head() + "for step, batch in run:steps(train, cfg.batch) do\n"
                         "  if step == 0 then adamw:step(batch, dpo) end\nend\n",
                "s"),
            "");
  EXPECT_EQ(output_.find(note), std::string::npos) << output_;
}

TEST_F(RunBinding, StateIsSavedWithTheRun) {
  expect_same_when_resumed(head() + R"(
run.state.best = run.state.best or math.huge
run.state.list = run.state.list or {}
for step, batch in run:steps(train, cfg.batch) do
  local m = adamw:step(batch, dpo)
  if m.loss < run.state.best then run.state.best, run.state.at = m.loss, step end
  table.insert(run.state.list, m.loss)
  run:log { count = #run.state.list, at = run.state.at, worst = run.state.worst or 0 }
  run.state.worst = -math.huge
end
assert(run.state.worst == -math.huge)
)" + kExport,
                           {1, 3});
}

TEST_F(RunBinding, AValueThatStateCannotHoldIsRefusedWithoutLoss) {
  // A new name is refused at its own line.
  const std::string loop = R"(
for step, batch in run:steps(train, cfg.batch) do
  adamw:step(batch, dpo)
  LINE
end
)";
  const auto with = [&](const std::string& line) {
    std::string text = head() + "run.state.old, run.state.deep = 1, {}\n" + loop;
    return text.replace(text.find("LINE"), 4, line);
  };
  has(run(with("if step == 2 then run.state.f = print end"), "a"),
      "test.lua:21: run.state.f: got function");
  EXPECT_TRUE(std::filesystem::exists("a/checkpoints/step_0000003"));
  // A bad value of an existing name is found when the body ends, whose state is that of its
  // beginning.
  has(run(with("if step == 2 then run.state.old = print end"), "b"),
      "run:steps: run.state.old: got function");
  has(output_, "run.state is saved as it was at the beginning of this step");
  const Json saved = read_json("b/checkpoints/step_0000003/run.json");
  EXPECT_EQ(saved.at("state").at("old").as_int(), 1);
  has(run(with("run.state.deep.g = batch"), "c"), "run.state.deep.g: got Batch");
  has(run(with("run.state = {}"), "d"), "`state` of a Run is read-only\n");
}

TEST_F(RunBinding, TablesGivenDirectlyAreCheckedLikeTheConfig) {
  const auto loop = [&](const std::string& batch) {
    return run(head() + "for step, batch in run:steps(train, " + batch + ") do end\n", "r",
               {.resume = true});
  };
  has(loop("{ pairs = 4, sequences = 3 }"), "batch has both pairs and sequences, but one set");
  has(loop("{ pairs = 0 }"), "batch.pairs: got 0, wanted a whole number of at least 1");
  has(loop("{ pairs = 4, max_token = 3 }"), "there is no option `max_token`");
  has(loop("{ max_tokens = 300 }"), "batch.pairs is missing");
}

TEST_F(RunBinding, AShortMetricNameMustBeUnambiguous) {
  EXPECT_EQ(run(head() + R"(
for step, batch in run:steps(train, cfg.batch) do
  local m = adamw:step(batch, function(p)
    local loss = dpo(p)
    return loss, { ["a/x"] = loss, ["b/x"] = loss, ["c/y"] = loss }
  end)
  assert(m.y == m["c/y"] and m["train/loss"] == m.loss)
  local ok, e = pcall(function() return m.x end)
  assert(not ok and e.message == "`x` may be a/x or b/x; write m[\"a/x\"]", e.message)
end
)",
                "r"),
            "");
}

TEST_F(RunBinding, MeanOfOneProcessIsTheValue) {
  EXPECT_EQ(run(head() + "local x = xrun.ones(3)\nassert(run:mean(x) == x)\n", "r"), "");
}

TEST_F(RunBinding, ACheckpointHoldsNothingOfTheReference) {
  ASSERT_EQ(run(head() + "for step, batch in run:steps(train, cfg.batch) do\n"
                         "  run:log(adamw:step(batch, dpo))\nend\n",
                "r"),
            "");
  size_t weights = 0, moments = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator("r/checkpoints")) {
    EXPECT_EQ(file.path().string().find("reference"), std::string::npos) << file.path();
    if (file.path().extension() != ".safetensors") continue;
    const bool policy = file.path().stem() == "policy";
    const SafetensorsFile held(file.path());
    for (const SafetensorsEntry& entry : held.entries()) {
      EXPECT_EQ(entry.name.find("reference"), std::string::npos) << entry.name;
      ++(policy ? weights : moments);
    }
  }
  const size_t model = SafetensorsFile("tiny/model.safetensors").entries().size();
  EXPECT_EQ(weights, model);
  EXPECT_EQ(moments, 2 * model);
}

TEST_F(RunBinding, ARunThatOnlyEvaluatesHasItsLedger) {
  const std::string recipe = R"(local xrun = require "xrun"
local cfg = xrun.config { model = "tiny", data = { { path = "pairs.jsonl" } }, optim = { lr = 1e-3 } }
local policy = xrun.policy(cfg.model)
local data = xrun.preference(cfg.data, policy)
local run = xrun.run(cfg, { policy = policy })
run:log(run:evaluate(data, function(p) return -policy:logprob(p.chosen) end))
)";
  ASSERT_EQ(run(recipe, "r"), "");
  has(output_, "pairs.jsonl: 24 rows = 24 kept + 0 dropped");
  EXPECT_TRUE(path_exists("r/ledger.json"));
}

TEST_F(RunBinding, ALossThatIsNotFiniteInANarrowTypeNamesTheType) {
  const std::string text = head() + R"(
local function bad(p) return policy:logprob(p.chosen) * 0 / 0 end
for step, batch in run:steps(train, cfg.batch) do adamw:step(batch, bad) end
)";
  has(run(text, "narrow", {.sets = {"dtype=bf16"}}),
      "set dtype = \"fp32\" to see whether it is the");
  EXPECT_EQ(run(text, "full").find("to see whether it is the type"), std::string::npos);
}

}  // namespace xrun::run_test
