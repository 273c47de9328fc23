// One token, one result: forward operations see each row by itself, and so does a whole model.

#include "core/model/cost/row_probe.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linear.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/temporary_dir.h"
#include "core/model/model.h"
#include "core/model/ops/linear_head.h"
#include "core/model/weights/init_model.h"
#include "tests/core/model/load_model.h"
#include "tests/error_of.h"
#include "tests/gradient_check.h"
#include "tests/scoped_variable.h"

namespace xrun::row_probe_test {
namespace {

// Each row, but scaled by the number of rows.
RowOperation counting_rows() {
  return {"counting", [](const at::Tensor& x) { return x * (1.0 + 0x1p-20 * x.size(0)); }};
}

RowOperation blas() {
  const at::Tensor weight = random_tensor({64, 577}, 4);
  return {"blas", [=](const at::Tensor& x) {
            return at::linear(x, weight.narrow(1, 0, x.size(1)).contiguous());
          }};
}

std::vector<int32_t> tokens_from(int32_t first, int32_t n) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < n; ++i) ids.push_back((first + 7 * i) % 90);
  return ids;
}

// Log-probs of all tokens but the first of one sequence of a pack, [n - 1].
at::Tensor logprobs(Model& model, const std::vector<std::vector<int32_t>>& pack, size_t which,
                    int64_t head_mb) {
  int64_t begin = 0;
  for (size_t s = 0; s < which; ++s) begin += static_cast<int64_t>(pack[s].size());
  const PackInput input = pack_sequences(pack);
  const auto n = static_cast<int64_t>(pack[which].size());
  const at::Tensor index = at::arange(begin, begin + n - 1, at::kLong);
  return model.token_logprob(input, index, input.tokens.index_select(0, index + 1), head_mb);
}

class OneTokenOneResult : public testing::TestWithParam<std::string> {};

}  // namespace

TEST(RowProbe, NoForwardOperationOfThisMachineSeesOtherRows) {
  EXPECT_EQ(find_dependent_rows(forward_row_operations()), std::vector<std::string>{});
}

TEST(RowProbe, AnOperationThatSeesOtherRowsIsNamed) {
  EXPECT_EQ(find_dependent_rows({counting_rows()}), std::vector<std::string>{"counting"});
  // MKL orders its sums by the number of rows.
  EXPECT_EQ(find_dependent_rows({blas()}), std::vector<std::string>{"blas"});
}

TEST(RowProbe, AnOperationThatThrowsOnOneThreadLeavesTheThreadCount) {
  const int threads = at::get_num_threads();
  at::set_num_threads(2);
  const RowOperation failing{"failing", [](const at::Tensor& x) {
                               XRUN_CHECK(at::get_num_threads() == 2, "one thread");
                               return x;
                             }};
  EXPECT_EQ(error_of([&] { find_dependent_rows({failing}); }), "one thread");
  EXPECT_EQ(at::get_num_threads(), 2);
  at::set_num_threads(threads);
}

TEST(RowProbe, TheNoticeIsRemembered) {
  const TemporaryDir folder("row_probe_test");
  const ScopedVariable cache("XRUN_CACHE", folder.path().string());
  int calls = 0;
  const RowOperation counted{"counted", [&](const at::Tensor& x) {
                               ++calls;
                               return counting_rows().apply(x);
                             }};
  const std::string notice = dependent_rows_notice({counted});
  EXPECT_EQ(
      notice,
      "on this machine the bits of a token depend on the tokens computed beside it (counted); "
      "log-probs of single, packed and folded sequences may differ in their last digits");
  const int first = calls;
  EXPECT_EQ(dependent_rows_notice({counted}), notice);
  EXPECT_EQ(calls, first);
}

TEST(RowProbe, AMachineThatKeepsTheRuleHasNoNotice) {
  const TemporaryDir folder("row_probe_test");
  const ScopedVariable cache("XRUN_CACHE", folder.path().string());
  EXPECT_EQ(dependent_rows_notice(), "");
}

TEST_P(OneTokenOneResult, ASequenceHasTheSameLogProbsAloneAndInAnyPack) {
  const at::NoGradGuard no_grad;
  const TemporaryDir folder("one_token_test");
  InitOptions options{.family = GetParam(), .hidden = 40, .ffn = 50, .vocab = 97, .scale = 0.2};
  if (options.family == "gpt2") options.kv_heads = options.heads;
  if (options.family == "qwen3_moe")
    options.experts = 4, options.top_k = 2, options.expert_ffn = 18;
  init_model(folder.path() / "tiny", options);
  const auto model = load_model(folder.path() / "tiny", at::kFloat, false);
  const std::vector<int32_t> one = tokens_from(3, 19), long_one = tokens_from(5, 700);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor alone = logprobs(*model, {one}, 0, 64);
  for (const int count : {1, 2}) {
    at::set_num_threads(count);
    EXPECT_TRUE(logprobs(*model, {one}, 0, 64).equal(alone)) << count;
    EXPECT_TRUE(logprobs(*model, {one, tokens_from(8, 2)}, 0, 64).equal(alone)) << count;
    EXPECT_TRUE(logprobs(*model, {tokens_from(1, 3), one}, 1, 64).equal(alone)) << count;
    EXPECT_TRUE(logprobs(*model, {long_one, one, tokens_from(2, 31)}, 1, 0).equal(alone)) << count;
  }
  at::set_num_threads(threads);
}

TEST(OneTokenOneHead, GivesTheSameLogProbWhateverElseItIsAskedFor) {
  const at::NoGradGuard no_grad;
  const at::Tensor hidden = random_tensor({40, 33}, 1), weight = random_tensor({5003, 33}, 2, 0.4);
  const at::Tensor index = at::arange(40, at::kLong), target = index * 101;
  const at::Tensor plain = linear_head(hidden, weight, index, target, {}).logprob;
  const HeadResult rich =
      linear_head(hidden, weight, index, target, {.entropy = true, .lse = true, .top_k = 3});
  EXPECT_TRUE(plain.equal(rich.logprob));
}

INSTANTIATE_TEST_SUITE_P(Families, OneTokenOneResult,
                         testing::Values("llama", "qwen3_moe", "gpt2", "olmo2"),
                         [](const auto& info) { return info.param; });

}  // namespace xrun::row_probe_test
