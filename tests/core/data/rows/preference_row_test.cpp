// Every spelling of a preference row gives the same two conversations and extra columns.

#include "core/data/rows/preference_row.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/data/rows/ledger.h"
#include "tests/core/data/rows/preference_rows.h"
#include "tests/scratch_folder.h"

namespace xrun::preference_row_test {
namespace {

// "user:hi|assistant:yo"
std::string spelled(const Json& messages) {
  std::string text;
  for (const Json& message : messages.as_array()) {
    if (!text.empty()) text += '|';
    text += message.at("role").as_string() + ":" + message.at("content").as_string();
  }
  return text;
}

struct RowSpelling {
  const char* name;
  std::string row;
  const char* chosen;
  const char* rejected;
  size_t shared;
};

class Spellings : public testing::TestWithParam<RowSpelling> {};

TEST_P(Spellings, GiveTheSameConversations) {
  const PreferenceRow row = read_preference(GetParam().row);
  EXPECT_EQ(spelled(row.chosen), GetParam().chosen);
  EXPECT_EQ(spelled(row.rejected), GetParam().rejected);
  EXPECT_EQ(row.shared, GetParam().shared);
}

const RowSpelling kSpellings[] = {
    {"Conversations",
     R"({"chosen":[)" + kAsks + "," + kYes + R"(],"rejected":[)" + kAsks + "," + kNo + "]}",
     "user:hi|assistant:yes", "user:hi|assistant:no", 1},
    {"Strings", R"({"prompt":"hi","chosen":"yes","rejected":"no"})", "user:hi|assistant:yes",
     "user:hi|assistant:no", 1},
    {"PromptMessages", R"({"prompt":[)" + kAsks + R"(],"chosen":"yes","rejected":[)" + kNo + "]}",
     "user:hi|assistant:yes", "user:hi|assistant:no", 1},
    {"MessageSides",
     R"({"prompt":[)" + kAsks + R"(],"chosen":)" + kYes + R"(,"rejected":)" + kNo + "}",
     "user:hi|assistant:yes", "user:hi|assistant:no", 1},
    {"PromptRepeated",
     R"({"prompt":[)" + kAsks + R"(],"chosen":[)" + kAsks + "," + kYes + R"(],"rejected":[)" +
         kAsks + "," + kNo + "]}",
     "user:hi|assistant:yes", "user:hi|assistant:no", 1},
    {"FromValue", R"({"conversations":[{"from":"system","value":"s"},{"from":"human","value":"hi"}],
     "chosen":{"from":"gpt","value":"yes"},"rejected":{"from":"gpt","value":"no"}})",
     "system:s|user:hi|assistant:yes", "system:s|user:hi|assistant:no", 2},
    {"System", R"({"system":"s","prompt":"hi","chosen":"yes","rejected":"no"})",
     "system:s|user:hi|assistant:yes", "system:s|user:hi|assistant:no", 2},
    {"OneSideLonger",
     R"({"chosen":[)" + kAsks + "," + kYes + R"(],"rejected":[)" + kAsks + "," + kYes + "," +
         kAsks + "," + kNo + "]}",
     "user:hi|assistant:yes", "user:hi|assistant:yes|user:hi|assistant:no", 1},
};

INSTANTIATE_TEST_SUITE_P(Every, Spellings, testing::ValuesIn(kSpellings),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PreferenceRow, AStringPromptBesideWholeConversationsIsIgnoredAndReported) {
  const PreferenceRow row = read_preference(R"({"prompt":"other","chosen":[)" + kAsks + "," + kYes +
                                            R"(],"rejected":[)" + kAsks + "," + kNo + "]}");
  EXPECT_EQ(spelled(row.chosen), "user:hi|assistant:yes");
  EXPECT_EQ(row.notes,
            std::vector<std::string>{"\"prompt\" is ignored beside whole conversations"});
}

