// A dry run: the recipe's own bodies on seeded log-probs, without weights.

#include <ATen/core/Tensor.h>

#include "core/model/weights/hf_config.h"
#include "core/train/batches/batch.h"
#include "core/train/models/policy.h"
#include "lua/bind/run/run_loop.h"
#include "lua/prompt/preview.h"
#include "tests/lua/bind/session_fixture.h"

namespace xrun::stand_in_test {
namespace {

class StandIn : public SessionTest {
 protected:
  std::unique_ptr<Preview> open(const std::string& text) {
    write_file_atomic("test.lua", text);
    RecipeOptions options;
    options.recipe = "test.lua";
    options.threads = 1;
    auto session = open_preview(std::move(options), console_);
    EXPECT_NE(session->pause(), nullptr) << session->no_loop_text();
    stand_in_ = std::make_shared<LogprobStandIn>(LogprobStandIn::seeded(7));
    session->session().models.stand_in(stand_in_);
    return session;
  }

  static double number(Preview& session, const std::string& name) {
    lua_State* L = session.state();
    const StackGuard guard(L);
    if (!session.names().push(L, name)) return std::nan("");
    return lua_tonumber(L, -1);
  }

  // The sums that the stand-in gives a model, in batch order.
  at::Tensor logprob_of(const std::string& model, Batch& batch) const {
    return ModelStandIn(
               stand_in_, model, [] { return false; }, /*vocab=*/1)
        .logprob(batch);
  }

  std::shared_ptr<LogprobStandIn> stand_in_;
  std::shared_ptr<Console> console_ =
      std::make_shared<Console>([](std::string_view) {}, ConsoleTraits{});
};

TEST_F(StandIn, TheBodyRunsWithoutWeightsAndUpdatesNothing) {
  const auto session = open(head() + R"(
local loss, count = 0, 0
for step, batch in run:steps(train, cfg.batch) do
  local m = adamw:step(batch, dpo)
  run:log(m)
  run:log(run:evaluate(valid, dpo))
  run:log(run:sample(policy, valid, 1))
  loss = m.loss
  count = adamw.update_count
end
)" + kExport);
  int steps = 0;
  session->hooks().on_dry_step = [&](const std::vector<StepTerm>& parts) {
    ++steps;
    EXPECT_EQ(parts.size(), 1u);
  };
  session->hooks().plan.bodies = 1;
  ASSERT_TRUE(session->resume()) << session->error()->text();
  EXPECT_EQ(steps, 1);
  const double loss = number(*session, "loss");
  EXPECT_TRUE(loss > 0 && loss < 20) << loss;
  EXPECT_EQ(number(*session, "count"), 0);
  ASSERT_FALSE(stand_in_->leaves().empty());
  for (const auto& [of, leaf] : stand_in_->leaves()) {
    EXPECT_EQ(of.first, "policy tiny");
    ASSERT_TRUE(leaf.grad().defined());
    EXPECT_GT(leaf.grad().abs().sum().item().toDouble(), 0);
  }
  EXPECT_FALSE(session->resume());
  EXPECT_EQ(session->error(), nullptr) << session->error()->text();
  EXPECT_FALSE(session->session().models.policies().front()->loaded());
}

TEST_F(StandIn, TheScoreOfSamplesGetsRandomAnswers) {
  const auto session = open(head() + R"(
for step, batch in run:steps(train, cfg.batch) do
  run:log(run:sample(policy, valid, 1, { score = function(s) return #s.ids + s.misisng end }))
  run:log(adamw:step(batch, dpo))
end
)");
  session->hooks().plan.bodies = 1;
  EXPECT_FALSE(session->resume());
  ASSERT_NE(session->error(), nullptr);
  has(session->error()->message, "the sample has no field `misisng`");
}

TEST_F(StandIn, AViewAndItsBatchAgreeWhateverThePacking) {
  const auto session = open(head() + "for step, batch in run:steps(train, cfg.batch) do end\n");
  const LoopPause& at = *session->pause();
  const auto batch = at.loop->make_batch(1, at.run->device());
  const at::Tensor whole = logprob_of("policy tiny", *batch);
  EXPECT_EQ(whole.numel(), batch->size());
  EXPECT_LE(whole.max().item().toDouble(), 0);
  at.loop->max_tokens = 4096;
  const auto packed = at.loop->make_batch(1, at.run->device());
  EXPECT_LT(packed->micros().size(), batch->micros().size());
  EXPECT_TRUE(logprob_of("policy tiny", *packed).equal(whole));
  EXPECT_FALSE(logprob_of("reference 1", *packed).equal(whole));
}

// Two folders of one name are two models; a model without an optimizer has no gradient.
TEST_F(StandIn, ATeacherIsAnotherModelAndNotALeaf) {
  std::filesystem::create_directory("other");
  std::filesystem::copy("tiny", "other/tiny", std::filesystem::copy_options::recursive);
  const auto session = open(head() + R"(
local teacher = xrun.policy("other/tiny")
local gap, graph
local function distil(p)
  local theirs = teacher:logprob(p.chosen)
  local difference = policy:logprob(p.chosen) - theirs
  gap = difference:abs():min():item()
  graph = theirs.requires_grad or teacher:head(p.chosen, {}).logprob.requires_grad
  return difference * difference
end
for step, batch in run:steps(train, cfg.batch) do adamw:step(batch, distil) end
)");
  session->hooks().plan.bodies = 1;
  ASSERT_TRUE(session->resume()) << session->error()->text();
  EXPECT_GT(number(*session, "gap"), 0);
  lua_State* L = session->state();
  ASSERT_TRUE(session->names().push(L, "graph"));
  EXPECT_EQ(lua_toboolean(L, -1), 0);
  lua_pop(L, 1);
  ASSERT_FALSE(stand_in_->leaves().empty());
  for (const auto& [of, leaf] : stand_in_->leaves()) EXPECT_EQ(of.first, "policy tiny");
}

TEST_F(StandIn, GivesHeadsAndLogitsWithGradients) {
  const auto session = open(head() + R"(
local vocab, graph, finite
local function entropic(p)
  local h = policy:head(p.chosen, { entropy = true, lse = true, top_k = 3 })
  local falls = (h.top_logprob:narrow(1, 0, 2) - h.top_logprob:narrow(1, 1, 2)):min():item()
  assert(falls > 0 and h.top_id:size(1) == 3)
  local logits = policy:logits(p.chosen)
  vocab, graph = logits:size(1), logits.requires_grad
  finite = logits:isfinite():all():item()
  return p.chosen:sum(h.entropy + h.lse + h.logprob - logits:log_softmax(-1):amax(-1))
end
for step, batch in run:steps(train, cfg.batch) do adamw:step(batch, entropic) end
)");
  session->hooks().plan.bodies = 1;
  ASSERT_TRUE(session->resume()) << session->error()->text();
  EXPECT_EQ(number(*session, "vocab"), read_model_config("tiny").vocab);
  lua_State* L = session->state();
  for (const char* name : {"graph", "finite"}) {
    ASSERT_TRUE(session->names().push(L, name));
    EXPECT_EQ(lua_toboolean(L, -1), 1) << name;
    lua_pop(L, 1);
  }
}

}  // namespace
}  // namespace xrun::stand_in_test
