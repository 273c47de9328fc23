// The recipes over pairs and labelled answers, run from recipes/ on a tiny model: each starts at
// the loss that its equation gives where policy and reference are equal (a reward model: where its
// head is zero), learns, and resumes to the same bits.

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tests/lua/bind/session_fixture.h"
#include "tests/tree.h"

namespace xrun::shipped_recipes_test {

constexpr double kLn2 = std::numbers::ln2;

struct Start {
  const char* recipe;
  double loss;                         // of the first step over pairs, ...
  bool nll = false;                    // ... to which the step's `nll` is added
  bool accuracy = true;                // one half: every margin is 0
  std::vector<std::string> sets = {};  // settings that make the loss known
  int64_t step = 0;                    // the first one over pairs
  const char* metric = "train/loss";   // has that loss
  const char* pair_loss = "";          // a name in pair_losses.lua
};

std::string name_of(const Start& start) {
  return *start.pair_loss != 0 ? start.pair_loss : start.recipe;
}
void PrintTo(const Start& start, std::ostream* out) { *out << name_of(start); }

Start pair_loss(const char* name, double loss, bool nll = false) {
  return {.recipe = "pair_losses", .loss = loss, .nll = nll, .pair_loss = name};
}

const Start kStarts[] = {
    {.recipe = "dpo", .loss = kLn2},
    {.recipe = "dpo_lora", .loss = kLn2},
    pair_loss("ipo", 25),
    pair_loss("hinge", 1),
    pair_loss("cdpo", kLn2),
    pair_loss("robust", kLn2),
    pair_loss("dpo_norm", kLn2),
    pair_loss("rpo", kLn2, true),
    pair_loss("apo_zero", 1),
    pair_loss("apo_down", 1),
    pair_loss("exo_pair", -kLn2 - 0.5 * std::log(0.1 * 0.9)),
    pair_loss("nca_pair", 2 * kLn2),
    pair_loss("bco_pair", 2 * kLn2),
    pair_loss("sppo_hard", 50),
    pair_loss("discopop", 0.5 * kLn2 + 0.5),
    {.recipe = "simpo", .loss = std::log1p(std::exp(1.0)), .sets = {"beta=0"}},
    {.recipe = "orpo", .loss = 0, .nll = true, .accuracy = false, .sets = {"lambda=0"}},
    {.recipe = "reward", .loss = kLn2},
    {.recipe = "kto", .loss = 0.5, .accuracy = false},
    {.recipe = "joint", .loss = kLn2, .metric = "train/dpo"},
    {.recipe = "sft_dpo", .loss = kLn2, .sets = {"sft.steps=2"}, .step = 2},
};

class ShippedRecipes : public SessionTest, public testing::WithParamInterface<Start> {
 protected:
  static std::string source(const std::string& path) { return source_path(path); }
  std::string text() const {
    return read_file(source("recipes/" + std::string(GetParam().recipe) + ".lua"));
  }
  // Settings for a tiny model and, unless `demonstration`, for a few small pairs.
  std::vector<std::string> sets(std::vector<std::string> more, bool demonstration = false) const {
    if (*GetParam().pair_loss != 0) more.push_back(std::string("loss=") + GetParam().pair_loss);
    more.insert(more.end(), {"model=tiny", "data.1.path=" + rows(demonstration)});
    if (text().find("\n  answers ") != std::string::npos) more.push_back("answers=0");
    if (text().find("\n  chats ") != std::string::npos) {
      more.insert(more.end(),
                  {"chats.1.path=" + source("recipes/data/chats.jsonl"), "template=chatml"});
    }
    return more;
  }
  std::string rows(bool demonstration) const {
    if (unit() == "sequences") return source("recipes/data/feedback.jsonl");
    return demonstration ? source("recipes/data/preferences.jsonl") : "pairs.jsonl";
  }
  // The unit in which a step is counted.
  std::string unit() const {
    return text().find("xrun.feedback") == std::string::npos ? "pairs" : "sequences";
  }
};

TEST_P(ShippedRecipes, StartAtTheirInvariant) {
  const Start& start = GetParam();
  ASSERT_EQ(run(text(), "r", {.steps = start.step + 1, .sets = sets(start.sets)}), "");
  const double nll = start.nll ? values("r", "train/nll").at(0) : 0;
  const std::vector<double> loss = values("r", start.metric);
  ASSERT_EQ(values("r", "train/loss").size(), static_cast<size_t>(start.step) + 1);
  EXPECT_NEAR(loss.back(), start.loss + nll, 1e-6 * std::max(1.0, start.loss + nll));
  if (start.accuracy) {
    EXPECT_EQ(values("r", "train/accuracy").at(0), 0.5);
  }
}

TEST_P(ShippedRecipes, LearnOnTheDemonstrationsPairsSlow) {
  ASSERT_EQ(run(text(), "r", {.sets = sets({"steps=8", "optim.lr=0.003"}, true)}), "");
  const std::vector<double> loss = values("r", "valid/loss");
  ASSERT_GE(loss.size(), 2u);
  EXPECT_LT(loss.back(), loss.front());
}

TEST_P(ShippedRecipes, ResumeToTheSameBitsSlow) {
  std::vector<std::string> settings{"steps=4", "optim.lr=0.003", "batch." + unit() + "=4"};
  // With two phases: stopped where the second begins, and within it.
  if (GetParam().step > 0) settings.push_back("sft.steps=2");
  expect_same_when_resumed(text(), {2, 3}, sets(settings));
}

TEST_P(ShippedRecipes, LogTheSameWithFoldingForcedOnSlow) {
  const auto logged = [&](const std::string& dir, const char* fold) {
    std::vector<std::string> settings = GetParam().sets;
    settings.insert(settings.end(), {std::string("batch.fold=") + fold, "batch.fold_min=1",
                                     "optim.lr=0.003", "optim.warmup=0"});
    EXPECT_EQ(run(text(), dir, {.steps = GetParam().step + 2, .sets = sets(settings)}), "");
    EXPECT_EQ(output_.find("folds") != std::string::npos, fold == std::string("true")) << output_;
    return metrics(dir);
  };
  const std::vector<std::string> folded = logged("folded", "true"),
                                 apart = logged("apart", "false");
  ASSERT_EQ(folded.size(), apart.size());
  for (size_t i = 0; i < folded.size(); ++i) {
    const Json got = parse_json(folded[i], "metrics"), want = parse_json(apart[i], "metrics");
    for (const auto& [name, value] : want.as_object()) {
      if (!value.is_number()) continue;
      EXPECT_NEAR(got.at(name).as_double(), value.as_double(),
                  2e-5 * std::max(1.0, std::abs(value.as_double())))
          << name << ", line " << i;
    }
  }
}

TEST_P(ShippedRecipes, BeginWithTheirNameAndAreInBothTables) {
  const std::string file = std::string(GetParam().recipe) + ".lua";
  const std::string recipe = text();
  EXPECT_TRUE(recipe.starts_with("-- " + file + ": ")) << recipe.substr(0, 40);
  const bool table = *GetParam().pair_loss != 0;  // a loss takes two to four lines
  EXPECT_LE(std::count(recipe.begin(), recipe.end(), '\n'), table ? 100 : 60);
  EXPECT_TRUE(has(read_file(source("recipes/README.md")), "[" + file + "](" + file + ")"));
  EXPECT_TRUE(has(read_file(source("docs/losses.md")), "](../recipes/" + file + ")"));
}

class MarginsApart : public ShippedRecipes {};

TEST_P(MarginsApart, AreLoggedForPolicyAndReference) {
  ASSERT_EQ(run(text(), "r", {.steps = 2, .sets = sets({"optim.lr=0.003", "optim.warmup=0"})}), "");
  const auto metric = [&](const std::string& name, size_t step) {
    return values("r", "train/" + name).at(step);
  };
  for (const size_t step : {0, 1}) {
    const double policy = metric("margin_policy", step),
                 reference = metric("margin_reference", step);
    EXPECT_NEAR(policy, metric("logprob_chosen", step) - metric("logprob_rejected", step), 1e-4);
    EXPECT_NEAR(0.1 * (policy - reference),
                metric("reward_chosen", step) - metric("reward_rejected", step), 1e-4);
    EXPECT_EQ(policy == reference, step == 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Both, MarginsApart, testing::Values(kStarts[0], pair_loss("hinge", 1)),
                         [](const auto& info) { return name_of(info.param); });

class LabelledRewards : public ShippedRecipes {};

// reward = (g d + (n - g) u) / n of g good answers with mean reward d and n - g bad ones with u.
TEST_P(LabelledRewards, AreMeansOverTheirOwnRows) {
  ASSERT_EQ(run(text(), "r", {.steps = 3, .sets = sets({"optim.lr=0.003", "optim.warmup=0"})}), "");
  const std::vector<double> good = values("r", "train/reward_desirable");
  const std::vector<double> bad = values("r", "train/reward_undesirable");
  const std::vector<double> all = values("r", "train/reward"), margin = values("r", "train/margin");
  EXPECT_EQ(values("r", "train/kl").size(), 3u);
  ASSERT_EQ(margin.size(), 3u);  // both labels are in each of these batches
  EXPECT_EQ(margin[0], 0);
  for (const size_t step : {1, 2}) {
    EXPECT_NEAR(margin[step], good[step] - bad[step], 1e-9);
    const double count = 16 * (all[step] - bad[step]) / margin[step];
    EXPECT_NEAR(count, std::round(count), 1e-3);
    EXPECT_GT(std::round(count), 0);
    EXPECT_LT(std::round(count), 16);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, LabelledRewards, testing::Values(Start{.recipe = "kto", .loss = 0.5}),
                         [](const auto& info) { return name_of(info.param); });

INSTANTIATE_TEST_SUITE_P(All, ShippedRecipes, testing::ValuesIn(kStarts),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace xrun::shipped_recipes_test
