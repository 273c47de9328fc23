// Runs with folded prefixes: resumed to the same bits, under every weight of shared rows, and with
// the metrics of runs that do not fold.

#include <cmath>

#include "tests/lua/bind/session_fixture.h"

namespace xrun::fold_run_test {

namespace {

constexpr const char* kLoop = R"(
for step, batch in run:steps(train, cfg.batch) do
  run:log(run:evaluate(valid, dpo))
  run:log(adamw:step(batch, dpo))
end
)";
const std::vector<std::string> kFolds = {"batch.fold=true", "batch.fold_min=1"};

class FoldRun : public SessionTest {
 protected:
  static Json fold_of(const std::string& dir) { return read_json(dir + "/run.json").at("fold"); }
};

}  // namespace

TEST_F(FoldRun, SlowResumesToTheSameBitsWithItsDecision) {
  const std::string recipe = head() + kLoop + kExport;
  expect_same_when_resumed(recipe, {1, 3}, kFolds);
  has(output_, "folds");
  const Json whole = fold_of("whole");
  EXPECT_EQ(whole.at("mode").as_string(), "always");
  EXPECT_GT(whole.at("ratio").as_double(), 1.1);
  EXPECT_LT(whole.at("deviation").as_double(), 1e-5);
  for (const std::string dir : {"stopped_1", "stopped_3"}) {
    for (const char* name : {"mode", "min_run", "min_ratio", "ratio"}) {
      EXPECT_EQ(dump_json(fold_of(dir).at(name)), dump_json(whole.at(name))) << dir << " " << name;
    }
  }
  // A resume of the finished run keeps it, too.
  ASSERT_EQ(run(recipe, "whole", {.resume = true}), "");
  EXPECT_EQ(dump_json(fold_of("whole")), dump_json(whole));
}

TEST_F(FoldRun, LogsTheMetricsOfARunThatDoesNotFold) {
  const std::string recipe = head() + kLoop;
  ASSERT_EQ(run(recipe, "folded", {.sets = kFolds}), "");
  has(output_, "folds");
  ASSERT_EQ(run(recipe, "apart", {.sets = {"batch.fold=false"}}), "");
  EXPECT_EQ(output_.find("folds"), std::string::npos);
  const std::vector<std::string> folded = metrics("folded"), apart = metrics("apart");
  ASSERT_EQ(folded.size(), apart.size());
  for (size_t i = 0; i < folded.size(); ++i) {
    const Json got = parse_json(folded[i], "metrics"), want = parse_json(apart[i], "metrics");
    ASSERT_EQ(got.as_object().size(), want.as_object().size());
    for (const auto& [name, value] : want.as_object()) {
      const double wanted = value.is_number() ? value.as_double() : 0;
      EXPECT_NEAR(got.at(name).is_number() ? got.at(name).as_double() : 0, wanted,
                  1e-5 * std::max(1.0, std::abs(wanted)))
          << name << ", line " << i;
    }
  }
}

TEST_F(FoldRun, ComparesAgainWhileItTrainsIfAsked) {
  std::vector<std::string> sets = kFolds;
  ASSERT_EQ(run(head() + kLoop, "once", {.sets = sets}), "");
  EXPECT_EQ(read_file("once/metrics.jsonl").find("perf/fold_deviation"), std::string::npos);
  sets.push_back("batch.fold_check=2");
  ASSERT_EQ(run(head() + kLoop, "often", {.sets = sets}), "");
  EXPECT_EQ(metrics("often"), metrics("once"));
  const std::string text = read_file("often/metrics.jsonl");
  for (size_t at = 0, step = 0; at < text.size(); at = text.find('\n', at) + 1, ++step) {
    const Json line = parse_json(text.substr(at, text.find('\n', at) - at), "metrics");
    const Json* const deviation = line.find("perf/fold_deviation");
    ASSERT_EQ(deviation != nullptr, step > 0 && step % 2 == 0) << step;
    if (deviation != nullptr) {
      EXPECT_EQ(deviation->as_double(), 0) << "fp32 on the CPU";
    }
  }
}

// Targets 6 7 8, 6 7 9, 6 10 and 21: three sequences share a root, 6 is shared by three, 7 by two.
TEST_F(FoldRun, WeightsOfSharedRowsGiveTheLossComputedByHand) {
  write_file_atomic("tokens.jsonl",
                    "{\"input_ids\":[5,6,7,8]}\n{\"input_ids\":[5,6,7,9]}\n"
                    "{\"input_ids\":[5,6,10]}\n{\"input_ids\":[20,21]}\n");
  const std::string recipe = R"(
local xrun = require "xrun"
local cfg = xrun.config {
  model = "tiny", data = { { path = "tokens.jsonl" } }, shuffle = false, steps = 1,
  optim = { lr = 1e-3 }, batch = { sequences = 4, max_tokens = 100, fold_weight = "per_sample" },
}
local policy = xrun.policy(cfg.model)
local train = xrun.tokens(cfg.data, policy)
local adamw = xrun.adamw(policy, cfg.optim)
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
local third = 1 / 3
local weights = {
  per_sample  = { 1, 1, 1,  1, 1, 1,  1, 1,  1 },
  branch_mean = { third, third, third,  third, third, third,  third, third,  1 },
  own_once    = { 1, 1, 1,  0, 0, 1,  0, 1,  1 },
}
for step, batch in run:steps(train, cfg.batch) do
  local lp = policy:token_logprob(batch)
  assert(lp:numel() == 9)
  local w = xrun.tensor(weights[cfg.batch.fold_weight])
  local wanted = -(lp * w):sum():item() / w:sum():item()
  local m = adamw:step(batch, function(t) return -policy:token_logprob(t) end)
  assert(math.abs(m.loss - wanted) < 1e-6, m.loss .. ", wanted " .. wanted)
  run:log(m)
end
)";
  int number = 0;
  for (const char* weight : {"per_sample", "branch_mean", "own_once"}) {
    // Whole, folded, and in packs of a sequence each, which fold nothing.
    for (const std::vector<std::string>& sets : {std::vector<std::string>{"batch.fold=false"},
                                                 kFolds,
                                                 {"batch.fold=false", "batch.max_tokens=4"}}) {
      std::vector<std::string> all = sets;
      all.push_back(std::string("batch.fold_weight=") + weight);
      EXPECT_EQ(run(recipe, "run" + std::to_string(number++), {.sets = all}), "") << weight;
    }
  }
}

}  // namespace xrun::fold_run_test
