// Recipes can call all of our ops: any arguments are refused or computed, and never crash.

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <map>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/model/ops/op.h"
#include "tests/error_of.h"

namespace xrun::op_check_test {
namespace {

using OpArguments = std::vector<c10::IValue>;

at::Tensor floats(at::IntArrayRef sizes) { return at::ones(sizes, at::kFloat); }

// Valid arguments of every op, which the tests then spoil.
std::map<std::string, OpArguments> good_calls() {
  const at::Tensor ids = at::arange(3, at::kLong);
  const at::Tensor hidden = floats({4, 6}), head = floats({5, 6});
  const at::Tensor q = floats({4, 4, 8}), k = floats({4, 2, 8});
  const std::vector<int64_t> cu = {0, 3, 4}, up = {-1, 0};
  // four tokens of width 6, two of three experts of width 2 each
  const at::Tensor chosen = ids.narrow(0, 0, 2).expand({4, 2}).contiguous();
  const at::Tensor share = floats({4, 2}), gate_up = floats({3, 4, 6}), down = floats({3, 6, 2});
  // two rows, each with a key in the first of its two blocks of four
  const at::Tensor new_rows = floats({2, 1, 4, 8}), cache = floats({2, 3, 4, 8});
  const at::Tensor blocks = at::zeros({2, 2}, at::kLong), none = at::zeros({2}, at::kLong);
  const at::Tensor ends = none + 1, places = at::zeros({2, 1}, at::kLong);
  return {
      {"xrun::cached_attention", {new_rows, cache, cache, blocks, none, ends, places, 0.5, 0}},
      {"xrun::head_logits", {hidden, head}},
      {"xrun::dropout_mask", {hidden, 7, int64_t{1} << 31, 2.0}},
      {"xrun::linear", {hidden, head, floats({5})}},
      {"xrun::linear_forward", {hidden, head, floats({5})}},
      {"xrun::linear_backward", {floats({4, 5}), hidden, head, true, true, true}},
      {"xrun::moe_experts", {hidden, chosen, share, gate_up, down, false}},
      {"xrun::moe_experts_forward", {hidden, chosen, share, gate_up, down, true}},
      {"xrun::moe_experts_backward",
       {hidden, hidden, chosen, share, gate_up, down, floats({8, 2}), floats({8, 2}), true, true,
        true, true}},
      {"xrun::linear_head", {hidden, head, ids, ids, 0.7, 4, true, 2, 1, true}},
      {"xrun::linear_head_forward", {hidden, head, ids, ids, 0.7, 4, true, 2, 1, true}},
      {"xrun::linear_head_backward",
       {floats({3}), floats({3}), floats({3}), head, ids, ids, floats({3}), floats({3}),
        floats({3, 6}), floats({2, 5}), 0.7, 4, 4, true, true, false}},
      {"xrun::rms_norm", {hidden, floats({6}), 1e-5}},
      {"xrun::rms_norm_forward", {hidden, floats({6}), 1e-5}},
      {"xrun::rms_norm_backward", {hidden, hidden, floats({6}), floats({4})}},
      {"xrun::rope", {q, floats({4, 4}), floats({4, 4})}},
      {"xrun::rope_rotate", {q, floats({4, 4}), floats({4, 4}), false}},
      {"xrun::swiglu", {hidden, hidden}},
      {"xrun::swiglu_forward", {hidden, hidden}},
      {"xrun::swiglu_backward", {hidden, hidden, hidden}},
      {"xrun::varlen_attention", {q, k, k, cu, 0.3, 2, up}},
      {"xrun::varlen_attention_lse", {q, k, k, cu, 0.3, 2, up}},
      {"xrun::varlen_attention_forward", {q, k, k, cu, 0.3, 2, up}},
      {"xrun::varlen_attention_backward", {q, q, k, k, q, floats({4, 4}), cu, 0.3, 2, up}},
  };
}

bool call(const std::string& op, OpArguments arguments) {
  try {
    c10::Dispatcher::singleton().findSchemaOrThrow(op.c_str(), "").callBoxed(arguments);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// Small pseudo-random numbers, a function of the seed only.
class Dice {
 public:
  explicit Dice(uint64_t seed) : seed_(seed) {}
  int64_t below(int64_t n) {
    return static_cast<int64_t>(philox_u64(seed_, 0, count_++, 0) % static_cast<uint64_t>(n));
  }

 private:
  uint64_t seed_, count_ = 0;
};

at::Tensor hostile_tensor(const at::Tensor& good, Dice& dice) {
  constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble,
                                       at::kLong,  at::kInt,      at::kBool};
  constexpr int64_t kSizes[] = {0, 1, 2, 3, 4, 5, 6, 8, 300, 40000};
  switch (dice.below(5)) {
    case 0: return good.to(kTypes[dice.below(std::size(kTypes))]);
    case 1: return at::randint(-3, 1 << 20, good.sizes(), good.options());
    case 2: return good.dim() == 2 ? good.t() : good.flatten();
    case 3: {
      std::vector<int64_t> sizes = good.sizes().vec();
      if (!sizes.empty()) sizes[dice.below(sizes.size())] = kSizes[dice.below(std::size(kSizes))];
      return at::ones(sizes, good.options());
    }
    default: {
      std::vector<int64_t> sizes(dice.below(5));
      for (int64_t& size : sizes) size = kSizes[dice.below(8)];
      return at::ones(sizes, good.options().dtype(kTypes[dice.below(std::size(kTypes))]));
    }
  }
}

c10::IValue hostile(const c10::IValue& good, Dice& dice) {
  constexpr int64_t kWhole[] = {-1, 0, 1, 3, 1 << 20, int64_t{1} << 50, INT64_MIN, INT64_MAX};
  if (good.isTensor()) return hostile_tensor(good.toTensor(), dice);
  if (good.isInt()) return kWhole[dice.below(std::size(kWhole))];
  if (good.isDouble()) return dice.below(2) == 0 ? 0.0 : -1e300;
  if (good.isBool()) return !good.toBool();
  std::vector<int64_t> list(dice.below(5));
  for (int64_t& one : list) one = dice.below(3) == 0 ? kWhole[dice.below(8)] : dice.below(5);
  return list;
}

TEST(OpCheck, ValidCallsPassAndCoverEveryOp) {
  const auto calls = good_calls();
  for (const auto& [op, arguments] : calls) EXPECT_TRUE(call(op, arguments)) << op;
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) {
    if (op.name.starts_with("xrun::")) {
      EXPECT_TRUE(calls.contains(op.name)) << op.name;
    }
  }
}

TEST(OpCheck, HostileArgumentsNeverCrash) {
  constexpr int kRounds = 400;
  for (const auto& [op, good] : good_calls()) {
    int refused = 0;
    for (int round = 0; round < kRounds; ++round) {
      Dice dice(static_cast<uint64_t>(round));
      OpArguments spoilt = good;
      for (int64_t k = 1 + dice.below(2); k > 0; --k) {
        const auto at = static_cast<size_t>(dice.below(static_cast<int64_t>(good.size())));
        spoilt[at] = hostile(good[at], dice);
      }
      refused += call(op, spoilt) ? 0 : 1;
    }
    EXPECT_GT(refused, kRounds / 4) << op;
    EXPECT_LT(refused, kRounds) << op;
  }
}

TEST(OpCheck, SecondDerivativesAreRefused) {
  for (const auto& [op, good] : good_calls()) {
    if (op.ends_with("_forward") || op.ends_with("_backward") || op == "xrun::rope_rotate" ||
        op == "xrun::dropout_mask" || op == "xrun::cached_attention" || op == "xrun::head_logits") {
      continue;
    }
    OpArguments arguments = good;
    const at::Tensor x = good[0].toTensor().clone().set_requires_grad(true);
    arguments[0] = x;
    c10::Dispatcher::singleton().findSchemaOrThrow(op.c_str(), "").callBoxed(arguments);
    const at::Tensor y = arguments[0].toTensor().sum();
    EXPECT_EQ(
        message_of<Error>([&] { y.backward({}, /*retain_graph=*/true, /*create_graph=*/true); }),
        op.substr(6).substr(0, op == "xrun::varlen_attention_lse" ? 16 : op.size()) +
            " has no second derivative; call backward without create_graph");
    EXPECT_FALSE(x.grad().defined()) << op;
    y.backward();
    EXPECT_TRUE(x.grad().defined()) << op;
  }
}

std::string refusal(const std::string& op, size_t argument, const c10::IValue& value) {
  OpArguments arguments = good_calls().at(op);
  arguments[argument] = value;
  try {
    c10::Dispatcher::singleton().findSchemaOrThrow(op.c_str(), "").callBoxed(arguments);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(OpCheck, ForwardAndBackwardShareTheirChecks) {
  const at::Tensor outside = at::arange(3, at::kLong).add(1 << 30);
  for (const auto& [op, weight] :
       {std::pair{"xrun::linear_head", 1}, std::pair{"xrun::linear_head_backward", 3}}) {
    EXPECT_EQ(refusal(op, weight + 2, outside),
              "linear_head: target[0] is 1073741824, outside the vocabulary of 4");
    EXPECT_EQ(refusal(op, weight, floats({0, 6})),
              "linear_head: weight is [0, 6], wanted [V, D], neither of them 0");
  }
  EXPECT_EQ(refusal("xrun::linear_head_backward", 8, floats({1000, 6})),
            "linear_head: x is [1000, 6], wanted [3, 6]");
  EXPECT_EQ(refusal("xrun::linear_head_backward", 2, floats({2})),
            "linear_head: grad_entropy is [2], wanted [3]");
  EXPECT_EQ(refusal("xrun::linear_head_backward", 10, -1.0),
            refusal("xrun::linear_head_forward", 4, -1.0));
  EXPECT_EQ(refusal("xrun::linear_head", 2, at::ones({3}, at::kInt)),
            "linear_head: index is Int, wanted Long");
  EXPECT_EQ(refusal("xrun::rms_norm", 0, floats({2, 0})),
            "rms_norm: x is [2, 0], wanted rows of at least one");
  EXPECT_EQ(refusal("xrun::rms_norm", 0, at::ones({4, 6}, at::kInt)),
            "rms_norm: x is Int, wanted a floating type");
  EXPECT_EQ(refusal("xrun::rms_norm_backward", 0, floats({1, 6})),
            "rms_norm: grad is [1, 6], wanted [4, 6]");
  EXPECT_EQ(refusal("xrun::swiglu_backward", 1, floats({400000, 6})),
            "swiglu: up is [4, 6], wanted [400000, 6]");
  EXPECT_EQ(refusal("xrun::moe_experts", 1, at::arange(8, at::kLong).view({4, 2})),
            "moe_experts: slot 3 chose expert 3, there are 3");
  EXPECT_EQ(refusal("xrun::moe_experts_backward", 7, floats({7, 2})),
            "moe_experts: gate or up is [7, 2], wanted [8, 2]");
  EXPECT_EQ(refusal("xrun::rope", 1, floats({4, 3})), "rope: cos is [4, 3], wanted [4, 4]");
  EXPECT_EQ(refusal("xrun::varlen_attention_backward", 5, floats({4, 3})),
            "varlen_attention: lse is [4, 3], wanted [4, 4]");
  EXPECT_NE(refusal("xrun::varlen_attention_backward", 2, floats({4, 0, 8})).find("above 0"),
            std::string::npos);
}

}  // namespace
}  // namespace xrun::op_check_test
