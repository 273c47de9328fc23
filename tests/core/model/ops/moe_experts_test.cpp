// The experts against a loop over tokens in fp64, finite differences, and edge cases.

#include "core/model/ops/moe_experts.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/model/ops/moe_routing.h"
#include "tests/error_of.h"
#include "tests/gradient_check.h"
#include "tests/tensor_difference.h"

namespace xrun::moe_experts_test {

namespace {

// T tokens of width D, E experts of width I, k of them a token.
struct Case {
  int64_t T = 11, D = 6, E = 5, I = 7, k = 2;

  at::Tensor x() const { return random_tensor({T, D}, 1); }
  at::Tensor gate_up() const { return random_tensor({E, 2 * I, D}, 2); }
  at::Tensor down() const { return random_tensor({E, D, I}, 3); }
  Routing routing() const { return route(random_tensor({T, E}, 4, 2.0), k, true); }
};

at::Tensor by_hand(const Case& c, const at::Tensor& x, const Routing& routing,
                   const at::Tensor& gate_up, const at::Tensor& down) {
  at::Tensor y = at::zeros({c.T, c.D}, at::kDouble);
  for (int64_t t = 0; t < c.T; ++t) {
    for (int64_t j = 0; j < c.k; ++j) {
      const int64_t e = routing.index[t][j].item<int64_t>();
      const at::Tensor both = gate_up[e].to(at::kDouble).matmul(x[t].to(at::kDouble));
      const at::Tensor a = at::silu(both.narrow(0, 0, c.I)).mul(both.narrow(0, c.I, c.I));
      y[t].add_(down[e].to(at::kDouble).matmul(a).mul(routing.weight[t][j].item<double>()));
    }
  }
  return y;
}

}  // namespace

TEST(MoeExperts, AgreesWithALoopOverTokensInFp64) {
  for (const Case& c : {Case{}, Case{.T = 1}, Case{.E = 1, .k = 1}, Case{.E = 64, .k = 8},
                        Case{.T = 33, .D = 1, .I = 1, .k = 5}}) {
    const Routing routing = c.routing();
    const at::Tensor y = moe_experts(c.x(), routing.index, routing.weight, c.gate_up(), c.down());
    EXPECT_LT(largest_difference(y, by_hand(c, c.x(), routing, c.gate_up(), c.down())), 1e-5);
  }
}

TEST(MoeExperts, NarrowTypesStayWithinTheirTolerance) {
  const Case c;
  const Routing routing = c.routing();
  const at::Tensor want = by_hand(c, c.x(), routing, c.gate_up(), c.down());
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (const GemmType gemm : {GemmType::kStorage, GemmType::kFloat}) {
      const at::Tensor y = moe_experts(c.x().to(type), routing.index, routing.weight.to(type),
                                       c.gate_up().to(type), c.down().to(type), gemm);
      EXPECT_EQ(y.scalar_type(), type);
      EXPECT_LT(largest_difference(y, want), 0.05 * want.abs().max().item<double>());
      EXPECT_GT(largest_difference(y, want), 0);
    }
  }
}

TEST(MoeExperts, AgreesWithFiniteDifferences) {
  const Case c;
  const Routing routing = c.routing();
  expect_gradients(
      [&](const std::vector<at::Tensor>& in) {
        return moe_experts(in[0], routing.index, in[1], in[2], in[3]);
      },
      {c.x(), routing.weight, c.gate_up(), c.down()});
}

TEST(MoeExperts, RoutingAndExpertsTogetherAgreeWithFiniteDifferences) {
  const Case c{.T = 5, .E = 3};
  at::Tensor logits = at::zeros({c.T, c.E});  // far enough apart that no choice flips
  for (int64_t t = 0; t < c.T; ++t) {
    for (int64_t e = 0; e < c.E; ++e) logits[t][e] = 0.5 * static_cast<double>((t + 2 * e) % 3);
  }
  for (const bool renormalise : {false, true}) {
    expect_gradients(
        [&](const std::vector<at::Tensor>& in) {
          const Routing routing = route(in[0], c.k, renormalise);
          return moe_experts(in[1], routing.index, routing.weight, c.gate_up(), c.down());
        },
        {logits, c.x()});
  }
}

