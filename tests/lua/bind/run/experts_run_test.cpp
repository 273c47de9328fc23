// Runs of a mixture of experts: its metrics, its balance term, its resume.

#include "tests/lua/bind/session_fixture.h"
#include "tests/tree.h"

namespace xrun::experts_run_test {

namespace {

class ExpertsRun : public SessionTest {
 protected:
  ExpertsRun() {
    InitOptions options = init_preset("moe-8");
    options.layers = 2;
    options.hidden = 32;
    options.heads = 2;
    options.kv_heads = 1;
    options.expert_ffn = 16;
    options.tokenizer = std::filesystem::path(source_path("tests/data/tiny_tokenizer"));
    options.vocab = Tokenizer::load(options.tokenizer)->vocab_size();
    init_model("experts", options);
  }

  // The recipe with another model and weight of the balance loss.
  static std::string recipe(const std::string& model, const std::string& aux) {
    std::string text = head() + R"(
for step, batch in run:steps(train, cfg.batch) do run:log(adamw:step(batch, dpo)) end
run:export(policy)
)";
    const std::string named = "model = \"tiny\"";
    text.replace(text.find(named), named.size(),
                 "model = \"" + model + "\", moe = { aux = " + aux + " }");
    return text;
  }

  // Two updates of each batch of sampled answers.
  static std::string sampled(const std::string& model, const std::string& replay) {
    std::string rows;
    for (int i = 0; i < 6; ++i) rows += fmt::format("{{\"prompt\": \"say {} ?\"}}\n", i);
    write_file_atomic("prompts.jsonl", rows);
    return "local xrun = require \"xrun\"\nlocal cfg = xrun.config { model = \"" + model +
           "\", replay = " + replay + R"(,
  data = { { path = "prompts.jsonl" } }, template = "chatml", optim = { lr = 1e-2 },
  batch = { prompts = 2, max_tokens = 600, fold_min = 2 }, steps = 3,
}
local policy = xrun.policy(cfg.model)
local adamw = xrun.adamw(policy, cfg.optim)
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
local function loss(r)
  local ratio = (policy:token_logprob(r) - r.old_logprob):exp()
  return -ratio * r:spread(r.advantage), { ratio = ratio }
end
for step, prompts in run:steps(xrun.prompts(cfg.data, policy), cfg.batch) do
  local r = policy:sample(prompts, { samples = 3, max_tokens = 8, replay_routes = cfg.replay })
    :score(function(s) return s.ids[1] % 5 end)
  if cfg.replay then
    local first = r.routes[1]
    assert(#r.routes == r.size and first:size(1) == 2 and first:min():item() >= 0)
  else
    local ok, message = pcall(function() return r.routes end)
    assert(not ok and tostring(message):find("these rollouts have no routes"))
  end
  r.advantage = xrun.group_advantage(r.reward, r.group)
  assert(adamw:step(r, loss).ratio == 1)
  run:log(adamw:step(r, loss))
end
run:export(policy)
)";
  }
};

}  // namespace

TEST_F(ExpertsRun, SlowResumesToTheSameBitsWithItsBalanceTerm) {
  expect_same_when_resumed(recipe("experts", "0.1"), {1, 3});
  const std::string first = metrics("whole").front();
  for (const char* name : {"aux_loss", "load_max", "load_min", "idle"}) {
    has(first, std::string("\"train/moe/") + name + "\":");
  }
}

TEST_F(ExpertsRun, TheBalanceTermMovesTheWeights) {
  ASSERT_EQ(run(recipe("experts", "0"), "without"), "");
  ASSERT_EQ(run(recipe("experts", "1"), "with"), "");
  EXPECT_NE(read_file("without/hf/model.safetensors"), read_file("with/hf/model.safetensors"));
}

TEST_F(ExpertsRun, SampledRoutesAreReplayedInLaterUpdatesAndAfterAResume) {
  expect_same_when_resumed(sampled("experts", "true"), {1});
  const std::vector<std::string> replayed = metrics("whole");
  ASSERT_EQ(run(sampled("experts", "false"), "own"), "");
  EXPECT_NE(metrics("own").front(), replayed.front()) << "the router has moved";
  has(run(sampled("tiny", "true"), "dense"),
      "replay_routes is true, but the model is not a mixture of experts");
}

TEST_F(ExpertsRun, ABalanceTermOfADenseModelIsRefused) {
  has(run(recipe("tiny", "0.01"), "r"),
      "moe.aux is 0.01, but tiny is not a mixture of experts; leave it out");
  EXPECT_EQ(run(recipe("tiny", "0"), "s"), "");
}

}  // namespace xrun::experts_run_test
