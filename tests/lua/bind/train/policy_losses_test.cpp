// The objectives over rollouts, and the terms that they may add, against TRL's losses and formulas
// in float64 for the same given log-probs (tests/golden/make/policy_losses.py).

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/model/ops/linear_head.h"
#include "lua/state/builtin_modules.h"
#include "tests/lua/state/lua_fixture.h"
#include "tests/parity.h"
#include "tests/tree.h"

namespace xrun::policy_losses_test {

struct Stepped {
  double loss;
  at::Tensor gradient;  // by the policy's log-probs [R], or by the logits
  std::string baseline;
  bool scale;
  at::Tensor reward;  // as the recipe passes it to group_advantage; undefined if there is none
};

std::vector<double> numbers(const Json& values) {
  std::vector<double> out;
  for (const Json& value : values.as_array()) out.push_back(value.as_double());
  return out;
}

void expect_near(const at::Tensor& got, const std::vector<double>& wanted, double tolerance) {
  ASSERT_EQ(got.numel(), std::ssize(wanted));
  const at::Tensor flat = got.contiguous();
  for (size_t i = 0; i < wanted.size(); ++i) {
    SCOPED_TRACE(i);
    expect_parity(flat.const_data_ptr<double>()[i], wanted[i], tolerance);
  }
}

class PolicyLosses : public LuaTest {
 protected:
  PolicyLosses() { open_builtin_modules(state_); }

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
  Stepped step(const std::string& recipe, const Json& settings) {
    return step(recipe, settings, golden_.at("rollouts"));
  }
  Stepped step(const Json& entry) {
    return step(entry.at("recipe").as_string(), entry.at("settings"));
  }

  // xrun.kl.NAME(policy, reference), [R].
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

