// run:sample: its options, its scores, and zero tokens.

#include <regex>

#include "tests/lua/bind/session_fixture.h"

namespace xrun::run_sample_test {

using RunSample = SessionTest;

TEST_F(RunSample, OptionsDecideTheSamples) {
  EXPECT_EQ(run(head() + R"(
local function texts(options)
  local all = {}
  options.max_tokens = options.max_tokens or 12
  options.score = function(s) all[#all + 1] = s.text; return s.length end
  local metrics = run:sample(policy, valid, 0, options)
  assert(metrics.score == metrics.length)
  return table.concat(all, '|'), all
end
local greedy = texts {}
assert(greedy == texts {} and greedy == texts { temperature = 1, top_k = 1 })
assert(greedy == texts { temperature = 1, top_p = 1e-6 })
assert(greedy == texts { temperature = 1, min_p = 1 })
local drawn = texts { temperature = 1 }
assert(drawn ~= greedy and drawn == texts { temperature = 1 })
assert(drawn ~= texts { temperature = 1, seed = 7 })
local _, all = texts { temperature = 1, max_tokens = 60 }
local stop = all[1]:match('%w')
assert(stop, 'a text of random bytes without a letter')
local _, cut = texts { temperature = 1, max_tokens = 60, stop = stop }
assert(cut[1] == all[1]:match('^(.-)' .. stop), cut[1])
local _, also = texts { temperature = 1, max_tokens = 60, stop = { 'no such text', stop } }
assert(also[1] == cut[1])
)",
                "r"),
            "");
}

TEST_F(RunSample, AnExtraColumnScoresAnswersThatHoldIt) {
  EXPECT_EQ(run(head() + R"(
local held, n = 0, 0
local function score(s)
  n = n + 1
  if s.text:lower():find('%f[%w]' .. s.topic:lower() .. '%f[%W]') then held = held + 1 end
  return 0
end
run:sample(policy, valid, 0, { max_tokens = 8, score = score })
local metrics = run:sample(policy, valid, 0, { max_tokens = 8, score = "topic" })
assert(n > 0 and metrics.score == held / n)
local none = run:sample(policy, valid, 0, { max_tokens = 8, score = "topik" })
assert(none.length and not pcall(function() return none.score end), "no row has the column")
)",
                "r"),
            "");
}

TEST_F(RunSample, AScoreThatFailsNamesTheRowsFileAndLine) {
  const std::string text = run(
      head() + "run:sample(policy, valid, 0, { max_tokens = 2, score = function() end })\n", "r");
  EXPECT_TRUE(std::regex_search(text, std::regex("jsonl:[0-9]+: the score failed: the score is "
                                                 "nil")))
      << text;
}

TEST_F(RunSample, ZeroTokensGiveNoAnswersAndNoMetrics) {
  EXPECT_EQ(run(head() + R"(
local none = run:sample(policy, valid, 3, { max_tokens = 0, score = "topic" })
assert(#none == 0)
run:log(none)
)",
                "r"),
            "");
  EXPECT_FALSE(std::filesystem::exists("r/samples"));
}

TEST_F(RunSample, AForeignFileBesideTheAnswersIsLeftAlone) {
  EXPECT_EQ(run(head() + R"(
run:sample(policy, valid, 1, { max_tokens = 4 })
local f = io.open('r/samples/step_final.jsonl', 'w')
f:write('mine')
f:close()
run:sample(policy, valid, 1, { max_tokens = 4 })
)",
                "r"),
            "");
  EXPECT_EQ(read_file("r/samples/step_final.jsonl"), "mine");
}

TEST_F(RunSample, AConversationIsHeadedByItsLastUserTurn) {
  std::string rows;
  for (int i = 0; i < 10; ++i) {
    rows += R"({"prompt":[{"role":"user","content":"Hello."},{"role":"assistant","content":"Hi."},)"
            R"({"role":"user","content":"Name a\nriver."}],"chosen":"The Po.","rejected":"No."})"
            "\n";
  }
  write_file_atomic("pairs.jsonl", rows);
  std::string text = head();
  text.replace(text.find("\"topic\""), 7, "\"prompt\"");
  ASSERT_EQ(run(text + "run:sample(policy, valid, 1, { max_tokens = 4 })\n", "r"), "");
  has(output_, "  Name a river.\n    step 0 ");
}

// Rows may come from anyone: their contents are shown, never executed.
TEST_F(RunSample, ControlsInRowsDoNotReachTheTerminal) {
  std::string rows = read_file("pairs.jsonl");
  const std::string question = "What is ";
  for (size_t at = 0; (at = rows.find(question, at)) != std::string::npos; ++at) {
    rows.insert(at + question.size(), "\\u001b[31m\\u0007\\u202e\\u009b");
  }
  write_file_atomic("pairs.jsonl", rows);
  EXPECT_EQ(run(head() + "run:sample(policy, valid, 3, { max_tokens = 4 })\n", "r"), "");
  EXPECT_NE(output_.find("<1B>[31m<07><U+202E><U+009B>"), std::string::npos) << output_;
  EXPECT_EQ(output_.find('\x1b'), std::string::npos);
}

TEST_F(RunSample, OptionsOutOfRangeAreNamed) {
  int runs = 0;
  const auto refused = [&](const std::string& options) {
    return run(head() + "run:sample(policy, valid, 0, " + options + ")\n",
               fmt::format("r{}", ++runs));
  };
  EXPECT_NE(refused("{ temperature = -1 }")
                .find("option `temperature`: got -1, wanted a number from 0 to 1000"),
            std::string::npos);
  EXPECT_NE(refused("{ top_p = 0.5 }").find("set a temperature"), std::string::npos);
  EXPECT_NE(refused("{ max_tokens = -1 }").find("option `max_tokens`: got -1"), std::string::npos);
  EXPECT_NE(refused("{ stop = '' }").find("a stop string is empty"), std::string::npos);
  EXPECT_NE(refused("{ samples = 2 }").find("run:sample answers each prompt once"),
            std::string::npos);
  EXPECT_NE(refused("{ temprature = 1 }").find("temperature"), std::string::npos);
}

}  // namespace xrun::run_sample_test
