#include "core/run/run_identity.h"

#include <gtest/gtest.h>

#include "tests/core/run/toy_run.h"

namespace xrun::run_identity_test {
namespace {

std::string described(const RunIdentity& before, const RunIdentity& now) {
  return describe_differences(identity_differences(before, now));
}

TEST(RunIdentity, LengthsAreTakenOutOfARecipeAndNothingElse) {
  EXPECT_EQ(without_lengths("steps = 12, epochs=3 }"), "steps = 0, epochs=0 }");
  EXPECT_EQ(without_lengths("steps = n, mysteps = 4, steps_x = 5, epochs == 3"),
            "steps = n, mysteps = 4, steps_x = 5, epochs == 3");
  EXPECT_EQ(without_lengths("steps = 3e4"), "steps = 3e4");
  EXPECT_EQ(without_lengths("steps ="), "steps =");
}

TEST(RunIdentity, ALongerRunHasTheSameHashAndNoDifference) {
  EXPECT_EQ(short_hash(toy_identity(1)), short_hash(toy_identity(5)));
  EXPECT_EQ(short_hash(toy_identity()).size(), 8u);
  EXPECT_EQ(described(toy_identity(1), toy_identity(5)), "");
  EXPECT_TRUE(lengths_differ(toy_identity(1), toy_identity(5)));
  EXPECT_FALSE(lengths_differ(toy_identity(1), toy_identity(1)));
}

TEST(RunIdentity, RecipeAndConfigurationEnterTheHash) {
  RunIdentity changed = toy_identity();
  changed.config.set("beta", 0.2);
  EXPECT_NE(short_hash(changed), short_hash(toy_identity()));
  changed = toy_identity();
  changed.recipe_text += "-- more\n";
  EXPECT_NE(short_hash(changed), short_hash(toy_identity()));
}

TEST(RunIdentity, DifferencesNameLineAndField) {
  RunIdentity now = toy_identity(4);
  now.recipe_text = "local cfg = xrun.config {\n  epochs = 4,\n  beta = 0.2,\n}\n";
  now.config = parse_json(R"({"beta":0.2,"data":[{"path":"b.jsonl"}],"epochs":4})", "now");
  now.binary.set("build", "bb");
  RunIdentity before = toy_identity(1);
  before.config.set("data", parse_json(R"([{"path":"a.jsonl"},{"path":"c.jsonl"}])", "before"));
  EXPECT_EQ(described(before, now),
            "  recipe.lua:3: `beta = 0.2,`, was `beta = 0.1,`\n"
            "  config.beta: 0.2, was 0.1\n"
            "  config.data.1.path: \"b.jsonl\", was \"a.jsonl\"\n"
            "  config.data.2: absent, was {\"path\":\"c.jsonl\"}\n"
            "  binary.build: \"bb\", was \"aa\"\n");
}

TEST(RunIdentity, ALineThatOnlyOneRecipeHasIsShownAsAbsent) {
  RunIdentity now = toy_identity();
  now.recipe_text += "print(1)\n";
  EXPECT_EQ(described(toy_identity(), now), "  recipe.lua:5: `print(1)`, was absent\n");
}

TEST(Difference, CutsLongValuesBetweenCharacters) {
  const Json before("a"), now(std::string(58, 'x') + "üü");
  const auto differences = find_differences(before, now, "k");
  ASSERT_EQ(differences.size(), 1u);
  EXPECT_EQ(differences[0].now, "\"" + std::string(58, 'x') + "...");
}

TEST(Difference, TheOrderOfKeysIsNone) {
  EXPECT_TRUE(find_differences(parse_json(R"({"a":1,"b":[2]})", "a"),
                               parse_json(R"({"b":[2],"a":1.0})", "b"), "")
                  .empty());
}

}  // namespace
}  // namespace xrun::run_identity_test
