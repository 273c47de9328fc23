// A preference row that cannot be read is refused with a reason and, where there is one, the fix.

#include <gtest/gtest.h>

#include "core/data/rows/ledger.h"
#include "core/data/rows/preference_row.h"
#include "tests/core/data/rows/preference_rows.h"
#include "tests/scratch_folder.h"

namespace xrun::preference_row_refusal_test {
namespace {

struct Refused {
  const char* reason;
  std::string row;
  const char* detail;  // part of it
};

class RefusedRows : public testing::TestWithParam<Refused> {};

TEST_P(RefusedRows, GivesReasonAndDetail) {
  try {
    read_preference(GetParam().row, {}, {});
    FAIL() << "was read";
  } catch (const RowRefusal& refusal) {
    EXPECT_EQ(refusal.reason(), GetParam().reason);
    EXPECT_NE(std::string(refusal.what()).find(GetParam().detail), std::string::npos)
        << refusal.what();
  }
}

const Refused kRefused[] = {
    {"not_an_object", "[1]", "the row is an array"},
    {"missing_side", R"({"prompt":"hi","chosen":"yes"})", "has no \"rejected\""},
    {"missing_side", R"({"prompt":"hi","chosen":null,"rejected":"no"})", "has no \"chosen\""},
    {"empty_list", R"({"prompt":"hi","chosen":[],"rejected":"no"})", "chosen has no messages"},
    {"wrong_type", R"({"prompt":"hi","chosen":3,"rejected":"no"})", "chosen is an integer"},
    {"wrong_type", R"({"prompt":7,"chosen":"yes","rejected":"no"})", "prompt is an integer"},
    {"wrong_type", R"({"chosen":[{"role":"user","content":3}],"rejected":"no"})",
     "chosen[0] has a content that is an integer"},
    {"wrong_type", R"({"chosen":[{"role":"user","content":null}],"rejected":"no"})",
     "chosen[0] has a content that is null"},
    {"wrong_type", R"({"chosen":["x"],"rejected":"no"})", "chosen[0] is a string"},
    {"wrong_type", R"({"chosen":[{"content":"x"}],"rejected":"no"})", "has no role"},
    {"wrong_type", R"({"conversations":[{"from":"x","value":"y"}],"chosen":"a","rejected":"b"})",
     "is from \"x\""},
    {"wrong_type",
     R"({"prompt":"hi","chosen":"[{'content': 'yes', 'role': 'assistant'}]","rejected":"no"})",
     "chosen is a string that spells a list of messages, wanted the list itself"},
    {"wrong_type",
     R"({"prompt":"[{\"from\":\"human\", \"value\":\"hi\"}]","chosen":"yes","rejected":"no"})",
     "prompt is a string that spells a list of messages"},
    {"no_prompt", R"({"chosen":"yes","rejected":"no"})", "the row has no prompt"},
    {"missing_side", R"({"prompt":"hi","chosen":"a","worse":"b","bad":"b"})",
     "has no \"rejected\"; columns that are not used: worse, bad; name the right one, for "
     "example fields = { rejected = \"worse\" }"},
    {"unknown_format", R"({"question":"hi","good":"a","bad":"b"})",
     "its columns: question, good, bad; name them: fields = { prompt = \"question\", chosen = "
     "\"good\", rejected = \"bad\" }"},
    {"unknown_format", R"({"问题":"hi","好":"a","坏":null,"来源":"web"})",
     "its columns: 问题, 好, 坏 (null), 来源; name them: fields = { prompt = \"问题\", chosen = "
     "\"好\", rejected = \"坏\" }"},
    {"unknown_format", R"({"prompt":"hi","chosen":null,"rejected":null})",
     "its columns: prompt, chosen (null), rejected (null)"},
    {"unknown_format", R"({"messages":[]})",
     "its columns: messages; wanted: prompt, chosen, rejected; rows with messages are read by "
     "xrun.chat"},
    {"unknown_format", R"({"messages":[],"tools":[],"id":"x"})",
     "rows with messages are read by xrun.chat (a recipe such as sft.lua)"},
    {"unknown_format", R"({"messages":[],"label":true,"id":"x"})",
     "rows with messages, label are read by xrun.feedback (a recipe such as kto.lua)"},
    {"unknown_format", R"({"prompt":"hi","completion":"yes","label":true,"id":"x"})",
     "rows with prompt, completion, label are read by xrun.feedback (a recipe such as kto.lua)"},
    {"unknown_format", R"({"text":"hi","better":"a","worse":"b"})",
     "its columns: text, better, worse; wanted: prompt, chosen, rejected; name them, for example "
     "fields = { prompt = \"text\", chosen = \"better\", rejected = \"worse\" }"},
    {"unknown_format", R"({"text":"hi"})",
     "its columns: text; wanted: prompt, chosen, rejected; rows with text are read by xrun.text"},
    {"unknown_format", R"({"prompt":"hi","better":"a","worse":"b"})",
     "its columns: prompt, better, worse; name them: fields = { chosen = \"better\", rejected = "
     "\"worse\" }"},
    {"unknown_format", R"({"prompt":"hi","id":1,"A":"a","B":"b"})",
     "wanted: prompt, chosen, rejected; still missing: chosen, rejected; name them, for example "
     "fields = { chosen = \"A\", rejected = \"B\" }"},
    {"no_prompt", R"({"question":"hi","chosen":"yes","rejected":"no"})",
     "fields = { prompt = \"question\" }"},
    {"no_prompt", R"({"chosen":[)" + kYes + R"(],"rejected":[)" + kNo + "]}",
     "no turn comes before"},
    {"empty_prompt", R"({"prompt":"","chosen":"yes","rejected":"no"})",
     "turn 1 is a user turn without text"},
    {"empty_prompt", R"({"prompt":" \n","chosen":"yes","rejected":"no"})", "turn 1"},
    {"empty_prompt", R"({"prompt":[{"role":"user","content":""}],"chosen":"yes","rejected":"no"})",
     "turn 1"},
    {"empty_prompt",
     R"({"chosen":[)" + kAsks + "," + kNo + R"(,{"role":"user","content":""},)" + kYes +
         R"(],"rejected":[)" + kAsks + "," + kNo + R"(,{"role":"user","content":""},)" + kNo + "]}",
     "turn 3"},
    {"prompts_differ",
     R"({"chosen":[{"role":"user","content":"ho"},)" + kYes + R"(],"rejected":[)" + kAsks + "," +
         kNo + "]}",
     "differ in turn 1, a turn of \"user\""},
    {"prompts_differ",
     R"({"chosen":[)" + kAsks + "," + kNo + "," + kAsks + "," + kYes + R"(],"rejected":[)" + kAsks +
         "," + kNo + R"(,{"role":"user","content":"ho"},)" + kNo + "]}",
     "differ in turn 3, a turn of \"user\""},
    {"prompt_mismatch",
     R"({"prompt":[{"role":"user","content":"ho"}],"chosen":[)" + kAsks + "," + kYes +
         R"(],"rejected":[)" + kAsks + "," + kNo + "]}",
     "not the beginning of \"chosen\""},
    {"no_assistant", R"({"chosen":[)" + kAsks + R"(],"rejected":[)" + kAsks + "," + kNo + "]}",
     "the chosen side"},
    {"last_not_assistant",
     R"({"chosen":[)" + kAsks + "," + kYes + R"(],"rejected":[)" + kAsks + "," + kNo + "," + kAsks +
         "]}",
     "the rejected side ends with a turn of \"user\""},
    {"empty_answer", R"({"prompt":"hi","chosen":"yes","rejected":" \n"})", "the rejected side"},
    {"same_answers", R"({"prompt":"hi","chosen":"yes","rejected":"yes"})", "are the same"},
    {"same_answers",
     R"({"prompt":"hi","chosen":"yes","rejected":{"role":"assistant","content":"yes","weight":0}})",
     "are the same"},
    {"refused_kwargs", R"({"prompt":"hi","chosen":"yes","rejected":"no",
     "chat_template_kwargs":{"tokenize":true}})",
     "may not set \"tokenize\""},
    {"refused_kwargs", R"({"prompt":"hi","chosen":"yes","rejected":"no",
     "chat_template_kwargs":{"padding":true}})",
     "may not set \"padding\""},
    {"refused_kwargs", R"({"prompt":"hi","chosen":"yes","rejected":"no",
     "chat_template_kwargs":{"add_generation_prompt":true}})",
     "add_generation_prompt"},
    {"wrong_type", R"({"prompt":"hi","chosen":"yes","rejected":"no","tools":{}})",
     "tools is an object"},
};

