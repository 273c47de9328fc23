// The recipes over sampled answers, run from recipes/ on a tiny model: each starts at ratio 1 and,
// with a reference, at KL 0, learns from its rewards, and resumes to the same bits.

#include <algorithm>
#include <cmath>

#include "tests/lua/bind/session_fixture.h"

namespace xrun::rollout_recipes_test {

// dapo.lua is a recipe, dapo a loss of policy_losses.lua.
const char* const kLosses[] = {"grpo",  "dapo_lua", "dr_grpo",   "dapo", "gspo",
                               "cispo", "rloo",     "reinforce", "ppo"};

class RolloutRecipes : public SessionTest, public testing::WithParamInterface<const char*> {
 protected:
  static bool is(const char* name) { return GetParam() == std::string(name); }
  static bool alone() { return is("grpo") || is("dapo_lua"); }
  static std::string file() {
    return is("grpo") ? "grpo.lua" : alone() ? "dapo.lua" : "policy_losses.lua";
  }
  static std::string batch(int64_t size) {
    return fmt::format("batch.{}={}", is("dapo_lua") ? "groups" : "prompts", size);
  }
  static std::string text() { return read_file(source_path("recipes/" + file())); }
  // A tiny model and a few prompts; an answer right by chance has a digit somewhere.
  static std::vector<std::string> sets(std::vector<std::string> more = {}) {
    if (!alone()) more.push_back(std::string("loss=") + GetParam());
    more.insert(more.end(),
                {"model=tiny", "template=chatml", "sampling.max_tokens=6",
                 "data.1.path=" + source_path("recipes/data/sums.jsonl"), "valid.fraction=0.01"});
    return more;
  }
  // The recipe with a reward that random weights earn: the share of answers' tokens that are even.
  static std::string easy() {
    std::string recipe = text();
    const std::string rule = "return xrun.rewards.number(s.text, s.answer) end";
    const size_t at = recipe.find(rule);
    EXPECT_NE(at, std::string::npos);
    recipe.replace(at, rule.size(),
                   "local n = 0 for _, id in ipairs(s.ids or {}) do n = n + id % 2 end "
                   "return 1 - n / #(s.ids or { 1 }) end");
    return recipe;
  }
};

TEST_P(RolloutRecipes, StartAtRatioOneAndNoKl) {
  std::vector<std::string> more;
  if (!is("dapo_lua")) more.push_back("beta=0.1");
  if (!alone()) more.insert(more.end(), {"entropy=0.01", "tis=2"});
  ASSERT_EQ(run(easy(), "r", false, 1, sets(more)), "");
  EXPECT_EQ(values("r", "train/ratio"), std::vector<double>{1});
  EXPECT_EQ(values("r", "train/path_on_policy"), std::vector<double>{1});
  EXPECT_EQ(values("r", "rollout/logprob_diff_max"), std::vector<double>{0});
  const std::vector<double> none;  // dapo.lua has no reference
  EXPECT_EQ(values("r", "train/kl"), is("dapo_lua") ? none : std::vector<double>{0});
  EXPECT_GT(values("r", "train/grad_norm").at(0), 0);
  EXPECT_NE(values("r", "rollout/reward").at(0), 0);
}

TEST_P(RolloutRecipes, RunWithTheRewardTheyShip) {
  ASSERT_EQ(run(text(), "r", false, 1, sets()), "");
  EXPECT_EQ(values("r", "rollout/reward").size(), 1u);
  EXPECT_FALSE(values("r", "sample/score").empty());
}

TEST_P(RolloutRecipes, LearnFromTheirRewardsSlow) {
  ASSERT_EQ(run(easy(), "r", false, {}, sets({"steps=25", "optim.lr=0.01", batch(4)})), "");
  const std::vector<double> reward = values("r", "rollout/reward");
  ASSERT_EQ(reward.size(), 25u);
  const auto mean = [&](size_t begin) {
    double sum = 0;
    for (size_t i = begin; i < begin + 5; ++i) sum += reward[i] / 5;
    return sum;
  };
  EXPECT_GT(mean(20), mean(0) + 0.1);
}

TEST_P(RolloutRecipes, ResumeToTheSameBitsSlow) {
  std::vector<std::string> more = {"steps=4", "optim.lr=0.003", batch(2)};
  // Several updates of one body, except for the loss that is for one.
  if (!alone() && GetParam() != std::string("reinforce")) {
    more.insert(more.end(), {"updates.epochs=2", "updates.groups=1"});
  }
  expect_same_when_resumed(easy(), {1, 2, 3}, sets(more));
}

TEST_P(RolloutRecipes, BeginWithTheirNameAndAreInBothTables) {
  const std::string recipe = text();
  EXPECT_TRUE(recipe.starts_with("-- " + file() + ": "));
  EXPECT_LE(std::count(recipe.begin(), recipe.end(), '\n'), alone() ? 45 : 122);
  EXPECT_TRUE(has(read_file(source_path("recipes/README.md")), "[" + file() + "](" + file() + ")"));
  EXPECT_TRUE(has(read_file(source_path("docs/recipes.md")), "](../recipes/" + file() + ")"));
  if (!alone()) {
    EXPECT_TRUE(
        has(read_file(source_path("docs/recipes.md")), std::string("| `") + GetParam() + "` |"));
  }
}

INSTANTIATE_TEST_SUITE_P(Of, RolloutRecipes, testing::ValuesIn(kLosses),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace xrun::rollout_recipes_test
