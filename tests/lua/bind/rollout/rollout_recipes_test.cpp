// The recipes over sampled answers, run from recipes/ on a tiny model: each starts at ratio 1 and,
// with a reference, at KL 0, learns from its rewards, and resumes to the same bits.

#include <algorithm>
#include <cmath>

#include "tests/lua/bind/session_fixture.h"

namespace xrun::rollout_recipes_test {

const char* const kRecipes[] = {"grpo",  "dr_grpo", "dapo",      "gspo",
                                "cispo", "rloo",    "reinforce", "ppo"};

class RolloutRecipes : public SessionTest, public testing::WithParamInterface<const char*> {
 protected:
  static bool is(const char* name) { return GetParam() == std::string(name); }
  static std::string file() { return std::string(GetParam()) + ".lua"; }
  static std::string batch(int64_t size) {
    return fmt::format("batch.{}={}", is("dapo") ? "groups" : "prompts", size);
  }
  static std::string text() { return read_file(source_path("recipes/" + file())); }
  static bool reads(const char* key) { return text().find(key) != std::string::npos; }
  // A tiny model and a few prompts. An answer that is right by chance contains a digit.
  static std::vector<std::string> sets(std::vector<std::string> more = {}) {
    more.insert(more.end(),
                {"model=tiny", "template=chatml", "sampling.max_tokens=6",
                 "data.1.path=" + source_path("recipes/data/sums.jsonl"), "valid.fraction=0.01"});
    return more;
  }
  // The recipe with a reward that random weights earn: the share of tokens with even ids.
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
  if (is("ppo")) more = {"entropy=0.01", "tis=2"};
  ASSERT_EQ(run(easy(), "r", {.steps = 1, .sets = sets(more)}), "");
  const std::vector<double> none, zero = {0}, one = {1};
  EXPECT_EQ(values("r", "train/ratio"), is("reinforce") ? none : one);
  EXPECT_EQ(values("r", "train/clipped"), is("reinforce") ? none : zero);
  EXPECT_EQ(values("r", "train/path_on_policy"), one);
  EXPECT_EQ(values("r", "rollout/logprob_diff_max"), zero);
  EXPECT_EQ(values("r", "train/kl"), is("grpo") || is("rloo") ? zero : none);
  EXPECT_GT(values("r", "train/grad_norm").at(0), 0);
  EXPECT_NE(values("r", "rollout/reward").at(0), 0);
}

// The range of a clip fits its ratio: within a few updates of one batch it takes effect.
TEST_P(RolloutRecipes, ClipSomeRatiosButNotAllOverSeveralUpdates) {
  if (!reads("cfg.updates")) GTEST_SKIP() << "one update per batch";
  const char* const lr = is("gspo") ? "optim.lr=0.0003" : "optim.lr=0.03";
  ASSERT_EQ(run(easy(), "r",
                {.steps = 2, .sets = sets({"updates.epochs=4", "updates.groups=2", batch(4), lr})}),
            "");
  for (const double clipped : values("r", "train/clipped")) {
    EXPECT_GT(clipped, 0);
    EXPECT_LT(clipped, 1);
  }
}

TEST_P(RolloutRecipes, RunWithTheRewardTheyShip) {
  ASSERT_EQ(run(text(), "r", {.steps = 1, .sets = sets()}), "");
  EXPECT_EQ(values("r", "rollout/reward").size(), 1u);
  EXPECT_FALSE(values("r", "sample/score").empty());
}

TEST_P(RolloutRecipes, LearnFromTheirRewardsSlow) {
  ASSERT_EQ(run(easy(), "r", {.sets = sets({"steps=25", "optim.lr=0.01", batch(4)})}), "");
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
  if (reads("cfg.updates")) {
    more.insert(more.end(), {"updates.epochs=2", "updates.groups=1"});
  }
  expect_same_when_resumed(easy(), {1, 2, 3}, sets(more));
}

TEST_P(RolloutRecipes, BeginWithTheirNameAndAreInBothTables) {
  const std::string recipe = text();
  EXPECT_TRUE(recipe.starts_with("-- " + file() + ": "));
  EXPECT_GE(std::count(recipe.begin(), recipe.end(), '\n'), 30);
  EXPECT_LE(std::count(recipe.begin(), recipe.end(), '\n'), 45);
  EXPECT_TRUE(has(read_file(source_path("recipes/README.md")), "[" + file() + "](" + file() + ")"));
  EXPECT_TRUE(has(read_file(source_path("docs/losses.md")), "](../recipes/" + file() + ")"));
}

INSTANTIATE_TEST_SUITE_P(Of, RolloutRecipes, testing::ValuesIn(kRecipes),
                         [](const auto& info) { return std::string(info.param); });

// ---- calculator.lua

class CalculatorRecipe : public SessionTest {
 protected:
  // Trains a tiny policy, sft/hf, to call the calculator in about a third of its answers, in the
  // form of the template, and to guess wrong in the others.
  void learn_to_call_sometimes() {
    InitOptions options = init_preset("tiny");
    options.layers = 2;
    options.hidden = 64;
    options.heads = 4;
    options.kv_heads = 2;
    options.ffn = 128;
    options.tokenizer = source_path("tests/data/tiny_tokenizer");
    const auto tokenizer = Tokenizer::load(options.tokenizer);
    options.vocab = tokenizer->vocab_size();
    options.bos_id = tokenizer->bos_id().value_or(-1);
    options.eos_id = tokenizer->eos_id().value_or(-1);
    init_model("caller", options);
    std::string chats, prompts;
    for (const auto& [sum, answer] : {std::pair("12 + 30", 42), std::pair("4 * 6", 24)}) {
      const std::string question =
          fmt::format(R"({{"role": "user", "content": "What is {}?"}})", sum);
      chats += fmt::format(
          R"({{"messages": [{0}, {{"role": "assistant", "content": )"
          R"("<tool_call>{{\"name\": \"calculate\", \"arguments\": {{\"expression\": \"{1}\"}}}}</tool_call>"}}, )"
          R"({{"role": "tool", "content": "{2}"}}, {{"role": "assistant", "content": "{2}"}}]}})",
          question, sum, answer);
      const std::string guess =
          fmt::format(R"({{"messages": [{}, {{"role": "assistant", "content": "7"}}]}})", question);
      chats += "\n" + guess + "\n" + guess + "\n";
      prompts += fmt::format("{{\"messages\": [{}], \"answer\": {}}}\n", question, answer);
    }
    write_file_atomic("chats.jsonl", chats);
    write_file_atomic("prompts.jsonl", prompts);
    ASSERT_EQ(run(R"(local xrun = require "xrun"
local cfg = xrun.config {
  model = "caller", data = { { path = "chats.jsonl" } }, template = "chatml",
  optim = { lr = 1e-2 }, batch = { sequences = 6, max_tokens = 2000 }, steps = 300,
}
local policy = xrun.policy(cfg.model)
local data = xrun.chat(cfg.data, policy)
local adamw = xrun.adamw(policy, cfg.optim)
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for _, batch in run:steps(data, cfg.batch) do
  run:log(adamw:step(batch, function(t) return -policy:token_logprob(t) end))
end
run:export(policy)
)",
                  "sft"),
              "");
  }
};

