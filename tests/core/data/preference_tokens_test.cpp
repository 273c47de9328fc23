#include "core/data/preference_tokens.h"

#include "tests/core/data/pair_fixture.h"

namespace xrun {
namespace {

class PreferenceTokens : public PairFixture {
 protected:
  PairTokens encode(const std::string& row, const PairSettings& settings = {}) const {
    const PreferenceReader reader({}, {}, Json::object());
    return encode_pair(reader.read(parse_json(row, "row"), {0, 1}), tokenizer(), template_,
                       settings, "pairs.jsonl:17");
  }
  static std::string trained(const SideTokens& side) {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < side.ids.size(); ++i) {
      if (side.trained[i] != 0) ids.push_back(side.ids[i]);
    }
    return text_of(ids);
  }
};

constexpr const char* kTwoTurns =
    R"({"chosen":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},
                  {"role":"user","content":"c"},{"role":"assistant","content":"good"}],
        "rejected":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},
                    {"role":"user","content":"c"},{"role":"assistant","content":"bad"},
                    {"role":"user","content":"d"},{"role":"assistant","content":"worse"}]})";

TEST_F(PreferenceTokens, TrainsTheAssistantTurnsAfterTheSharedPrompt) {
  const PairTokens pair = encode(kTwoTurns);
  EXPECT_EQ(trained(pair.chosen), "good<|im_end|>");
  EXPECT_EQ(trained(pair.rejected), "bad<|im_end|>worse<|im_end|>");
}

TEST_F(PreferenceTokens, TrainsTheLastTurnAlone) {
  const PairTokens pair = encode(kTwoTurns, {0, OverLength::kRaise, TrainOn::kLast});
  EXPECT_EQ(trained(pair.chosen), "good<|im_end|>");
  EXPECT_EQ(trained(pair.rejected), "worse<|im_end|>");
}

TEST_F(PreferenceTokens, TrainsEveryTokenButTheFirst) {
  const PairTokens pair = encode(kTwoTurns, {0, OverLength::kRaise, TrainOn::kAll});
  EXPECT_EQ(std::count(pair.chosen.trained.begin(), pair.chosen.trained.end(), 0), 1);
  EXPECT_EQ(pair.chosen.trained[0], 0);
}

TEST_F(PreferenceTokens, RaiseNamesFileLineAndBothLengths) {
  const std::string row = pair_row("q", std::string(2000, 'y'), "no");
  EXPECT_EQ(error_of([&] {
              encode(row, {1000, OverLength::kRaise, TrainOn::kAssistant});
            }),
            "pairs.jsonl:17: the chosen side has 2,022 tokens and the rejected side 24, max_length "
            "is 1,000; raise max_length or set over_length = \"drop\" or \"cut\"");
}

TEST_F(PreferenceTokens, DropRefusesTheWholePair) {
  const std::string row = pair_row("q", "yes", std::string(2000, 'n'));
  try {
    encode(row, {1000, OverLength::kDrop, TrainOn::kAssistant});
    FAIL();
  } catch (const RowRefusal& refusal) {
    EXPECT_EQ(refusal.reason(), "too_long");
  }
}

TEST_F(PreferenceTokens, CutKeepsThePromptAndTheHeadOfBothAnswers) {
  const std::string row = pair_row("q", "yyyyyyyyyy", "nnnnnnnnnnnnnnn");
  const PairTokens whole = encode(row);
  const PairTokens pair = encode(row, {24, OverLength::kCut, TrainOn::kAssistant});
  EXPECT_EQ(trained(pair.chosen), "yyyy");
  EXPECT_EQ(trained(pair.rejected), "nnnn");
  EXPECT_EQ(pair.chosen.ids.size(), 24u);
  EXPECT_EQ(pair.cut_tokens,
            static_cast<int64_t>(whole.chosen.ids.size() + whole.rejected.ids.size()) - 48);
}

TEST_F(PreferenceTokens, ACutThatLeavesNothingTrainedIsAnError) {
  const std::string row = pair_row(std::string(50, 'q'), "yes", "no");
  EXPECT_EQ(error_of([&] {
              encode(row, {40, OverLength::kCut, TrainOn::kAssistant});
            }),
            "pairs.jsonl:17: cut to max_length = 40, the chosen side has no trained token left: "
            "its prompt alone is as long; raise max_length or set over_length = \"drop\"");
}

TEST_F(PreferenceTokens, WhatTheTemplateRefusesIsABadRow) {
  const std::string row = R"({"prompt":[{"role":"refused","content":"x"}],"chosen":"a",
                              "rejected":"b"})";
  try {
    encode(row);
    FAIL();
  } catch (const RowRefusal& refusal) {
    EXPECT_EQ(refusal.reason(), "template_error");
    EXPECT_STREQ(refusal.what(), "the template refuses this role");
  }
}

TEST_F(PreferenceTokens, ATextThatSpellsASpecialTokenStaysPlain) {
  const PairTokens pair = encode(pair_row("q", "<|im_end|>", "no"));
  EXPECT_EQ(
      std::count(pair.chosen.ids.begin(), pair.chosen.ids.end(), *tokenizer().id_of("<|im_end|>")),
      2);
}

}  // namespace
}  // namespace xrun
