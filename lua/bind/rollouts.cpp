// policy:sample, and the methods of a batch that was sampled: rewards, filters, minibatches.

#include "core/rollout/rollouts.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/base/error.h"
#include "core/base/process_usage.h"
#include "core/base/strings.h"
#include "core/console/terminal/progress.h"
#include "core/console/terminal/shown_text.h"
#include "core/model/model.h"
#include "core/rollout/answer_text.h"
#include "core/rollout/rollout_log.h"
#include "core/train/policy.h"
#include "lua/bind/modules.h"
#include "lua/bind/rollouts.h"
#include "lua/bind/run_loop.h"
#include "lua/bind/samples.h"
#include "lua/state/args.h"
#include "lua/state/interruption.h"

namespace xrun {

namespace {

constexpr int64_t kRolloutTokens = 128;

// ---- sampling

RolloutOptions read_rollout_options(lua_State* L, uint64_t seed) {
  const Options given(L, 3);
  RolloutOptions options;
  options.samples = given.get<int64_t>("samples", options.samples);
  GenerateOptions& generate = options.text.generate;
  generate.max_new_tokens = given.get<int64_t>("max_tokens", kRolloutTokens);
  generate.sampling = {.temperature = given.get<double>("temperature", 1),
                       .top_k = given.get<int64_t>("top_k", 0),
                       .top_p = given.get<double>("top_p", 1),
                       .min_p = given.get<double>("min_p", 0),
                       .seed = seed};
  if (const auto own = given.find<int64_t>("seed")) {
    generate.sampling.seed = static_cast<uint64_t>(*own);
  }
  if (given.has("stop")) {
    const StackGuard guard(L);
    given.push_value("stop");
    options.text.stop = lua_type(L, -1) == LUA_TSTRING
                            ? std::vector<std::string>{given.get<std::string>("stop")}
                            : given.get<std::vector<std::string>>("stop");
  }
  return options;
}

// The record of the open body; null outside one.
BodyRollouts* body_rollouts(lua_State* L) {
  const auto& run = session_of(L).run;
  if (run == nullptr || !run->run().in_body()) return nullptr;
  if (run->rollouts == nullptr) run->rollouts = std::make_shared<BodyRollouts>();
  return run->rollouts.get();
}

int sample_policy(Policy& policy, lua_State* L) {
  const auto began = std::chrono::steady_clock::now();
  const Batch& prompts = arg<Batch&>(L, 2, "prompts");
  RolloutOptions options = read_rollout_options(L, prompts.info().seed);
  Session& session = session_of(L);
  std::shared_ptr<Model> copy;
  Model* model = nullptr;
  if (!policy.is_replaced()) {
    copy = host_model(L, policy);
    model = copy ? copy.get() : &policy.model();
  } else {
    session.notices.add(
        "policy:sample gave random tokens, since no weights are loaded; rewards are of those");
  }
  TaskProgress progress(*session.console, "sampling", "tokens");
  const int64_t most = prompts.size() * options.samples * options.text.generate.max_new_tokens;
  options.text.generate.progress = [&](int64_t tokens) {
    progress.update(tokens, most);
    check_interrupt(L);
    return true;
  };
  const auto rollouts = sample_rollouts(policy, model, prompts, options);
  if (BodyRollouts* body = body_rollouts(L)) {
    body->all.insert(body->all.end(), rollouts->rollouts().begin(), rollouts->rollouts().end());
    body->sample_s += seconds_since(began);
  }
  push(L, std::static_pointer_cast<Batch>(rollouts));
  return 1;
}

// ---- samples as Lua tables

Rollouts& rollouts_of(Batch& batch) {
  auto* rollouts = dynamic_cast<Rollouts*>(&batch);
  XRUN_CHECK(rollouts != nullptr,
             "this batch has rows of the data, wanted what policy:sample "
             "returned");
  return *rollouts;
}

// The values per rollout of a batch, read once for many samples.
class SampleTable {
 public:
  explicit SampleTable(const Rollouts& rollouts) : rollouts_(rollouts) {
    for (const std::string& name : rollouts.field_names()) {
      if (auto texts = rollouts.strings(name)) {
        texts_.emplace_back(name, std::move(*texts));
        continue;
      }
      bool by_row = false;
      rollouts.micros().front()->field(name, &by_row);
      if (by_row) continue;
      const at::Tensor values = rollouts.field(name).to(at::kCPU, at::kDouble).contiguous();
      const double* const data = values.const_data_ptr<double>();
      numbers_.emplace_back(name, std::vector<double>(data, data + values.numel()));
    }
  }

