// The objectives over rollouts against TRL's losses and gradients for the same given log-probs
// (tests/golden/make/policy_losses.py).

#include <ATen/core/Tensor.h>

#include <cmath>

#include "core/base/file.h"
#include "core/base/json.h"
#include "lua/bind/modules.h"
#include "tests/lua/state/lua_fixture.h"
#include "tests/tree.h"

namespace xrun::policy_losses_test {

struct Stepped {
  double loss;
  at::Tensor gradient;  // by the policy's log-probs, [R]
  std::string baseline;
  bool scale;
};

class PolicyLosses : public LuaTest {
 protected:
  PolicyLosses() { open_builtin_modules(state_); }

  Stepped step(const std::string& recipe, const Json& settings) {
    lua_State* L = state_;
    const StackGuard guard(L);
    const std::string text = read_file(source_path("tests/lua/bind/given_rollouts.lua"));
    if (luaL_loadbuffer(L, text.data(), text.size(), "@given_rollouts.lua") != 0) {
      throw LuaError(report_of(L, -1));
    }
    state_.push_module(L);
    push(L, source_path("recipes/") + recipe + ".lua");
    push(L, settings);
    push(L, golden_.at("rollouts"));
    protected_call(L, 4, 4);
    const at::Tensor loss = read_tensor(L, -4, "loss"), logprob = read_tensor(L, -3, "log-probs");
    loss.backward();
    return {loss.item().toDouble(), logprob.grad(), lua_tostring(L, -2), lua_toboolean(L, -1) != 0};
  }
  static std::string recipe_of(const Json& entry) {
    return entry.at("settings").find("loss") == nullptr ? "grpo" : "policy_losses";
  }

  const Json golden_ = read_json(source_path("tests/golden/policy_losses.json"));
};

TEST_F(PolicyLosses, MatchTrlInValueAndGradient) {
  for (const auto& [name, wanted] : golden_.at("losses").as_object()) {
    SCOPED_TRACE(name);
    const Stepped got = step(recipe_of(wanted), wanted.at("settings"));
    EXPECT_NEAR(got.loss, wanted.at("loss").as_double(), 1e-6);
    const Json::Array& gradient = wanted.at("gradient").as_array();
    ASSERT_EQ(got.gradient.numel(), std::ssize(gradient));
    const at::Tensor flat = got.gradient.contiguous();
    for (size_t i = 0; i < gradient.size(); ++i) {
      EXPECT_NEAR(flat.const_data_ptr<double>()[i], gradient[i].as_double(), 1e-6) << "token " << i;
    }
  }
}

TEST_F(PolicyLosses, TheDapoRecipeHasTheLossOfTheTable) {
  const Json& wanted = golden_.at("losses").at("dapo");
  const Stepped table = step("policy_losses", wanted.at("settings"));
  const Stepped recipe = step("dapo", Json(Json::Object{{"clip", 0.15}, {"clip_high", 0.3}}));
  EXPECT_NEAR(recipe.loss, wanted.at("loss").as_double(), 1e-6);
  EXPECT_TRUE(recipe.gradient.equal(table.gradient));
}

TEST_F(PolicyLosses, TakeTheAdvantagesOfTheirPapers) {
  for (const auto& [name, wanted] : golden_.at("losses").as_object()) {
    SCOPED_TRACE(name);
    const Stepped got = step(recipe_of(wanted), wanted.at("settings"));
    EXPECT_EQ(got.baseline, name == "rloo" ? "leave_one_out" : "mean");
    EXPECT_EQ(got.scale, name != "rloo" && name != "dr_grpo");
  }
}

// Of one rollout: x = log pi - log ref a token.
TEST_F(PolicyLosses, KlAndEntropyAreTermsOfEveryLoss) {
  const Json& rollouts = golden_.at("rollouts");
  const auto mean = [&](const auto& term) {
    double sum = 0;
    const size_t tokens = rollouts.at("policy").size();
    for (size_t i = 0; i < tokens; ++i) {
      sum += term(rollouts.at("policy").as_array()[i].as_double() -
                      rollouts.at("reference").as_array()[i].as_double(),
                  -rollouts.at("policy").as_array()[i].as_double());
    }
    return sum / static_cast<double>(tokens);
  };
  const auto loss = [&](Json::Object more) {
    Json settings(std::move(more));
    settings.set("loss", "dapo");
    return step("policy_losses", settings).loss;
  };
  const double plain = loss({});
  const auto added = [&](const char* kl) { return loss({{"beta", 0.1}, {"kl", kl}}) - plain; };
  EXPECT_NEAR(added("k1"), 0.1 * mean([](double x, double) { return x; }), 1e-9);
  EXPECT_NEAR(added("k2"), 0.1 * mean([](double x, double) { return x * x / 2; }), 1e-9);
  EXPECT_NEAR(added("k3"), 0.1 * mean([](double x, double) { return std::exp(-x) + x - 1; }), 1e-9);
  EXPECT_NEAR(loss({{"entropy", 0.1}}) - plain, -0.1 * mean([](double, double h) { return h; }),
              1e-9);
}

TEST_F(PolicyLosses, AnUnknownNameListsTheLosses) {
  const auto error = [&](const char* key, const char* name) {
    try {
      step("policy_losses", Json(Json::Object{{key, name}}));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(error("loss", "grpo")
                .find("no loss is named \"grpo\"; there are cispo, dapo, dr_grpo, "
                      "gspo, ppo, reinforce, rloo"),
            std::string::npos);
  EXPECT_NE(error("kl", "k4").find("no KL term is named \"k4\"; there are k1, k2, k3"),
            std::string::npos);
}

}  // namespace xrun::policy_losses_test