  const Json golden_ = read_json(source_path("tests/golden/policy_losses.json"));
};

TEST_F(PolicyLosses, MatchTrlInValueAndGradient) {
  for (const auto& [name, wanted] : golden_.at("losses").as_object()) {
    SCOPED_TRACE(name);
    const Stepped got = step(wanted);
    expect_parity(got.loss, wanted.at("loss").as_double(), 1e-6);
    expect_near(got.gradient, numbers(wanted.at("gradient")), 1e-6);
  }
}

TEST_F(PolicyLosses, TakeTheAdvantagesOfTheirPapers) {
  for (const auto& [name, wanted] : golden_.at("losses").as_object()) {
    SCOPED_TRACE(name);
    const Stepped got = step(wanted);
    EXPECT_EQ(got.baseline, name == "rloo" ? "leave_one_out" : "mean");
    EXPECT_EQ(got.scale, name != "rloo" && name != "dr_grpo");
    const Json& reward =
        name == "rloo" ? golden_.at("penalised").at("rloo") : golden_.at("rollouts").at("reward");
    expect_near(got.reward, numbers(reward), 1e-9);
  }
}

// With old = policy every ratio is 1: the clip changes nothing, and what is left is -A grad log pi
// times the weight that the recipe's mean gives a token.
TEST_F(PolicyLosses, AtRatioOneTheGradientIsThePlainPolicyGradient) {
  Json rollouts = golden_.at("rollouts");
  rollouts.set("old", rollouts.at("policy"));
  const std::vector<double> length = numbers(rollouts.at("length")),
                            advantage = numbers(rollouts.at("advantage"));
  const auto answers = static_cast<double>(length.size());
  const double tokens = std::accumulate(length.begin(), length.end(), 0.0);
  double absolute = 0;
  for (size_t i = 0; i < length.size(); ++i) absolute += std::abs(advantage[i]) * length[i];
  const std::map<std::string, std::function<double(double length)>> weights = {
      {"grpo", [&](double own) { return 1 / (own * answers); }},
      {"gspo", [&](double own) { return 1 / (own * answers); }},
      {"dr_grpo", [&](double) { return 1 / (24 * answers); }},
      {"rloo", [&](double) { return 1 / answers; }},
      {"dapo", [&](double) { return 1 / tokens; }},
      {"cispo", [&](double) { return 1 / tokens; }},
      {"ppo", [&](double) { return 1 / tokens; }},
      {"calculator", [&](double) { return 1 / tokens; }},
      {"reinforce", [&](double) { return 1 / absolute; }}};
  for (const auto& [recipe, weight] : weights) {
    SCOPED_TRACE(recipe);
    std::vector<double> wanted;
    for (size_t i = 0; i < length.size(); ++i) {
      for (int t = 0; t < length[i]; ++t) wanted.push_back(-advantage[i] * weight(length[i]));
    }
    Json settings = Json::object();
    if (recipe == "grpo") settings.set("beta", 0.0);
    expect_near(step(recipe, settings, rollouts).gradient, wanted, 1e-15);
  }
}

TEST_F(PolicyLosses, KlTermsMatchInValueAndGradient) {
  for (const auto& [name, wanted] : golden_.at("kl").as_object()) {
    SCOPED_TRACE(name);
    const Json& rollouts = golden_.at("rollouts");
    const at::Tensor policy =
        at::tensor(numbers(rollouts.at("policy")), at::kDouble).requires_grad_(true);
    const at::Tensor reference = at::tensor(numbers(rollouts.at("reference")), at::kDouble);
    const at::Tensor loss = kl_term(name, policy, reference).mean();
    loss.backward();
    expect_parity(loss.item().toDouble(), wanted.at("loss").as_double(), 1e-6);
    expect_near(policy.grad(), numbers(wanted.at("gradient")), 1e-6);
  }
}

// Each takes the head of the engine over given logits, of which it is the only input.
TEST_F(PolicyLosses, AnEntropyBonusMatchesInValueAndGradient) {
  const Json& given = golden_.at("vocabulary");
  const Json& wanted = given.at("losses").at("ppo");
  const Stepped got = step("ppo", given.at("settings"), given);
  expect_parity(got.loss, wanted.at("loss").as_double(), 1e-6);
  expect_near(got.gradient, numbers(wanted.at("gradient")), 1e-6);
}

TEST_F(PolicyLosses, EntropyAndZLossMatchInValueAndGradient) {
  const Json& given = golden_.at("vocabulary");
  const int64_t columns = given.at("vocabulary").as_int();
  for (const auto& [name, wanted] : given.at("losses").as_object()) {
    if (name == "ppo") continue;
    SCOPED_TRACE(name);
    const at::Tensor logits =
        at::tensor(numbers(given.at("logits")), at::kDouble).requires_grad_(true);
    const at::Tensor target = at::tensor(numbers(given.at("target")), at::kDouble).to(at::kLong);
    const HeadResult head =
        linear_head(logits.view({-1, columns}), at::eye(columns, at::kDouble),
                    at::arange(target.numel(), at::kLong), target, {.entropy = true, .lse = true});
    const at::Tensor loss = (name == "entropy" ? head.entropy : head.lse.square()).mean();
    loss.backward();
    expect_parity(loss.item().toDouble(), wanted.at("loss").as_double(), 1e-6);
    expect_near(logits.grad(), numbers(wanted.at("gradient")), 1e-6);
  }
}

TEST_F(PolicyLosses, AKlTermWithoutAGradientIsRefused) {
  const auto error = [&](const char* name) {
    try {
      step("grpo", Json(Json::Object{{"kl", name}}));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(error("k1").find("kl = \"k1\" cannot be a term of a loss: its mean gradient is 0, so "
                             "nothing would keep the policy near the reference; use \"k3\" or "
                             "\"k2\", or subtract k1 from the reward as rloo.lua does"),
            std::string::npos)
      << error("k1");
  EXPECT_NE(error("k4").find("there is no KL term \"k4\"; a loss takes \"k3\" or \"k2\""),
            std::string::npos)
      << error("k4");
}

}  // namespace xrun::policy_losses_test