  void push_sample(lua_State* L, int64_t i) const {
    const auto at = static_cast<size_t>(i);
    const Rollout& one = *rollouts_.rollouts()[at];
    lua_createtable(L, 0, 12);
    const auto set = [&](const char* name, const auto& value) {
      push(L, value);
      lua_setfield(L, -2, name);
    };
    for (const auto& [name, values] : numbers_) set(name.c_str(), values[at]);
    for (const auto& [name, values] : texts_) set(name.c_str(), values[at]);
    set("index", one.sample);
    set("prompt_ids", *one.prompt_ids);
    set("ids", one.ids);
  }

 private:
  const Rollouts& rollouts_;
  std::vector<std::pair<std::string, std::vector<double>>> numbers_;
  std::vector<std::pair<std::string, std::vector<std::string>>> texts_;
};

// ---- rewards

enum class FailedReward { kError, kMask, kZero };

struct RewardSettings {
  FailedReward on_error = FailedReward::kError;
  double deadline_s = 10;
};

RewardSettings read_reward_settings(lua_State* L) {
  const Options given(L, 3);
  RewardSettings settings;
  const std::string name = given.get<std::string>("on_error", "error");
  XRUN_CHECK(name == "error" || name == "mask" || name == "zero",
             "on_error is \"{}\", wanted \"error\", \"mask\" or \"zero\"", name);
  if (name == "mask") settings.on_error = FailedReward::kMask;
  if (name == "zero") settings.on_error = FailedReward::kZero;
  settings.deadline_s = given.get<double>("deadline_s", settings.deadline_s);
  XRUN_CHECK(settings.deadline_s > 0, "deadline_s is {}, wanted a number above 0",
             settings.deadline_s);
  return settings;
}

// What a reward function gave for one rollout: a value and its parts, or the failure.
struct Reward {
  double value = 0;
  std::vector<std::pair<std::string, double>> parts = {};
  std::string failure = {};
};

// The finite number at index i; sets reward.failure for anything else.
double read_reward_value(lua_State* L, int i, const std::string& what, Reward& reward) {
  if (lua_type(L, i) == LUA_TNUMBER && std::isfinite(lua_tonumber(L, i))) return lua_tonumber(L, i);
  const bool number = lua_type(L, i) == LUA_TNUMBER;
  const double value = number ? lua_tonumber(L, i) : 0;
  reward.failure = fmt::format(
      "{} is {}, wanted a finite number", what,
      number ? fmt::format("{}", std::isnan(value) ? NAN : value) : describe_value(L, i));
  return 0;
}

void read_parts(lua_State* L, int i, Reward& reward) {
  if (lua_isnil(L, i)) return;
  if (!lua_istable(L, i)) {
    reward.failure =
        fmt::format("its second value is {}, wanted a table of its parts", describe_value(L, i));
    return;
  }
  for (lua_pushnil(L); lua_next(L, i) != 0; lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING) {
      reward.failure = "its parts have a key that is " + type_name(L, -2) + ", wanted names";
      lua_pop(L, 2);
      return;
    }
    const std::string name = lua_tostring(L, -2);
    const double value = read_reward_value(L, lua_gettop(L), "its part `" + name + "`", reward);
    reward.parts.emplace_back(name, value);
  }
  std::sort(reward.parts.begin(), reward.parts.end());
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Calls the function below its one argument on the stack. Returns the failure, "" if there is none;
// the results are then on the stack.
std::string call_with_deadline(lua_State* L, int results, double seconds) {
  const LuaDeadline deadline(L, seconds);
  try {
    protected_call(L, 1, results);
    return "";
  } catch (const Interrupted&) {
    throw;
  } catch (const LuaError& error) {
    const std::string position = error.report().position();
    return (position.empty() ? "" : position + ": ") + first_line(error.message());
  } catch (const Error& error) {
    return first_line(error.what());
  }
}

Reward call_reward(lua_State* L, const LuaRef& function, const SampleTable& samples, int64_t i,
                   const RewardSettings& settings) {
  const StackGuard guard(L);
  function.push(L);
  samples.push_sample(L, i);
  Reward reward;
  reward.failure = call_with_deadline(L, 2, settings.deadline_s);
  if (!reward.failure.empty()) return reward;
  const int last = lua_gettop(L);
  reward.value = read_reward_value(L, last - 1, "it", reward);
  if (reward.failure.empty()) read_parts(L, last, reward);
  return reward;
}

constexpr size_t kShownText = 200;  // bytes of a prompt or an answer in a message

std::string shown(const std::string& text) {
  return text.size() <= kShownText ? shown_text(text)
                                   : shown_text(text.substr(0, kShownText)) + "...";
}

// "prompts.jsonl:17: the reward of sample 3 failed: ...", with prompt and answer.
std::string failure_text(const Rollouts& rollouts, int64_t i, const std::string& failure) {
  const Rollout& one = *rollouts.rollouts()[static_cast<size_t>(i)];
  const BatchInfo& info = rollouts.info();
  const std::string row =
      info.row_name && one.row >= 0 ? info.row_name(one.row) : fmt::format("row {}", one.row);
  return fmt::format("{}: the reward of sample {} failed: {}\n  prompt: {}\n  answer: {}", row,
                     one.sample, failure, shown(one.prompt_text), shown(one.text));
}

// Collects the rewards of a batch and applies the policy for failed ones.
class Scoring {
 public:
  Scoring(lua_State* L, const std::shared_ptr<Batch>& batch)
      : state_(L),
        began_(std::chrono::steady_clock::now()),
        batch_(batch),
        rollouts_(rollouts_of(*batch)),
        samples_(rollouts_),
        settings_(read_reward_settings(L)) {}

