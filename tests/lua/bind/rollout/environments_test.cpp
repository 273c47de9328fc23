// Environments of policy:sample in Lua, and the recipe with a calculator.

#include <algorithm>

#include "tests/decompressed.h"
#include "tests/lua/bind/session_fixture.h"

namespace xrun::environments_test {

class Environments : public SessionTest {
 protected:
  Environments() {
    std::string rows;
    for (int i = 0; i < 8; ++i)
      rows += fmt::format("{{\"prompt\": \"say {}\", \"digit\": {}}}\n", i, i);
    write_file_atomic("prompts.jsonl", rows);
  }

  // Random weights seldom end a turn, so most letters do.
  static std::string head() {
    return R"(local xrun = require "xrun"
local cfg = xrun.config {
  model = "tiny", data = { { path = "prompts.jsonl", keep = { "digit" } } },
  template = "chatml", optim = { lr = 1e-2 }, batch = { prompts = 2, max_tokens = 600 }, steps = 3,
}
local policy = xrun.policy(cfg.model)
local data = xrun.prompts(cfg.data, policy)
local adamw = xrun.adamw(policy, cfg.optim)
local stop = {}
for c in ("abcdefghijklmnopqrstuvwxyz .,"):gmatch(".") do stop[#stop + 1] = c end
local function options(environment, more)
  local all = { environment = environment, samples = 3, max_tokens = 60, max_turns = 3 }
  all.stop = stop
  for name, value in pairs(more or {}) do all[name] = value end
  return all
end
local function grpo(r)
  local ratio = (policy:token_logprob(r) - r.old_logprob):exp()
  return -ratio * r:spread(r.advantage), { ratio = ratio }
end
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
)";
  }
  std::string body(const std::string& code) {
    std::filesystem::remove_all("r");
    return run(head() + "for step, prompts in run:steps(data, cfg.batch) do\n" + code + "\nend\n",
               "r", {.steps = 1});
  }
  static std::vector<Json> record(const std::string& path) {
    const std::string text = decompressed(path);
    std::vector<Json> lines;
    for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
      lines.push_back(parse_json(text.substr(at, text.find('\n', at) - at), path));
    }
    return lines;
  }
};

