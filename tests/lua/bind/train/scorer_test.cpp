// xrun.scorer: a reward model from Lua.

#include "tests/lua/bind/session_fixture.h"

namespace xrun::scorer_test {

class ScorerBinding : public SessionTest {
 protected:
  static std::string reward(const std::string& loop,
                            const std::string& objects = "scorer = scorer") {
    std::string text = head();
    text.replace(text.find("xrun.adamw(policy, cfg.optim)"), 29, "xrun.adamw(scorer, cfg.optim)");
    text.insert(text.find("local adamw"), "local scorer = xrun.scorer(policy)\n");
    text.replace(text.find("policy = policy"), 15, objects);
    return text + R"(
local function bradley_terry(p)
  local margin = scorer:score(p.chosen) - scorer:score(p.rejected)
  return -margin:log_sigmoid(), { margin = margin, accuracy = (margin:sign() + 1) / 2 }
end
)" + loop;
  }
  static constexpr const char* kLoop = R"(
for step, batch in run:steps(train, cfg.batch) do
  local scores = scorer:score(batch)
  assert(scores:numel() == batch.size and (step > 0 or scores:abs():max():item() == 0))
  run:log(run:evaluate(valid, bradley_terry))
  local m = adamw:step(batch, bradley_terry)
  assert(step > 0 or (math.abs(m.loss - math.log(2)) < 1e-6 and m.accuracy == 0.5))
  run:log(m)
end
run:export(scorer)
)";
};

TEST_F(ScorerBinding, SlowResumesToTheSameBits) {
  expect_same_when_resumed(reward(kLoop), {1, 3});
  const Json config = read_json("whole/hf/config.json");
  EXPECT_EQ(dump_json(config.at("architectures")), R"(["LlamaForSequenceClassification"])");
  EXPECT_TRUE(std::filesystem::exists("whole/hf/tokenizer.json"));
}

TEST_F(ScorerBinding, MayBeSavedBesideItsPolicy) {
  expect_same_when_resumed(reward(kLoop, "policy = policy, scorer = scorer"), {2});
}

TEST_F(ScorerBinding, RefusesArgumentsThatAreNotAPolicyOrAView) {
  has(run(reward("xrun.scorer(adamw)\n"), "a"), "(policy): got AdamW, wanted a Policy");
  has(run(reward("scorer:score(3)\n"), "b"), "(view): got 3, wanted a View");
  has(run(reward("xrun.run(cfg, { x = train })\n"), "c"),
      "give policies, scorers, optimizers and averages, and keep plain values in run.state");
}

}  // namespace xrun::scorer_test
