// The refusal of a run that does not fit into memory, and the change of the configuration it
// proposes.

#include "core/model/cost/memory_remedy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "core/base/error.h"
#include "core/model/cost/memory_plan.h"
#include "core/model/ops/device_memory.h"
#include "core/model/weights/init_model.h"
#include "core/model/weights/weight_check.h"

namespace xrun::memory_remedy_test {
namespace {

constexpr int64_t kMiB = 1 << 20;

class SmallestChange : public testing::Test {
 protected:
  SmallestChange() {
    shape_.tokens = 8192;
    shape_.loss_rows = 4096;
  }
  static void SetUpTestSuite() { tiny_ = tiny_config(); }
  static ModelConfig tiny_config() {
    const std::filesystem::path dir =
        std::filesystem::temp_directory_path() / ("xrun_change_" + std::to_string(getpid()));
    std::filesystem::remove_all(dir);
    init_model(dir, init_preset("tiny"));
    ModelConfig config = read_model_config(dir);
    std::filesystem::remove_all(dir);
    return config;
  }
  int64_t need(const MemoryShape& shape) const { return total_bytes(memory_plan(config_, shape)); }
  std::string error(int64_t available, int64_t held = 0) const {
    try {
      check_memory({{config_, shape_}}, /*longest=*/512, held, available);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  static void expect_has(const std::string& text, const std::string& piece) {
    EXPECT_NE(text.find(piece), std::string::npos) << text << "\n  lacks: " << piece;
  }

  inline static ModelConfig tiny_;
  ModelConfig config_ = tiny_;
  MemoryShape shape_;
};

TEST_F(SmallestChange, ARunThatFitsIsNotRefused) {
  EXPECT_EQ(error(need(shape_)), "");
  EXPECT_EQ(error(need(shape_) - 1000, 1000), "") << "what is held already is not needed again";
  EXPECT_EQ(error(0), "") << "unknown";
  EXPECT_NE(error(need(shape_) - 1), "");
}

TEST_F(SmallestChange, KindsAndBothTotalsAreNamed) {
  const std::string text = error(need(shape_) - 1);
  expect_has(text, "the run needs about ");
  expect_has(text, "activations ");
  expect_has(text, " are available; ");
}

TEST_F(SmallestChange, PrefersASlowerRunToTrainingSomethingElse) {
  MemoryShape less = shape_;
  less.head_mb = 64;
  ASSERT_LT(need(less), need(shape_));
  expect_has(error(need(less)), "; head_mb = 64 makes it ");
  shape_.head_mb = 64;
  less.recompute = true;
  ASSERT_LT(need(less), need(shape_));
  expect_has(error(need(less)), "; recompute = true makes it ");
  shape_.recompute = true;
  expect_has(error(need(shape_) - kMiB), "; batch.max_tokens = ");
  MemoryShape none = shape_;
  none.tokens = none.loss_rows = 0;
  const std::string lora = error(need(none) - kMiB);
  expect_has(lora, "lora = { rank = 16 }");
  expect_has(error(kMiB), "no setting makes it fit");
}

TEST_F(SmallestChange, NoMicroBatchIsProposedBelowTheLongestSequence) {
  int64_t seen = 0;
  for (int64_t mib = 40; mib < need(shape_) / kMiB; mib += 20) {
    const std::string text = error(mib * kMiB);
    const std::string mark = "batch.max_tokens = ";
    const size_t at = text.find(mark);
    if (at == std::string::npos) continue;
    ++seen;
    EXPECT_GE(std::stoll(text.substr(at + mark.size())), 512) << text;
  }
  EXPECT_GT(seen, 0);
}

TEST_F(SmallestChange, SlowASettingThatIsSetAlreadyIsNotProposed) {
  shape_.head_mb = 16;
  shape_.recompute = true;
  shape_.dtype = c10::ScalarType::BFloat16;
  shape_.adapter = AdapterOptions{};
  int64_t proposed = 0;
  for (int64_t left = need(shape_) - 1; left > 0; left -= kMiB) {
    const std::string text = error(left);
    for (const char* piece : {"head_mb", "recompute", "dtype", "lora"}) {
      EXPECT_EQ(text.find(piece), std::string::npos) << text;
    }
    if (text.find("; batch.max_tokens = ") != std::string::npos) ++proposed;
  }
  EXPECT_GT(proposed, 0);
}

TEST_F(SmallestChange, HeadAndBlocksTogetherComeBeforeFewerTokens) {
  MemoryShape less = shape_;
  less.head_mb = 64;
  less.recompute = true;
  expect_has(error(need(less)), "; recompute = true, head_mb = 64 makes it about ");
}

TEST_F(SmallestChange, FrozenWeightsInBf16AreProposedForAnAdapterToo) {
  config_.hidden = config_.ffn = 4096;
  config_.vocab = 1000;
  shape_.tokens = shape_.loss_rows = 64;
  shape_.adapter = AdapterOptions{};
  shape_.recompute = true;
  shape_.head_mb = 16;
  expect_has(error(need(shape_) * 7 / 10), "; dtype = \"bf16\" makes it about ");
}

TEST_F(SmallestChange, ModelsAreHeldTogetherAndTrainTogetherOrInTurn) {
  const auto bytes = [&](const std::vector<PlannedModel>& models) {
    return total_bytes(memory_plan(models));
  };
  MemoryShape idle = shape_;
  idle.trains = false;
  const PlannedModel one{config_, shape_}, later{config_, shape_, 1}, held{config_, idle};
  const int64_t weights = weight_bytes(config_, shape_.dtype);
  EXPECT_EQ(bytes({one, held}), bytes({one}) + weights);
  EXPECT_EQ(bytes({one, later}), bytes({one}) + 3 * weights) << "with its moments";
  EXPECT_GT(bytes({one, one}), bytes({one, later}));
  MemoryShape twice = shape_;
  twice.optimizers = 2;
  EXPECT_EQ(need(twice), need(shape_) + 2 * weights);
  MemoryShape twin = shape_, twins = shape_;
  twin.references = 1;
  twins.references = 2;
  EXPECT_EQ(need(twins), need(twin) + weights);
}

TEST_F(SmallestChange, AModelThatScoresIsChargedNoVocabulary) {
  MemoryShape scores = shape_;
  scores.scores = true;
  for (const MemoryKind& kind : memory_plan(config_, scores)) EXPECT_NE(kind.name, "head");
  MemoryShape none = scores;
  none.loss_rows = 0;
  EXPECT_EQ(need(scores), need(none));
}

// Sizes from a hostile config.json and --set.
TEST_F(SmallestChange, NoSizeMakesAPlanWrapOrCrash) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  const int64_t usual = need(shape_);
  int64_t ModelConfig::*const sizes[] = {
      &ModelConfig::hidden, &ModelConfig::heads, &ModelConfig::kv_heads, &ModelConfig::head_dim,
      &ModelConfig::ffn,    &ModelConfig::vocab, &ModelConfig::layers};
  const ModelConfig sound = config_;
  for (int64_t ModelConfig::*const size : sizes) {
    config_ = sound;
    config_.*size = kHuge;
    EXPECT_GE(need(shape_), usual);
    EXPECT_NE(error(int64_t{1} << 40), "");
  }
  config_ = sound;
  config_.moe_layers.assign(static_cast<size_t>(config_.layers), 1);
  config_.moe = {.experts = kHuge, .top_k = kHuge, .ffn = kHuge};
  EXPECT_NE(error(int64_t{1} << 40), "");
  config_ = sound;
  for (int64_t MemoryShape::*const size :
       {&MemoryShape::tokens, &MemoryShape::loss_rows, &MemoryShape::head_mb}) {
    MemoryShape shape = shape_;
    shape.*size = kHuge;
    EXPECT_GE(need(shape), usual) << "never below what less asks for";
  }
}

TEST_F(SmallestChange, ManyLayersArePlannedAtOnce) {
  config_.layers = 1 << 16;
  shape_.adapter = AdapterOptions{};
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_NE(error(kMiB), "");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

}  // namespace
}  // namespace xrun::memory_remedy_test
