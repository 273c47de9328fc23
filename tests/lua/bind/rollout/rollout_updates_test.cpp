// Updates of rollouts from Lua: the number of forwards, the clipped and the plain gradient at ratio
// 1, the denominators of shared tokens, and schedules over several updates of a body.

#include <cmath>

#include "core/model/flops.h"
#include "tests/lua/bind/rollout/rollout_fixture.h"

namespace xrun::rollout_updates_test {

class RolloutUpdates : public RolloutTest {
 protected:
  // A recipe whose loop over prompts ends with this code.
  static std::string recipe(const std::string& update) {
    return objects("batch = { prompts = 2, max_tokens = 600 }, steps = 4") +
           R"(local function plain(r) return -(policy:token_logprob(r) * r:spread(r.advantage)) end
local function reward(s) return s.ids[1] % 5 + s.digit end
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, prompts in run:steps(data, cfg.batch) do
  local rollouts = policy:sample(prompts, cfg.sampling):score(reward)
  rollouts.advantage = xrun.group_advantage(rollouts.reward, rollouts.group)
  )" + update +
           R"(
end
run:export(policy)
)";
  }
  static constexpr const char* kPlain = "run:log(adamw:step(rollouts, plain))";
  static constexpr const char* kClipped = "run:log(adamw:step(rollouts, grpo))";
  static constexpr const char* kMinibatches =
      "for mini in rollouts:minibatches { epochs = 2, groups = 1 } do run:log(adamw:step(mini, "
      "grpo)) end";

  // Products of the training forwards and backwards of a whole run; the sampler's do not count.
  double flops(const std::string& text, const std::string& dir) {
    const double before = counted_flops();
    EXPECT_EQ(run(text, dir), "");
    return counted_flops() - before;
  }
  static double flops_of_steps(const std::string& dir) {
    const std::string text = read_file(dir + "/metrics.jsonl");
    double sum = 0;
    for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
      const Json line = parse_json(text.substr(at, text.find('\n', at) - at), "metrics");
      sum += line.at("perf/flops_per_s").as_double() * line.at("perf/step_s").as_double();
    }
    return sum;
  }
  using Values = std::vector<double>;
};

TEST_F(RolloutUpdates, OldLogprobsNeedNoForward) {
  const double plain = flops(recipe(kPlain), "plain"), clipped = flops(recipe(kClipped), "clipped");
  EXPECT_GT(plain, 0);
  EXPECT_EQ(clipped, plain) << "the ratio to old_logprob computes nothing more";
  EXPECT_NEAR(clipped / flops_of_steps("clipped"), 1, 1e-9) << "a forward outside of the steps";
  const std::string again =
      std::string("rollouts.old_logprob = policy:token_logprob(rollouts) ") + kClipped;
  const double scored = flops(recipe(again), "scored");
  EXPECT_GT(scored, 1.2 * clipped) << "a second forward is counted";
  EXPECT_EQ(metrics("scored"), metrics("clipped"));
}

TEST_F(RolloutUpdates, TheClippedUpdateAtRatioOneIsThePlainUpdateBitForBit) {
  ASSERT_EQ(run(recipe(kPlain), "plain"), "");
  ASSERT_EQ(run(recipe(kClipped), "clipped"), "");
  EXPECT_EQ(values("clipped", "train/ratio"), (Values{1, 1, 1, 1}));
  EXPECT_EQ(values("clipped", "train/grad_norm"), values("plain", "train/grad_norm"));
  EXPECT_EQ(read_file("clipped/hf/model.safetensors"), read_file("plain/hf/model.safetensors"));
  EXPECT_NE(read_file("clipped/hf/model.safetensors"), read_file("tiny/model.safetensors"));
}

