// `gemm`, the compute type of products of bf16 weights, in runs and their resumes; `max_length`
// beyond the positions of the model.

#include "tests/lua/bind/session_fixture.h"

namespace xrun::type_settings_test {

class GemmSetting : public SessionTest {
 protected:
  static std::string recipe(const std::string& settings) {
    std::string text = head() +
                       "for step, batch in run:steps(train, cfg.batch) do\n"
                       "  run:log(adamw:step(batch, dpo))\nend\n" +
                       kExport;
    const std::string mark = "steps = 4,";
    return text.replace(text.find(mark), mark.size(), mark + " " + settings);
  }
  static Json record(const std::string& dir) { return read_json(dir + "/run.json"); }
  // Returns the only choice in a run's record.
  static Json choice(const std::string& dir) {
    const Json all = record(dir);
    const Json::Object& gemm = all.at("measured").at("gemm").as_object();
    EXPECT_EQ(gemm.size(), 1u);
    return gemm.at(0).second;
  }
  // Changes the record to the other type, with figures that support it.
  static std::string turn(const std::string& dir) {
    Json all = record(dir);
    const bool was_wide = choice(dir).at("gemm").as_string() == "fp32";
    Json& gemm = *all.find("measured")->find("gemm");
    gemm.set(gemm.as_object().at(0).first,
             Json(Json::Object{{"gemm", was_wide ? "storage" : "fp32"},
                               {"fp32_ms", was_wide ? 5.5 : 4.5},
                               {"storage_ms", 5.0}}));
    write_file_atomic(dir + "/run.json", dump_json(all));
    return was_wide ? "products in bf16: 5.0 ms" : "products in fp32: 4.5 ms";
  }
};

TEST_F(GemmSetting, IsMeasuredReportedAndStoredInTheRecord) {
  ASSERT_EQ(run(recipe("dtype = 'bf16'"), "a"), "");
  has(output_, "ms a product with its gradients");
  has(output_, "measured now");
  has(read_file("a/log.txt"), "ms a product with its gradients");
  const Json first = choice("a");
  ASSERT_EQ(run(recipe("dtype = 'bf16'"), "b"), "");
  has(output_, "as measured before");
  EXPECT_EQ(choice("b"), first);
  EXPECT_EQ(metrics("a"), metrics("b"));
}

TEST_F(GemmSetting, AResumeUsesTheRunsChoiceNotTheMachines) {
  const std::string text = recipe("dtype = 'bf16'");
  ASSERT_EQ(run(text, "a", {.steps = 2}), "");
  const std::string said = turn("a");
  const Json turned = choice("a");
  std::filesystem::remove_all(folder_ / "cache" / "measured");
  ASSERT_EQ(run(text, "a", {.resume = true}), "");
  has(output_, said);
  has(output_, "(run.json)");
  EXPECT_EQ(choice("a"), turned);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cache" / "measured" / "gemm"));
}

TEST_F(GemmSetting, ADamagedRecordIsReportedAndMeasuredAgain) {
  const std::string text = recipe("dtype = 'bf16'");
  ASSERT_EQ(run(text, "a", {.steps = 2}), "");
  Json all = record("a");
  Json& gemm = *all.find("measured")->find("gemm");
  gemm.set(gemm.as_object().at(0).first, Json("fast"));
  write_file_atomic("a/run.json", dump_json(all));
  ASSERT_EQ(run(text, "a", {.resume = true}), "");
  has(output_, "measured.gemm cannot be used");
  EXPECT_TRUE(choice("a").is_object());
}

TEST_F(GemmSetting, SlowARecordWithoutAChoiceIsReported) {
  const std::string text = recipe("dtype = 'bf16'");
  for (const char* measured : {R"({"gemm":"fp32"})", "5", "{}", "null"}) {
    const std::string dir = "run_" + std::to_string(std::string(measured).size());
    ASSERT_EQ(run(text, dir, {.steps = 1}), "") << measured;
    Json all = record(dir);
    all.set("measured", parse_json(measured, "measured"));
    write_file_atomic(dir + "/run.json", dump_json(all));
    ASSERT_EQ(run(text, dir, {.resume = true, .steps = 2}), "") << measured;
    has(output_, "products are measured again, so the last digits may differ");
    EXPECT_TRUE(choice(dir).is_object()) << measured;
  }
}

TEST_F(GemmSetting, AnExplicitChoiceWinsAndMeasuresNothing) {
  ASSERT_EQ(run(recipe("dtype = 'bf16', gemm = 'fp32'"), "wide"), "");
  ASSERT_EQ(run(recipe("dtype = 'bf16', gemm = 'bf16'"), "narrow"), "");
  EXPECT_EQ(record("wide").find("measured"), nullptr);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cache" / "measured" / "gemm"));
  ASSERT_EQ(run(recipe(""), "plain"), "");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cache" / "measured" / "gemm"));
}

TEST_F(GemmSetting, SlowTypesAreSpelledAlikeInBothKeys) {
  const auto made_in = [&](const std::string& settings, const std::string& dir) {
    EXPECT_EQ(run(recipe(settings), dir), "") << settings;
    return metrics(dir);
  };
  const auto wide = made_in("dtype = 'bf16', gemm = 'fp32'", "wide");
  EXPECT_EQ(made_in("dtype = 'bfloat16', gemm = 'f32'", "a"), wide);
  EXPECT_EQ(made_in("dtype = 'bf16', gemm = 'float32'", "b"), wide);
  EXPECT_EQ(made_in("dtype = 'bf16', gemm = 'bfloat16'", "c"),
            made_in("dtype = 'bf16', gemm = 'bf16'", "narrow"));
  EXPECT_EQ(made_in("dtype = 'f32', gemm = 'f32'", "d"), made_in("", "plain"));
  EXPECT_NE(metrics("narrow"), wide);
}

TEST_F(GemmSetting, FullPrecisionWeightsAreNotRoundedForAProduct) {
  for (const char* bf16 : {"bf16", "bfloat16"}) {
    has(run(recipe(fmt::format("gemm = '{}'", bf16)), "a"), "set dtype = \"bf16\" too");
  }
  has(run(recipe("dtype = 'bf16', gemm = 'fp8'"), "a"), "\"auto\"");
}

class MaxLength : public SessionTest {
 protected:
  static std::string recipe(int64_t config, const std::string& options = "") {
    return fmt::format(R"(local xrun = require "xrun"
local cfg = xrun.config {{
  model = "tiny", data = {{ {{ path = "pairs.jsonl" }} }}, max_length = {}, steps = 1,
  optim = {{ lr = 1e-3 }}, batch = {{ pairs = 2 }},
}}
local policy = xrun.policy(cfg.model)
local train = xrun.preference(cfg.data, policy{})
local adamw = xrun.adamw(policy, cfg.optim)
local run = xrun.run(cfg, {{ policy = policy, adamw = adamw }})
for step, batch in run:steps(train, cfg.batch) do
  run:log(adamw:step(batch, function(p) return -policy:logprob(p.chosen) end))
end
)",
                       config, options);
  }
  // A model with 64 learned positions and the tokenizer of "tiny".
  static void make_gpt2() {
    InitOptions options = init_preset("gpt2-tiny");
    options.layers = 1;
    options.max_length = 64;
    options.tokenizer = source_path("tests/data/tiny_tokenizer");
    options.vocab = Tokenizer::load(options.tokenizer)->vocab_size();
    std::filesystem::remove_all("tiny");
    init_model("tiny", options);
  }
};