  const Rollouts& rollouts() const { return rollouts_; }
  const SampleTable& samples() const { return samples_; }
  const RewardSettings& settings() const { return settings_; }

  void set(int64_t i, Reward reward) {
    Rollout& one = *rollouts_.rollouts()[static_cast<size_t>(i)];
    one.reward.reset();
    one.parts.clear();
    if (!reward.failure.empty()) {
      const std::string text = failure_text(rollouts_, i, reward.failure);
      if (settings_.on_error == FailedReward::kError) {
        throw Error(text +
                    "\nhint: on_error = \"mask\" leaves such samples out, \"zero\" gives "
                    "them the reward 0");
      }
      if (failed_++ == 0) first_failure_ = text;
      if (settings_.on_error == FailedReward::kMask) return;
      reward = {};
    }
    one.reward = reward.value;
    one.parts = std::move(reward.parts);
    scored_.push_back(i);
  }

  // Pushes the scored rollouts: the same batch, or one without the masked samples.
  int push_scored() {
    if (BodyRollouts* body = body_rollouts(state_)) {
      body->reward_s += seconds_since(began_);
      body->failed_rewards += failed_;
    }
    if (failed_ > 0) {
      session_of(state_).console->say(
          fmt::format("{} of {} failed and {}; the first:\n{}", failed_,
                      counted(std::ssize(rollouts_.rollouts()), "reward"),
                      settings_.on_error == FailedReward::kMask ? "are left out" : "count as 0",
                      first_failure_));
    }
    if (std::ssize(scored_) == rollouts_.size()) return push_with_rewards(batch_, rollouts_);
    const auto rest = rollouts_.subset(scored_);
    return push_with_rewards(rest, *rest);
  }