TEST(PreferenceRow, AStringPromptBeforeAnAssistantTurnIsItsUserTurn) {
  EXPECT_EQ(spelled(read_preference(R"({"prompt":"hi","chosen":[)" + kYes + R"(],"rejected":[)" +
                                    kNo + "]}")
                        .chosen),
            "user:hi|assistant:yes");
}

TEST(PreferenceRow, FieldsAreRenamed) {
  const PreferenceRow row = read_preference(
      R"({"question":"hi","good":"yes","bad":"no","chosen":3,"w":0.25})",
      {{"prompt", "question"}, {"chosen", "good"}, {"rejected", "bad"}, {"weight", "w"}});
  EXPECT_EQ(spelled(row.chosen), "user:hi|assistant:yes");
  EXPECT_EQ(row.weight, 0.25f);
  EXPECT_EQ(row.notes, std::vector<std::string>{"the column \"chosen\" is not used"});
}

TEST(PreferenceRow, UltraFeedbacksCopyOfTheChosenSideIsIgnored) {
  const PreferenceRow row =
      read_preference(R"({"prompt":"hi","prompt_id":"1","messages":[)" + kAsks + "," + kYes +
                      R"(],"chosen":[)" + kAsks + "," + kYes + R"(],"rejected":[)" + kAsks + "," +
                      kNo + R"(],"score_chosen":9,"score_rejected":2})");
  EXPECT_EQ(spelled(row.chosen), "user:hi|assistant:yes");
  EXPECT_EQ(spelled(row.rejected), "user:hi|assistant:no");
  EXPECT_EQ(row.shared, 1u);
  EXPECT_EQ(row.notes[0], "\"messages\" is ignored beside whole conversations");
  EXPECT_EQ(row.notes[1], "\"prompt\" is ignored beside whole conversations");
}

TEST(PreferenceRow, AnEmptyListOfMessagesIsIgnoredAndReported) {
  const std::string sides = R"("messages":[],"chosen":[)" + kYes + R"(],"rejected":[)" + kNo + "]}";
  const PreferenceRow row = read_preference(R"({"prompt":"hi",)" + sides);
  EXPECT_EQ(spelled(row.chosen), "user:hi|assistant:yes");
  EXPECT_EQ(row.notes, std::vector<std::string>{"\"messages\" is an empty list and is ignored"});
  EXPECT_EQ(error_of([&] { read_preference("{" + sides); }), "no turn comes before the answers");
}

TEST(PreferenceRow, APromptBesideMessagesThatAreReadIsIgnoredBesideThem) {
  const PreferenceRow row = read_preference(R"({"prompt":"other","messages":[)" + kAsks +
                                            R"(],"chosen":"yes","rejected":"no"})");
  EXPECT_EQ(spelled(row.chosen), "user:hi|assistant:yes");
  EXPECT_EQ(row.notes, std::vector<std::string>{"\"prompt\" is ignored beside \"messages\""});
}

TEST(PreferenceRow, KeepWithOurNameOfARenamedColumnIsToldTheirs) {
  RowSettings settings;
  settings.fields = {{"prompt", "question"}};
  settings.keep = {"prompt", "answer"};
  const PreferenceReader reader(settings);
  const PreferenceRow row = reader.read(
      parse_json(R"({"question":"q","chosen":"a","rejected":"b","answer":"4"})", "row"));
  EXPECT_TRUE(row.extra[0].is_null());
  ASSERT_EQ(row.notes.size(), 1u);
  EXPECT_EQ(
      row.notes[0],
      "keep: these rows have their \"prompt\" as \"question\", which `fields` names: keep = { "
      "\"question\", \"answer\" } keeps it");
}

TEST(PreferenceRow, AColumnCalledWeightIsIgnoredUnlessNamed) {
  EXPECT_EQ(read_preference(R"({"prompt":"hi","chosen":"yes","rejected":"no","weight":9})").weight,
            1.0f);
}