TEST_F(Environments, ATableAnswersEachTurnAndGivesRewards) {
  EXPECT_EQ(body(R"(
local seen = {}
local env = { goes = "on" }
function env:reply(turn)
  assert(self == env and turn.turn <= 3 and #turn.ids >= 1 and turn.digit == turn.row)
  assert(turn.prompt:find("say") and #turn.prompt_ids > 3 and #turn.tool_calls == 0)
  local key = turn.group .. "." .. turn.index
  seen[key] = (seen[key] or 0) + 1
  assert(seen[key] == turn.turn)
  if turn.turn == 1 then return "once more", 0.25 end
  if turn.turn > 2 then return end
  return { { role = "tool", content = "one" }, { role = "user", content = "two" } }
end
local r = policy:sample(prompts, options(env)):score(function(s)
  assert(#s.turns == seen[s.group .. "." .. s.index] and s.turns[#s.turns].text == s.text)
  if #s.turns > 1 then
    assert(s.turns[1].reply[1].role == "user" and s.turns[1].reply[1].content == "once more")
  end
  if #s.turns > 2 then assert(s.turns[2].reply[2].content == "two") end
  assert(s.environment_reward == 0.25)
  return s.index + s.environment_reward
end)
assert(r.size == 6)
assert((policy:token_logprob(r) - r.old_logprob):abs():max():item() == 0)
r.advantage = xrun.group_advantage(r.reward, r.group)
local m = adamw:step(r, grpo)
assert(m.ratio == 1)
run:log(m)
)"),
            "");
  const Json logged = parse_json(metrics("r").at(0), "metrics");
  EXPECT_GT(logged.at("rollout/turns").as_double(), 1.5);
  EXPECT_EQ(logged.at("rollout/aborted").as_double(), 0);
  const std::vector<Json> lines = record("r/rollouts/step_0000000.jsonl.zst");
  ASSERT_EQ(lines.size(), 6u);
  for (const Json& line : lines) {
    int64_t sampled = 0;
    for (const Json& turn : line.at("turns").as_array()) {
      sampled += turn.at("end").as_int() - turn.at("begin").as_int();
    }
    EXPECT_EQ(sampled, static_cast<int64_t>(line.at("logprobs").size()));
    EXPECT_LE(sampled, static_cast<int64_t>(line.at("ids").size()));
    EXPECT_EQ(line.at("environment_reward").as_double(), 0.25);
  }
}

TEST_F(Environments, AFunctionIsACoroutineOfEachConversation) {
  EXPECT_EQ(body(R"(
local function env(turn)
  local count, group = 0, turn.group
  while count < 2 do
    count = count + 1
    turn = coroutine.yield("turn " .. count, 1)
    assert(turn.turn == count + 1 and turn.group == group)
  end
  return nil, 10
end
local r = policy:sample(prompts, options(env)):score(function(s)
  assert(s.environment_reward == (#s.turns == 3 and 12 or #s.turns), s.finish)
  if #s.turns > 1 then assert(s.turns[1].reply[1].content == "turn 1") end
  return s.environment_reward
end)
assert(r.reward:max():item() == 12)
local made = 0
local starts = { start = function(self, turn)
  made = made + 1
  return { reply = function(_, next) assert(next.group == turn.group) end }
end }
policy:sample(prompts, options(starts))
assert(made == 6)
)"),
            "");
}

TEST_F(Environments, AFailureNamesPromptSampleAndTurn) {
  const auto failed = [&](const std::string& reply) {
    return body("policy:sample(prompts, options({ reply = function(_, turn) " + reply +
                " end }, { deadline_s = 0.2 }))");
  };
  const std::string error = failed("if turn.index == 1 then return turn.none.x end");
  has(error, "prompts.jsonl:");
  has(error, ": the environment failed at turn 1 of sample 1: test.lua:");
  has(error, "attempt to index field 'none' (a nil value)");
  has(error, "\n  prompt: ");
  has(error, "on_error = \"mask\"");
  has(failed("while true do end"), "ran longer than 0.2 s");
  has(failed("return 3"), "it returned 3, wanted nil (the end), a text, a message or a list");
  has(failed("return { role = 'assistant', content = 'a' }"), "the role \"assistant\"");
  has(failed("return { role = 'user' }"), "the content of a message is nil, wanted a text");
  has(failed("return { 'a' }"), "a message is \"a\", wanted { role = ..., content = ... }");
  has(failed("return nil, 0 / 0"), "wanted a reward: a finite number or nil");
  has(body("policy:sample(prompts, options(function(turn) return 'a' end))"),
      "yields its messages with coroutine.yield");
  has(body("policy:sample(prompts, options(function(turn) error('no') end))"), "sample 0: ");
  has(body("policy:sample(prompts, options({}))"), "wanted a table with the function reply");
  has(body("policy:sample(prompts, { max_turns = 3 })"),
      "max_turns is an option of an environment");
  has(body("policy:sample(prompts, options({ reply = print }, { max_turns = 0 }))"),
      "option `max_turns`: got 0, wanted a whole number of at least 1");
}

TEST_F(Environments, MaskLeavesAbortedConversationsOutAndZeroGivesThemZero) {
  EXPECT_EQ(body(R"(
local env = { reply = function(_, turn) if turn.index == 1 then error("no") end end }
local masked = policy:sample(prompts, options(env, { on_error = "mask" }))
assert(masked.size == 4 and masked.group[3]:item() == 1)
local zero = policy:sample(prompts, options(env, { on_error = "zero" })):score(function(s)
  return 5 end)
assert(zero.size == 6 and zero.finish[2] == "aborted" and zero.reward[1]:item() == 0)
assert(zero.reward[0]:item() == 5)
)"),
            "");
  has(output_, "2 of 6 conversations were aborted and are left out; the first:\nprompts.jsonl:");
  has(output_, "2 of 6 conversations were aborted and have the reward 0");
  EXPECT_NEAR(parse_json(metrics("r").at(0), "m").at("rollout/aborted").as_double(), 1.0 / 3, 1e-9);
}

TEST_F(Environments, AnAbortedConversationKeptAsZeroIsNeverScored) {
  EXPECT_EQ(body(R"(
local env = {}
function env:reply(turn)
  if turn.index == 0 then error("the tool is down") end
end
local given = options(env, { on_error = "zero" })
local called = 0
local scored = policy:sample(prompts, given):score(function(s)
  called = called + 1
  return #s.turns[s.index == 0 and 2 or 1].text
end)
assert(called == 4 and scored.reward[0]:item() == 0 and scored.reward[3]:item() == 0)
local alone = options(env, { on_error = "zero" })
alone.samples = 1
local groups = policy:sample(prompts, alone):score_groups(function() error("never called") end)
assert(groups.size == 2 and groups.reward:sum():item() == 0)
)"),
            "");
}

TEST_F(Environments, SlowAResumeRepeatsTheSameConversations) {
  expect_same_when_resumed(head() + R"(
local env = { reply = function(_, turn) return "again", turn.ids[1] % 3 end }
for step, prompts in run:steps(data, cfg.batch) do
  local r = policy:sample(prompts, options(env)):score(function(s) return s.environment_reward end)
  r.advantage = xrun.group_advantage(r.reward, r.group)
  run:log(adamw:step(r, grpo))
end
run:export(policy)
)",
                           {1, 2});
}

TEST_F(Environments, SlowBatchesOfXrunRolloutsResumeToTheSameBits) {
  std::string text = head();
  const std::string prompts = "batch = { prompts = 2,";
  text.replace(text.find(prompts), prompts.size(), "batch = { groups = 2,");
  text += R"(
local env = { reply = function(_, turn)
  if turn.turn < 3 then return "again " .. turn.digit, turn.ids[1] % 3 end
end }
local source = xrun.rollouts { prompts = data, sampling = options(env), round = 3,
  reward = function(s) return s.environment_reward + #s.turns, { turns = #s.turns } end }
for step, r in run:steps(source, cfg.batch) do
  assert(r.size == 6)
  if step == 0 then  -- later batches begin with groups that older weights sampled
    assert((policy:token_logprob(r) - r.old_logprob):abs():max():item() == 0)
  end
  assert(r.environment_reward:max():item() > 0)
  r.advantage = xrun.group_advantage(r.reward, r.group)
  local m = adamw:step(r, grpo)
  assert(step > 0 or m.ratio == 1)
  run:log(m)
end
run:export(policy)
)";
  expect_same_when_resumed(text, {1, 2});
  has(output_, "at most 3 turns of 60 tokens each");
  const std::vector<double> waiting = values("whole", "rollout/waiting_groups");
  EXPECT_GT(*std::max_element(waiting.begin(), waiting.end() - 1), 0)
      << "no conversation was carried over";
  for (int step = 0; step < 3; ++step) {
    const std::string file = fmt::format("/rollouts/step_{:07}.jsonl.zst", step);
    for (const char* const stopped : {"stopped_1", "stopped_2"}) {
      EXPECT_EQ(read_file(stopped + file), read_file("whole" + file)) << stopped << file;
    }
    EXPECT_GT(record("whole" + file).at(0).at("turns").size(), 0u);
  }
}

TEST_F(Environments, SlowDraftsOfTheLastEpochChangeNoBit) {
  const auto text = [&](const std::string& more) {
    return head() + R"(
local env = { reply = function(_, turn) return "again", turn.ids[1] % 3 end }
for step, prompts in run:steps(data, cfg.batch) do
  local r = policy:sample(prompts, options(env, { temperature = 0.05, )" +
           more + R"( })):score(function(s) return s.environment_reward end)
  r.advantage = xrun.group_advantage(r.reward, r.group)
  run:log(adamw:step(r, grpo))
end
run:export(policy)
)";
  };
  const std::vector<std::string> sets = {"steps=8", "optim.lr=1e-4"};  // two epochs
  ASSERT_EQ(run(text(""), "with", {.sets = sets}), "");
  ASSERT_EQ(run(text("drafts = false"), "without", {.sets = sets}), "");
  EXPECT_EQ(metrics("with"), metrics("without"));
  EXPECT_EQ(read_file("with/hf/model.safetensors"), read_file("without/hf/model.safetensors"));
  EXPECT_TRUE(has(read_file("with/metrics.jsonl"), "\"perf/draft_accepted\":0."));
  EXPECT_EQ(read_file("without/metrics.jsonl").find("draft_accepted"), std::string::npos);
}

// ---- run:sample

TEST_F(Environments, RunSampleAnswersASetInConversations) {
  EXPECT_EQ(body(R"(
local env = { reply = function(_, turn)
  assert(turn.digit == turn.row and turn.index == 0)
  if turn.turn == 1 then return "once more", 0.5 end
end }
local texts, seen = {}, 0
local function score(s)
  seen = seen + 1
  texts[s.row] = s.text
  assert(s.digit == s.row and #s.ids > 0 and s.length > 0)
  assert(s.turns[#s.turns].text == s.text and s.environment_reward == 0.5)
  if #s.turns == 2 then assert(s.turns[1].reply[1].content == "once more") end
  return #s.turns
end
local asking = { environment = env, max_turns = 3, max_tokens = 60, stop = stop, score = score }
local metrics = run:sample(policy, data, 2, asking)
assert(seen == 8 and metrics.score == metrics.turns)
run:log(metrics)
assert(run:sample(policy, data, 0, asking).length == metrics.length)
local greedy = policy:sample(prompts, options(env, { samples = 1, temperature = 0 }))
for i = 0, 1 do assert(greedy.text[i + 1] == texts[greedy.row[i]:item()]) end
asking.temperature, asking.seed = 2, 7
local drawn = run:sample(policy, data, 0, asking)
assert(drawn.turns > 1)
assert(run:sample(policy, data, 0, asking).length == drawn.length)
)"),
            "");
  const Json logged = parse_json(metrics("r").at(0), "metrics");
  EXPECT_GE(logged.at("sample/turns").as_double(), 1);
  EXPECT_TRUE(has(read_file("r/samples/step_0000000.jsonl"), "\"turns\":[{\"begin\":0,"));
}

TEST_F(Environments, RunSampleScoresAbortedConversationsAsOnErrorSays) {
  const std::string failing =
      "{ environment = { reply = function(_, turn) if turn.row < 2 then error('no') end end }, "
      "max_tokens = 8, score = function() return 1 end, on_error = ";
  EXPECT_EQ(body("assert(run:sample(policy, data, 0, " + failing + "'zero' }).score == 6 / 8)\n" +
                 "assert(run:sample(policy, data, 0, " + failing + "'mask' }).score == 1)"),
            "");
  has(output_, "2 of 8 conversations were aborted and are left out; the first:\nprompts.jsonl:1");
  const std::string error = body("run:sample(policy, data, 0, " + failing + "'error' })");
  has(error, "prompts.jsonl:1: the environment failed at turn 1 of sample 0: test.lua:");
  has(body("run:sample(policy, data, 0, { max_turns = 3 })"),
      "max_turns is an option of an environment, and there is none");
}

// ---- recipes/calculator.lua

std::vector<std::string> calculator_sets() {
  return {"model=tiny",
          "template=chatml",
          "data.1.path=" + source_path("recipes/data/calculator.jsonl"),
          "batch.prompts=2",
          "sampling.samples=2",
          "sampling.max_tokens=8"};
}

TEST_F(Environments, TheCalculatorRunsOnRandomWeights) {
  const std::string recipe = read_file(source_path("recipes/calculator.lua"));
  ASSERT_EQ(run(recipe, "r", {.steps = 1, .sets = calculator_sets()}), "");
  const Json logged = parse_json(metrics("r").at(0), "metrics");
  EXPECT_EQ(logged.at("train/ratio").as_double(), 1);
  EXPECT_GE(logged.at("rollout/turns").as_double(), 1);
  EXPECT_TRUE(recipe.starts_with("-- calculator.lua: "));
  EXPECT_LE(std::count(recipe.begin(), recipe.end(), '\n'), 65);
  EXPECT_GE(logged.at("sample/turns").as_double(), 1);
  EXPECT_GE(logged.at("sample/score").as_double(), 0);
  has(read_file(source_path("recipes/README.md")), "[calculator.lua](calculator.lua)");
}

TEST_F(Environments, TheCalculatorAnswersCallsOfThePolicy) {
  // The environment of the recipe, given turns as a model might write them.
  std::string recipe = read_file(source_path("recipes/calculator.lua"));
  recipe.insert(recipe.find("local function reward"), R"lua(
local function said(calls, turn)
  local messages, reward = calculator:reply { tool_calls = calls, turn = turn or 1 }
  return messages and messages[1].content, reward
end
local text, value = said { { name = "calculate", arguments = { expression = "(2 + 3) * 4" } } }
assert(text == "20" and value == cfg.called)
assert(select(2, said({ { name = "calculate", arguments = { expression = "1" } } }, 2)) == 0)
assert(said {} == nil)
text, value = said { { error = "bad JSON" } }
assert(text == "error: bad JSON" and value == 0)
for _, wrong in ipairs { "os.exit()", "1 / 0", "" } do
  assert(said { { name = "calculate", arguments = { expression = wrong } } }:find("^error: "))
end
assert(said { { name = "calculate", arguments = {} } }:find("^error: "))
assert(said { { name = "run", arguments = {} } }:find("^error: the only tool"))
)lua");
  EXPECT_EQ(run(recipe, "r", {.steps = 1, .sets = calculator_sets()}), "");
}

}  // namespace xrun::environments_test
