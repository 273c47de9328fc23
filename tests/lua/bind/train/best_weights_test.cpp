// Keeping the best weights: named exports, run.state, patience, several validation sets.

#include "tests/lua/bind/session_fixture.h"

namespace xrun::best_weights_test {

class BestWeights : public SessionTest {
 protected:
  // Evaluates two sets in every body and keeps the weights that were best for the first.
  static std::string patient(int patience) {
    std::string begin = head();
    begin.replace(begin.find("{ lr = 1e-3 }"), 13, "{ lr = 1e-3, betas = { 0, 0.999 } }");
    return begin +
           fmt::format(R"(
local function worse(p) return -dpo(p) end
for step, batch in run:steps(train, {{ pairs = 4, max_tokens = 600, steps = 8 }}) do
  local m = run:evaluate(train, dpo)
  run:log(m)
  run:log(run:evaluate(valid, dpo, "far"))
  if m.loss < (run.state.best or math.huge) then
    run.state.best, run.state.at = m.loss, step
    run:export(policy, "best")
  elseif step - run.state.at >= {} then
    run:stop("no better since " .. run.state.at)
  end
  run:log(adamw:step(batch, step < 3 and dpo or worse, {{ lr = 0.003 }}))
end
)",
                       patience) +
           kExport;
  }
};

TEST_F(BestWeights, TheBestWeightsAreKeptBesideTheLast) {
  ASSERT_EQ(run(patient(2), "whole"), "");
  const Json state = read_json("whole/checkpoints/" +
                               read_file("whole/checkpoints/latest").substr(0, 12) + "/run.json")
                         .at("state");
  const int64_t at = state.at("at").as_int();
  EXPECT_GT(at, 0);
  EXPECT_LT(at, 7);
  EXPECT_NE(read_file("whole/best/model.safetensors"), read_file("whole/hf/model.safetensors"));
  // The exported folder gives the loss of the best evaluation again.
  const std::string loss = fmt::format("{:.17g}", state.at("best").as_double());
  EXPECT_EQ(run(R"(local xrun = require "xrun"
local cfg = xrun.config {
  model = "whole/best", data = { { path = "pairs.jsonl", keep = { "topic" } } }, beta = 0.1,
  valid = { fraction = 0.2 }, batch = { pairs = 4, max_tokens = 600 }, first = "tiny",
}
local policy, other = xrun.policy(cfg.model), xrun.policy(cfg.first)
local train = xrun.preference(cfg.data, policy):split(cfg.valid)
local run = xrun.run(cfg, { policy = policy, other = other })
local function dpo(p)
  local chosen = policy:logprob(p.chosen) - other:logprob(p.chosen)
  local rejected = policy:logprob(p.rejected) - other:logprob(p.rejected)
  return -(cfg.beta * (chosen - rejected)):log_sigmoid()
end
local loss = run:evaluate(train, dpo).loss
assert(math.abs(loss - )" +
                    loss + ") < 1e-5, loss)\n",
                "again"),
            "");
}

TEST_F(BestWeights, SlowPatienceEndsARunAlsoAfterAResume) {
  expect_same_when_resumed(patient(2), {1, 3, 5});
  const Json last = parse_json(metrics("whole").back(), "metrics");
  EXPECT_LT(last.at("step").as_int(), 7);  // it did not take all of its 8 steps
  EXPECT_TRUE(has(read_file("whole/log.txt"), "no better since"));
  for (const char* dir : {"stopped_1", "stopped_3", "stopped_5"}) {
    EXPECT_EQ(read_file(std::string(dir) + "/best/model.safetensors"),
              read_file("whole/best/model.safetensors"))
        << dir;
  }
}

TEST_F(BestWeights, TwoValidationSetsHaveTheirNames) {
  ASSERT_EQ(run(patient(9), "r"), "");
  for (const std::string& line : metrics("r")) {
    const Json object = parse_json(line, "metrics");
    for (const char* name : {"valid/loss", "valid/accuracy", "valid/far/loss", "valid/far/accuracy",
                             "valid/logprob_chosen", "valid/far/logprob_chosen"}) {
      EXPECT_NE(object.find(name), nullptr) << name;
    }
  }
  EXPECT_TRUE(has(output_, "valid/far  loss "));
}

// A resumed recipe runs its first lines with the later weights.
TEST_F(BestWeights, SlowAResumeDoesNotExportLaterWeightsUnderAnEarlierName) {
  const std::string text = head() + R"(
for step, batch in run:steps(train, { pairs = 4, max_tokens = 600, steps = 2 }) do
  run:log(adamw:step(batch, dpo))
end
run:export(policy, "first")
for step, batch in run:steps(train, { pairs = 4, max_tokens = 600, steps = 2 }) do
  run:log(adamw:step(batch, dpo))
end
)" + kExport;
  expect_same_when_resumed(text, {1, 2, 3});
  for (const char* dir : {"stopped_1", "stopped_2", "stopped_3"}) {
    EXPECT_EQ(read_file(std::string(dir) + "/first/model.safetensors"),
              read_file("whole/first/model.safetensors"))
        << dir;
  }
}

TEST_F(BestWeights, EachExportHasItsOwnFolder) {
  const auto named = [&](const std::string& name) {
    return run(head() + "run:export(policy, \"" + name + "\")\n", "r",
               {.resume = true, .force = true});
  };
  has(named("checkpoints"), "export name \"checkpoints\" is one of the run's own folders");
  has(named("../out"), "export name \"../out\": wanted letters, digits, _ and -");
  has(named(""), "export name \"\": wanted letters");
  has(run(head() + "run:export(adamw)\n", "s"), "(policy): got AdamW");
  EXPECT_EQ(named("best"), "");
  EXPECT_TRUE(std::filesystem::exists("r/best/model.safetensors"));
  EXPECT_FALSE(std::filesystem::exists("r/hf"));
}

}  // namespace xrun::best_weights_test
