// Teachers of conversations and of sampled answers, several teachers, and reward models.

#include <algorithm>

#include "tests/lua/bind/session_fixture.h"
#include "tests/lua/bind/train/dry_run.h"
#include "tests/tree.h"

namespace xrun::teachers_test {
namespace {

// A student of bytes in ./tiny, teachers of its vocabulary in ./one and ./two, and one with other
// tokens and no chat template in ./other.
class Teachers : public SessionTest {
 protected:
  Teachers() {
    make("one", "tests/data/tiny_tokenizer", 3);
    make("two", "tests/data/tiny_tokenizer", 4);
    make("other", "tests/data/tokenizers/smol", 5);
    std::string chats, prompts;
    for (int i = 0; i < 24; ++i) {
      const std::string n = std::to_string(i);
      chats += R"({"prompt":"Which fox )" + n + R"( is it?","completion":"The quick brown fox )" +
               n + R"( jumps."})" + "\n";
      prompts += R"({"prompt":"fox )" + n + "\"}\n";
    }
    write_file_atomic("chats.jsonl", chats);
    write_file_atomic("prompts.jsonl", prompts);
  }
  static void make(const std::string& name, const std::string& tokenizer, uint64_t seed) {
    InitOptions options;
    options.hidden = 32;
    options.heads = 4;
    options.ffn = 64;
    options.scale = 0.1;
    options.seed = seed;
    options.tokenizer = source_path(tokenizer);
    options.vocab = Tokenizer::load(options.tokenizer)->vocab_size();
    init_model(name, options);
  }
  static std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }
  static std::string recipe(const std::string& name) {
    return read_file(source_path("recipes/" + name));
  }
  // xdistill.lua over chats.
  static std::string over_chats(const std::string& options = "") {
    return replaced(recipe("xdistill.lua"), "xrun.text(cfg.data, student):align(teacher)",
                    "xrun.chat(cfg.data, student):align(teacher" + options + ")");
  }
  static std::vector<std::string> chat_sets(const std::string& teacher, int steps = 4) {
    return {"model=tiny",
            "teacher=" + teacher,
            "data.1.path=chats.jsonl",
            "kd.loss=uld",
            "batch.sequences=6",
            "valid.every=8",
            "max_length=200",
            "steps=" + std::to_string(steps)};
  }
  static std::vector<std::string> prompt_sets(const std::string& teacher, int steps) {
    return {"model=tiny",
            "teacher=" + teacher,
            "template=chatml",
            "valid.fraction=0.1",
            "batch.prompts=8",
            "data.1.path=prompts.jsonl",
            "optim.lr=0.01",
            "sampling.samples=6",
            "sampling.max_tokens=8",
            "steps=" + std::to_string(steps)};
  }
  // A loop of two steps over chats in which every row has its loss by token or chunk.
  std::string distill_by(const std::string& objective, const std::string& dir) {
    return run(R"(local xrun = require "xrun"
local cfg = xrun.config { model = "tiny", data = { { path = "chats.jsonl" } }, steps = 2,
  optim = { lr = 1e-3 }, batch = { sequences = 4 }, kd = { loss = "full" }, max_length = 200 }
local student = xrun.policy(cfg.model)
local one, two = xrun.frozen("one"), xrun.frozen("two")
local chats = xrun.chat(cfg.data, student):align(one)
local adamw = xrun.adamw(student, cfg.optim)
local run = xrun.run(cfg, { policy = student, adamw = adamw })
local weight = 1
local function distill(t)
)" + objective + R"(
end
for step, batch in run:steps(chats, cfg.batch) do
  local a, b = one:chunk_logprob(batch):mean():item(), two:chunk_logprob(batch):mean():item()
  weight = math.exp(a) / (math.exp(a) + math.exp(b))
  run:log(adamw:step(batch, distill))
end
)",
               dir);
  }
};

TEST_F(Teachers, ChatsAreAlignedByMessageAcrossTokenizers) {
  const std::string text = over_chats(", { template = 'chatml' }");
  ASSERT_EQ(run(text, "r", {.sets = chat_sets("other")}), "");
  has(output_, "chats.jsonl: 100.0 % of the trained tokens of 24 rows are aligned with other, ");
  EXPECT_EQ(values("r", "align/coverage"), (std::vector<double>{1, 1, 1, 1}));
  EXPECT_EQ(values("r", "align/wrong"), (std::vector<double>{0, 0, 0, 0}));
  for (const double chunks : values("r", "align/chunks")) EXPECT_GT(chunks, 30);
  for (const double kd : values("r", "train/kd")) EXPECT_GT(kd, 0);
  expect_same_when_resumed(text, {2}, chat_sets("other"));
}