TEST_F(MaxLength, BeyondLearnedPositionsIsRefusedBeforeAnyData) {
  make_gpt2();
  std::filesystem::remove("pairs.jsonl");
  has(run(recipe(65), "r"),
      "max_length is 65, but tiny has 64 learned positions; set max_length=64 or less");
  has(run(recipe(64, ", { max_length = 65 }"), "r"), "max_length is 65, but tiny has 64 learned");
}

TEST_F(MaxLength, BeyondRotaryPositionsIsANotice) {
  EXPECT_EQ(run(recipe(2049), "r"), "");
  has(output_, "warning: max_length is 2,049, beyond the 2,048 positions that tiny was made for");
  EXPECT_EQ(run(recipe(2048), "s"), "");
  EXPECT_EQ(output_.find("was made for"), std::string::npos) << output_;
}

TEST_F(MaxLength, IsNotAdvisedBeyondTheModelsPositions) {
  make_gpt2();
  write_file_atomic("pairs.jsonl",
                    R"({"prompt":"a","chosen":"b","rejected":")" + std::string(200, 'x') + "\"}\n");
  const std::string error = run(recipe(20), "r");
  has(error, "; the model was made for 64\n");
  EXPECT_EQ(error.find("--set max_length"), std::string::npos) << error;
}

}  // namespace xrun::type_settings_test
