// A comparison reports the differences with an effect and the first step whose results differ.

#include "core/run/record/run_comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace xrun::run_comparison_test {
namespace {

RunFiles a_run(const std::string& name) {
  RunFiles run;
  run.name = name;
  run.record = parse_json(
      R"({"steps":3,"binary":{"engine":"e1"},"machine":{"threads":1},"inputs":{"data":{"1":{
          "digest":"k1","name":"pairs.jsonl","keys":[{"name":"pairs.jsonl","max_length":64,
          "files":[{"name":"pairs.jsonl","bytes":9,"xxh3":"b1"}]}]}}}})",
      "run.json");
  run.config = parse_json(R"({"beta":0.1,"data":[{"path":"pairs.jsonl"}]})", "config");
  run.origins = Json::object();
  run.recipe = "local beta = 1\nreturn beta\n";
  run.ledger = parse_json(R"({"sources":[{"rows":3,"kept":3}]})", "ledger");
  run.metrics.series = {{"train/loss", {0, 1, 2}, {0.5, 0.25, 0.125}},
                        {"perf/step_s", {0, 1, 2}, {1, 1, 1}}};
  run.metrics.objects = 3;
  run.metrics.last_step = 2;
  return run;
}

TEST(RunComparison, OfARunWithItselfFindsNothing) {
  RunFiles a = a_run("a");
  a.metrics.series.push_back({"bad", {1}, {NAN}});
  RunFiles b = a;
  b.metrics.series[1].values = {2, 3, 4};  // speed is not a result
  const RunComparison comparison = compare_runs(a, b);
  EXPECT_TRUE(comparison.same());
  EXPECT_EQ(comparison.first_divergence, -1);
  EXPECT_EQ(comparison.common_lines, 3);
  EXPECT_TRUE(comparison_json(comparison).at("same").as_bool());
}

TEST(RunComparison, NamesTheSettingsThatDiffer) {
  RunFiles b = a_run("b");
  b.config.set("beta", 0.2);
  b.config.set("own", "x");
  b.origins.set("beta", "--set");
  const RunComparison comparison = compare_runs(a_run("a"), b);
  ASSERT_EQ(comparison.settings.size(), 2u);
  EXPECT_EQ(comparison.settings[0].key, "beta");
  EXPECT_EQ(comparison.settings[0].a, "0.1");
  EXPECT_EQ(comparison.settings[0].b, "0.2");
  EXPECT_EQ(comparison.settings[0].origin_b, "--set");
  EXPECT_EQ(comparison.settings[1].a, "absent");
  EXPECT_FALSE(comparison.same());
}

TEST(RunComparison, APromptIsADifferenceOfCode) {
  RunFiles b = a_run("b");
  b.record.set("interactive", true);
  const RunComparison comparison = compare_runs(a_run("a"), b);
  EXPECT_TRUE(comparison.code_differs());
  ASSERT_EQ(comparison.program.size(), 1u);
  EXPECT_EQ(comparison.program[0].name, "a prompt was opened");
  EXPECT_EQ(comparison.program[0].a, "no");
  EXPECT_EQ(comparison.program[0].b, "yes, see log.txt");
}

// The file was moved; its content did not change.
TEST(RunComparison, APathToTheSameBytesHasNoEffect) {
  RunFiles b = a_run("b");
  b.config.set("data", parse_json(R"([{"path":"moved.jsonl"}])", "config"));
  b.record.set("inputs", parse_json(R"({"data":{"1":{"digest":"k2","keys":[{"name":"moved.jsonl",
      "max_length":64,"files":[{"name":"moved.jsonl","bytes":9,"xxh3":"b1"}]}]}}})",
                                    "run.json"));
  const RunComparison comparison = compare_runs(a_run("a"), b);
  ASSERT_EQ(comparison.settings.size(), 1u);
  EXPECT_EQ(comparison.settings[0].note, "the same bytes");
  EXPECT_TRUE(comparison.data.empty());
  EXPECT_TRUE(comparison.same());
}

