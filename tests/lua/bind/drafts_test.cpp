// Answers of the last epoch as drafts: the same run, bit for bit, with and without them.

#include "tests/lua/bind/session_fixture.h"

namespace xrun::drafts_test {

class Drafts : public SessionTest {
 protected:
  // Six steps over four prompts in batches of two: three epochs.
  std::string train(const std::string& dir, const std::string& sampling, bool resume = false,
                    std::optional<int64_t> steps = {}) {
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
for step, prompts in run:steps(xrun.prompts(cfg.data, policy), cfg.batch) do
  local rollouts = policy:sample(prompts, cfg.sampling):score(function(s) return s.ids[1] % 5 end)
  rollouts.advantage = xrun.group_advantage(rollouts.reward, rollouts.group)
  run:log(adamw:step(rollouts, function(r)
    return -policy:token_logprob(r) * r:spread(r.advantage)
  end))
end
run:export(policy)
)",
               dir, resume, steps);
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

TEST_F(Drafts, ChangeNoBitAtAnyTemperature) {
  for (const std::string temperature : {"0", "0.05", "1"}) {
    SCOPED_TRACE(temperature);
    const std::string sampling = "temperature = " + temperature;
    ASSERT_EQ(train("with_" + temperature, sampling), "");
    ASSERT_EQ(train("without_" + temperature, sampling + ", drafts = false"), "");
    expect_same("with_" + temperature, "without_" + temperature);
    const std::vector<double> shares = accepted("with_" + temperature);
    ASSERT_EQ(shares.size(), 6u);
    EXPECT_EQ(shares[0], -1) << "nothing was sampled before";
    EXPECT_EQ(shares[1], -1);
    for (size_t step = 2; step < 6; ++step) EXPECT_GE(shares[step], 0) << step;
    const double all = shares[2] + shares[3] + shares[4] + shares[5];
    EXPECT_GE(all, temperature == "1" ? 0 : 0.5);
    EXPECT_EQ(accepted("without_" + temperature), std::vector<double>(6, -1));
  }
}

TEST_F(Drafts, AreNoPartOfWhatAResumeRepeats) {
  ASSERT_EQ(train("whole", "temperature = 0.05"), "");
  ASSERT_EQ(train("stopped", "temperature = 0.05", false, 3), "");
  ASSERT_EQ(train("stopped", "temperature = 0.05", true), "");
  expect_same("stopped", "whole");
  EXPECT_EQ(accepted("stopped")[3], -1) << "a resumed run begins without drafts";
  EXPECT_GE(accepted("whole")[3], 0);
}

}  // namespace xrun::drafts_test
