// Mixtures in stages and shuffles by blocks, from the configuration to the rows of a step.

#include "tests/lua/bind/session_fixture.h"

namespace xrun::mixture_run_test {

class MixtureRun : public SessionTest {
 protected:
  MixtureRun() { write_file_atomic("other.jsonl", read_file("pairs.jsonl")); }
  // Trains, and logs how many sides of a step's pairs come from the second source.
  static constexpr const char* kSources =
      "for step, batch in run:steps(train, cfg.batch) do\n"
      "  run:log(adamw:step(batch, dpo))\n"
      "  run:log { second = batch.source:sum():item() }\n"
      "end\n";
};

TEST_F(MixtureRun, StagesBeginAtTheirSteps) {
  EXPECT_EQ(run(head() + kSources, "r",
                {.sets = {"data.2.path=other.jsonl",
                          "mixture.stages={ { start = 0, weights = { 1, 0 } }, "
                          "{ start = 2, weights = { 0, 1 } } }"}}),
            "");
  std::string counts;
  for (const std::string& line : metrics("r")) {
    const Json object = parse_json(line, "metrics");
    if (const Json* second = object.find("recipe/second")) {
      counts += fmt::format("{} ", second->as_double());
    }
  }
  EXPECT_EQ(counts, "0 0 8 8 ");
}

TEST_F(MixtureRun, AllNeedsStepsIfASourceNeverEnds) {
  std::string recipe = head() + kSources;
  recipe.erase(recipe.find(" steps = 4,"), 11);
  const std::string error = run(
      recipe, "r",
      {.sets = {
           "data.2.path=other.jsonl",
           "mixture.stages={ { start = 0, weights = { 1, 1 } }, { start = 1, weights = { 0, 1 } } }"}});
  EXPECT_NE(error.find("data[1] is never used up: its weight ends at 0"), std::string::npos)
      << error;
  EXPECT_NE(error.find("set steps"), std::string::npos) << error;
}

TEST_F(MixtureRun, QuotasAndRoundRobinDecideTheRowsOfAStep) {
  std::string recipe = head() + kSources;
  recipe.erase(recipe.find(" steps = 4,"), 11);
  const std::vector<std::string> sets = {"data.2.path=other.jsonl", "data.1.weight=3",
                                         "data.1.quota={ rows = 9 }", "data.2.quota={ rows = 7 }",
                                         "mixture.order=round_robin"};
  EXPECT_EQ(run(recipe, "r", {.sets = sets}), "");
  std::string counts;
  for (const std::string& line : metrics("r")) {
    const Json object = parse_json(line, "metrics");
    if (const Json* second = object.find("recipe/second")) {
      counts += fmt::format("{} ", second->as_double());
    }
  }
  // Both sides of the 4 pairs of a step count; 7 of 16 pairs come from the second source.
  EXPECT_EQ(counts, "2 2 2 8 ");
  const Json record = read_json("r/run.json");
  const Json& data = record.at("data").as_array()[0];
  EXPECT_EQ(data.at("mixture").at("order").as_string(), "round_robin");
  EXPECT_EQ(data.at("mixture").at("quotas").as_array()[1].as_int(), 7);
  EXPECT_EQ(data.at("plan_hash").as_string().size(), 32u);
  has(run(recipe, "s", {.sets = {sets[0], sets[2], sets[3], "steps=9"}}),
      "but the data quotas give only 16: raise a quota, or set steps to at most 4");
  has(run(recipe, "s", {.sets = {"data.1.quota={ rows = 9, tokens = 100 }"}}),
      "wanted { rows = N } or { tokens = N }");
}

TEST_F(MixtureRun, AQuotaInTokensIsMetByWholeRows) {
  std::string recipe = head() + kSources;
  EXPECT_EQ(run(recipe, "r", {.sets = {"data.2.path=other.jsonl", "data.2.quota={ tokens = 1 }"}}),
            "");
  double second = 0;
  for (const std::string& line : metrics("r")) {
    const Json object = parse_json(line, "metrics");
    if (const Json* value = object.find("recipe/second")) second += value->as_double();
  }
  EXPECT_EQ(second, 2);  // the two sides of one pair
}

// The options of a set are not part of the configuration; the loop's plan records them.
TEST_F(MixtureRun, AResumeRefusesAnotherPlan) {
  std::string recipe = head() + kSources;
  const std::vector<std::string> sets = {"data.2.path=other.jsonl", "save.every=1"};
  ASSERT_EQ(run(recipe, "r", {.steps = 2, .sets = sets}), "");
  std::vector<std::string> changed = {"mixture.order=round_robin"};
  ASSERT_EQ(run(recipe, "r", {.resume = true, .sets = changed, .force = true}), "");
  has(output_, "the data of loop 1 has changed since it was trained on:");
  has(output_, "data.mixture.order: \"blocks\" -> \"round_robin\"");
  EXPECT_EQ(output_.find("plan_hash"), std::string::npos) << output_;
  has(run(recipe, "r", {.resume = true, .sets = {"mixture.order=blocks"}}), "cannot resume");
}

TEST_F(MixtureRun, WeightsInTwoPlacesAreRefused) {
  const std::string error = run(head() + kSources, "r",
                                {.sets = {"data.2.path=other.jsonl", "data.2.weight=3",
                                          "mixture.stages={ { start = 0, weights = { 1, 1 } } }"}});
  EXPECT_NE(error.find("data[2].weight is 3, and mixture.stages has weights too"),
            std::string::npos)
      << error;
}

TEST_F(MixtureRun, LossAndMetricsAreLoggedBySource) {
  const std::string recipe =
      head() +
      "for step, batch in run:steps(train, cfg.batch) do run:log(adamw:step(batch, dpo)) end\n"
      "run:log(run:evaluate(valid, dpo))\n";
  EXPECT_EQ(run(recipe, "r",
                {.sets = {"data.2.path=other.jsonl", "data.1.name=first", "data.2.weight=3"}}),
            "");
  const std::vector<std::string> lines = metrics("r");
  const Json step = parse_json(lines.front(), "metrics"),
             last = parse_json(lines.back(), "metrics");
  for (const char* metric : {"loss", "accuracy"}) {
    // Weight 1 to 3: of the four pairs of a step one is from the first source.
    const auto value = [&](const std::string& name) {
      return step.at("train/" + std::string(metric) + name).as_double();
    };
    EXPECT_NEAR(value(""), (value("/first") + 3 * value("/other")) / 4, 1e-6) << metric;
    EXPECT_NE(last.find(std::string("valid/") + metric + "/other"), nullptr);
  }
  EXPECT_EQ(step.find("train/length_chosen/other"), nullptr);
}

TEST_F(MixtureRun, SlowAShuffleByBlocksResumesToTheSameBits) {
  const std::string shuffle = "shuffle = { block = 4, window = 2 }, ";
  std::string recipe = head() + kSources + kExport;
  const size_t at = recipe.find("xrun.config {") + 13;
  recipe.insert(at, " " + shuffle);
  expect_same_when_resumed(recipe, {2});
}

}  // namespace xrun::mixture_run_test
