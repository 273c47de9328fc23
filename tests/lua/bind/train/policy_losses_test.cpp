// The objectives over rollouts, and the terms that they may add, against TRL's losses and formulas
// in float64 for the same given log-probs (tests/golden/make/policy_losses.py).

#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "tests/lua/bind/rollout/given_rollouts.h"

namespace xrun::policy_losses_test {

class PolicyLosses : public GivenRollouts {
 protected:
  using GivenRollouts::step;
  Stepped step(const std::string& recipe, const Json& settings) {
    return step(recipe, settings, golden_.at("rollouts"));
  }
  Stepped step(const Json& entry) {
    return step(entry.at("recipe").as_string(), entry.at("settings"));
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

// With old = policy every ratio is 1, so the clip changes nothing. The gradient is -A grad log pi
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
  expect_kl_terms(golden_.at("kl"), golden_.at("rollouts"));
}

// Each takes the engine's head over given logits, its only input.
TEST_F(PolicyLosses, AnEntropyBonusMatchesInValueAndGradient) {
  const Json& given = golden_.at("vocabulary");
  const Json& wanted = given.at("losses").at("ppo");
  const Stepped got = step("ppo", given.at("settings"), given);
  expect_parity(got.loss, wanted.at("loss").as_double(), 1e-6);
  expect_near(got.gradient, numbers(wanted.at("gradient")), 1e-6);
}

TEST_F(PolicyLosses, EntropyAndZLossMatchInValueAndGradient) {
  const Json& given = golden_.at("vocabulary");
  for (const auto& [name, wanted] : given.at("losses").as_object()) {
    if (name == "ppo") continue;
    SCOPED_TRACE(name);
    const at::Tensor logits = doubles(given.at("logits")).requires_grad_(true);
    const HeadResult head = head_of(logits, given);
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