INSTANTIATE_TEST_SUITE_P(Every, RefusedRows, testing::ValuesIn(kRefused));

TEST(PreferenceRow, AnUnknownFieldNameIsRefusedWithTheNearest) {
  EXPECT_NE(error_of([] {
              read_preference("{}", {{"choosen", "x"}});
            }).find("did you mean \"chosen\"?"),
            std::string::npos);
}

TEST(PreferenceRow, ARowThatStillLacksColumnsOffersTheSettingThatNamesAll) {
  RowSettings settings;
  settings.fields = {{"prompt", "question"}};
  settings.config_path = "data.2";
  const PreferenceReader reader(settings);
  const std::string row = R"({"question":"hi","A":"a","B":"b"})";
  EXPECT_TRUE(error_of([&] { reader.read(parse_json(row, "row")); })
                  .ends_with("; still missing: chosen, rejected; name them, for example --set "
                             "'data.2.fields={ prompt = \"question\", chosen = \"A\", rejected = "
                             "\"B\" }'"));
}

TEST(PreferenceRow, AColumnNamedByFieldsIsNotGuessedForARowThatLacksIt) {
  RowSettings settings;
  settings.fields = {{"prompt", "问题"}, {"chosen", "好"}, {"rejected", "坏"}};
  const PreferenceReader reader(settings);
  const auto refusal = [&](const char* row) {
    return error_of([&] { reader.read(parse_json(row, "row")); });
  };
  EXPECT_EQ(
      refusal(R"({"问题":"q","好":"a","来源":"s"})"),
      "has no \"坏\"; fields names rejected = \"坏\", a column that the row lacks; columns that "
      "are not used: 来源");
  EXPECT_EQ(refusal(R"({"好":"a","坏":"b","来源":"s"})"),
            "\"好\" is a string and the row has no prompt; fields names prompt = \"问题\", a "
            "column that the row lacks; columns that are not used: 来源");
  EXPECT_EQ(refusal(R"({"问题":"q","来源":"s"})"),
            "its columns: 问题, 来源; fields names chosen = \"好\", a column that the row lacks; "
            "fields names rejected = \"坏\", a column that the row lacks");
}

