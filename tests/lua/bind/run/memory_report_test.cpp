// A run reports its planned memory before step 0, stores it with the measurement, and is refused
// if the plan exceeds the available memory.

#include "core/model/ops/allocator.h"
#include "core/model/ops/scratch.h"
#include "tests/lua/bind/session_fixture.h"
#include "tests/tree.h"

namespace xrun::memory_report_test {

class MemoryOfRuns : public SessionTest {
 protected:
  MemoryOfRuns() { install_memory_count(); }
  ~MemoryOfRuns() override { unsetenv("XRUN_MEMORY_MB"); }

  static std::string recipe() {
    return head() +
           "for step, batch in run:steps(train, cfg.batch) do\n"
           "  run:log(adamw:step(batch, dpo))\nend\n" +
           kExport;
  }
  // The recipe with other objects in its run.
  static std::string with_objects(const std::string& before, const std::string& objects) {
    std::string text = recipe();
    const std::string mark = "local run = xrun.run(cfg, { policy = policy, adamw = adamw })";
    return text.replace(text.find(mark), mark.size(),
                        before + "\nlocal run = xrun.run(cfg, { " + objects + " })");
  }
  static int64_t planned(const std::string& dir, const std::string& kind) {
    return read_json(dir + "/run.json").at("memory").at("planned").at(kind).as_int();
  }
  // Makes the next run load the frozen twin of its reference again.
  static void forget_sidecars() { std::filesystem::remove_all("cache/columns"); }
  static Json memory(const std::string& dir) { return read_json(dir + "/run.json").at("memory"); }
  static std::string pair(int64_t words) {
    std::string text;
    for (int64_t i = 0; i < words; ++i) text += " good";
    return R"({"prompt": "a b", "chosen": ")" + text + R"(", "rejected": "no"})" + "\n";
  }
};

TEST_F(MemoryOfRuns, ThePlanIsReportedBeforeStepZeroAndStoredWithTheMeasurement) {
  ASSERT_EQ(run(recipe(), "a"), "");
  const size_t said = output_.find("memory ");
  ASSERT_NE(said, std::string::npos) << output_;
  EXPECT_LT(said, output_.find("output "));
  has(output_.substr(said), "weights ");
  has(output_, ", of which tensors ");
  has(read_file("a/log.txt"), "optimizer ");
  const Json memory = read_json("a/run.json").at("memory");
  const int64_t planned = memory.at("planned").at("total").as_int();
  const int64_t measured = memory.at("measured").at("total").as_int();
  EXPECT_GT(planned, 0);
  EXPECT_GT(measured, memory.at("measured").at("weights").as_int());
  EXPECT_EQ(memory.at("planned").at("optimizer").as_int(),
            2 * memory.at("planned").at("weights").as_int());
}

TEST_F(MemoryOfRuns, AModelTooLargeIsRefusedBeforeItLoads) {
  // Damaged weights are not even read, and no folder is left that a resume would take.
  InitOptions options = init_preset("tiny");
  options.tokenizer = std::filesystem::path(source_path("tests/data/tiny_tokenizer"));
  init_model("large", options);
  std::filesystem::resize_file("large/model.safetensors", 50);
  setenv("XRUN_MEMORY_MB", "150", 1);
  const std::string error = run(recipe(), "a", {.sets = {"model=large"}});
  has(error, "test.lua:");
  has(error, "the run needs about ");
  has(error, " makes it ");
  has(error, " are available");
  EXPECT_FALSE(std::filesystem::exists("a"));
  unsetenv("XRUN_MEMORY_MB");
  has(run(recipe(), "a", {.sets = {"model=large"}}), "the file is truncated");
}

TEST_F(MemoryOfRuns, ABatchTooLargeIsRefusedBeforeStepZeroWithAChangeThatFits) {
  ASSERT_EQ(run(recipe(), "a"), "");
  const int64_t need = planned("a", "total");
  free_scratch();  // buffers of earlier runs count against the limit
  setenv("XRUN_MEMORY_MB", std::to_string(need / 1'000'000 + 1).c_str(), 1);
  const std::string error =
      run(recipe(), "b", {.sets = {"batch.pairs=16", "batch.max_tokens=100000"}});
  has(error, "the run needs about ");
  has(error, " makes it ");
}

TEST_F(MemoryOfRuns, EveryOptimizerCountsAndTheCopyThatABodyBeginsWith) {
  const std::string text =
      with_objects("local second = xrun.adamw(policy, cfg.optim)",
                   "policy = policy, adamw = adamw, second = second") +
      "for step, batch in run:steps(train, { pairs = 4, max_tokens = 600, steps = 2 }) do\n"
      "  run:log(second:step(batch, dpo))\nend\n";
  ASSERT_EQ(run(text, "a"), "");
  // Four fp32 moments of 17,600 weights, and a copy of them and of the weights.
  EXPECT_EQ(planned("a", "optimizer"), 4 * planned("a", "weights"));
  EXPECT_EQ(planned("a", "copy"), 5 * planned("a", "weights"));
  has(output_, "optimizer 282 KB");
}

TEST_F(MemoryOfRuns, APolicyThatTheRunDoesNotSaveCounts) {
  ASSERT_EQ(
      run(with_objects("local other = xrun.policy(cfg.model)", "policy = policy, adamw = adamw") +
              "print(other)\n",
          "a"),
      "");
  EXPECT_EQ(planned("a", "optimizer"), planned("a", "weights"));
}

TEST_F(MemoryOfRuns, APolicyCountsOnceAndWithoutMomentsIfNothingTrainsIt) {
  const int64_t weights = [&] {
    EXPECT_EQ(run(recipe(), "a"), "");
    return planned("a", "weights");
  }();
  forget_sidecars();
  ASSERT_EQ(run(with_objects("local scorer = xrun.scorer(policy)",
                             "policy = policy, scorer = scorer, adamw = adamw"),
                "b"),
            "");
  EXPECT_EQ(planned("b", "weights"), weights);
  EXPECT_EQ(planned("b", "reference"), weights) << "its own reference";
  forget_sidecars();
  ASSERT_EQ(run(with_objects("local other = xrun.policy(cfg.model)",
                             "policy = policy, other = other, adamw = adamw"),
                "c"),
            "");
  EXPECT_EQ(planned("c", "weights"), 2 * weights);
  EXPECT_EQ(planned("c", "optimizer"), 2 * weights);
  EXPECT_EQ(planned("c", "reference"), weights) << "of one of them";
}

TEST_F(MemoryOfRuns, OneLongRowAnywhereIsPlannedFor) {
  std::string rows;
  for (int64_t i = 0; i < 300; ++i) rows += pair(i == 150 ? 100 : 2);
  write_file_atomic("many.jsonl", rows);
  write_file_atomic("long.jsonl", pair(100));
  const auto total = [&](const std::string& file, const std::string& dir) {
    std::string text = recipe();
    const auto put = [&](const std::string& old, const std::string& now) {
      text.replace(text.find(old), old.size(), now);
    };
    put(R"({ path = "pairs.jsonl", keep = { "topic" } })", "{ path = \"" + file + "\" }");
    put("fraction = 0.2", "fraction = 0");
    put("steps = 4,", "epochs = 1,");
    EXPECT_EQ(run(text, dir, {.steps = 1, .sets = {"batch.pairs=1"}}), "");
    return planned(dir, "total");
  };
  EXPECT_EQ(total("many.jsonl", "a"), total("long.jsonl", "b"));
}

TEST_F(MemoryOfRuns, TheMeasurementIsWrittenAsSoonAsItIsTaken) {
  std::string text = recipe();
  const std::string mark = "  run:log(adamw";
  text.insert(text.find(mark),
              "  if step == 1 then print(io.open(run.dir .. '/run.json'):read('a')) end\n"
              "  if step == 3 then error('enough') end\n");
  has(run(text, "a"), "enough");
  has(output_, "\"planned\"");
  EXPECT_EQ(output_.find("\"measured\""), std::string::npos) << output_;
  const Json stopped = memory("a");
  EXPECT_GT(stopped.at("measured").at("total").as_int(),
            stopped.at("measured").at("weights").as_int());
}

}  // namespace xrun::memory_report_test
