// Each kind of row trains its own tokens, and a refused row says why.

#include "core/data/rows/row_encoder.h"

#include "core/data/rows/data_fault.h"
#include "core/data/rows/row_length.h"
#include "tests/core/data/rows/encoder_fixture.h"
#include "tests/error_of.h"
#include "tests/tree.h"

namespace xrun::row_encoder_test {
namespace {

// ---- feedback

class FeedbackEncoderTest : public EncoderFixture {};

TEST_F(FeedbackEncoderTest, KeepsTheLabelAndTrainsTheAnswer) {
  const EncodedRow good =
      encode(RowKind::kFeedback, R"({"prompt":"a","completion":"b","label":true})");
  EXPECT_EQ(good.label, 1);
  EXPECT_EQ(trained(good), "b<|im_end|>");
  const EncodedRow bad = encode(RowKind::kFeedback, R"({"messages":[
      {"role":"user","content":"a"},{"role":"assistant","content":"b"},
      {"role":"user","content":"c"},{"role":"assistant","content":"d"}],"label":0})");
  EXPECT_EQ(bad.label, 0);
  EXPECT_EQ(trained(bad), "d<|im_end|>");
}

TEST_F(FeedbackEncoderTest, SaysWhyARowIsRefused) {
  for (const auto& [row, wanted] : std::vector<RefusedRow>{
           {R"({"prompt":"a","completion":"b"})", "bad_label: has no \"label\""},
           {R"({"prompt":"a","label":true})",
            "no_assistant: the last turn is by \"user\", wanted the assistant's answer"},
           {R"({"prompt":"a","response":"b","label":true})",
            "no_assistant: the last turn is by \"user\", wanted the assistant's answer; columns "
            "that are not used: response; name the right one, for example fields = { completion = "
            "\"response\" }"},
           {R"({"prompt":"a","completion":"","label":true})",
            "empty_answer: the answer has no content"},
           {R"({"messages":[{"role":"assistant","content":"b"}],"label":true})",
            "no_prompt: no turn comes before the answer"}}) {
    EXPECT_TRUE(refusal(RowKind::kFeedback, row).starts_with(wanted))
        << row << ": " << refusal(RowKind::kFeedback, row);
  }
}

TEST_F(FeedbackEncoderTest, ARatingEndsTheReading) {
  const auto message = [&](const std::string& label) {
    return message_of<DataError>([&] {
      encode(RowKind::kFeedback, R"({"prompt":"a","completion":"b","label":)" + label + "}");
    });
  };
  EXPECT_TRUE(message("5").starts_with(
      "rows.jsonl:17: \"label\" is 5, wanted true or false (or 1 or 0); if the labels are ratings, "
      "choose where good answers begin, with a map: xrun.feedback(cfg.data, policy, { map = "
      "function(row) row.label = row.label >= 4 return row end }); if not, correct this row"))
      << message("5");
  EXPECT_NE(message("0.5").find("is 0.5, wanted true or false"), std::string::npos);
  EXPECT_NE(message("-1").find("row.label = row.label == 1 return"), std::string::npos);
}

// ---- text

using TextRows = EncoderFixture;

TEST_F(TextRows, ALongTextWithoutASplitPointIsTooLong) {
  settings_.over_length = OverLength::kDrop;
  const std::string stretch(12'600'000, 'x');
  EXPECT_EQ(refusal(RowKind::kText, R"({"text":"one two )" + stretch + " three\"}"),
            "too_long: bytes 7 to 12600008 of the text have no space between letters and no line "
            "that begins with one; at most 12,582,912 such bytes can be tokenised");
}

TEST_F(TextRows, ACutOfALongTextIsOfferedAsItsBeginning) {
  settings_.max_length = 5;
  const std::string raised =
      error_of([&] { encode(RowKind::kText, R"({"text":"one two three"})"); });
  EXPECT_NE(raised.find("--set over_length=cut   keep the beginning of the text"),
            std::string::npos)
      << raised;
}