TEST(RunComparison, OtherBytesUnderTheSameNameAreOtherData) {
  RunFiles b = a_run("b");
  b.record.set("inputs", parse_json(R"({"data":{"1":{"digest":"k2","keys":[{"name":"pairs.jsonl",
      "max_length":32,"files":[{"name":"pairs.jsonl","bytes":9,"xxh3":"b2"}]}]}}})",
                                    "run.json"));
  b.ledger = parse_json(R"({"sources":[{"rows":4,"kept":3}]})", "ledger");
  const RunComparison comparison = compare_runs(a_run("a"), b);
  ASSERT_EQ(comparison.data.size(), 3u);
  EXPECT_EQ(comparison.data[0].name, "data.1.source 1.max_length");
  EXPECT_EQ(comparison.data[1].name, "data.1.source 1.files");
  EXPECT_EQ(comparison.data[1].a, "b1");
  EXPECT_EQ(comparison.data[2].name, "rows.1.rows");
  EXPECT_FALSE(comparison.same());
}

TEST(RunComparison, ACommentInTheRecipeHasNoEffect) {
  RunFiles b = a_run("b");
  b.recipe = "-- why\nlocal beta  = 1\nreturn beta\n";
  RunComparison comparison = compare_runs(a_run("a"), b);
  EXPECT_FALSE(comparison.recipe.empty());
  EXPECT_TRUE(comparison.same());
  b.recipe = "local beta = 2\nreturn beta\n";
  comparison = compare_runs(a_run("a"), b);
  EXPECT_TRUE(comparison.code_differs());
  EXPECT_EQ(diff_text(comparison.recipe, 0),
            (std::vector<std::string>{"-   1  local beta = 1", "+   1  local beta = 2"}));
}

TEST(RunComparison, TheSpellingOfANumberInTheRecipeHasNoEffect) {
  RunFiles a = a_run("a"), b = a_run("b");
  a.recipe = "local beta, n = 0.1, 1000\nreturn beta\n";
  b.recipe = "local beta, n = 1e-1, 1e3\nreturn beta\n";
  EXPECT_TRUE(compare_runs(a, b).same());
  b.recipe = "local beta, n = 0.10000000000000002, 1000\nreturn beta\n";
  EXPECT_TRUE(compare_runs(a, b).code_differs());
  // A string of digits is not a number.
  b.recipe = "local beta, n = \"0.1\", 1000\nreturn beta\n";
  EXPECT_TRUE(compare_runs(a, b).code_differs());
}

TEST(RunComparison, NoDifferenceIsLeftOut) {
  RunFiles a = a_run("a"), b = a_run("b");
  Json first = Json::object(), second = Json::object();
  for (int i = 0; i < 300; ++i) {
    first.set("m" + std::to_string(i), 1);
    second.set("m" + std::to_string(i), 2);
  }
  a.record.set("machine", std::move(first));
  b.record.set("machine", std::move(second));
  EXPECT_EQ(comparison_json(compare_runs(a, b)).at("machine").size(), 300u);
}

TEST(RunComparison, AnotherProgramIsOtherCodeAndAnotherMachineIsNot) {
  RunFiles b = a_run("b");
  b.record.set("machine", parse_json(R"({"threads":2})", "run.json"));
  RunComparison comparison = compare_runs(a_run("a"), b);
  EXPECT_EQ(comparison.machine.size(), 1u);
  EXPECT_TRUE(comparison.same());
  b.record.set("binary", parse_json(R"({"engine":"e2"})", "run.json"));
  comparison = compare_runs(a_run("a"), b);
  ASSERT_EQ(comparison.program.size(), 1u);
  EXPECT_EQ(comparison.program[0].name, "binary.engine");
  EXPECT_TRUE(comparison.code_differs());
}

