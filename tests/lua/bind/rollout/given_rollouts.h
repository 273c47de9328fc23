#pragma once
// Objectives of shipped recipes over given rollouts (given_rollouts.lua), and the terms that they
// may add.

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/tensor.h>

#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/model/ops/linear_head.h"
#include "lua/state/builtin_modules.h"
#include "tests/lua/state/lua_fixture.h"
#include "tests/parity.h"
#include "tests/tree.h"

namespace xrun {

class GivenRollouts : public LuaTest {
 protected:
  struct Stepped {
    double loss;
    at::Tensor gradient;  // by the policy's log-probs [R], or by the logits
    std::string baseline;
    bool scale;
    at::Tensor reward;  // as the recipe passes it to group_advantage; undefined if there is none
  };

  GivenRollouts() { open_builtin_modules(state_); }

  Stepped step(const std::string& recipe, const Json& settings, const Json& rollouts) {
    lua_State* L = state_;
    const StackGuard guard(L);
    const std::string text = read_file(source_path("tests/lua/bind/rollout/given_rollouts.lua"));
    if (luaL_loadbuffer(L, text.data(), text.size(), "@given_rollouts.lua") != 0) {
      throw LuaError(report_of(L, -1));
    }
    state_.push_module(L);
    push(L, source_path("recipes/") + recipe + ".lua");
    push(L, settings);
    push(L, rollouts);
    protected_call(L, 4, 5);
    const at::Tensor loss = read_tensor(L, -5, "loss"), leaf = read_tensor(L, -4, "leaf");
    loss.backward();
    return {loss.item().toDouble(), leaf.grad(), lua_tostring(L, -3), lua_toboolean(L, -2) != 0,
            lua_isnil(L, -1) ? at::Tensor() : read_tensor(L, -1, "rewards")};
  }

  static std::vector<double> numbers(const Json& values) {
    std::vector<double> out;
    for (const Json& value : values.as_array()) out.push_back(value.as_double());
    return out;
  }
  static at::Tensor doubles(const Json& values) { return at::tensor(numbers(values), at::kDouble); }

  static void expect_near(const at::Tensor& got, const std::vector<double>& wanted,
                          double tolerance) {
    ASSERT_EQ(got.numel(), std::ssize(wanted));
    const at::Tensor flat = got.contiguous();
    for (size_t i = 0; i < wanted.size(); ++i) {
      SCOPED_TRACE(i);
      expect_parity(flat.const_data_ptr<double>()[i], wanted[i], tolerance);
    }
  }

  // Expects the means of xrun.kl.NAME over all tokens, and their gradients by the policy, within
  // 1e-6.
  void expect_kl_terms(const Json& terms, const Json& rollouts) {
    for (const auto& [name, wanted] : terms.as_object()) {
      SCOPED_TRACE(name);
      const at::Tensor policy = doubles(rollouts.at("policy")).requires_grad_(true);
      const at::Tensor loss = kl_term(name, policy, doubles(rollouts.at("reference"))).mean();
      loss.backward();
      expect_parity(loss.item().toDouble(), wanted.at("loss").as_double(), 1e-6);
      expect_near(policy.grad(), numbers(wanted.at("gradient")), 1e-6);
    }
  }

  // Returns the engine's head over given logits [R * vocabulary], its only input.
  static HeadResult head_of(const at::Tensor& logits, const Json& given) {
    const int64_t columns = given.at("vocabulary").as_int();
    const at::Tensor target = doubles(given.at("target")).to(at::kLong);
    return linear_head(logits.view({-1, columns}), at::eye(columns, at::kDouble),
                       at::arange(target.numel(), at::kLong), target,
                       {.entropy = true, .lse = true});
  }

 private:
  // Returns xrun.kl.NAME(policy, reference), [R].
  at::Tensor kl_term(const std::string& name, const at::Tensor& policy,
                     const at::Tensor& reference) {
    lua_State* L = state_;
    const StackGuard guard(L);
    const std::string text =
        "local xrun, policy, reference = ... return xrun.kl." + name + "(policy, reference)";
    luaL_loadbuffer(L, text.data(), text.size(), "=kl");
    state_.push_module(L);
    push(L, policy);
    push(L, reference);
    protected_call(L, 3, 1);
    return read_tensor(L, -1, "KL");
  }
};

}  // namespace xrun
