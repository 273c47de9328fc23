// The memory plan against the allocator's count, and the allocations of steps after the second.

#include "core/model/cost/memory_plan.h"

#include <ATen/ops/ones.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/model/weights/weight_layout.h"
#include "tests/core/model/cost/memory_steps.h"

namespace xrun::memory_plan_test {
namespace {

int64_t bytes_of(const std::vector<MemoryKind>& plan, const std::string& name) {
  for (const MemoryKind& kind : plan) {
    if (kind.name == name) return kind.bytes;
  }
  return 0;
}

class MemoryPlan : public testing::TestWithParam<MemoryCase> {
 protected:
  TinyFolder folder_;
};

TEST_P(MemoryPlan, IsWithinTenPercentOfTheMeasurement) {
  if (GetParam().sidecar == ReferenceSidecar::kWarm) run_before(folder_, GetParam());
  MeasuredSteps steps(folder_, GetParam());
  steps.step();
  reset_memory_peak();
  steps.step();
  EXPECT_EQ(steps.has_twin(), GetParam().sidecar == ReferenceSidecar::kCold);
  const std::vector<MemoryKind> plan = steps.plan();
  const auto planned = static_cast<double>(total_bytes(plan));
  const auto measured = static_cast<double>(steps.peak());
  EXPECT_LT(std::fabs(planned / measured - 1), 0.1)
      << fmt::format("measured {:.1f} MB, planned ", measured / 1e6) << describe_plan(plan);
  EXPECT_EQ(bytes_of(plan, "weights"), steps.held("weights"));
  EXPECT_EQ(bytes_of(plan, "optimizer"), steps.held("optimizer"));
  RecordProperty("planned_to_measured", fmt::format("{:.3f}", planned / measured));
}

class MemoryOfSteps : public MemoryPlan {
 protected:
  static constexpr int64_t kSlack = 1 << 20;  // what ATen takes in small pieces
  // A buffer of the scratch pool: two threads need one or two, as they happen to overlap.
  static constexpr int64_t kScratchPage = 2 << 20;