// Its settings say what holds since then; the earlier steps had others.
TEST(RunComparison, KeepsTheHistoryOfResumesThatChangedSettings) {
  RunFiles b = a_run("b");
  b.record.set(
      "resumes",
      parse_json(R"([{"at":"t0","changed":[]},{"at":"t0","step":0,"changed":["config.beta"]},
      {"at":"t1","step":2,"changed":["config.beta"]},{"at":"t2","changed":["recipe.lua:1"]},
      {"at":"t3","step":3,"forced":false,"changed":["config.steps"]}])",
                 "resumes"));
  const RunComparison comparison = compare_runs(a_run("a"), b);
  ASSERT_EQ(comparison.resumes.size(), 3u);
  EXPECT_EQ(comparison.resumes[0].run, "b");
  EXPECT_EQ(comparison.resumes[0].step, 2);
  EXPECT_EQ(comparison.resumes[0].changed, std::vector<std::string>{"config.beta"});
  EXPECT_EQ(comparison.resumes[1].step, -1);
  EXPECT_TRUE(comparison.resumes[1].forced);
  EXPECT_FALSE(comparison.resumes[2].forced);
  EXPECT_TRUE(comparison.same());
  const Json json = comparison_json(comparison);
  ASSERT_EQ(json.at("forced").size(), 2u);
  EXPECT_EQ(dump_json(json.at("forced").as_array()[1]),
            R"({"run":"b","at":"t2","step":null,"changed":["recipe.lua:1"]})");
  EXPECT_EQ(dump_json(json.at("resumes").as_array()[2]),
            R"({"run":"b","at":"t3","step":3,"forced":false,"changed":["config.steps"]})");
}

TEST(RunComparison, NamesTheFirstStepWhereResultsDiffer) {
  RunFiles b = a_run("b");
  b.metrics.series[0].values[1] = std::nextafter(0.25, 1);
  b.metrics.series[0].values[2] = 0.5;
  const RunComparison comparison = compare_runs(a_run("a"), b);
  EXPECT_EQ(comparison.first_divergence, 1);
  ASSERT_EQ(comparison.diverging.size(), 1u);
  EXPECT_EQ(comparison.diverging[0].name, "train/loss");
  ASSERT_EQ(comparison.finals.size(), 1u);
  EXPECT_EQ(comparison.finals[0].b, 0.5);
  EXPECT_EQ(comparison_json(comparison).at("results").at("first_apart").as_int(), 1);
}

TEST(RunComparison, AShorterRunIsReportedWithItsMissingSteps) {
  RunFiles b = a_run("b");
  b.record.set("steps", 2);
  b.metrics.series[0] = {"train/loss", {0, 1}, {0.5, 0.25}};
  b.metrics.series.push_back({"valid/loss", {1}, {1}});
  const RunComparison comparison = compare_runs(a_run("a"), b);
  EXPECT_EQ(comparison.first_divergence, -1);
  EXPECT_EQ(comparison.steps_b, 2);
  EXPECT_EQ(comparison.only_b, (std::vector<std::string>{"valid/loss"}));
  EXPECT_FALSE(comparison.same());
}

TEST(RunComparison, WeightsOfTheSameStepAreComparedByDigest) {
  RunFiles a = a_run("a");
  RunFiles b = a_run("b");
  a.checkpoint = parse_json(R"({"step":3,"files":{"policy.safetensors":{"xxh3":"1"}}})", "m");
  b.checkpoint = parse_json(R"({"step":3,"files":{"policy.safetensors":{"xxh3":"2"}}})", "m");
  ASSERT_EQ(compare_runs(a, b).weights.size(), 1u);
  b.checkpoint.set("step", 4);
  EXPECT_TRUE(compare_runs(a, b).weights.empty());
}

TEST(RunComparison, GarbageInTheFilesStillGivesAComparison) {
  RunFiles a, b;
  a.record = parse_json(R"({"inputs":{"data":{"1":[],"2":{"keys":[7,{"files":3}]}}},"data":[1],
      "binary":"x","steps":"many"})",
                        "run.json");
  b.record = parse_json(R"({"inputs":7,"data":{"a":1}})", "run.json");
  a.checkpoint = parse_json(R"({"files":{"x.safetensors":1}})", "m");
  a.ledger = Json("x");
  const RunComparison comparison = compare_runs(a, b);
  EXPECT_FALSE(comparison.recipe_known);
  EXPECT_FALSE(dump_json(comparison_json(comparison)).empty());
}

}  // namespace
}  // namespace xrun::run_comparison_test
