// A folded pack as text, JSON and a page.

#include <gtest/gtest.h>

#include "core/base/json.h"
#include "core/base/strings.h"
#include "core/console/terminal/text_width.h"
#include "tests/core/console/inspect/inspect_fixture.h"

namespace xrun::fold_tree_test {

namespace {

class FoldTree : public InspectFixture {
 protected:
  InspectedStep folded() {
    const DataSet set = open(hard_pairs());
    std::vector<int64_t> units(static_cast<size_t>(set.size()));
    std::iota(units.begin(), units.end(), 0);
    InspectedSource source{set, tokenizer(), "recipes/dpo.lua", "pairs.jsonl"};
    source.steps = 1;
    source.max_tokens = 400;
    source.fold.mode = FoldMode::kAlways;
    source.fold.min_run = 4;
    return inspect_step(source, units, set.pack(units, 400));
  }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_F(FoldTree, JsonListsTheComputedTokensAndTheirIndex) {
  const InspectedStep step = folded();
  const InspectedPack& pack = step.packs.at(0);
  ASSERT_TRUE(pack.fold);
  const Json json = pack_json(step, pack);
  const Json& fold = json.at("fold");
  const auto& flat = fold.at("flat_of").as_array();
  const auto& tokens = json.at("tokens").as_array();
  ASSERT_EQ(flat.size(), tokens.size());
  for (size_t t = 0; t < flat.size(); ++t) {
    const auto f = static_cast<size_t>(flat[t].as_int());
    EXPECT_EQ(fold.at("tokens").as_array().at(f), tokens[t]);
    EXPECT_EQ(fold.at("position_ids").as_array().at(f), json.at("position_ids").as_array().at(t));
  }
  EXPECT_LT(fold.at("tokens").size(), tokens.size());
  EXPECT_EQ(fold.at("prev").size(), fold.at("tokens").size());
  EXPECT_EQ(fold.at("end").size(), fold.at("tokens").size());
  EXPECT_EQ(step.computed, static_cast<int64_t>(fold.at("tokens").size()));
}

TEST_F(FoldTree, TextDrawsANodeALineWithinTheWidth) {
  const InspectedStep step = folded();
  const std::vector<std::string> lines = fold_tree_lines(*step.packs.at(0).fold, 60);
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  for (const std::string& line : lines) EXPECT_LE(text_width(line), 60) << line;
  EXPECT_EQ(lines.size(), step.packs.at(0).fold->nodes.size()) << text;
  EXPECT_TRUE(has(text, " x2: ")) << text;
  EXPECT_TRUE(has(text, "(chosen ")) << text;
  EXPECT_TRUE(has(step_text(step, {}), "computed of 400")) << step_text(step, {});
}

TEST_F(FoldTree, CountsSequencesThatShareNothingWithinTheWidth) {
  InspectedFold fold;
  fold.tree.parent = {-1, -1, 1, -1};
  fold.nodes = {{4, 1, "a", {}}, {5, 2, "b", {}}, {6, 1, "c", {}}, {7, 1, "d", {}}};
  const std::vector<std::string> whole = {"├─ 5 tokens x2: b", "│  └─ 6 tokens: c",
                                          "└─ 2 sequences that share nothing"};
  EXPECT_EQ(fold_tree_lines(fold, 33), whole);
  for (int width = 1; width < 33; ++width) {
    for (const std::string& line : fold_tree_lines(fold, width)) {
      EXPECT_LE(text_width(line), width) << line;
    }
  }
  EXPECT_EQ(shares_nothing_text(1), "1 sequence that shares nothing");
  EXPECT_EQ(shares_nothing_text(1024), "1,024 sequences that share nothing");
}

TEST_F(FoldTree, ANameOfAFileCannotActOnTheTerminal) {
  InspectedFold fold;
  fold.tree.parent = {-1};
  fold.nodes = {{4, 2, "text", {"chosen a\x1b[2J\nb.jsonl:1"}}};
  EXPECT_EQ(fold_tree_lines(fold, 80),
            std::vector<std::string>{"└─ 4 tokens x2 (chosen a<1B>[2J⏎b.jsonl:1): text"});
}

TEST_F(FoldTree, PageDrawsTheTree) {
  const std::string page = pack_page({folded()});
  EXPECT_TRUE(has(page, "class=\"node shared\""));
  EXPECT_TRUE(has(page, " tokens (chosen ")) << "a bar names the sequences that end in it";
  EXPECT_TRUE(has(page, "tokens computed as"));
}

TEST_F(FoldTree, APackWithoutSharedPrefixesHasNone) {
  const InspectedStep step = inspect(hard_pairs());
  EXPECT_FALSE(step.packs.at(0).fold);
  EXPECT_EQ(pack_json(step, step.packs.at(0)).find("fold"), nullptr);
  EXPECT_FALSE(has(step_text(step, {}), "folded"));
}

}  // namespace xrun::fold_tree_test
