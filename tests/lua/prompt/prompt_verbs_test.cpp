// Inputs at a prompt over a paused recipe, and its answers.

#include "lua/prompt/prompt_verbs.h"

#include "tests/lua/prompt/verbs_fixture.h"

namespace xrun::prompt_verbs_test {
namespace {

TEST_F(Verbs, StepShowsWhatWasLoggedAndAgainTheSame) {
  open(head() + loop_);
  EXPECT_TRUE(says("step()", "train/loss = 0.693147"));
  const std::string second = say("step()");
  EXPECT_TRUE(has(second, "train/grad_norm = "));
  const std::string again = say("again()");
  EXPECT_EQ(again.substr(0, again.find("perf/")), second.substr(0, second.find("perf/")));
  EXPECT_TRUE(has(said_, "the same loss as before, bit for bit"));
  EXPECT_EQ(say("batch().step"), "1");
  EXPECT_TRUE(has(say("batch()"), "(4 pairs, 8 sequences, "));
}

// The first loss of DPO is ln 2 for every beta; its gradient is not.
TEST_F(Verbs, AgainNamesAMetricThatChangedBesideTheLoss) {
  open(head() + loop_);
  say("step()");
  say(":set beta 0.3");
  say("again()");
  EXPECT_TRUE(has(said_, "the same loss as before, bit for bit; train/grad_norm was "));
}

TEST_F(Verbs, AnAssignmentToTheConfigCountsAsSet) {
  open(head() + loop_);
  say("step()");
  say("cfg.beta = 0.3");
  EXPECT_TRUE(says("step()", "train/loss = "));
  EXPECT_EQ(say("cfg.beta"), "0.3");
}

TEST_F(Verbs, TheNextBodyTrainsARedefinedObjective) {
  open(head() + loop_);
  say("step()");
  EXPECT_EQ(say("dpo = function(p) return 0 * policy:logprob(p.chosen) + 2 end"), "");
  EXPECT_TRUE(says("again()", "train/loss = 2"));
  EXPECT_EQ(say("function dpo(p) return 0 * policy:logprob(p.chosen) + 3 end"), "");
  EXPECT_TRUE(says("step()", "train/loss = 3"));
  const auto dir = session_->session().run->run().dir().path();
  const std::string log = read_file(dir / "log.txt");
  EXPECT_TRUE(has(log, "prompt at step 1: step() ran step 0"));
  EXPECT_TRUE(has(log, "function dpo(p) return 0 * policy:logprob(p.chosen) + 3 end"));
}

TEST_F(Verbs, AValueThatCannotBeShownIsStillAssigned) {
  open(head() + "local best = 1\n" + loop_);
  say("step()");
  EXPECT_EQ(say("best = setmetatable({ n = 7 }, { __tostring = function() error 'no' end })"), "");
  EXPECT_EQ(say("best.n"), "7");
  EXPECT_EQ(say("best = 2"), "");
  EXPECT_EQ(say("best"), "2");
}

// Calls in comments and in other loops are not the objective of this loop.
TEST_F(Verbs, TheObjectiveBelongsToThePausedLoop) {
  open(head() + R"(
-- was: adamw:step(batch, other)
local function other(p) return 0 * policy:logprob(p.chosen) end
local function warm(p) return -policy:logprob(p.chosen) end
for step, batch in run:steps(train, { pairs = 4, max_tokens = 600, steps = 1 }) do
  run:log(adamw:step(batch, warm))
end
)" + loop_);
  EXPECT_TRUE(says("rows{ n = 1 }", "loss of warm of"));
  for (int i = 0; i < 2 && paused_->pause().loop->first_step == 0; ++i) say("step()");
  say("step()");
  EXPECT_TRUE(says("rows{ n = 1 }", "loss of dpo of"));
  // The current value of the name is used.
  say("dpo = function(p) return 0 * policy:logprob(p.chosen) + 5 end");
  EXPECT_TRUE(says("rows{ n = 1 }", "5"));
}

TEST_F(Verbs, TheFirstSetsObjectiveGoesWithItsBatch) {
  open(head() + R"(
local function warm(p) return -policy:logprob(p.chosen) end
local both = { train, valid }
for step, first, second in run:steps(both, cfg.batch) do
  run:log(adamw:step({ { first, dpo }, { second, warm } }))
end
)");
  EXPECT_TRUE(says("rows{ n = 1 }", "loss of dpo of"));
  say("step()");
  EXPECT_TRUE(says("rows{ n = 1 }", "loss of dpo of"));
}

TEST_F(Verbs, AVerbsNameIsNeverWrittenToTheRecipe) {
  open(head() + R"(
local seen
local broken = false
local function watched(p) if broken then error("no") end return dpo(p) end
for step, batch in run:steps(train, cfg.batch) do
  run:log(adamw:step(batch, watched))
  run:log(run:evaluate(valid, watched))
  seen = type(batch)
end
)");
  say("broken = true");
  EXPECT_TRUE(says("step()", "no"));
  EXPECT_TRUE(says("batch = 5",
                   "`batch` is a verb of the prompt and cannot be assigned; the recipe's local of "
                   "that name is unchanged"));
  EXPECT_EQ(say("batch().step"), "0");
  say("broken = false");
  say("step()");
  EXPECT_EQ(say("seen"), "\"userdata\"");
}

// A full disk does not end the session.
TEST_F(Verbs, ALogThatCannotBeWrittenIsReportedOnce) {
  open(head() + loop_);
  const auto log = session_->session().run->run().dir().path() / "log.txt";
  std::filesystem::create_symlink("/dev/full", log);
  EXPECT_EQ(say("1 + 1"), "2");
  EXPECT_TRUE(has(said_, "inputs of the prompt cannot be written to the run's log"));
  said_.clear();
  EXPECT_EQ(say("2 + 2"), "4");
  EXPECT_EQ(said_, "");
}

TEST_F(Verbs, RowsComeWithFileAndLine) {
  open(head() + loop_);
  say("step()");
  EXPECT_TRUE(says("rows{ by = 'margin', n = 2 }", "margin of dpo of 4 rows"));
  EXPECT_EQ(say("#_"), "2");
  EXPECT_TRUE(says("rows{ by = 'margin', n = 3, of = valid }[1].row", "pairs.jsonl:"));
  EXPECT_TRUE(says("rows{ by = 'margn' }", "did you mean"));
  EXPECT_TRUE(says("rows{ n = 1 }", "4 rows, the highest first"));
  EXPECT_TRUE(says("rows{ n = 1, highest = false }", "4 rows, the lowest first"));
  EXPECT_TRUE(
      says("local r = rows{ by = 'loss', n = 4 }; return r[1].value >= r[4].value", "true"));
}

// A row of pairs.jsonl has a prompt and two answers; none is cut to a column of a table.
TEST_F(Verbs, RowsShowPromptAndAnswersOnSeparateLines) {
  open(head() + loop_);
  const std::string text = say("rows{ n = 1 }");
  for (const char* label : {"\n  prompt    ", "\n  chosen    ", "\n  rejected  "}) {
    EXPECT_TRUE(has(text, label)) << text;
  }
  EXPECT_EQ(say("local r = rows{ n = 1 }[1]; return r.prompt ~= '' and r.text ~= r.rejected"),
            "true");
}

TEST_F(Verbs, TwoObjectivesAreCompared) {
  open(head() + loop_);
  say("step()");
  say("double = function(p) return 2 * dpo(p) end");
  const std::string text = say("compare(dpo, double)");
  EXPECT_TRUE(has(text, "cosine"));
  EXPECT_TRUE(has(text, "model.layers.*."));
  EXPECT_EQ(say("string.format('%.4f', compare(dpo, double).cosine)"), "\"1.0000\"");
  EXPECT_EQ(say("string.format('%.3f', compare(double).norm_ratio)"), "\"2.000\"");
  EXPECT_EQ(say("adamw.update_count"), "1");
}

TEST_F(Verbs, AnObjectivesGradientIsChecked) {
  open(head() + loop_);
  say("step()");
  EXPECT_TRUE(says("gradcheck()", "4 of 4 rows agree"));
  EXPECT_TRUE(says("gradcheck(dpo).worst < 1e-6", "true"));
  // One half is detached, so the gradient is not that of the value.
  say("wrong = function(p) local x = policy:logprob(p.chosen) return x * x:detach() end");
  EXPECT_TRUE(says("gradcheck(wrong)", "0 of 4 rows agree"));
  EXPECT_TRUE(says("gradcheck(wrong)", "pairs.jsonl:"));
}

TEST_F(Verbs, TheRowWithANanGradientIsNamed) {
  std::string recipe = head() + loop_;
  const std::string limit = "max_tokens = 600";  // folded, three pairs would fit
  recipe.replace(recipe.find(limit), limit.size(), limit + ", fold = false");
  open(recipe);
  say("step()");
  say("function broken(at) return function(p) local by = { 1, 1 }; by[at] = 0 / 0; "
      "return policy:logprob(p.chosen) * xrun.tensor(by) end end");
  // The step has two micro-batches of two pairs.
  EXPECT_TRUE(says("gradcheck(broken(2))", "2 of 4 rows agree"));
  EXPECT_TRUE(says("gradcheck(broken(2))", "nan"));
  say("named = {} for i = 1, 2 do named[gradcheck(broken(i)).row] = true end");
  EXPECT_EQ(say("(function() local n = 0; for _ in pairs(named) do n = n + 1 end return n end)()"),
            "2");
}

// A wrong gradient is reported as wrong at any scale, or as too small to decide, never as right.
TEST_F(Verbs, ASmallWrongGradientDoesNotPass) {
  open(head() + loop_);
  say("function scaled(by) return function(p) local x = policy:logprob(p.chosen) "
      "return x * x:detach() * by end end");
  EXPECT_TRUE(says("gradcheck(scaled(1e-8))", "0 of 4 rows agree"));
  EXPECT_TRUE(says("gradcheck(scaled(1e-8)).worst > 0.49", "true"));
  EXPECT_TRUE(says("gradcheck(scaled(1e-18))", "no row's slope is large enough"));
  EXPECT_TRUE(says("gradcheck(scaled(1e-18))", "4 rows have a slope too small"));
  EXPECT_TRUE(says("gradcheck(scaled(1e-18)).unsure", "4"));
}

TEST_F(Verbs, AnErrorNamesWhatWasTypedAndWhatWasMeant) {
  open(head() + loop_);
  EXPECT_TRUE(has(say(":set betta 1"),
                  "the config has no `betta`; :set changes existing keys; did "
                  "you mean `beta`?"));
  EXPECT_TRUE(has(say("rows(2)"), ": rows: argument 1 (options): got 2"));
  EXPECT_TRUE(has(say("batch().chosen"), "\"chosen\" is a view that an objective gets"));
}

TEST_F(Verbs, SetTakesListsAndTheirElements) {
  open(head() + loop_);
  EXPECT_TRUE(has(say(":set optim.betas {0.9, 0.95}"),
                  "(--set 'optim.betas={0.9, 0.95}' applies it from the beginning)"));
  const std::string element = say(":set optim.betas.2 0.98");
  EXPECT_TRUE(has(element, "cfg.optim.betas.2 = 0.98  (was 0.95)"));
  EXPECT_TRUE(has(element, "(--set optim.betas.2=0.98 applies it from the beginning)"));
  EXPECT_TRUE(has(say(":set optim.betas.3 1"), "the config has no `optim.betas.3`"));
}

TEST_F(Verbs, SaveWritesTheSettingsToo) {
  open(head() + loop_);
  say(":set beta 0.25");
  say(":set betta 1");
  say("cfg.beta * 2");
  EXPECT_TRUE(says(":save saved.lua", "2 inputs in saved.lua"));
  EXPECT_EQ(
      read_file("saved.lua"),
      "-- Inputs of a prompt; xrun repl test.lua < saved.lua\n:set beta 0.25\ncfg.beta * 2\n");
}

TEST_F(Verbs, SaveWritesItsCommandOnOneLine) {
  open(head() + loop_, {"optim={ lr = 1e-3,\n clip = 1 }"});
  say(":set beta 0.25");
  EXPECT_TRUE(says(":save saved.lua", "1 input in saved.lua"));
  EXPECT_EQ(read_file("saved.lua"),
            "-- Inputs of a prompt; xrun repl test.lua --set 'optim={ lr = 1e-3,  clip = 1 }' < "
            "saved.lua\n:set beta 0.25\n");
}

TEST_F(Verbs, TheBatchIsListed) {
  open(head() + loop_);
  EXPECT_TRUE(says(":batch", "step 0: 8 sequences"));
  EXPECT_TRUE(says(":batch", "rejected"));
  EXPECT_TRUE(says(":batch", "pairs.jsonl:"));
}

TEST_F(Verbs, ContinueRunsStepsAndThenToTheEnd) {
  open(head() + loop_);
  say("continue(2)");
  EXPECT_EQ(paused_->pause().step, 2);
  say("continue()");
  EXPECT_TRUE(has(said_, "test.lua has ended"));
  EXPECT_TRUE(says("step()", "test.lua has no further loop"));
  EXPECT_EQ(say("type(dpo)"), "\"function\"");
}

TEST(ObjectiveName, IsReadFromTheRecipesText) {
  EXPECT_EQ(objective_name("run:log(adamw:step(batch, dpo))"), "dpo");
  EXPECT_EQ(objective_name("first:step(batch,\n   nll, { lr = 1 })"), "nll");
  EXPECT_EQ(objective_name("adamw:step(batch, function(p) end)"), "");
  EXPECT_EQ(objective_name("adamw:step(batch"), "");
  EXPECT_EQ(objective_name("adamw:step({ { prefs, dpo }, { talk, nll, weight = 2 } })"), "dpo");
  EXPECT_EQ(objective_name("adamw:step{ { prefs, dpo } }"), "dpo");
  EXPECT_EQ(objective_name("adamw:step{ prefs, dpo }"), "");
  EXPECT_EQ(objective_name("-- was: adamw:step(batch, nll)\nadamw:step(batch, dpo)"), "dpo");
  EXPECT_EQ(objective_name("x = 'a:step(b, nll)' adamw:step(batch, dpo)"), "dpo");
  EXPECT_EQ(objective_name("adamw:step(batch, nll)\nadamw:step(batch, dpo)", 2), "dpo");
  EXPECT_EQ(objective_name("adamw:step({ {"), "");
  EXPECT_EQ(objective_name("adamw:step("), "");
}

}  // namespace
}  // namespace xrun::prompt_verbs_test