TEST(PreferenceRow, AMissingSideIsProposedFromTheColumnsOfTheRow) {
  const auto refusal = [](const char* row, const ColumnNames& fields = {}) {
    RowSettings settings;
    settings.fields = fields;
    const PreferenceReader reader(settings);
    return error_of([&] { reader.read(parse_json(row, "row")); });
  };
  const char* better = R"({"prompt":"q","rejected":"b","id":"x","better_answer":"a"})";
  EXPECT_EQ(refusal(better),
            "has no \"chosen\"; columns that are not used: id, better_answer; name the right one, "
            "for example fields = { chosen = \"better_answer\" }");
  EXPECT_EQ(
      refusal(better, {{"chosen", "good_one"}}),
      "has no \"good_one\"; fields names chosen = \"good_one\", a column that the row lacks; "
      "columns that are not used: id, better_answer; name the right one, for example fields = "
      "{ chosen = \"better_answer\" }");
  EXPECT_EQ(refusal(R"({"prompt":"q","rejected":"b","A":"x","B":"a"})"),
            "has no \"chosen\"; columns that are not used: A, B; name the right one: fields = { "
            "chosen = \"...\" }");
  EXPECT_EQ(refusal(R"({"prompt":"q","rejected":"b","chosen":null})"),
            "has no \"chosen\"; its columns: prompt, rejected, chosen (null)");
}

}  // namespace
}  // namespace xrun::preference_row_refusal_test
