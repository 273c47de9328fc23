// Memory of loading and training, in bytes that the allocator counts: no second copy of
// the weights while loading, and no full-precision copy of a frozen reference.

#include <gtest/gtest.h>

#include <algorithm>

#include "core/model/ops/allocator.h"
#include "core/model/weights/init_model.h"
#include "tests/core/model/load_model.h"
#include "tests/core/train/step_fixture.h"

namespace xrun::load_memory_test {
namespace {

class LoadMemory : public testing::Test {
 protected:
  void SetUp() override { install_memory_count(); }

  // The model has some megabytes, so that memory that does not grow with the weights is small
  // beside them.
  std::filesystem::path model() const {
    const std::filesystem::path dir = folder_.path() / "wide";
    if (!std::filesystem::exists(dir)) init_model(dir, {.hidden = 256, .ffn = 688, .vocab = 300});
    return dir;
  }
  struct Sizes {
    int64_t all = 0, largest = 0;  // bytes
  };
  static Sizes sizes_of(const Model& model) {
    Sizes sizes;
    for (const Parameter& parameter : model.parameters()) {
      const auto bytes = static_cast<int64_t>(parameter.master.nbytes());
      sizes.all += bytes;
      sizes.largest = std::max(sizes.largest, bytes);
    }
    return sizes;
  }

  TinyFolder folder_;
};

constexpr int64_t kSmall = 256 << 10;  // rotary tables, the allocator's rounding
constexpr int64_t kScratch = 4 << 20;  // working memory that is kept from step to step

TEST_F(LoadMemory, LoadingPeaksAtOneTensorMoreThanItKeeps) {
  const std::filesystem::path dir = model();
  for (const auto& [dtype, trainable] :
       {std::pair{at::kFloat, true}, {at::kFloat, false}, {at::kBFloat16, false}}) {
    reset_memory_peak();
    const int64_t before = memory_count().held;
    const auto loaded = load_model(dir, dtype, trainable);
    const Sizes sizes = sizes_of(*loaded);
    // A tensor on its way in still has the file's type, fp32.
    const int64_t on_its_way = dtype == at::kFloat ? sizes.largest : 2 * sizes.largest;
    EXPECT_GE(memory_count().held - before, sizes.all);
    EXPECT_LE(memory_count().peak - before, sizes.all + on_its_way + kSmall) << dtype << trainable;
    EXPECT_LE(memory_count().held - before, sizes.all + kSmall) << dtype << trainable;
  }
}

TEST_F(LoadMemory, APolicyAndItsReferenceHoldSixteenBytesAWeight) {
  const std::filesystem::path dir = model();
  const int64_t before = memory_count().held;
  PolicyOptions options;
  options.dtype = at::kBFloat16;
  const auto policy = Policy::open(dir, options);
  const auto reference = policy->reference();
  AdamWOptions optim;
  optim.lr = 1e-3;
  AdamW adamw({policy}, optim);
  for (int64_t step = 0; step < 3; ++step) {
    BatchInfo info;
    info.step = step;
    train_step({{tiny_batch(tiny_pairs(2), 2, info).get(), dpo(policy, reference, 0.1)}}, &adamw);
  }
  const int64_t weights = sizes_of(policy->model()).all / 4;
  // fp32 masters 4, their bf16 copies 2, two moments 8, the reference's bf16 weights 2
  const int64_t held = memory_count().held - before;
  EXPECT_LE(held, 16 * weights + kScratch + kSmall);
  EXPECT_GE(held, 14 * weights);
}

}  // namespace
}  // namespace xrun::load_memory_test