TEST_F(Teachers, RowsOfOtherFilesAreAlignedWithTheSameTeacher) {
  write_file_atomic("held.jsonl", R"({"prompt":"Where?","completion":"On the far hill."})"
                                  "\n");
  std::vector<std::string> sets = chat_sets("other");
  sets.insert(sets.end(), {"valid.fraction=0", "valid.data={ { path = 'held.jsonl' } }"});
  ASSERT_EQ(run(over_chats(", { template = 'chatml' }"), "r", {.sets = sets}), "");
  EXPECT_GT(values("r", "valid/kd").at(0), 0);
}

TEST_F(Teachers, ATeacherOfConversationsNeedsATemplate) {
  has(run(over_chats(), "", {.steps = 1, .sets = chat_sets("other")}),
      "other reads conversations in its own template: the tokenizer has no chat template");
  has(run(over_chats(", { template = 'chatml' }"), "", {.steps = 1, .sets = chat_sets("one")}),
      "align: a teacher of the student's vocabulary reads the student's own tokens; leave template "
      "out");
  const std::string texts =
      replaced(over_chats(", { template = 'chatml' }"), "xrun.chat(", "xrun.text(");
  write_file_atomic("chats.jsonl", "{\"text\":\"a fox\"}\n{\"text\":\"two\"}\n");
  has(run(texts, "", {.steps = 1, .sets = chat_sets("other")}),
      "align: only conversations are rendered by a template; leave template out");
}

TEST_F(Teachers, SlowOnPolicyATeacherOfAnotherTokenizerScoresTheAnswers) {
  const std::string text =
      replaced(recipe("opd.lua"), ":align(teacher)", ":align(teacher, { template = 'chatml' })");
  ASSERT_EQ(run(text, "r", {.sets = prompt_sets("other", 4)}), "");
  for (const double ratio : values("r", "train/ratio")) EXPECT_EQ(ratio, 1);
  for (const double kl : values("r", "train/kl")) EXPECT_GT(kl, 0);
  for (const double coverage : values("r", "align/coverage")) EXPECT_GT(coverage, 0.8);
  expect_same_when_resumed(text, {2}, prompt_sets("other", 4));
}

TEST_F(Teachers, ADryRunOfAnswersInOtherTokensNeedsNoWeights) {
  std::filesystem::remove("other/model.safetensors");
  const std::string text =
      replaced(recipe("opd.lua"), ":align(teacher)", ":align(teacher, { template = 'chatml' })");
  EXPECT_EQ(dry_error(text, prompt_sets("other", 2)), "");
}

TEST_F(Teachers, AlignedRolloutsKeepTheirFieldsInMinibatches) {
  std::string text = recipe("opd.lua");
  text = replaced(
      text, "  run:log(adamw:step(student:sample(prompts, cfg.sampling):align(teacher), opd))", R"(
  local plain = student:sample(prompts, cfg.sampling)
  plain.mark = plain.sample:to("f32")
  local rollouts = plain:align(teacher, { template = "chatml" })
  assert(rollouts.size == plain.size and (rollouts.mark - plain.mark):abs():max():item() == 0)
  assert((rollouts.old_logprob - plain.old_logprob):abs():max():item() == 0)
  local chunks = teacher:chunk_logprob(rollouts):numel()
  assert(chunks > 0 and xrun.kd(rollouts, student, teacher, { loss = "uld" }):numel() == chunks)
  for mini in rollouts:minibatches { groups = 2 } do run:log(adamw:step(mini, opd)) end)");
  EXPECT_EQ(run(text, "r", {.steps = 1, .sets = prompt_sets("other", 2)}), "");
}