TEST(MoeExperts, WidenedGradientsMatchFp32) {
  const Case c;
  const Routing routing = c.routing();
  const auto gradients = [&](at::ScalarType type, GemmType gemm) {
    std::vector<at::Tensor> in = {c.x(), routing.weight, c.gate_up(), c.down()};
    for (at::Tensor& x : in) x = x.to(type).detach().clone().set_requires_grad(true);
    moe_experts(in[0], routing.index, in[1], in[2], in[3], gemm).to(at::kFloat).sum().backward();
    return std::vector<at::Tensor>{in[0].grad(), in[1].grad(), in[2].grad(), in[3].grad()};
  };
  const auto want = gradients(at::kFloat, GemmType::kStorage);
  const auto got = gradients(at::kBFloat16, GemmType::kFloat);
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].scalar_type(), at::kBFloat16);
    EXPECT_LT(largest_difference(got[i], want[i]), 0.03 * want[i].abs().max().item<double>()) << i;
  }
}

TEST(MoeExperts, AnExpertWithoutTokensGetsZeroGradients) {
  const Case c{.T = 4, .E = 3, .k = 1};
  const at::Tensor index =
      at::tensor({int64_t{2}, int64_t{0}, int64_t{2}, int64_t{2}}).view({4, 1});
  const at::Tensor gate_up = c.gate_up().set_requires_grad(true);
  const at::Tensor down = c.down().set_requires_grad(true);
  moe_experts(c.x(), index, random_tensor({4, 1}, 8), gate_up, down).sum().backward();
  EXPECT_EQ(gate_up.grad()[1].abs().max().item<double>(), 0);
  EXPECT_EQ(down.grad()[1].abs().max().item<double>(), 0);
  EXPECT_GT(gate_up.grad()[0].abs().max().item<double>(), 0);
}

TEST(MoeExperts, OneExpertIsADenseLayer) {
  const Case c{.E = 1, .k = 1};
  const Routing routing = c.routing();
  EXPECT_TRUE(routing.weight.equal(routing.weight.new_ones({c.T, 1})));
  const at::Tensor y = moe_experts(c.x(), routing.index, routing.weight, c.gate_up(), c.down());
  const at::Tensor both = c.x().matmul(c.gate_up()[0].t());
  const at::Tensor a = at::silu(both.narrow(1, 0, c.I)).mul(both.narrow(1, c.I, c.I));
  EXPECT_LT(largest_difference(y, a.matmul(c.down()[0].t())), 1e-5);
}

TEST(MoeExperts, ATokensNeighboursDoNotChangeItsSumsOrder) {
  // The rows of a token are in the order of its experts, however many tokens there are.
  const at::Tensor index =
      at::tensor({int64_t{3}, int64_t{1}, int64_t{1}, int64_t{0}}).view({2, 2});
  const ExpertRows rows = expert_rows(index, 4);
  EXPECT_EQ(rows.begin, (std::vector<int64_t>{0, 1, 3, 3, 4}));
  EXPECT_TRUE(rows.slot.equal(at::tensor({int64_t{3}, int64_t{1}, int64_t{2}, int64_t{0}})));
  EXPECT_TRUE(rows.token.equal(at::tensor({int64_t{1}, int64_t{0}, int64_t{1}, int64_t{0}})));
  EXPECT_TRUE(rows.of_token.equal(
      at::tensor({int64_t{1}, int64_t{3}, int64_t{0}, int64_t{2}}).view({2, 2})));
}

TEST(MoeExperts, EmptyInputIsLegalAndUnknownExpertsAreNamed) {
  const Case c{.T = 0};
  const Routing routing = c.routing();
  const at::Tensor x = c.x().set_requires_grad(true), down = c.down().set_requires_grad(true);
  const at::Tensor y = moe_experts(x, routing.index, routing.weight, c.gate_up(), down);
  EXPECT_EQ(y.sizes(), at::IntArrayRef({0, 6}));
  y.sum().backward();
  EXPECT_EQ(down.grad().abs().max().item<double>(), 0);
  EXPECT_EQ(message_of<Error>([&] {
              moe_experts(random_tensor({1, 6}, 1), at::tensor({int64_t{5}}).view({1, 1}),
                          random_tensor({1, 1}, 1), c.gate_up(), c.down());
            }),
            "moe_experts: slot 0 chose expert 5, there are 5");
}

}  // namespace xrun::moe_experts_test