TEST_F(RolloutUpdates, SchedulesCountBodiesNotUpdates) {
  const auto with = [&](const char* update) {
    std::string text = recipe(update);
    text.replace(text.find("optim = { lr = 1e-2 }"), 21,
                 "optim = { lr = 1e-2, schedule = \"linear\", warmup = 2 }");
    return text;
  };
  ASSERT_EQ(run(with(kClipped), "one"), "");
  ASSERT_EQ(run(with(kMinibatches), "four"), "");
  EXPECT_EQ(values("four", "train/updates"), (Values{4, 4, 4, 4}));
  const Values lr = values("one", "train/lr");
  ASSERT_EQ(lr.size(), 4u);
  EXPECT_GT(lr[2], lr[3]);
  const Values four = values("four", "train/lr");  // means over equal values
  ASSERT_EQ(four.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(four[i], lr[i], 1e-15) << "step " << i;
}

TEST_F(RolloutUpdates, StaleAnswersOfReinforceAreRefused) {
  const auto twice = [](const char* weight) {
    return fmt::format(
        "rollouts.signed_weight = rollouts.advantage\n"
        "for mini in rollouts:minibatches {{ epochs = 2 }} do\n"
        "  run:log(adamw:step(mini, function(r)\n"
        "    return xrun.reinforce(policy:token_logprob(r), r.{}) end))\nend",
        weight);
  };
  for (const char* weight : {"advantage", "signed_weight"}) {
    std::filesystem::remove_all("r");
    has(run(recipe(twice(weight)), "r"), "these answers were sampled 1 update ago");
  }
}

TEST_F(RolloutUpdates, AMetricThatTheBodyWritesItselfIsRefused) {
  for (const char* name : {"ratio_max", "path_clipped", "updates"}) {
    const std::string update = fmt::format(
        "run:log(adamw:step(rollouts, function(r) return plain(r), {{ {} = r.reward }} end))",
        name);
    std::filesystem::remove_all("r");
    has(run(recipe(update), "r"),
        fmt::format("the metric \"{}\" has a name that the step itself writes", name));
  }
}

// Sharp draws share tokens. The weight w of a token: 1 (per_sample), 1 / n among n answers that
// begin alike, here all, since the template begins every prompt (branch_mean), or 1 in the first
// answer that has it and 0 in the others (own_once).
TEST_F(RolloutUpdates, SlowSharedTokensCountAsFoldWeightSaysInEveryDenominator) {
  const std::string update = R"(
  local key, seen = {}, {}
  rollouts:score(function(s)
    local prefix = table.concat(s.prompt_ids, " ")
    for _, id in ipairs(s.ids) do
      prefix = prefix .. " " .. id
      key[#key + 1] = prefix
    end
    return s.index + s.ids[1] % 3
  end)
  rollouts.advantage = xrun.group_advantage(rollouts.reward, rollouts.group)
  local w, shared = {}, 0
  for i, prefix in ipairs(key) do
    local own = seen[prefix] and 0 or 1
    seen[prefix], shared = true, shared + 1 - own
    w[i] = ({ per_sample = 1, branch_mean = 1 / rollouts.size, own_once = own })[cfg.batch.fold_weight]
  end
  assert(shared > 4, shared .. " tokens are shared")
  w = xrun.tensor(w)
  local a = {}
  for i = 0, rollouts.size - 1 do
    for _ = 1, rollouts.length[i]:item() do a[#a + 1] = rollouts.advantage[i]:item() end
  end
  a = xrun.tensor(a)
  local lp = policy:token_logprob(rollouts)
  local function reinforce(r) return xrun.reinforce(policy:token_logprob(r), r.advantage) end
  local m = adamw:step(rollouts, step == 0 and plain or reinforce)
  local wanted = -(w * a * lp):sum() / (step == 0 and w or w * a:abs()):sum()
  assert(math.abs(m.loss - wanted:item()) < 1e-5, m.loss .. ", wanted " .. wanted:item())
  run:log(m))";
  int number = 0;
  for (const char* weight : {"per_sample", "branch_mean", "own_once"}) {
    for (const char* fold : {"false", "true"}) {
      for (const char* max_tokens : {"600", "60"}) {
        const std::string error =
            run(recipe(update), fmt::format("r{}", number++),
                {.steps = 2,
                 .sets = {"sampling.temperature=0.05", "sampling.samples=5", "batch.fold_min=2",
                          fmt::format("batch.fold={}", fold),
                          fmt::format("batch.fold_weight={}", weight),
                          fmt::format("batch.max_tokens={}", max_tokens)}});
        EXPECT_EQ(error, "") << weight << ", fold = " << fold << ", max_tokens = " << max_tokens;
      }
    }
  }
}

TEST_F(RolloutUpdates, SeedAndTruncationReachTheSampler) {
  EXPECT_EQ(run(recipe(R"lua(
  local function texts(more)
    local options = { samples = 3, max_tokens = 6 }
    for name, value in pairs(more) do options[name] = value end
    return table.concat(policy:sample(prompts, options).text, "|")
  end
  local drawn = texts {}
  assert(drawn == texts { seed = 0 }, "the seed is that of the run")
  local seeded = texts { seed = 7 }
  assert(seeded ~= drawn and seeded == texts { seed = 7 })
  local greedy = texts { temperature = 0 }
  assert(greedy ~= drawn)
  for name, value in pairs { top_k = 1, top_p = 1e-6, min_p = 1 } do
    assert(texts { [name] = value } == greedy, name)
  end
  assert(texts { top_k = 5 } ~= greedy)
  local whole = policy:sample(prompts, { samples = 1, max_tokens = 60 }).text[1]
  local stop = assert(whole:match("%w"), "a text of random bytes without a letter")
  for _, form in ipairs { stop, { "no such text", stop } } do
    local cut = policy:sample(prompts, { samples = 1, max_tokens = 60, stop = form })
    assert(cut.text[1] == whole:match("^(.-)" .. stop) and cut.finish[1] == "stop_string")
  end
  run:log(adamw:step(rollouts, plain)))lua"),
                "r", {.steps = 1}),
            "");
}

TEST_F(RolloutUpdates, ABatchSumsTokensPerAnswer) {
  EXPECT_EQ(run(recipe(R"(
  local sums = rollouts:sum(rollouts.old_logprob)
  assert(sums:size(0) == rollouts.size)
  assert((sums - policy:logprob(rollouts)):abs():max():item() < 1e-5)
  assert((rollouts:sum(rollouts.old_logprob * 0 + 1) - rollouts.length):abs():max():item() == 0)
  rollouts.kl = sums                                    -- one value per answer
  run:log(adamw:step(rollouts, function(r)
    assert((r.kl - r:sum(r.old_logprob)):abs():max():item() == 0)
    return plain(r)
  end)))"),
                "r", {.steps = 1, .sets = {"batch.max_tokens=40"}}),
            "");
  has(run(recipe("rollouts:sum(rollouts.reward)"), "s", {.steps = 1}),
      "sum takes one value per trained token: got shape [6], wanted [");
}

}  // namespace xrun::rollout_updates_test