TEST_F(Teachers, SlowSeveralTeachersAreSummedAveragedSelectedAndWeighted) {
  const auto losses = [&](const std::string& objective, const std::string& dir) {
    EXPECT_EQ(distill_by(objective, dir), "") << objective;
    return values(dir, "train/loss");
  };
  const auto of = [](const std::string& teacher) {
    return "local kd = xrun.kd(t, student, " + teacher + ", cfg.kd) return { chunk = kd }";
  };
  const double one = losses(of("one"), "one_run").at(0), two = losses(of("two"), "two_run").at(0);
  const std::string both =
      "local a, b = xrun.kd(t, student, one, cfg.kd), xrun.kd(t, student, two, cfg.kd) ";
  EXPECT_NEAR(losses(both + "return { chunk = a + b }", "sum").at(0), one + two, 1e-5);
  const double averaged = losses(of("{ one, two }"), "mean").at(0);
  EXPECT_LT(averaged, (one + two) / 2);  // convex in the teacher
  EXPECT_GT(averaged, 0);
  EXPECT_EQ(losses(of("{ one, one }"), "same").at(0), one);
  const double selected = losses(both + R"(
  local better = one:chunk_logprob(t):ge(two:chunk_logprob(t))
  return { chunk = xrun.where(better, a, b) }, { better = better })",
                                 "selected")
                              .at(0);
  EXPECT_GT(selected, std::min(one, two) / 2);
  EXPECT_LT(selected, one + two);
  const double share = values("selected", "train/better").at(0);
  EXPECT_GT(share, 0);
  EXPECT_LT(share, 1);
  const double weighted =
      losses(both + "return { chunk = weight * a + (1 - weight) * b }, { weight = weight }",
             "weighted")
          .at(0);
  const double weight = values("weighted", "train/weight").at(0);
  EXPECT_NEAR(weighted, weight * one + (1 - weight) * two, 1e-5);
}

// Teachers of different tokenizers: the same rows, aligned with each, in one step.
TEST_F(Teachers, TeachersOfTwoTokenizersShareAStep) {
  const std::string text = R"(local xrun = require "xrun"
local cfg = xrun.config { model = "tiny", data = { { path = "chats.jsonl" } }, steps = 3,
  optim = { lr = 1e-3 }, batch = { sequences = 4 }, max_length = 200 }
local student = xrun.policy(cfg.model)
local own, other = xrun.frozen("one"), xrun.frozen("other")
local chats = xrun.chat(cfg.data, student)
local adamw = xrun.adamw(student, cfg.optim)
local function from(teacher, loss)
  return function(t) return { chunk = xrun.kd(t, student, teacher, { loss = loss }) } end
end
local run = xrun.run(cfg, { policy = student, adamw = adamw })
local sets = { chats:align(own), chats:align(other, { template = "chatml" }) }
for step, a, b in run:steps(sets, cfg.batch) do
  assert((a.row - b.row):abs():max():item() == 0)
  run:log(adamw:step({ { a, from(own, "full") }, { b, from(other, "uld"), weight = 0.5 } }))
end
)";
  EXPECT_EQ(run(text, "r"), "");
  EXPECT_EQ(values("r", "train/loss").size(), 3u);
}

TEST_F(Teachers, AnExportedRewardModelScoresRollouts) {
  ASSERT_EQ(run(recipe("reward.lua"), "reward",
                {.sets = {"model=tiny", "data.1.path=pairs.jsonl", "optim.lr=0.01", "steps=4",
                          "batch.pairs=4", "batch.max_tokens=600", "valid.every=9"}}),
            "");
  const std::string text = R"(local xrun = require "xrun"
local cfg = xrun.config { model = "tiny", data = { { path = "prompts.jsonl" } }, steps = 2,
  template = "chatml", optim = { lr = 1e-3 }, batch = { prompts = 4, max_tokens = 400 },
  sampling = { samples = 3, max_tokens = 6 } }
local policy = xrun.policy(cfg.model)
local reward = xrun.frozen("reward/hf")
local adamw = xrun.adamw(policy, cfg.optim)
local function loss(r)
  local ratio = (policy:token_logprob(r) - r.old_logprob):exp()
  return -(ratio * r:spread(r.advantage))
end
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, prompts in run:steps(xrun.prompts(cfg.data, policy), cfg.batch) do
  local rollouts = policy:sample(prompts, cfg.sampling):score(reward)
  local scores = reward:score(rollouts)
  assert(scores:numel() == 12 and scores:std():item() > 0)
  assert((rollouts.reward - scores):abs():max():item() == 0)
  assert(reward:token_score(rollouts):numel() == rollouts.old_logprob:numel())
  rollouts.advantage = xrun.group_advantage(rollouts.reward, rollouts.group)
  run:log(adamw:step(rollouts, loss))
end
)";
  EXPECT_EQ(run(text, "r"), "");
  EXPECT_EQ(values("r", "rollout/reward").size(), 2u);
  has(run(replaced(text, "xrun.policy(cfg.model)", "xrun.policy('reward/hf')"), "b"),
      "which is not a causal language model; xrun.frozen opens it as a reward or value model");
  has(run(replaced(text, "reward:score(rollouts)", "reward:token_logprob(rollouts)"), "c"),
      "reward/hf is a sequence classifier: it gives scores, not log-probs");
}

}  // namespace
}  // namespace xrun::teachers_test
