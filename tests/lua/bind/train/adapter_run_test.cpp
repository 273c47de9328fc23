// Runs that train an adapter with dropout: killed and resumed, with a reference of each phase.

#include "tests/lua/bind/run/two_phases.h"

namespace xrun::adapter_run_test {

using AdapterRun = TwoPhases;

const std::vector<std::string> kDropout = {"lora.rank=4", "lora.dropout=0.3"};

TEST_F(AdapterRun, SlowWithDropoutItResumesToTheSameBits) {
  const std::string recipe = head("fraction = 0.2") + R"(
for step, batch in run:steps(train, cfg.batch) do
  run:log(run:evaluate(valid, dpo))
  run:log(adamw:step(batch, dpo))
end
)" + kExport;
  expect_same_when_resumed(recipe, {1, 3}, kDropout);
  EXPECT_EQ(read_file("stopped_1/hf/adapter/adapter_model.safetensors"),
            read_file("whole/hf/adapter/adapter_model.safetensors"));
  const std::vector<std::string> dropped = metrics("whole");
  ASSERT_EQ(run(recipe, "kept", {.sets = {"lora.rank=4"}}), "");
  EXPECT_NE(metrics("kept"), dropped) << "dropout changes nothing";
}

TEST_F(AdapterRun, SlowAPhaseWithItsReferenceResumesAnywhere) {
  expect_same_when_resumed(two_phases("  run:log(adamw:step(batch, later))"), {1, 3, 4}, kDropout);
}

TEST_F(AdapterRun, DropoutSwitchesFoldingOffWithANoticeUnlessItIsForced) {
  const std::string recipe = head() +
                             "for _, batch in run:steps(train, cfg.batch) do\n"
                             "  run:log(adamw:step(batch, dpo))\nend\n";
  const auto mode_of = [&](std::vector<std::string> sets) {
    std::filesystem::remove_all("r");
    sets.push_back("batch.fold_min=1");
    EXPECT_EQ(run(recipe, "r", {.steps = 1, .sets = sets}), "");
    return read_json("r/run.json").at("fold").at("mode").as_string();
  };
  EXPECT_EQ(mode_of({"lora.rank=4", "lora.dropout=0.3"}), "never");
  has(output_, "shared prefixes are not folded: with lora.dropout");
  EXPECT_EQ(output_.find("tokens computed as"), std::string::npos) << output_;
  EXPECT_EQ(mode_of({"lora.rank=4", "lora.dropout=0.3", "batch.fold=true"}), "always");
  has(output_, "batch.fold = true folds shared prefixes although the adapter has dropout");
  has(output_, "tokens computed as");
  EXPECT_EQ(output_.find("micro-batches begin with"), std::string::npos) << output_;
  // Small micro-batches, of which several begin with one prompt.
  const std::vector<std::string> split = {"lora.rank=4", "lora.dropout=0.3", "batch.fold=true",
                                          "batch.max_tokens=329"};
  EXPECT_EQ(mode_of(split), "always");
  has(output_, "which are computed in each of them: the adapter has dropout");
  EXPECT_EQ(mode_of({"lora.rank=4", "batch.fold=true", "batch.max_tokens=329"}), "always");
  EXPECT_EQ(output_.find("computed in each"), std::string::npos) << output_;
  EXPECT_EQ(mode_of({"lora.rank=4"}), "auto");
  EXPECT_EQ(output_.find("dropout"), std::string::npos) << output_;
}

TEST_F(AdapterRun, AResumeWithAnotherRankIsRefused) {
  const std::string recipe = head() +
                             "for _, batch in run:steps(train, cfg.batch) do\n"
                             "  run:log(adamw:step(batch, dpo))\nend\n";
  ASSERT_EQ(run(recipe, "r", {.steps = 2, .sets = {"lora.rank=4"}}), "");
  has(run(recipe, "r", {.resume = true, .sets = {"lora.rank=2"}}), "lora.rank");
  has(run(recipe, "r", {.resume = true, .sets = {"lora.rank=2"}, .force = true}),
      "it belongs to another model");
}

}  // namespace xrun::adapter_run_test