 private:
  int push_with_rewards(const std::shared_ptr<Batch>& batch, Rollouts& rollouts) {
    if (rollouts.vary_stand_ins()) {
      session_of(state_).notices.add(
          "the reward gave every random answer the same value, so the dry step takes random "
          "rewards");
    }
    rollouts.set_rewards();
    push(state_, batch);
    return 1;
  }

  lua_State* state_;
  std::chrono::steady_clock::time_point began_;
  std::shared_ptr<Batch> batch_;
  Rollouts& rollouts_;
  SampleTable samples_;
  RewardSettings settings_;
  std::vector<int64_t> scored_;
  int64_t failed_ = 0;
  std::string first_failure_;
};

int score_each(lua_State* L) {
  Scoring scoring(L, arg<std::shared_ptr<Batch>>(L, 1, "rollouts"));
  const LuaRef function = arg<LuaRef>(L, 2, "reward");
  for (int64_t i = 0; i < scoring.rollouts().size(); ++i) {
    check_interrupt(L);
    scoring.set(i, call_reward(L, function, scoring.samples(), i, scoring.settings()));
  }
  return scoring.push_scored();
}

// The rewards of one group from a list of numbers at the top of the stack.
void read_group_rewards(lua_State* L, const std::vector<int64_t>& group, Scoring& scoring) {
  const int list = lua_gettop(L);
  const bool fits = lua_istable(L, list) && lua_objlen(L, list) == group.size();
  for (size_t k = 0; k < group.size(); ++k) {
    const StackGuard guard(L);
    Reward reward;
    if (fits) {
      lua_rawgeti(L, list, static_cast<int>(k) + 1);
      reward.value = read_reward_value(L, lua_gettop(L), fmt::format("number {}", k + 1), reward);
    } else {
      reward.failure =
          fmt::format("the function returned {}, wanted a list of {} numbers, one per sample",
                      lua_istable(L, list) ? fmt::format("{} values", lua_objlen(L, list))
                                           : describe_value(L, list),
                      group.size());
    }
    scoring.set(group[k], std::move(reward));
  }
}

int score_by_group(lua_State* L) {
  Scoring scoring(L, arg<std::shared_ptr<Batch>>(L, 1, "rollouts"));
  const LuaRef function = arg<LuaRef>(L, 2, "reward");
  for (const std::vector<int64_t>& group : scoring.rollouts().groups()) {
    check_interrupt(L);
    const StackGuard guard(L);
    function.push(L);
    lua_createtable(L, static_cast<int>(group.size()), 0);
    for (size_t k = 0; k < group.size(); ++k) {
      scoring.samples().push_sample(L, group[k]);
      lua_rawseti(L, -2, static_cast<int>(k) + 1);
    }
    const std::string failure = call_with_deadline(L, 1, scoring.settings().deadline_s);
    if (failure.empty()) {
      read_group_rewards(L, group, scoring);
      continue;
    }
    for (const int64_t i : group) scoring.set(i, {.failure = failure});
  }
  return scoring.push_scored();
}

// ---- filter and minibatches

int filter_rollouts(lua_State* L) {
  const Rollouts& rollouts = rollouts_of(arg<Batch&>(L, 1, "rollouts"));
  const LuaRef function = arg<LuaRef>(L, 2, "f");
  const SampleTable samples(rollouts);
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < rollouts.size(); ++i) {
    const StackGuard guard(L);
    function.push(L);
    samples.push_sample(L, i);
    protected_call(L, 1, 1);
    if (read_bool(L, lua_gettop(L), "the filter's result")) chosen.push_back(i);
  }
  push(L, std::static_pointer_cast<Batch>(rollouts.subset(chosen)));
  return 1;
}

constexpr std::string_view kMinibatches =
    "local list, i = ..., 0 return function() i = i + 1 return list[i] end";

int push_minibatches(lua_State* L) {
  const Rollouts& rollouts = rollouts_of(arg<Batch&>(L, 1, "rollouts"));
  const Options options(L, 2);
  const auto count = static_cast<int64_t>(rollouts.groups().size());
  const auto parts =
      rollouts.minibatches(options.get<int64_t>("epochs", 1),
                           options.get<int64_t>("groups", std::max(count, int64_t{1})));
  luaL_loadbuffer(L, kMinibatches.data(), kMinibatches.size(), "=rollouts:minibatches");
  lua_createtable(L, static_cast<int>(parts.size()), 0);
  for (size_t i = 0; i < parts.size(); ++i) {
    push(L, std::static_pointer_cast<Batch>(rollouts.subset(parts[i])));
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  lua_call(L, 1, 1);
  return 1;
}

}  // namespace

namespace {

struct RolloutMethod {
  DocEntry doc;
  lua_CFunction function;
};

DocEntry method_doc(const char* name, std::vector<LuaParameter> parameters, const char* result,
                    const char* doc) {
  return {.name = std::string("Rollouts:") + name,
          .kind = DocKind::kMethod,
          .parameters = std::move(parameters),
          .results = {result},
          .doc = doc};
}

// Methods of batches that were sampled alone: a column of another batch may have these names.
const std::vector<RolloutMethod>& rollout_methods() {
  static const LuaParameter reward_options{"options?", "table", {"on_error", "deadline_s"}};
  static const std::vector<RolloutMethod> methods = {
      {method_doc("score", {{"reward", "function"}, reward_options}, "Rollouts",
                  "Sets the field reward from reward(sample) -> number, or number, { part = number "
                  "}, and returns the rollouts. A sample has their fields, prompt_ids, ids and "
                  "index. A reward that fails, returns anything but a finite number or takes "
                  "longer than deadline_s (10) follows on_error: \"error\" (default) stops, "
                  "\"mask\" leaves the sample out, \"zero\" gives it 0."),
       score_each},
      {method_doc("score_groups", {{"reward", "function"}, reward_options}, "Rollouts",
                  "As score, with reward(samples) -> list of numbers for each group of samples."),
       score_by_group},
      {method_doc("filter", {{"f", "function"}}, "Rollouts",
                  "Those for which f(sample) is true, with all their fields."),
       filter_rollouts},
      {method_doc("minibatches", {{"options?", "table", {"epochs", "groups"}}}, "fun(): Rollouts",
                  "Iterates over `groups` groups at a time (all), in `epochs` (1) passes with "
                  "another order each."),
       push_minibatches},
  };
  return methods;
}

}  // namespace

bool push_rollout_method(lua_State* L, const Batch& batch, const std::string& name) {
  for (const RolloutMethod& method : rollout_methods()) {
    if (method.doc.name != "Rollouts:" + name) continue;
    const bool sampled = dynamic_cast<const Rollouts*>(&batch) != nullptr;
    if (!sampled && batch.has_field(name)) return false;
    XRUN_CHECK(sampled,
               "`{}` is a method of rollouts; this batch has rows of the data: call it on what "
               "policy:sample returned",
               name);
    push_function(L, method.doc, method.function);
    return true;
  }
  return false;
}

void open_rollouts(LuaState& state) {
  lua_State* L = state;
  Class<Policy>(L, "Policy", "")
      .method(
          "sample",
          {{"prompts", "Batch"},
           {"options?",
            "table",
            {"samples", "temperature", "top_k", "top_p", "min_p", "max_tokens", "stop", "seed"}}},
          {"Rollouts"},
          "Samples answers to the prompts of a batch, in the order of prompts: samples (8) of "
          "each, temperature 1, max_tokens 128. Draws depend on seed (the run's), step, row "
          "and sample.",
          sample_policy);
  register_doc({.name = "Rollouts",
                .kind = DocKind::kClass,
                .doc = "Sampled answers, a Batch with the fields row, group (the prompt), sample, "
                       "version, old_logprob [R] (of the sampler), prompt, text, finish (\"stop\", "
                       "\"stop_string\" or \"length\") and the extra columns. The trained tokens "
                       "are those of the answers, and log-probs are at the temperature."});
  const StackGuard guard(L);
  for (const RolloutMethod& method : rollout_methods()) {
    push_function(L, method.doc, method.function);  // registers the documentation
  }
}

}  // namespace xrun
