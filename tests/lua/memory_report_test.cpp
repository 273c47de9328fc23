// A run says before step 0 what it will hold in memory, keeps it beside what it held, and is
// refused where that is too much.

#include "core/model/allocator.h"
#include "core/model/memory_count.h"
#include "tests/lua/session_fixture.h"

namespace xrun {

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
};

TEST_F(MemoryOfRuns, ThePlanIsSaidBeforeStepZeroAndKeptBesideWhatWasMeasured) {
  ASSERT_EQ(run(recipe(), "a"), "");
  const size_t said = output_.find("memory ");
  ASSERT_NE(said, std::string::npos) << output_;
  EXPECT_LT(said, output_.find("output "));
  has(output_.substr(said), "weights ");
  has(output_, ", of it tensors ");
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
  // Damaged weights are not even looked at, and no folder is left that a resume would take.
  InitOptions options = init_preset("tiny");
  options.tokenizer = std::filesystem::path(XRUN_SOURCE_DIR) / "tests/data/tiny_tokenizer";
  init_model("large", options);
  std::filesystem::resize_file("large/model.safetensors", 50);
  setenv("XRUN_MEMORY_MB", "150", 1);
  const std::string error = run(recipe(), "a", false, {}, {"model=large"});
  has(error, "test.lua:");
  has(error, "the run needs about ");
  has(error, " makes it ");
  has(error, "150 MB are available");
  EXPECT_FALSE(std::filesystem::exists("a"));
  unsetenv("XRUN_MEMORY_MB");
  has(run(recipe(), "a", false, {}, {"model=large"}), "the file is truncated");
}

TEST_F(MemoryOfRuns, ABatchTooLargeIsRefusedBeforeStepZeroWithAChangeThatFits) {
  ASSERT_EQ(run(recipe(), "a"), "");
  const Json planned = read_json("a/run.json").at("memory").at("planned");
  const int64_t held = memory_count().held;
  const int64_t need = planned.at("total").as_int() - held;
  setenv("XRUN_MEMORY_MB", std::to_string(std::max<int64_t>(need / 1'000'000, 1)).c_str(), 1);
  const std::string error =
      run(recipe(), "b", false, {}, {"batch.pairs=16", "batch.max_tokens=100000"});
  has(error, "the run needs about ");
  has(error, " makes it ");
}

}  // namespace xrun