  // Bytes by which steps 3 and 4 went beyond step 2: held when they were done, at most meanwhile,
  // and in pages of 4 KiB that were touched for the first time.
  struct Growth {
    int64_t held, peak, touched;
  };
  static int64_t touched_bytes() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return int64_t{usage.ru_minflt} * 4096;
  }
  // `more` is done in each step too.
  static Growth growth(
      MeasuredSteps& steps, const std::function<void()>& more = [] {}) {
    const auto step = [&] {
      reset_memory_peak();
      steps.step();
      more();
      return memory_count();
    };
    step();
    const MemoryCount second = step();
    const int64_t touched = touched_bytes();
    const MemoryCount third = step(), fourth = step();
    return {fourth.held - second.held, std::max(third.peak, fourth.peak) - second.peak,
            touched_bytes() - touched};
  }
};

TEST_P(MemoryOfSteps, NothingLargeIsAllocatedAfterTheSecondStepOfAShape) {
  MeasuredSteps steps(folder_, GetParam());
  const Growth grown = growth(steps);
  EXPECT_LT(std::llabs(grown.held), kSlack + kScratchPage) << "what outlives a step";
  EXPECT_LT(grown.peak, kSlack + kScratchPage) << "what comes and goes";
  EXPECT_LT(grown.touched, 4 * kSlack) << "pages that a step touches first";
}

// Proves that the figures above can fail.
class GrowthOfSteps : public MemoryOfSteps {};

TEST_P(GrowthOfSteps, ALeakAndAGrowingBufferAreDetected) {
  MeasuredSteps steps(folder_, GetParam());
  std::vector<at::Tensor> leaked;
  EXPECT_GE(growth(steps, [&] { leaked.push_back(at::ones({kSlack}, at::kFloat)); }).held,
            2 * 4 * kSlack);
  int64_t floats = kSlack;
  EXPECT_GE(growth(steps, [&] { scratch_floats(floats *= 2); }).held, 4 * kSlack);
  int64_t rows = 256 * kSlack;  // more than a step takes
  const Growth grown = growth(steps, [&] { at::ones({rows += 8 * kSlack}, at::kByte); });
  EXPECT_GE(grown.peak, 4 * kSlack);
  EXPECT_GE(grown.touched, 4 * kSlack);
}

PolicyOptions with(std::function<void(PolicyOptions&)> change) {
  PolicyOptions options;
  change(options);
  return options;
}

std::vector<MemoryCase> cases() {
  const InitOptions llama = shape_of("tiny"), untied = [&] {
    InitOptions init = llama;
    init.tied = false;
    return init;
  }();
  InitOptions olmo2 = llama;
  olmo2.family = "olmo2";
  InitOptions wide = llama;
  wide.vocab = 32000;
  InitOptions small = llama;
  small.layers = 2;
  const auto lora = [](PolicyOptions& o) { o.lora = AdapterOptions{}; };
  const auto dropout = [](PolicyOptions& o) {
    o.lora = AdapterOptions{.dropout = 0.1, .targets = {"q_proj", "v_proj"}};
  };
  const auto recompute = [](PolicyOptions& o) { o.recompute = true; };
  const auto bf16 = [](PolicyOptions& o) { o.dtype = c10::ScalarType::BFloat16; };
  const auto widened = [&](PolicyOptions& o) {
    bf16(o);
    o.gemm = GemmType::kFloat;
  };
  const auto little_head = [](PolicyOptions& o) { o.head_mb = 4; };
  const auto bf16_lora = [&](PolicyOptions& o) {
    bf16(o);
    lora(o);
  };
  return {{"llama_small", small, {}, 2, 1},
          {"llama", llama},
          {"llama_untied", untied},
          {"llama_several", llama, {}, 2, 3},
          {"llama_few_tokens", wide, {}, 1, 1},
          {"llama_few_tokens_several", wide, {}, 1, 2},
          {"llama_wide_head", wide},
          {"head_recomputed", wide, with(little_head)},
          {"gpt2", shape_of("gpt2-tiny")},
          {"olmo2", olmo2},
          {"moe_8", shape_of("moe-8")},
          {"moe_8_few_tokens", shape_of("moe-8"), {}, 1, 1},
          {"lora", llama, with(lora)},
          {"lora_with_dropout", llama, with(dropout)},
          {"recompute", llama, with(recompute)},
          {"bf16", llama, with(bf16)},
          {"bf16_few_tokens", wide, with(bf16), 1, 1},
          {"bf16_in_fp32", llama, with(widened)},
          {"bf16_lora", llama, with(bf16_lora)},
          {"dpo_cold", llama, {}, 4, 1, ReferenceSidecar::kCold},
          {"dpo_cold_several", llama, {}, 2, 3, ReferenceSidecar::kCold},
          {"dpo_cold_wide_head", wide, {}, 4, 1, ReferenceSidecar::kCold},
          {"dpo_cold_bf16", llama, with(bf16), 4, 1, ReferenceSidecar::kCold},
          {"dpo_cold_lora", llama, with(lora), 4, 1, ReferenceSidecar::kCold},
          {"dpo_warm", llama, {}, 4, 1, ReferenceSidecar::kWarm},
          {"dpo_warm_several", llama, {}, 2, 3, ReferenceSidecar::kWarm}};
}

// The named ones, or all but them.
std::vector<MemoryCase> cases_named(const std::vector<std::string>& names, bool others = false) {
  std::vector<MemoryCase> some = cases();
  std::erase_if(some, [&](const MemoryCase& one) {
    return (std::find(names.begin(), names.end(), one.name) != names.end()) == others;
  });
  return some;
}

const auto name_of = [](const auto& info) { return info.param.name; };

TEST(MemoryPlanOfRanks, EachLevelDividesWhatItShares) {
  const TinyFolder folder;
  const ModelConfig config = read_model_config(folder.model());
  const auto plan = [&](int64_t ranks, int64_t level) {
    MemoryShape shape;
    shape.tokens = shape.loss_rows = shape.reference_tokens = shape.reference_rows = 64;
    shape.references = 1;
    shape.ranks = ranks;
    shape.level = level;
    return memory_plan(config, shape);
  };
  const auto alone = plan(1, 0);
  for (const char* kind : {"weights", "optimizer", "reference"}) {
    const std::string name = kind;
    const int64_t whole = bytes_of(alone, name);
    const int64_t from = name == "weights" ? 3 : 1;  // the level that divides it
    for (int64_t level = 0; level <= 3; ++level) {
      const int64_t wanted = level >= from ? whole / 4 : whole;
      EXPECT_EQ(bytes_of(plan(4, level), name), wanted) << name << " at level " << level;
    }
  }
  EXPECT_LT(bytes_of(plan(4, 2), "gradients"), bytes_of(plan(4, 0), "gradients"));
}

// With many tokens the plan peaks in the backward of the last block, when an earlier micro-batch of
// the rank has three buckets under way.
TEST(MemoryPlanOfRanks, BucketsOfAnEarlierMicroBatchAreUnderWayInTheNext) {
  const TinyFolder folder;
  ModelConfig config = read_model_config(folder.model());
  config.layers = 8;
  const auto gradients = [&](int64_t level, int64_t items) {
    MemoryShape shape{.tokens = 4096, .loss_rows = 64, .several = true, .items = items};
    shape.ranks = 4;
    shape.level = level;
    return static_cast<double>(bytes_of(memory_plan(config, shape), "gradients"));
  };
  const double whole = 4 * weight_elements(config);
  const double embedding = 4 * static_cast<double>(config.vocab * config.hidden);
  const double block = (whole - embedding) / 8;
  const double under_way = embedding + 2 * block;
  // One round of micro-batches: only buffers that are sent from.
  for (const int64_t items : {1, 4}) {
    EXPECT_EQ(gradients(1, items), whole);
    EXPECT_EQ(gradients(2, items), block);
  }
  // In the second round the sums lack what is under way, later ones hold everything.
  for (const auto& [items, summed] : {std::pair(8, whole - under_way), std::pair(12, whole)}) {
    EXPECT_EQ(gradients(1, items), whole + summed / 4 + under_way);
    EXPECT_EQ(gradients(2, items), summed / 4 + 2 * under_way + block);
    EXPECT_EQ(gradients(3, items), gradients(2, items));
  }
}

TEST(MemoryPlanOfRanks, RanksWithoutAMicroBatchSendNothing) {
  const TinyFolder folder;
  const ModelConfig config = read_model_config(folder.model());
  const auto gradients = [&](int64_t items) {
    // Few tokens: the peak is the end of the step.
    MemoryShape shape{.tokens = 1, .loss_rows = 1, .several = true, .items = items};
    shape.ranks = 8;
    shape.level = 2;
    return static_cast<double>(bytes_of(memory_plan(config, shape), "gradients"));
  };
  const double whole = 4 * weight_elements(config);
  EXPECT_EQ(gradients(8) - gradients(4), whole / 2);
}

TEST(MemoryPlanOfTeachers, GradientsOfTheirLossWaitBesideTheLogits) {
  const TinyFolder folder;
  ModelConfig config = read_model_config(folder.model());
  config.vocab = 32768;
  const auto head = [&](int64_t teacher_vocab, int64_t head_mb) {
    MemoryShape shape{.tokens = 1024, .loss_rows = 1024, .head_mb = head_mb};
    shape.teacher_vocab = teacher_vocab;
    return bytes_of(memory_plan(config, shape), "head");
  };
  // A row of logits takes 128 KiB: a matrix 128 MiB, the teacher's block of 256 rows 32 MiB.
  EXPECT_EQ(head(32768, 1024) - head(0, 1024), int64_t{160} << 20);
  EXPECT_EQ(head(65536, 1024) - head(0, 1024), int64_t{192} << 20);
  // Both share head_mb, the gradients first. Then a block of logits is computed again.
  EXPECT_EQ(head(32768, 128) - head(0, 128), int64_t{64} << 20);
}

// Activations are planned as if all weights were trained, so the plan is above the measurement.
TEST(MemoryPlanOfPart, SlowFrozenWeightsHaveNoMasterNoGradientAndNoMoments) {
  const TinyFolder folder;
  for (const auto dtype : {c10::ScalarType::Float, c10::ScalarType::BFloat16}) {
    MemoryCase one{.name = "part", .init = shape_of("tiny"), .options = {.dtype = dtype}};
    one.options.train = {"*.mlp.*"};
    MeasuredSteps steps(folder, one);
    steps.step();
    reset_memory_peak();
    steps.step();
    const std::vector<MemoryKind> plan = steps.plan();
    EXPECT_EQ(bytes_of(plan, "weights"), steps.held("weights"));
    EXPECT_EQ(bytes_of(plan, "optimizer"), steps.held("optimizer"));
    const double ratio = static_cast<double>(total_bytes(plan)) / static_cast<double>(steps.peak());
    EXPECT_GT(ratio, 0.9) << describe_plan(plan);
    EXPECT_LT(ratio, 1.35) << describe_plan(plan);
  }
}

TEST(MemoryPlanOfRanks, AnAverageIsDividedAsTheMoments) {
  const TinyFolder folder;
  const ModelConfig config = read_model_config(folder.model());
  MemoryShape shape{.averages = 1};
  const int64_t whole = bytes_of(memory_plan(config, shape), "average");
  EXPECT_EQ(whole, bytes_of(memory_plan(config, shape), "weights"));
  shape.ranks = 4;
  EXPECT_EQ(bytes_of(memory_plan(config, shape), "average"), whole);
  shape.level = 1;
  EXPECT_EQ(bytes_of(memory_plan(config, shape), "average"), whole / 4);
}

INSTANTIATE_TEST_SUITE_P(Small, MemoryPlan, testing::ValuesIn(cases_named({"llama_small"})),
                         name_of);
INSTANTIATE_TEST_SUITE_P(SlowModels, MemoryPlan,
                         testing::ValuesIn(cases_named({"llama_small"}, true)), name_of);
INSTANTIATE_TEST_SUITE_P(Small, MemoryOfSteps, testing::ValuesIn(cases_named({"llama_small"})),
                         name_of);
INSTANTIATE_TEST_SUITE_P(SlowModels, MemoryOfSteps,
                         testing::ValuesIn(cases_named({"llama", "llama_several", "gpt2", "moe_8",
                                                        "lora", "recompute", "bf16_in_fp32"})),
                         name_of);
INSTANTIATE_TEST_SUITE_P(SlowModels, GrowthOfSteps, testing::ValuesIn(cases_named({"llama"})),
                         name_of);

}  // namespace
}  // namespace xrun::memory_plan_test
