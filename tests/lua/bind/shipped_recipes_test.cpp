// The recipes over pairs and over labelled answers as they stand in recipes/, on a tiny model: each
// starts at the loss that its equation has where policy and reference are equal (of a reward model:
// where its head is zero), learns, and resumes to the same bits.

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tests/lua/bind/session_fixture.h"
#include "tests/tree.h"

namespace xrun {

constexpr double kLn2 = std::numbers::ln2;

struct Start {
  const char* recipe;
  double loss;                         // of the first step over pairs, ...
  bool nll = false;                    // ... to which the step's `nll` is added
  bool accuracy = true;                // one half: every margin is 0
  std::vector<std::string> sets = {};  // what makes the loss known
  int64_t step = 0;                    // the first one over pairs
  const char* metric = "train/loss";   // what starts there
};

void PrintTo(const Start& start, std::ostream* out) { *out << start.recipe; }

const Start kStarts[] = {
    {.recipe = "dpo", .loss = kLn2},
    {.recipe = "dpo_lora", .loss = kLn2},
    {.recipe = "ipo", .loss = 25},
    {.recipe = "hinge", .loss = 1},
    {.recipe = "cdpo", .loss = kLn2},
    {.recipe = "robust", .loss = kLn2},
    {.recipe = "dpo_norm", .loss = kLn2},
    {.recipe = "simpo", .loss = std::log1p(std::exp(1.0)), .sets = {"beta=0"}},
    {.recipe = "orpo", .loss = 0, .nll = true, .accuracy = false, .sets = {"lambda=0"}},
    {.recipe = "rpo", .loss = kLn2, .nll = true},
    {.recipe = "apo_zero", .loss = 1},
    {.recipe = "apo_down", .loss = 1},
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
  // What stands in for the real model and, unless they are wanted, the demonstration's pairs.
  std::vector<std::string> sets(std::vector<std::string> more, bool demonstration = false) const {
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
  // What a step is counted in.
  std::string unit() const {
    return text().find("xrun.feedback") == std::string::npos ? "pairs" : "sequences";
  }
  // Every value of a metric, in the order of steps.
  static std::vector<double> values(const std::string& dir, const std::string& name) {
    std::vector<double> found;
    for (const std::string& line : metrics(dir)) {
      const Json object = parse_json(line, "metrics");
      if (const Json* value = object.find(name)) found.push_back(value->as_double());
    }
    return found;
  }
};

TEST_P(ShippedRecipes, StartAtTheirInvariant) {
  const Start& start = GetParam();
  ASSERT_EQ(run(text(), "r", false, start.step + 1, sets(start.sets)), "");
  const double nll = start.nll ? values("r", "train/nll").at(0) : 0;
  const std::vector<double> loss = values("r", start.metric);
  ASSERT_EQ(values("r", "train/loss").size(), static_cast<size_t>(start.step) + 1);
  EXPECT_NEAR(loss.back(), start.loss + nll, 1e-6 * std::max(1.0, start.loss + nll));
  if (start.accuracy) {
    EXPECT_EQ(values("r", "train/accuracy").at(0), 0.5);
  }
}

TEST_P(ShippedRecipes, LearnOnTheDemonstrationsPairsSlow) {
  ASSERT_EQ(run(text(), "r", false, {}, sets({"steps=8", "optim.lr=0.003"}, true)), "");
  const std::vector<double> loss = values("r", "valid/loss");
  ASSERT_GE(loss.size(), 2u);
  EXPECT_LT(loss.back(), loss.front());
}

TEST_P(ShippedRecipes, ResumeToTheSameBitsSlow) {
  std::vector<std::string> settings{"steps=4", "optim.lr=0.003", "batch." + unit() + "=4"};
  // Of two phases: stopped where the second begins, and in it.
  if (GetParam().step > 0) settings.push_back("sft.steps=2");
  expect_same_when_resumed(text(), {2, 3}, sets(settings));
}

TEST_P(ShippedRecipes, BeginWithTheirNameAndAreInBothTables) {
  const std::string file = std::string(GetParam().recipe) + ".lua";
  const std::string recipe = text();
  EXPECT_TRUE(recipe.starts_with("-- " + file + ": ")) << recipe.substr(0, 40);
  EXPECT_LE(std::count(recipe.begin(), recipe.end(), '\n'), 60);
  EXPECT_TRUE(has(read_file(source("recipes/README.md")), "[" + file + "](" + file + ")"));
  EXPECT_TRUE(has(read_file(source("docs/recipes.md")), "](../recipes/" + file + ")"));
}

INSTANTIATE_TEST_SUITE_P(All, ShippedRecipes, testing::ValuesIn(kStarts),
                         [](const auto& info) { return std::string(info.param.recipe); });

}  // namespace xrun