TEST_F(CalculatorRecipe, LearnsToCallTheCalculatorSlow) {
  learn_to_call_sometimes();
  ASSERT_EQ(run(read_file(source_path("recipes/calculator.lua")), "r",
                {.sets = {"model=sft/hf", "template=chatml", "data.1.path=prompts.jsonl",
                          "steps=20", "batch.prompts=2", "sampling.samples=16",
                          "sampling.max_tokens=100", "optim.lr=0.0002"}}),
            "");
  const auto mean = [&](const char* name, size_t begin) {
    const std::vector<double> all = values("r", name);
    EXPECT_EQ(all.size(), 20u);
    return (all.at(begin) + all.at(begin + 1) + all.at(begin + 2)) / 3;
  };
  // A call that has a result earns `called` = 0.2; the share of such answers rises by a quarter.
  EXPECT_GT(mean("rollout/reward/called", 0), 0.02);
  EXPECT_GT(mean("rollout/reward/called", 17), mean("rollout/reward/called", 0) + 0.05);
  EXPECT_GT(mean("rollout/reward/right", 17), mean("rollout/reward/right", 0) + 0.25);
  EXPECT_EQ(values("r", "train/ratio"), std::vector<double>(20, 1.0));
}

}  // namespace xrun::rollout_recipes_test