TEST_F(TextRows, ATokenizerThatCannotSplitRefusesLongText) {
  const auto whole = Tokenizer::load(source_path("tests/data/tokenizers/regexes"));
  ASSERT_FALSE(whole->safe_splits().space || whole->safe_splits().line);
  std::string words;
  while (words.size() <= whole->max_stretch()) words += "some words of a long text ";
  EXPECT_NO_THROW(require_borders(std::string_view(words).substr(0, whole->max_stretch()), *whole));
  EXPECT_NO_THROW(require_borders(words, tokenizer()));
  try {
    require_borders(words, *whole);
    FAIL() << "the text would take some 600 MB";
  } catch (const RowRefusal& refused) {
    EXPECT_EQ(refused.reason(), "too_long");
    EXPECT_NE(std::string(refused.what()).find("at most 12,582,912; split it into several rows"),
              std::string::npos)
        << refused.what();
  }
}

// ---- every kind

using EveryEncoder = EncoderFixture;

TEST_F(EveryEncoder, AdvisesACutOnlyWhereItHelps) {
  settings_.over_length = OverLength::kRaise;
  settings_.max_length = 28;
  const auto message = [&](const std::string& prompt) -> std::string {
    try {
      encode(RowKind::kChat, R"({"prompt":")" + prompt + R"(","completion":"a long answer"})");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string cut = "--set over_length=cut";
  EXPECT_NE(message("a").find(cut), std::string::npos) << message("a");
  const std::string filled = message("a prompt that is longer than the limit");
  EXPECT_NE(filled.find("; its prompt alone fills it, and a cut keeps whole prompts"),
            std::string::npos)
      << filled;
  EXPECT_EQ(filled.find(cut), std::string::npos) << filled;
}

TEST_F(EveryEncoder, RefusesAnInvalidWeight) {
  constexpr std::pair<RowKind, const char*> kRows[] = {
      {RowKind::kPreference, R"("prompt":"a","chosen":"b","rejected":"c")"},
      {RowKind::kChat, R"("prompt":"a","completion":"b")"},
      {RowKind::kText, R"("text":"ab")"},
      {RowKind::kPrompts, R"("prompt":"a")"},
      {RowKind::kTokens, R"("input_ids":[1,2])"},
      {RowKind::kFeedback, R"("prompt":"a","completion":"b","label":true)"}};
  settings_.fields = {{"weight", "share"}};
  for (const auto& [kind, columns] : kRows) {
    const auto refused = [&, kind = kind, columns = columns](const std::string& weight) {
      return refusal(kind, fmt::format("{{{},\"share\":{}}}", columns, weight));
    };
    EXPECT_EQ(refused("0.5"), "") << row_kind_name(kind);
    EXPECT_EQ(refused("null"), "") << row_kind_name(kind);
    for (const char* weight : {"-0.5", "\"1\"", "1e39", "true", "[1]"}) {
      EXPECT_TRUE(refused(weight).starts_with("bad_weight: \"share\" is ")) << refused(weight);
    }
    EXPECT_EQ(refused("-1"), "bad_weight: \"share\" is -1, wanted a number >= 0");
  }
}

// ---- prompts

class PromptsEncoderTest : public EncoderFixture {};

TEST_F(PromptsEncoderTest, TrainsNothingAndLeavesAnswersOut) {
  const EncodedRow prompt = encode(RowKind::kPrompts, R"({"prompt":"a"})");
  EXPECT_EQ(trained(prompt), "");
  for (const char* row :
       {R"("a")", R"({"text":"a"})", R"({"prompt":"a","completion":"b"})",
        R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]})"}) {
    EXPECT_EQ(text(encode(RowKind::kPrompts, row)), text(prompt)) << row;
  }
}

TEST_F(PromptsEncoderTest, FlagsOfItsTurnsAreIgnored) {
  const auto row = [](const char* flag) {
    return fmt::format(R"({{"messages":[{{"role":"user","content":"a"}},
                           {{"role":"assistant","content":"b"{}}},
                           {{"role":"user","content":"c"}}]}})",
                       flag);
  };
  template_ = std::make_shared<HandChatml>(false);
  const std::string plain = text(encode(RowKind::kPrompts, row("")));
  EXPECT_EQ(text(encode(RowKind::kPrompts, row(R"(,"weight":0)"))), plain);
  EXPECT_EQ(text(encode(RowKind::kPrompts, row(R"(,"train":false)"))), plain);
}

