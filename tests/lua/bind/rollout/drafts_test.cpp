// Answers of the last epoch as drafts: the same run, bit for bit, with and without them.

#include "tests/lua/bind/session_fixture.h"

namespace xrun::drafts_test {

class Drafts : public SessionTest {
 protected:
  static constexpr const char* kUpdate = R"(  run:log(adamw:step(rollouts, function(r)
    return -policy:token_logprob(r) * r:spread(r.advantage)
  end))
)";

  // Six steps over four prompts in batches of two: three epochs. Of the answers to prompts of an
  // earlier epoch, writes the number that it had too and the number of others to `dir`.txt.
  std::string train(const std::string& dir, const std::string& sampling, bool resume = false,
                    std::optional<int64_t> steps = {}, const std::string& update = kUpdate) {
    std::string rows;
    for (int i = 0; i < 4; ++i) rows += fmt::format("{{\"prompt\": \"say {} ?\"}}\n", i);
    write_file_atomic("prompts.jsonl", rows);
    return run(R"(local xrun = require "xrun"
local cfg = xrun.config {
  model = "tiny", data = { { path = "prompts.jsonl" } }, template = "chatml",
  optim = { lr = 1e-2 }, batch = { prompts = 2, max_tokens = 600 }, steps = 6,
  sampling = { samples = 3, max_tokens = 12, )" +
                   sampling + R"( },
}
local policy = xrun.policy(cfg.model)
local adamw = xrun.adamw(policy, cfg.optim)
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
local seen, same, others = {}, 0, 0
local function reward(s)
  local key, ids = s.row .. ":" .. s.index, table.concat(s.ids, " ")
  if seen[key] == ids then same = same + 1 elseif seen[key] then others = others + 1 end
  seen[key] = ids
  return s.ids[1] % 5
end
for step, prompts in run:steps(xrun.prompts(cfg.data, policy), cfg.batch) do
  local rollouts = policy:sample(prompts, cfg.sampling):score(reward)
  rollouts.advantage = xrun.group_advantage(rollouts.reward, rollouts.group)
)" + update + R"(end
run:export(policy)
local file = io.open(")" +
                   dir + R"(.txt", "w")
file:write(same .. " same, " .. others .. " others")
file:close()
)",
               dir, {.resume = resume, .steps = steps});
  }
  static void expect_same(const std::string& a, const std::string& b) {
    EXPECT_EQ(metrics(a), metrics(b));
    EXPECT_EQ(read_file(a + "/hf/model.safetensors"), read_file(b + "/hf/model.safetensors"));
    for (int step = 0; step < 6; ++step) {
      const std::string file = fmt::format("/rollouts/step_{:07}.jsonl.zst", step);
      EXPECT_EQ(read_file(a + file), read_file(b + file)) << step;
    }
  }
  // perf/draft_accepted by step; -1 where it was not logged.
  static std::vector<double> accepted(const std::string& dir) {
    std::vector<double> shares;
    const std::string text = read_file(dir + "/metrics.jsonl");
    for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
      const Json line = parse_json(text.substr(at, text.find('\n', at) - at), "metrics");
      const Json* share = line.find("perf/draft_accepted");
      shares.push_back(share == nullptr ? -1 : share->as_double());
    }
    return shares;
  }
};

TEST_F(Drafts, SlowChangeNoBitAtAnyTemperature) {
  int number = 0;
  for (const std::string sampling : {"temperature = 0", "temperature = 0.05", "temperature = 1",
                                     "temperature = 1, draws = \"row\""}) {
    SCOPED_TRACE(sampling);
    const std::string with = fmt::format("with_{}", ++number);
    const std::string without = fmt::format("without_{}", number);
    ASSERT_EQ(train(with, sampling), "");
    ASSERT_EQ(train(without, sampling + ", drafts = false"), "");
    expect_same(with, without);
    const std::vector<double> shares = accepted(with);
    ASSERT_EQ(shares.size(), 6u);
    EXPECT_EQ(shares[0], -1) << "nothing was sampled before";
    EXPECT_EQ(shares[1], -1);
    for (size_t step = 2; step < 6; ++step) EXPECT_GE(shares[step], 0) << step;
    const double all = shares[2] + shares[3] + shares[4] + shares[5];
    // At temperature 1 an update of this size changes most answers, even with equal draws.
    const bool hot = sampling.starts_with("temperature = 1");
    EXPECT_GE(all, hot ? 0 : 0.5);
    EXPECT_EQ(accepted(without), std::vector<double>(6, -1));
  }
}

TEST_F(Drafts, OfDrawsByRowAreTheAnswersOfAnUnchangedPolicy) {
  const std::string sampling = "temperature = 1, draws = ";
  const std::string no_update;
  ASSERT_EQ(train("row", sampling + "\"row\"", false, {}, no_update), "");
  ASSERT_EQ(train("without", sampling + "\"row\", drafts = false", false, {}, no_update), "");
  ASSERT_EQ(train("step", sampling + "\"step\"", false, {}, no_update), "");
  expect_same("row", "without");
  EXPECT_EQ(read_file("row.txt"), "24 same, 0 others") << "12 answers in each of two more epochs";
  EXPECT_EQ(read_file("step.txt"), "0 same, 24 others");
  const std::vector<double> row = accepted("row"), step = accepted("step");
  // Three of 12 tokens are drawn without a draft: after the prompt and after each of two windows.
  for (size_t s = 2; s < 6; ++s) EXPECT_GT(row[s], 0.6) << s;
  EXPECT_LT(step[2] + step[3] + step[4] + step[5], 0.4);
}

TEST_F(Drafts, AnUnknownScopeOfDrawsIsAnError) {
  has(train("wrong", "draws = \"rows\""),
      "sampling.draws: got \"rows\", wanted \"step\" or \"row\"");
  has(train("wrong", "draw = \"row\""),
      "there is no key `sampling.draw`; did you mean `sampling.draws`?");
}

TEST_F(Drafts, AreNotPartOfWhatAResumeRepeats) {
  ASSERT_EQ(train("whole", "temperature = 0.05"), "");
  ASSERT_EQ(train("stopped", "temperature = 0.05", false, 3), "");
  ASSERT_EQ(train("stopped", "temperature = 0.05", true), "");
  expect_same("stopped", "whole");
  EXPECT_EQ(accepted("stopped")[3], -1) << "a resumed run begins without drafts";
  EXPECT_GE(accepted("whole")[3], 0);
}

}  // namespace xrun::drafts_test
