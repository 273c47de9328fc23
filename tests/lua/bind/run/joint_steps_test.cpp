// run:steps over several sets: a batch of each in every body.

#include "tests/lua/bind/session_fixture.h"

namespace xrun::joint_steps_test {

class JointSteps : public SessionTest {
 protected:
  JointSteps() {
    std::string chats;
    for (int i = 0; i < 5; ++i) {
      chats += fmt::format(R"({{"messages": [{{"role": "user", "content": "Say {0}."}}, )"
                           R"({{"role": "assistant", "content": "{0}, and {0} again."}}]}})"
                           "\n",
                           i);
    }
    write_file_atomic("chats.jsonl", chats);
  }
  // Two sets: the pairs of head() and five chats.
  static std::string joint(const std::string& body,
                           const std::string& batch = "pairs = 4, sequences = 3, steps = 4") {
    return head() + R"(
local chats = xrun.chat({ { path = "chats.jsonl" } }, policy, { template = "chatml" })
local function nll(t) return -policy:token_logprob(t) end
for step, prefs, talk in run:steps({ train, chats }, { max_tokens = 600, )" +
           batch + " }) do\n" + body + "\nend\n";
  }
};

TEST_F(JointSteps, TwoSetsGiveTwoBatches) {
  EXPECT_EQ(run(joint(R"(
  assert(prefs.size == 8 and talk.size == 3 and prefs.step == step and talk.step == step)
  assert(talk.total_steps == 4 and prefs.total_steps == 4)
  local pair = step == 0 and run:evaluate(train, dpo).loss
  local m = adamw:step({ { prefs, dpo }, { talk, nll, weight = 0.5 } })
  run:log(m)
  if step == 0 then assert(math.abs(pair - math.log(2)) < 1e-6 and m.accuracy == 0.5) end
)"),
                "r"),
            "");
  EXPECT_TRUE(has(output_, "pairs, 4 steps of 4 = "));
  EXPECT_TRUE(has(output_, "sequences, 4 steps of 3 = "));
}

TEST_F(JointSteps, TheFirstSetDecidesTheLengthAndTheOthersRepeat) {
  // One epoch of the 16 pairs left by head()'s split is 4 steps of 4 at most; 5 chats go round.
  std::string text = joint(R"(
  rows[#rows + 1] = talk.row
  adamw:step({ { prefs, dpo }, { talk, nll } })
)",
                           "pairs = 4, sequences = 3, epochs = 1");
  text.erase(text.find(", steps = 4,"), 11);
  text.insert(text.find("for step"), "local rows = {}\n");
  text += R"(
local seen, count = {}, 0
for _, batch in ipairs(rows) do
  assert(batch:numel() == 3)                       -- never a partial one
  for i = 0, 2 do
    local row = batch[i]:item()
    seen[row], count = (seen[row] or 0) + 1, count + 1
  end
end
assert(run.step == math.ceil(train.size / 4) and count == 3 * run.step, count)
for row = 0, 4 do assert(math.abs((seen[row] or 0) - count / 5) < 1, row) end
)";
  EXPECT_EQ(run(text, "r"), "");
}

TEST_F(JointSteps, EpochsOfTheLoopThatStepsOverrideAreReported) {
  EXPECT_EQ(run(joint("adamw:step({ { prefs, dpo }, { talk, nll } })",
                      "pairs = 4, sequences = 3, epochs = 1"),
                "r"),
            "");
  EXPECT_TRUE(has(output_, "steps = 4 decides the length; run:steps' epochs = 1 is not used"));
}

TEST_F(JointSteps, SlowResumeToTheSameBits) {
  expect_same_when_resumed(
      joint("run:log(adamw:step({ { prefs, dpo }, { talk, nll, weight = 0.5 } }))") + kExport,
      {1, 3});
}

TEST_F(JointSteps, AChangeInAnySetIsRefused) {
  const std::string text = joint("run:log(adamw:step({ { prefs, dpo }, { talk, nll } }))");
  ASSERT_EQ(run(text, "r", {.steps = 2}), "");
  const std::string chats = read_file("chats.jsonl");
  write_file_atomic("chats.jsonl", chats.substr(chats.find('\n') + 1));
  EXPECT_TRUE(has(run(text, "r", {.resume = true}), "chats.jsonl"));
  write_file_atomic("chats.jsonl", chats);
  std::string other = text;
  other.replace(other.find("sequences = 3"), 13, "sequences = 2");
  EXPECT_TRUE(
      has(run(other, "r", {.resume = true, .force = true}) + output_, "set 2.units_a_step"));
}

TEST_F(JointSteps, EachMismatchIsItsOwnError) {
  const auto steps = [&](const std::string& sets, const std::string& batch) {
    std::string text = joint("", batch);
    return run(text.replace(text.find("{ train, chats }"), 16, sets), "r", {.resume = true});
  };
  has(steps("train", "pairs = 4, sequences = 3"),
      "batch has both pairs and sequences, but one set is counted in one of them; leave one out, "
      "or give run:steps a list of two sets");
  has(steps("{ train, chats }", "pairs = 4"),
      "batch.sequences is missing; chat rows are counted in sequences");
  has(steps("{ train, chats }", "pairs = 4, sequences = 3, prompts = 2"),
      "batch.prompts fits none of the 2 sets");
  has(steps("{}", "pairs = 4"), "the list of sets is empty; wanted { set, other_set }");
  has(steps("{ train, 3 }", "pairs = 4"), "set 2: got 3, wanted a DataSet");
}

TEST_F(JointSteps, AnEmptySecondSetIsNamed) {
  std::string text = joint("", "pairs = 4, sequences = 3");
  text.replace(text.find("{ train, chats }"), 16, "{ train, none }");
  text.insert(text.find("for step"), "local _, none = chats:split{ fraction = 0 }\n");
  has(run(text, "r"), "set 2 of run:steps has no rows; nothing can be trained");
}

}  // namespace xrun::joint_steps_test