TEST_F(PromptsEncoderTest, SaysWhyARowIsRefused) {
  EXPECT_EQ(refusal(RowKind::kPrompts, R"({"prompt":" "})"),
            "empty_prompt: turn 1 is a user turn without text");
  EXPECT_EQ(refusal(RowKind::kPrompts, R"({"messages":[{"role":"assistant","content":"b"}]})"),
            "no_prompt: no turn comes before the answer");
  settings_.max_length = 5;
  settings_.over_length = OverLength::kDrop;
  EXPECT_TRUE(refusal(RowKind::kPrompts, R"({"prompt":"a"})").starts_with("too_long: the prompt"));
}

TEST_F(PromptsEncoderTest, APromptIsNeverCut) {
  settings_.over_length = OverLength::kCut;
  EXPECT_EQ(message_of<UsageError>([&] { encode(RowKind::kPrompts, R"({"prompt":"a"})"); }),
            "over_length = \"cut\" keeps the prompt, and a prompt row has nothing else to cut; set "
            "over_length to \"raise\" or \"drop\"");
}

// ---- text

class TextEncoderTest : public EncoderFixture {};

TEST_F(TextEncoderTest, TrainsEveryTokenButTheFirstUpToTheEnd) {
  const EncodedRow row = encode(RowKind::kText, R"({"text":"some"})");
  EXPECT_EQ(trained(row).substr(0, 3), "ome");
  EXPECT_EQ(row.streams[0].ids.back(), *tokenizer().eos_id());
  EXPECT_EQ(encode(RowKind::kText, R"("some")").streams, row.streams);
  settings_.end_of_text = false;
  EXPECT_EQ(text(encode(RowKind::kText, R"({"text":"some"})")), "some");
}

TEST_F(TextEncoderTest, ATextThatSpellsASpecialTokenStaysPlain) {
  settings_.end_of_text = false;
  EXPECT_EQ(encode(RowKind::kText, R"({"text":"<|im_end|>"})").streams[0].ids.size(), 10u);
}

TEST_F(TextEncoderTest, ACutDividesNoCharacter) {
  settings_.over_length = OverLength::kCut;
  const auto cut_at = [&](int64_t tokens) {
    settings_.max_length = tokens;
    return text(encode(RowKind::kText, "{\"text\":\"ab\U0001f600cd\"}"));
  };
  EXPECT_EQ(cut_at(2), "ab");
  EXPECT_EQ(cut_at(3), "ab");
  EXPECT_EQ(cut_at(5), "ab");
  EXPECT_EQ(cut_at(6), "ab\U0001f600");
  EXPECT_EQ(cut_at(7), "ab\U0001f600c");
}

TEST_F(TextEncoderTest, SaysWhyARowIsRefused) {
  EXPECT_EQ(refusal(RowKind::kText, R"({"text":" \n"})"), "empty_text: the text is empty");
  EXPECT_EQ(refusal(RowKind::kText, R"({"text":1})"),
            "wrong_type: \"text\" is an integer, wanted a string");
  EXPECT_TRUE(refusal(RowKind::kText, R"({"txt":"a"})")
                  .ends_with("; wanted: text; name them, for example fields = { text = \"txt\" }"));
  EXPECT_EQ(refusal(RowKind::kText, R"({"text":null})"),
            "unknown_format: its columns: text (null); wanted: text");
  settings_.end_of_text = false;
  EXPECT_EQ(refusal(RowKind::kText, R"({"text":"a"})"),
            "empty_mask: a single token leaves nothing to train");
  settings_.train_on = TrainOn::kAssistant;
  settings_.train_on_given = true;
  EXPECT_EQ(message_of<UsageError>([&] { encode(RowKind::kText, R"({"text":"some"})"); }),
            "train_on is \"assistant\": text rows have no turns, so every token is trained; set "
            "train_on = \"all\" or leave it out");
}

// ---- tokens

class TokensEncoderTest : public EncoderFixture {};

