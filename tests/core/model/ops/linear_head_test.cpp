// The outputs of the head against fp64, their gradients, padding, ties and bad options.

#include "core/model/ops/linear_head.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/base/error.h"
#include "core/model/ops/head_block.h"
#include "tests/error_of.h"
#include "tests/head_oracle.h"

namespace xrun::linear_head_test {

namespace {

constexpr const char* kOutputs[] = {"logprob", "entropy", "lse", "top_logprob"};

at::Tensor output(const HeadResult& result, const std::string& name) {
  if (name == "logprob") return result.logprob;
  if (name == "entropy") return result.entropy;
  return name == "lse" ? result.lse : result.top_logprob;
}

struct InputGradients {
  HeadResult value;
  at::Tensor hidden, weight;
};

// Gradients of the sum of the named outputs, each times fixed numbers.
template <class F>
InputGradients run(const HeadProblem& p, const std::vector<std::string>& names, F f) {
  const at::Tensor h = p.hidden.detach().clone().set_requires_grad(true);
  const at::Tensor w = p.weight.detach().clone().set_requires_grad(true);
  const HeadResult result = f(h, w);
  at::Tensor loss = at::zeros_like(result.logprob.sum());
  for (size_t i = 0; i < names.size(); ++i) {
    const at::Tensor y = output(result, names[i]);
    loss = loss + (y * random_tensor(y.sizes().vec(), 30 + i)).sum();
  }
  loss.backward();
  return {result, h.grad(), w.grad()};
}

InputGradients ours(const HeadProblem& p, const std::vector<std::string>& names,
                    const HeadOptions& options) {
  return run(p, names, [&](const at::Tensor& h, const at::Tensor& w) {
    return linear_head(h, w, p.index, p.target, options);
  });
}

InputGradients oracle(const HeadProblem& p, const std::vector<std::string>& names,
                      const HeadOptions& options) {
  return run(p, names, [&](const at::Tensor& h, const at::Tensor& w) {
    return head_oracle(h, w, p.index, p.target, options);
  });
}

HeadOptions everything() {
  HeadOptions options;
  options.entropy = options.lse = true;
  options.top_k = 3;
  return options;
}

std::vector<std::string> all_names() { return {std::begin(kOutputs), std::end(kOutputs)}; }

}  // namespace

struct HeadCase {
  at::ScalarType type;
  int64_t T, R, V, D, M;
  double temperature;
};

class LinearHeadTest : public testing::TestWithParam<HeadCase> {};

INSTANTIATE_TEST_SUITE_P(Cases, LinearHeadTest,
                         testing::Values(HeadCase{at::kFloat, 5, 7, 33, 8, 0, 1.0},
                                         HeadCase{at::kFloat, 40, 300, 517, 24, 1, 0.7},
                                         HeadCase{at::kFloat, 9, 11, 131, 17, 4, 2.5},
                                         HeadCase{at::kFloat, 6, 3, 2100, 600, 2, 1.0},
                                         HeadCase{at::kFloat, 3, 1, 3, 1, 0, 1.0},
                                         HeadCase{at::kFloat, 4, 0, 10, 3, 2, 1.0},
                                         HeadCase{at::kBFloat16, 9, 30, 77, 16, 0, 1.3},
                                         HeadCase{at::kHalf, 9, 30, 77, 16, 3, 1.0}));

TEST_P(LinearHeadTest, AgreesWithDoublePrecisionInEveryOutputAndGradient) {
  const HeadCase c = GetParam();
  HeadProblem p = head_problem(c.T, c.R, c.V, c.D, c.M);
  p.hidden = p.hidden.to(c.type);
  p.weight = p.weight.to(c.type);
  HeadOptions options = everything();
  options.temperature = c.temperature;
  // Narrow gradients are rounded once, at the end.
  const double of_gradient = c.type == at::kFloat ? 1e-5 : 1e-2;
  for (const char* name : kOutputs) {
    const InputGradients got = ours(p, {name}, options), want = oracle(p, {name}, options);
    expect_close(output(got.value, name), output(want.value, name), 1e-5, name);
    EXPECT_EQ(output(got.value, name).scalar_type(), at::kFloat);
    EXPECT_EQ(got.hidden.scalar_type(), c.type);
    expect_close(got.hidden, want.hidden, of_gradient, name);
    expect_close(got.weight, want.weight, of_gradient, name);
    EXPECT_TRUE(got.value.top_id.equal(want.value.top_id));
  }
  const InputGradients got = ours(p, all_names(), options), want = oracle(p, all_names(), options);
  expect_close(got.hidden, want.hidden, of_gradient, "all at once");
  expect_close(got.weight, want.weight, of_gradient, "all at once");
}

TEST(LinearHead, AgreesWithFiniteDifferencesInEachOutput) {
  const HeadProblem p = head_problem(6, 9, 21, 5, 2);
  HeadOptions options = everything();
  options.temperature = 1.5;
  for (const char* name : kOutputs) {
    SCOPED_TRACE(name);
    expect_gradients(
        [&](const std::vector<at::Tensor>& in) {
          return output(linear_head(in[0], in[1], p.index, p.target, options), name);
        },
        // A short step, so that the order of the top k does not change.
        {p.hidden, p.weight}, {.step = 3e-3});
  }
}

TEST(LinearHead, PaddedColumnsHaveNoProbabilityAndNoGradient) {
  HeadProblem p = head_problem(8, 12, 40, 6, 0, 33);
  p.weight.narrow(0, 33, 7).fill_(1e30);  // the padding is ignored
  HeadOptions options = everything();
  options.columns = 33;
  HeadProblem cut = p;
  cut.weight = p.weight.narrow(0, 0, 33).contiguous();
  const InputGradients got = ours(p, all_names(), options),
                       want = ours(cut, all_names(), everything());
  for (const char* name : kOutputs) {
    EXPECT_TRUE(output(got.value, name).equal(output(want.value, name))) << name;
  }
  expect_close(got.weight.narrow(0, 0, 33), want.weight, 1e-6, "weight");
  EXPECT_EQ(got.weight.narrow(0, 33, 7).abs().max().item<double>(), 0);
}

TEST(LinearHead, SeveralTargetsAreSeveralRows) {
  const HeadProblem p = head_problem(8, 12, 40, 6, 3);
  const InputGradients got = ours(p, {"logprob"}, {});
  HeadProblem rows = p;
  rows.index = p.index.repeat_interleave(3);
  rows.target = p.target.reshape({-1});
  const at::Tensor one = linear_head(rows.hidden, rows.weight, rows.index, rows.target).logprob;
  EXPECT_LT(largest_difference(got.value.logprob.reshape({-1}), one), 1e-6);
  EXPECT_EQ(got.value.logprob.sizes(), at::IntArrayRef({12, 3}));
}

TEST(LinearHead, TargetsOfOneHiddenRowShareItsSoftmax) {
  // Rows 0 0 1 2 2 2 3: their gradients may cancel, as those of a chosen and a rejected answer do.
  HeadProblem p = head_problem(8, 7, 700, 12);
  p.index = at::tensor({0, 0, 1, 2, 2, 2, 3}, at::kLong);
  const at::Tensor a = at::tensor({0.5, -0.5, 1.0, 0.25, 2.0, -1.0, 0.0}, at::kFloat);
  // The last target of row 2 repeats its first one.
  p.target = at::tensor({3, 699, 5, 11, 0, 11, 8}, at::kLong);
  for (const int64_t head_mb : {1024, 0}) {
    const auto gradients = [&](const at::Tensor& order) {
      const at::Tensor h = p.hidden.detach().clone().set_requires_grad(true);
      const at::Tensor w = p.weight.detach().clone().set_requires_grad(true);
      HeadOptions options;
      options.lse = false;
      options.head_mb = head_mb;
      const at::Tensor y = linear_head(h, w, p.index.index_select(0, order),
                                       p.target.index_select(0, order), options)
                               .logprob;
      (y * a.index_select(0, order)).sum().backward();
      return std::vector<at::Tensor>{y.detach(), h.grad(), w.grad()};
    };
    // Apart from each other, equal rows share nothing.
    const at::Tensor apart = at::tensor({0, 3, 6, 1, 4, 2, 5}, at::kLong);
    const auto shared = gradients(at::arange(7)), separate = gradients(apart);
    EXPECT_TRUE(shared[0].index_select(0, apart).equal(separate[0]));
    expect_close(shared[1], separate[1], 1e-6, "hidden");
    expect_close(shared[2], separate[2], 1e-6, "weight");
  }
  const int64_t rows = head_counts().rows;
  const at::Tensor h = p.hidden.detach().clone().set_requires_grad(true);
  HeadOptions options;
  options.lse = false;
  linear_head(h, p.weight, p.index, p.target, options).logprob.sum().backward();
  EXPECT_EQ(head_counts().rows - rows, 4) << "of 7 loss rows";
}

TEST(LinearHead, TemperatureDividesTheLogits) {
  const HeadProblem p = head_problem(8, 12, 40, 6);
  HeadOptions options = everything();
  options.temperature = 4;  // a power of two divides without rounding
  HeadProblem divided = p;
  divided.weight = p.weight / 4;
  const HeadResult got = ours(p, all_names(), options).value;
  const HeadResult want = ours(divided, all_names(), everything()).value;
  for (const char* name : kOutputs) {
    EXPECT_LT(largest_difference(output(got, name), output(want, name)), 2e-6) << name;
  }
}

TEST(LinearHead, RowsBeyondTheMemoryGiveTheSameBits) {
  // 1 MiB holds 524 rows of 500 logits, of which two blocks of 256 are kept
  const HeadProblem p = head_problem(30, 700, 500, 12);
  const auto with_mb = [&](int64_t mb) {
    HeadOptions options = everything();
    options.head_mb = mb;
    return ours(p, all_names(), options);
  };
  const HeadCounts start = head_counts();
  const InputGradients kept = with_mb(64);
  EXPECT_EQ(head_counts().recomputed, start.recomputed);
  for (const int64_t mb : {64, 1, 0}) {
    const int64_t before = head_counts().recomputed;
    const InputGradients other = with_mb(mb);
    EXPECT_EQ(head_counts().recomputed - before, mb == 64 ? 0 : mb == 1 ? 700 - 512 : 700);
    for (const char* name : kOutputs) {
      EXPECT_TRUE(output(other.value, name).equal(output(kept.value, name))) << mb << name;
    }
    EXPECT_TRUE(other.hidden.equal(kept.hidden)) << mb;
    EXPECT_TRUE(other.weight.equal(kept.weight)) << mb;
  }
}

TEST(LinearHead, TargetsAloneMatchTargetsWithOtherOutputs) {
  const HeadProblem p = head_problem(20, 300, 131, 9);
  const InputGradients got = ours(p, {"logprob"}, {.lse = true}), want = ours(p, {"logprob"}, {});
  EXPECT_LT(largest_difference(got.value.logprob, want.value.logprob), 2e-6);
  expect_close(got.hidden, want.hidden, 1e-5, "hidden");
  expect_close(got.weight, want.weight, 1e-5, "weight");
}

TEST(LinearHead, TheBackwardMayRunTwice) {
  const HeadProblem p = head_problem(8, 12, 40, 6);
  const at::Tensor h = p.hidden.clone().set_requires_grad(true);
  const at::Tensor y = linear_head(h, p.weight, p.index, p.target, everything()).logprob.sum();
  y.backward({}, /*retain_graph=*/true);
  const at::Tensor once = h.grad().clone();
  h.mutable_grad().zero_();
  y.backward();
  EXPECT_TRUE(h.grad().equal(once));
}

TEST(LinearHead, TopOfEqualLogitsHasTheLowestIds) {
  const at::Tensor hidden = at::tensor({1.0f}).view({1, 1});
  at::Tensor weight = at::zeros_like(random_tensor({600, 1}, 1));
  weight.narrow(0, 300, 2).fill_(2);
  HeadOptions options;
  options.top_k = 5;
  const at::Tensor zero = at::tensor({int64_t{0}}, at::kLong);
  const HeadResult result = linear_head(hidden, weight, zero, zero, options);
  EXPECT_TRUE(result.top_id.equal(at::tensor({300, 301, 0, 1, 2}, at::kLong).view({1, 5})));
  EXPECT_FALSE(result.entropy.defined() || result.lse.defined());
}

TEST(LinearHead, WithoutGradientsNothingIsRecorded) {
  const HeadProblem p = head_problem(8, 12, 40, 6);
  const at::Tensor h = p.hidden.clone().set_requires_grad(true);
  EXPECT_FALSE(linear_head(h, p.weight, p.index, p.target, everything()).top_id.requires_grad());
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(linear_head(h, p.weight, p.index, p.target, everything()).entropy.requires_grad());
}

TEST(LinearHead, NamesAnOptionOutOfRange) {
  const HeadProblem p = head_problem(4, 2, 10, 3);
  const auto message = [&](const HeadOptions& options, const at::Tensor& target) -> std::string {
    try {
      linear_head(p.hidden, p.weight, p.index, target, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const at::Tensor ids = at::tensor({1, 2, 3, 9}, at::kLong);
  HeadOptions cold, hot, padded, tops;
  cold.temperature = 0;
  hot.temperature = 1e300;
  padded.columns = 11;
  tops.top_k = 10;
  tops.columns = 9;
  EXPECT_EQ(message(cold, p.target),
            "linear_head: temperature is 0, wanted a number from 1e-06 to 1e+30");
  EXPECT_NE(message(hot, p.target), "no error");
  EXPECT_EQ(message(padded, p.target),
            "linear_head: columns is 11, wanted 1 to the 10 rows of weight, or 0 for all of them");
  EXPECT_EQ(message(tops, p.target.fmod(9)), "linear_head: top_k is 10, wanted 0 to the 9 columns");
  tops.top_k = 1;
  EXPECT_EQ(message(tops, ids.view({2, 2})),
            "linear_head: target[1, 1] is 9, outside the vocabulary of 9");
  EXPECT_EQ(message({}, ids),
            "linear_head: index is [2], target is [4]; wanted [R], and [R] or [R, M]");
}

// On a device that computes nothing, so that only the checks before every device's kernels can
// fail.
TEST(LinearHead, SizesTypesAndDevicesAreCheckedOnEveryDevice) {
  HeadProblem p = head_problem(4, 2, 10, 3);
  for (at::Tensor* x : {&p.hidden, &p.weight, &p.index, &p.target}) *x = x->to(at::kMeta);
  const auto message = [&](const at::Tensor& target, const HeadOptions& options = {}) {
    try {
      linear_head(p.hidden, p.weight, p.index, target, options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const std::string lengths =
      "linear_head: index is [2], target is [1]; wanted [R], and [R] or [R, M]";
  EXPECT_EQ(message(p.target.narrow(0, 0, 1)), lengths);
  // Good ones: LibTorch finds no kernel for this device.
  EXPECT_TRUE(throws<c10::Error>("xrun::linear_head_forward", [&] {
    message(p.target.view({2, 1}));
  }));
  EXPECT_EQ(message(p.target.to(at::kInt)), "linear_head: target is Int, wanted Long");
  EXPECT_EQ(message(at::tensor({1, 2}, at::kLong)),
            "linear_head: target is dense on the CPU, wanted a dense tensor on meta");
  EXPECT_EQ(message(p.target, {.temperature = std::numeric_limits<double>::infinity()}),
            "linear_head: temperature is inf, wanted a number from 1e-06 to 1e+30");
}

}  // namespace xrun::linear_head_test