TEST(PreferenceRow, KeepsNumbersAndStrings) {
  const PreferenceRow row =
      read_preference(R"({"prompt":"hi","chosen":"yes","rejected":"no","score":1.5,"tag":"t"})", {},
                      {"tag", "score"});
  ASSERT_EQ(row.extra.size(), 2u);
  EXPECT_EQ(row.extra[0].as_string(), "t");
  EXPECT_EQ(row.extra[1].as_double(), 1.5);
}

TEST(PreferenceRow, KwargsAndToolsReachTheTemplate) {
  RowSettings settings;
  settings.template_kwargs = parse_json(R"({"a":1,"b":1})", "");
  const PreferenceReader reader(settings);
  const PreferenceRow row = reader.read(
      parse_json(R"({"prompt":"hi","chosen":"yes","rejected":"no","tools":[{"name":"f"}],
                     "chat_template_kwargs":{"b":2}})",
                 ""));
  EXPECT_EQ(dump_json(row.kwargs), R"({"a":1,"b":2,"tools":[{"name":"f"}]})");
}

TEST(PreferenceRow, RowsOfOnePromptShareItsHash) {
  const uint64_t hash =
      read_preference(R"({"prompt":"hi","chosen":"yes","rejected":"no"})").prompt_hash;
  EXPECT_EQ(read_preference(R"({"prompt":"hi","chosen":"a","rejected":"b"})").prompt_hash, hash);
  EXPECT_NE(read_preference(R"({"prompt":"ho","chosen":"yes","rejected":"no"})").prompt_hash, hash);
}

TEST(PreferenceRow, AListAnswerWithoutMessagesIsText) {
  const PreferenceRow row =
      read_preference(R"({"prompt":"hi","chosen":"[{'role': 1}]","rejected":"[{x"})");
  EXPECT_EQ(spelled(row.chosen), "user:hi|assistant:[{'role': 1}]");
  EXPECT_EQ(spelled(row.rejected), "user:hi|assistant:[{x");
}

TEST(PreferenceRow, AnExtraColumnOfAnotherTypeIsAbsentWithANote) {
  for (const char* value : {"true", "[1]", "{}"}) {
    const std::string text =
        std::string(R"({"prompt":"hi","chosen":"yes","rejected":"no","k":)") + value + "}";
    const PreferenceRow row = read_preference(text, {}, {"k"});
    EXPECT_TRUE(row.extra.at(0).is_null());
    ASSERT_FALSE(row.notes.empty());
    EXPECT_NE(row.notes.back().find("taken as absent"), std::string::npos);
  }
}

TEST(PreferenceRow, AKeptNumberIsExact) {
  const std::string row = R"({"prompt":"hi","chosen":"yes","rejected":"no","id":9007199254740)";
  EXPECT_EQ(read_preference(row + "992}", {}, {"id"}).extra.at(0).as_int(), 9007199254740992);
  for (const char* end : {"993}", "99999999999999}", "9999999999e20}"}) {
    EXPECT_NE(
        error_of([&] { read_preference(row + end, {}, {"id"}); }).find("write it as a string"),
        std::string::npos)
        << end;
  }
}

TEST(PreferenceRow, AnExtraColumnMayNotReplaceAFieldOfTheBatch) {
  for (const char* name : {"length", "source", "weight", "label"}) {
    EXPECT_EQ(
        message_of<UsageError>([&] { read_preference("{}", {}, {name}); }),
        fmt::format("data.keep has \"{0}\", which is a field of every batch; keep the column under "
                    "another name: map = function(row) row.my_{0} = row.{0} return row end",
                    name));
  }
}

TEST(PreferenceRow, AColumnKeptTwiceIsBadUsage) {
  EXPECT_EQ(message_of<UsageError>([] {
              read_preference("{}", {}, {"id", "tag", "id"});
            }),
            "data.keep names \"id\" twice; once is enough");
}

}  // namespace
}  // namespace xrun::preference_row_test
