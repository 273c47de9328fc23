// The storage type of weights and the compute type of products are independent.

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/model/weights/init_model.h"
#include "core/train/models/policy.h"
#include "core/train/models/reference.h"
#include "tests/core/train/models/reference_peer.h"
#include "tests/core/train/step_fixture.h"
#include "tests/error_of.h"

namespace xrun::precision_test {
namespace {

class PrecisionTest : public testing::Test {
 protected:
  struct Result {
    at::Tensor logprob;
    std::vector<at::Tensor> gradients;
  };
  std::shared_ptr<Policy> open(c10::ScalarType dtype, GemmType gemm) {
    PolicyOptions options;
    options.dtype = dtype;
    options.gemm = gemm;
    return Policy::open(model(), options);
  }
  // The weights have the scale of a trained model, not one that makes bf16 look bad.
  std::filesystem::path model() const {
    const std::filesystem::path dir = folder_.path() / "even";
    if (!std::filesystem::exists(dir)) init_model(dir, {.scale = 0.05});
    return dir;
  }
  static Result run(Policy& policy) {
    const auto batch = tiny_batch(tiny_pairs(4, 5), 4);
    const at::Tensor logprob = policy.token_logprob(batch->micros()[0]->all());
    logprob.mean().backward();
    Result result{logprob.detach(), {}};
    for (const Parameter& parameter : policy.parameters()) {
      result.gradients.push_back(parameter.master.grad());
    }
    return result;
  }
  // Root of the summed squares of a - b, relative to those of b.
  static double distance(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
    double apart = 0, size = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      apart += a[i].sub(b[i]).square().sum().item<double>();
      size += b[i].square().sum().item<double>();
    }
    return std::sqrt(apart / size);
  }

  TinyFolder folder_;
};

TEST_F(PrecisionTest, EitherTypeOfProductStaysWithinTheToleranceOfStorage) {
  const Result exact = run(*open(at::kFloat, GemmType::kStorage));
  const Result narrow = run(*open(at::kBFloat16, GemmType::kStorage));
  const Result wide = run(*open(at::kBFloat16, GemmType::kFloat));
  for (const Result* one : {&narrow, &wide}) {
    EXPECT_TRUE(at::allclose(one->logprob, exact.logprob, 0, 5e-2));
    EXPECT_LT(distance(one->gradients, exact.gradients), 2e-2);
  }
  EXPECT_FALSE(at::equal(narrow.logprob, exact.logprob));
}

TEST_F(PrecisionTest, AFrozenModelComputesLikeItsPolicy) {
  const auto policy = open(at::kBFloat16, GemmType::kFloat);
  EXPECT_EQ(policy->load_frozen(model())->options().gemm, GemmType::kFloat);
  const auto narrow = open(at::kBFloat16, GemmType::kStorage);
  EXPECT_NE(ReferencePeer::key_text(*policy->reference(), "data"),
            ReferencePeer::key_text(*narrow->reference(), "data"));
}

TEST_F(PrecisionTest, TheTypeOfProductsIsFixedOnceWeightsAreLoaded) {
  const auto policy = open(at::kBFloat16, GemmType::kStorage);
  policy->use_gemm(GemmType::kFloat);
  EXPECT_EQ(policy->model().options().gemm, GemmType::kFloat);
  EXPECT_EQ(message_of<Error>([&] { policy->use_gemm(GemmType::kStorage); }),
            "the compute type must be set before the weights load");
}

}  // namespace
}  // namespace xrun::precision_test
