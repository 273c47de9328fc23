// A folded step never needs more memory than the step of its separate sequences.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "core/base/philox.h"
#include "core/model/ops/allocator.h"
#include "core/model/ops/scratch.h"
#include "core/model/weights/init_model.h"
#include "core/train/step.h"
#include "tests/core/train/trained.h"

namespace xrun::fold_memory_test {
namespace {

std::vector<int32_t> random_ids(uint64_t seed, int64_t count) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<int32_t>(philox_u64(seed, 96, 0, static_cast<uint64_t>(i)) % 250));
  }
  return ids;
}

// Pairs of one prompt with answers of these lengths.
std::vector<TinyPair> pairs_of(int64_t prompt, int64_t answer, int64_t count) {
  std::vector<TinyPair> pairs;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<uint64_t>(2 * i);
    pairs.push_back({random_ids(1000, prompt), random_ids(at, answer), random_ids(at + 1, answer)});
  }
  return pairs;
}

TEST(FoldMemory, SlowNoPeakExceedsTheUnfoldedStep) {
  install_memory_count();
  const TinyFolder folder;
  init_model(folder.path() / "model_0",
             {.layers = 2, .hidden = 64, .heads = 4, .ffn = 160, .vocab = 500, .scale = 0.1});
  const Trained t = open_trained(folder);
  const auto peak = [&](const std::vector<TinyPair>& pairs, size_t per_pack, FoldMode mode) {
    const auto step = [&] {
      train_step({{tiny_batch(pairs, per_pack, fold_info(mode, 16)).get(), t.objective()}},
                 t.adamw.get());
    };
    step();
    free_scratch();
    const int64_t before = memory_count().held;
    reset_memory_peak();
    step();
    return memory_count().peak - before;
  };
  struct FoldShape {
    int64_t prompt, answer, pairs;
    size_t per_pack;
  };
  // From hardly shared to mostly shared, a group in one micro-batch and in several.
  for (const FoldShape& one : {FoldShape{16, 300, 1, 1},
                               {60, 150, 1, 1},
                               {300, 50, 1, 1},
                               {200, 50, 4, 4},
                               {200, 50, 4, 1},
                               {400, 20, 8, 2}}) {
    const std::vector<TinyPair> pairs = pairs_of(one.prompt, one.answer, one.pairs);
    const int64_t whole = peak(pairs, one.per_pack, FoldMode::kNever);
    const int64_t folded = peak(pairs, one.per_pack, FoldMode::kAlways);
    EXPECT_LE(folded, whole) << fmt::format("prompt {}, answer {}, {} pairs, {} in a micro-batch",
                                            one.prompt, one.answer, one.pairs, one.per_pack);
  }
}

}  // namespace
}  // namespace xrun::fold_memory_test