TEST_F(TokensEncoderTest, ACutDividesNoCharacter) {
  settings_.over_length = OverLength::kCut;
  settings_.max_length = 4;
  // Ids of the tokenizer of bytes; 230, 176, 180 is one character.
  const EncodedRow row =
      encode(RowKind::kTokens, R"({"input_ids":[97,98,230,176,180,99],"weights":[1,1,1,1,1,1]})");
  EXPECT_EQ(row.streams[0].ids, (std::vector<int32_t>{97, 98}));
  EXPECT_EQ(row.streams[0].weights.size(), 2u);
  EXPECT_EQ(row.cut_tokens, 4);
  // Bytes that make up no character may be cut anywhere.
  EXPECT_EQ(encode(RowKind::kTokens, R"({"input_ids":[97,98,230,230,97,99]})").streams[0].ids,
            (std::vector<int32_t>{97, 98, 230, 230}));
}

TEST_F(TokensEncoderTest, LabelsMasksAndWeightsSelectTheTrainedTokens) {
  using Flags = std::vector<uint8_t>;
  const auto flags = [&](const char* row) {
    return encode(RowKind::kTokens, row).streams[0].trained;
  };
  EXPECT_EQ(flags(R"({"input_ids":[5,6,7]})"), (Flags{0, 1, 1}));
  EXPECT_EQ(flags(R"({"tokens":[5,6,7],"labels":[5,-100,7]})"), (Flags{0, 0, 1}));
  EXPECT_EQ(flags(R"({"ids":[5,6,7],"mask":[1,1,0]})"), (Flags{0, 1, 0}));
  EXPECT_EQ(flags(R"({"input_ids":[5,6,7],"loss_mask":[false,false,true]})"), (Flags{0, 0, 1}));
  const EncodedRow row =
      encode(RowKind::kTokens, R"({"input_ids":[5,6,7,8],"weights":[1,0.5,0,2]})");
  EXPECT_EQ(row.streams[0].trained, (Flags{0, 1, 0, 1}));
  EXPECT_EQ(row.streams[0].weights, (std::vector<float>{1, 0.5, 0, 2}));
}

TEST_F(TokensEncoderTest, SaysWhyARowIsRefused) {
  for (const auto& [row, wanted] : std::vector<RefusedRow>{
           {R"({"text":"a"})",
            "unknown_format: its columns: text; wanted: input_ids; rows with text are read by "
            "xrun.text"},
           {R"({"input_ids":"a"})", "wrong_type: \"input_ids\" is a string, wanted a list"},
           {R"({"input_ids":[5]})", "empty_mask: \"input_ids\" has 1 ids, wanted at least two"},
           {R"({"input_ids":[]})", "empty_list: \"input_ids\" has no ids"},
           {R"({"input_ids":[[1,2,3]]})",
            "wrong_type: \"input_ids\"[0] is a list, wanted a number: a row is one list of ids"},
           {R"({"input_ids":[5,-1]})",
            "bad_token: \"input_ids\"[1] is -1, wanted a whole number from 0 to "},
           {R"({"input_ids":[5,99999]})", "bad_token: \"input_ids\"[1] is 99999"},
           {R"({"input_ids":[5,6.5]})", "bad_token: \"input_ids\"[1] is 6.5"},
           {R"({"input_ids":[5,6],"labels":[5,7]})",
            "bad_token: \"labels\"[1] is 7, wanted 6 or -100"},
           {R"({"input_ids":[5,6],"labels":[5]})",
            "length_mismatch: \"labels\" has 1 elements beside 2 ids"},
           {R"({"input_ids":[5,6],"mask":[0,2]})", "wrong_type: \"mask\"[1] is 2, wanted 0 or 1"},
           {R"({"input_ids":[5,6],"weights":[0,-1]})",
            "bad_token_weight: \"weights\"[1] is -1, wanted a finite number >= 0"},
           {R"({"input_ids":[5,6],"labels":[5,-100]})", "empty_mask: no token is trained"},
           {R"({"input_ids":[5,6],"attention_mask":[1,0]})",
            "wrong_type: \"attention_mask\"[1] is 0, wanted 1: rows are not padded"}}) {
    EXPECT_TRUE(refusal(RowKind::kTokens, row).starts_with(wanted))
        << row << ": " << refusal(RowKind::kTokens, row);
  }
}

}  // namespace
}  // namespace xrun::row_encoder_test
