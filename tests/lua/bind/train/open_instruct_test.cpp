// The objectives over pairs and over rollouts, their terms and advantages against the functions of
// open-instruct for the same given log-probs (tests/golden/make/open_instruct.py).

#include <cmath>

#include "lua/bind/modules.h"
#include "tests/lua/bind/rollout/given_rollouts.h"
#include "tests/lua/bind/train/given_logprobs.h"

namespace xrun::open_instruct_test {

Json read_golden() { return read_json(source_path("tests/golden/open_instruct.json")); }

class OpenInstructPairs : public GivenLogprobs {
 protected:
  const Json golden_ = read_golden();
};

TEST_F(OpenInstructPairs, MatchInValueAndGradient) {
  const Json& pairs = golden_.at("pairs");
  for (const auto& [name, wanted] : pairs.at("losses").as_object()) {
    SCOPED_TRACE(name);
    const Stepped got = step(wanted.at("recipe").as_string(), wanted.at("settings"), pairs);
    expect_near(got.losses, wanted.at("loss"));
    got.losses.sum().backward();
    expect_near(got.chosen.grad(), wanted.at("gradient").at("chosen"));
    expect_near(got.rejected.grad(), wanted.at("gradient").at("rejected"));
  }
}

class OpenInstructRollouts : public GivenRollouts {
 protected:
  OpenInstructRollouts() { open_advantage(state_); }

  at::Tensor advantages(const Json& options) {
    lua_State* L = state_;
    const StackGuard guard(L);
    const std::string text =
        "local xrun, reward, group, options = ...\n"
        "return xrun.group_advantage(reward, group, options)";
    luaL_loadbuffer(L, text.data(), text.size(), "=advantages");
    state_.push_module(L);
    push(L, doubles(golden_.at("rollouts").at("reward")));
    push(L, doubles(golden_.at("rollouts").at("group")).to(at::kLong));
    push(L, options);
    protected_call(L, 4, 1);
    return read_tensor(L, -1, "advantages");
  }

  const Json golden_ = read_golden();
};

TEST_F(OpenInstructRollouts, MatchInValueAndGradient) {
  for (const auto& [name, wanted] : golden_.at("losses").as_object()) {
    SCOPED_TRACE(name);
    const Stepped got =
        step(wanted.at("recipe").as_string(), wanted.at("settings"), golden_.at("rollouts"));
    expect_parity(got.loss, wanted.at("loss").as_double(), 1e-6);
    expect_near(got.gradient, numbers(wanted.at("gradient")), 1e-6);
  }
}

TEST_F(OpenInstructRollouts, KlEstimatorsMatchInValueAndGradient) {
  expect_kl_terms(golden_.at("kl"), golden_.at("rollouts"));
}

TEST_F(OpenInstructRollouts, LogProbsAndEntropyMatchInValueAndGradient) {
  const Json& given = golden_.at("head");
  for (const auto& [name, wanted] : given.at("terms").as_object()) {
    SCOPED_TRACE(name);
    const at::Tensor logits = doubles(given.at("logits")).requires_grad_(true);
    const HeadResult head = head_of(logits, given);
    const at::Tensor mean = (name == "entropy" ? head.entropy : head.logprob).mean();
    mean.backward();
    expect_parity(mean.item().toDouble(), wanted.at("loss").as_double(), 1e-6);
    expect_near(logits.grad(), numbers(wanted.at("gradient")), 1e-6);
  }
}

// open-instruct divides by the population's deviation plus 1e-8. In the golden's groups of 4 that
// is sqrt(3 / 4) of the unbiased deviation.
TEST_F(OpenInstructRollouts, AdvantagesMatchUpToTheFactorBetweenTheirDeviations) {
  const Json& wanted = golden_.at("advantages");
  expect_near(advantages(Json(Json::Object{{"scale", false}})), numbers(wanted.at("centered")),
              1e-7);
  const double factor = std::sqrt(4.0 / 3);
  expect_near(advantages(Json(Json::Object{{"eps", factor * 1e-8}})).mul(factor),
              numbers(wanted.at("standard")), 1e-7);
}

}  // namespace xrun::open_instruct_test
