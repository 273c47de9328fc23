// A pair trains its answers after the shared prompt, and an over-long one is refused, dropped or
// cut.

#include "core/base/utf8.h"
#include "core/data/rows/row_encoder.h"
#include "tests/core/data/rows/pair_fixture.h"

namespace xrun::preference_encoder_test {
namespace {

class PreferenceEncoders : public PairFixture {
 protected:
  EncodedRow encode(const std::string& row, int64_t max_length = 0,
                    OverLength over_length = OverLength::kRaise,
                    TrainOn train_on = TrainOn::kAssistant) const {
    RowSettings settings;
    settings.max_length = max_length;
    settings.over_length = over_length;
    settings.train_on = train_on;
    EncodedRow out;
    make_preference_encoder({RowKind::kPreference, settings, &tokenizer(), template_})
        ->encode({.text = row, .at = {0, 17}}, "pairs.jsonl:17", out);
    return out;
  }
  static std::string trained(const TokenStream& side) {
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

TEST_F(PreferenceEncoders, TrainsTheAssistantTurnsAfterTheSharedPrompt) {
  const EncodedRow pair = encode(kTwoTurns);
  EXPECT_EQ(trained(pair.streams[0]), "good<|im_end|>");
  EXPECT_EQ(trained(pair.streams[1]), "bad<|im_end|>worse<|im_end|>");
}

TEST_F(PreferenceEncoders, TrainsTheLastTurnAlone) {
  const EncodedRow pair = encode(kTwoTurns, 0, OverLength::kRaise, TrainOn::kLast);
  EXPECT_EQ(trained(pair.streams[0]), "good<|im_end|>");
  EXPECT_EQ(trained(pair.streams[1]), "worse<|im_end|>");
}

TEST_F(PreferenceEncoders, TrainsEveryTokenButTheFirst) {
  const EncodedRow pair = encode(kTwoTurns, 0, OverLength::kRaise, TrainOn::kAll);
  EXPECT_EQ(std::count(pair.streams[0].trained.begin(), pair.streams[0].trained.end(), 0), 1);
  EXPECT_EQ(pair.streams[0].trained[0], 0);
}

TEST_F(PreferenceEncoders, RaiseNamesFileLineAndBothLengths) {
  const std::string row = pair_row("q", std::string(2000, 'y'), "no");
  const std::string shown = shortened(row, 160);
  EXPECT_EQ(error_of([&] { encode(row, 1000, OverLength::kRaise, TrainOn::kAssistant); }),
            "pairs.jsonl:17: the chosen side has 2,022 tokens and the rejected side 24, max_length "
            "is 1,000\n  row  " +
                shown +
                "\n  continue with one of\n"
                "    --set over_length=drop  leave such rows out; with it xrun check counts them\n"
                "    --set over_length=cut   keep the prompt and the beginning of the answer\n"
                "    --set max_length=2022   train on this whole row, if the memory allows it; "
                "others may be longer");
}

TEST_F(PreferenceEncoders, DropRefusesTheWholePair) {
  const std::string row = pair_row("q", "yes", std::string(2000, 'n'));
  try {
    encode(row, 1000, OverLength::kDrop, TrainOn::kAssistant);
    FAIL();
  } catch (const RowRefusal& refusal) {
    EXPECT_EQ(refusal.reason(), "too_long");
  }
}

TEST_F(PreferenceEncoders, CutKeepsThePromptAndTheHeadOfBothAnswers) {
  const std::string row = pair_row("q", "yyyyyyyyyy", "nnnnnnnnnnnnnnn");
  const EncodedRow whole = encode(row);
  const EncodedRow pair = encode(row, 24, OverLength::kCut, TrainOn::kAssistant);
  EXPECT_EQ(trained(pair.streams[0]), "yyyy");
  EXPECT_EQ(trained(pair.streams[1]), "nnnn");
  EXPECT_EQ(pair.streams[0].ids.size(), 24u);
  EXPECT_EQ(pair.cut_tokens,
            static_cast<int64_t>(whole.streams[0].ids.size() + whole.streams[1].ids.size()) - 48);
}

TEST_F(PreferenceEncoders, ACutDividesNoCharacterOfEitherSide) {
  // The prompt has 20 tokens; this character has three.
  const std::string row = pair_row("q", "yy\u6c34\u6c34yy", "nnnn\u6c34nnnnn");
  const EncodedRow inside = encode(row, 24, OverLength::kCut);
  EXPECT_EQ(trained(inside.streams[0]), "yy");
  EXPECT_EQ(trained(inside.streams[1]), "nnnn");
  EXPECT_EQ(inside.cut_tokens, 20);
  EXPECT_EQ(inside.cut_sides,
            "10 of 32 tokens of the chosen side and 10 of 34 tokens of the rejected side");
  EXPECT_TRUE(inside.cut_kept.ends_with("yy")) << inside.cut_kept;
  EXPECT_TRUE(inside.cut_lost.starts_with("\u6c34\u6c34yy")) << inside.cut_lost;
  const EncodedRow behind = encode(row, 25, OverLength::kCut);
  EXPECT_EQ(trained(behind.streams[0]), "yy\u6c34");
  EXPECT_EQ(trained(behind.streams[1]), "nnnn");
  EXPECT_EQ(behind.cut_tokens, 7 + 10);
}

TEST_F(PreferenceEncoders, ACutInsideTheFirstCharacterOfAnAnswerRefusesTheRow) {
  const std::string row = pair_row("q", "\u6c34y", "no");
  try {
    encode(row, 22, OverLength::kCut);
    FAIL();
  } catch (const RowRefusal& refusal) {
    EXPECT_EQ(refusal.reason(), "no_answer_left");
    EXPECT_STREQ(refusal.what(),
                 "max_length = 22 ends inside the first character of the answer of the chosen "
                 "side, so a cut would leave nothing of the answer to train; this row needs "
                 "max_length = 23 or more");
  }
  EXPECT_EQ(trained(encode(row, 23, OverLength::kCut).streams[0]), "\u6c34");
}

TEST_F(PreferenceEncoders, ACutThatLeavesNothingTrainedRefusesTheRow) {
  const std::string row = pair_row(std::string(50, 'q'), "yes", "no");
  try {
    encode(row, 40, OverLength::kCut, TrainOn::kAssistant);
    FAIL();
  } catch (const RowRefusal& refusal) {
    EXPECT_EQ(refusal.reason(), "no_answer_left");
    EXPECT_STREQ(
        refusal.what(),
        "the prompt of the chosen side fills max_length = 40, so a cut would leave nothing "
        "of the answer to train; this row needs max_length = 70 or more");
  }
}

TEST_F(PreferenceEncoders, SidesOfTheSameTokensAreRefused) {
  const auto refused = [&](const std::string& row, int64_t max_length) -> std::string {
    try {
      encode(row, max_length, OverLength::kCut, TrainOn::kAssistant);
      return "";
    } catch (const RowRefusal& refusal) {
      return refusal.reason() + ": " + refusal.what();
    }
  };
  const std::string late = pair_row("q", "yyyyyyyyyy", "yyyyyyyyyz");
  EXPECT_EQ(refused(late, 0), "");
  EXPECT_EQ(refused(late, 24),
            "same_answers: chosen and rejected become the same tokens: they differ only beyond "
            "max_length = 24");
  const std::string unseen = R"({"prompt":"q","chosen":[{"role":"assistant","content":"a"}],
      "rejected":[{"role":"assistant","content":"a","mood":"b"}]})";
  EXPECT_EQ(refused(unseen, 0),
            "same_answers: chosen and rejected become the same tokens: the template or the "
            "tokenizer leaves out what differs");
}

TEST_F(PreferenceEncoders, ARowThatTheTemplateRefusesIsBad) {
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

TEST_F(PreferenceEncoders, ATextThatSpellsASpecialTokenStaysPlain) {
  const EncodedRow pair = encode(pair_row("q", "<|im_end|>", "no"));
  EXPECT_EQ(std::count(pair.streams[0].ids.begin(), pair.streams[0].ids.end(),
                       *tokenizer().id_of("<|im_end|>")),
            2);
}

}  // namespace
}  // namespace xrun::preference_encoder_test
