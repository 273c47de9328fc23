// Flags in pairs, whose sides may carry different ones.

#include "core/data/rows/turn_flags.h"

#include <gtest/gtest.h>

#include "core/data/rows/preference_row.h"

namespace xrun::turn_flags_test {
namespace {

PreferenceRow read(const std::string& json) {
  return PreferenceReader(RowSettings()).read(parse_json(json, "row"));
}

TEST(TurnFlags, TrainingFlagsDoNotSplitThePrompt) {
  const auto prompt = [](const char* flag) {
    return std::string(R"([{"role":"user","content":"hi"},{"role":"assistant","content":"ho")") +
           flag + R"(},{"role":"user","content":"so"})";
  };
  const char* yes = R"(,{"role":"assistant","content":"yes","weight":1}])";
  const char* no = R"(,{"role":"assistant","content":"no","weight":0}])";
  const auto pair = [&](const char* chosen, const char* rejected) {
    return read("{\"chosen\":" + prompt(chosen) + yes + ",\"rejected\":" + prompt(rejected) + no +
                "}");
  };
  const uint64_t hash = pair("", "").prompt_hash;
  for (const char* flag : {R"(,"weight":0)", R"(,"train":false)", R"(,"training":true)"}) {
    for (const PreferenceRow& row : {pair(flag, ""), pair("", flag), pair(flag, flag)}) {
      EXPECT_EQ(row.shared, 3u) << flag;
      EXPECT_EQ(row.prompt_hash, hash) << flag;
      EXPECT_EQ(row.chosen.as_array()[1], row.rejected.as_array()[1]) << flag;
    }
  }
  const PreferenceRow off = pair(R"(,"weight":1)", R"(,"weight":0)");
  EXPECT_EQ(off.chosen.as_array()[1].at("weight").as_int(), 0);
  EXPECT_EQ(off.rejected.as_array()[1].at("weight").as_int(), 0);
}

TEST(TurnFlags, ThePromptBesideWholeConversationsMayLackTheirFlags) {
  const std::string turns = R"([{"role":"user","content":"hi"},{"role":"assistant","content":"a")";
  const char* last = R"(,{"role":"assistant","content":")";
  const std::string whole = turns + R"(,"weight":0})";
  const PreferenceRow row = read("{\"prompt\":" + turns + "}],\"chosen\":" + whole + last +
                                 "yes\"}],\"rejected\":" + whole + last + "no\"}]}");
  EXPECT_EQ(row.shared, 2u);
  EXPECT_EQ(row.chosen.as_array()[1].at("weight").as_int(), 0);
}

}  // namespace
}  // namespace xrun::turn_flags_test
