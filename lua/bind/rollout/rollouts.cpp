// policy:sample, and the methods of the batch that it returns, except scoring
// (rollout_rewards.cpp).

#include "lua/bind/rollout/rollouts.h"

#include <algorithm>
#include <chrono>

#include "core/base/error.h"
#include "core/base/process_usage.h"
#include "core/base/strings.h"
#include "core/base/utf8.h"
#include "core/console/terminal/progress.h"
#include "core/console/terminal/shown_text.h"
#include "core/model/model.h"
#include "core/rollout/answer_history.h"
#include "core/rollout/rollout_log.h"
#include "core/rollout/rollout_sampler.h"
#include "core/train/models/policy.h"
#include "lua/bind/data/align.h"
#include "lua/bind/decoding_model.h"
#include "lua/bind/modules.h"
#include "lua/bind/rollout/body_rollouts.h"
#include "lua/bind/rollout/early_rewards.h"
#include "lua/bind/rollout/environments.h"
#include "lua/bind/rollout/reward_call.h"
#include "lua/bind/rollout/sample_table.h"
#include "lua/bind/rollout/samples.h"
#include "lua/bind/session.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

// ---- sampling

RolloutOptions read_rollout_options(lua_State* L, uint64_t seed) {
  const Options given(L, 3);
  RolloutOptions options;
  options.samples = given.get<int64_t>("samples", options.samples);
  options.text = read_sampling_options(L, given, /*temperature=*/1, seed);
  if (given.get<std::string>("draws", "step") == "row") options.draws = DrawScope::kRow;
  if (given.get<bool>("drafts", true)) {
    options.history = &LuaState::of(L).service<AnswerHistory>();
  }
  options.replay_routes = given.get<bool>("replay_routes", false);
  return options;
}

struct TruncationNotice {
  bool reported = false;
};

// The sampler's log-probs are of the whole vocabulary, as training's are.
void say_truncation(lua_State* L, const SamplingOptions& sampling) {
  auto& notice = LuaState::of(L).service<TruncationNotice>();
  if (!sampling.truncates() || notice.reported) return;
  notice.reported = true;
  session_of(L).console->print_escaped(
      "top_k, top_p and min_p change the answers that are drawn, but not old_logprob: the policy "
      "is trained on answers of another distribution than its own");
}

int sample_policy(Policy& policy, lua_State* L) {
  const auto began = std::chrono::steady_clock::now();
  const Batch& prompts = arg<Batch&>(L, 2, "prompts");
  RolloutOptions options = read_rollout_options(L, prompts.info().seed);
  say_truncation(L, options.text.generate.sampling);
  Session& session = session_of(L);
  const std::shared_ptr<Model> model = decoding_model(L, policy);
  if (model == nullptr) {
    session.notices.add(
        "policy:sample gave random tokens, since no weights are loaded; rewards score those");
  }
  options.text.generate.counted = [L](const SamplerCounters& counters) {
    BodyRollouts* body = body_rollouts(L);
    if (body == nullptr) return;
    body->drawn += counters.tokens;
    body->drafted += counters.drafted;
    body->accepted += counters.accepted;
  };
  TaskProgress progress(*session.console, "sampling", "tokens");
  const int64_t max_tokens =
      prompts.size() * options.samples * options.text.generate.max_new_tokens;
  options.text.generate.progress = [&](int64_t tokens) {
    progress.update(tokens, max_tokens);
    return true;
  };
  LuaEnvironment environment(L, 3, prompts);
  options.environment = environment.options();
  EarlyRewards* const early = EarlyRewards::of(L);
  if (early != nullptr) {
    options.finished = [early](std::shared_ptr<Rollouts> group) { early->add(std::move(group)); };
  }
  // Environment and early rewards must outlive the call, which refers to both.
  auto rollouts = sample_rollouts(policy, model.get(), prompts, options);
  if (BodyRollouts* body = body_rollouts(L)) {
    if (early != nullptr) body->early_rewards += early->called();
    body->all.insert(body->all.end(), rollouts->rollouts().begin(), rollouts->rollouts().end());
    body->sample_s += seconds_since(began);
    if (model != nullptr) body->model_tokens = model->config().max_length;
    for (const auto& one : rollouts->rollouts()) {
      body->sampled += one->sampled_tokens();
      one->location = row_text(prompts.info(), one->row);
    }
  }
  // After the record of the body, which lists aborted conversations too.
  rollouts = environment.without_aborted(rollouts);
  push(L, std::static_pointer_cast<Batch>(rollouts));
  return 1;
}

int push_aligned_rollouts(lua_State* L) {
  push(L, aligned_rollouts(L, rollouts_of(arg<Batch&>(L, 1, "rollouts")), 2));
  return 1;
}

// ---- filter and minibatches

int filter_rollouts(lua_State* L) {
  const Rollouts& rollouts = rollouts_of(arg<Batch&>(L, 1, "rollouts"));
  const LuaRef function = arg<LuaRef>(L, 2, "f");
  const SampleTable samples(rollouts, session_of(L).data.ledger);
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
  const auto parts = rollouts.minibatches(
      options.get<int64_t>("epochs"), options.get<int64_t>("groups", std::max(count, int64_t{1})));
  push_builtin_text(L, kMinibatches, "=rollouts:minibatches");
  lua_createtable(L, static_cast<int>(parts.size()), 0);
  for (size_t i = 0; i < parts.size(); ++i) {
    push(L, std::static_pointer_cast<Batch>(rollouts.subset(parts[i])));
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  lua_call(L, 1, 1);
  return 1;
}

struct RolloutMethod {
  DocEntry doc;
  lua_CFunction function;
};

DocEntry method_doc(const char* name, std::vector<LuaParameter> parameters, const char* result,
                    std::string doc) {
  return {.name = std::string("Rollouts:") + name,
          .kind = DocKind::kMethod,
          .parameters = std::move(parameters),
          .results = {result},
          .doc = std::move(doc)};
}

// Methods of sampled batches only: a column of another batch may have these names.
const std::vector<RolloutMethod>& rollout_methods() {
  static const LuaParameter scoring{"options?", "table", reward_options()};
  static const std::vector<RolloutMethod> methods = {
      {method_doc(
           "score", {{"reward", "function|FrozenModel"}, scoring}, "Rollouts",
           "Sets the field reward from reward(sample) -> number, or number, { part = number "
           "}, and returns the rollouts. A sample has their fields, prompt_ids, ids and "
           "index. A model is a sequence classifier (xrun.frozen), whose scores are the "
           "rewards. A reward that fails, returns anything but a finite number or takes "
           "longer than deadline_s follows on_error: \"error\" stops, \"mask\" leaves the "
           "sample out, \"zero\" gives it 0. An answer passes if its reward is above pass (0 "
           "if the first rewards of the run are 0 or 1): rollout/pass_at_1, ..."),
       score_rollouts},
      {method_doc("score_groups", {{"reward", "function"}, scoring}, "Rollouts",
                  "As score, with reward(samples) -> list of numbers for each group of samples."),
       score_rollout_groups},
      {method_doc("filter", {{"f", "function"}}, "Rollouts",
                  "Those for which f(sample) is true, with all their fields."),
       filter_rollouts},
      {method_doc("minibatches",
                  {{"options?", "table", {{"epochs", "integer", 1}, {"groups", "integer"}}}},
                  "fun(): Rollouts",
                  "Iterates over `groups` groups at a time (all), in `epochs` passes with another "
                  "order each."),
       push_minibatches},
      {method_doc("align", {{"teacher", "Policy|FrozenModel|Tokenizer"}, align_options_parameter()},
                  "Rollouts",
                  "The same answers with the teacher's tokens, and the chunks in which both spell "
                  "the same bytes: for a loss by chunk. The teacher reads the prompts in its own "
                  "chat template, or in `template`. A teacher of the same vocabulary reads the "
                  "answers' own tokens, each of them a chunk."),
       push_aligned_rollouts},
  };
  return methods;
}

// A list with a tensor [tokens, layers, top_k] for each answer; false where there is none.
void push_routes(lua_State* L, const Rollouts& rollouts) {
  XRUN_CHECK(rollouts.has_routes(),
             "these rollouts have no routes: sample them from a mixture of experts with "
             "replay_routes = true");
  lua_createtable(L, static_cast<int>(rollouts.size()), 0);
  for (int64_t i = 0; i < rollouts.size(); ++i) {
    const at::Tensor routes = rollouts.routes(i);
    if (routes.defined()) {
      push(L, routes);
    } else {
      push(L, false);
    }
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
}

}  // namespace

Rollouts& rollouts_of(Batch& batch) {
  auto* rollouts = dynamic_cast<Rollouts*>(&batch);
  XRUN_CHECK(rollouts != nullptr,
             "this batch has rows of the data, wanted the rollouts that policy:sample returned");
  return *rollouts;
}

std::string shown_start(const std::string& text) {
  constexpr size_t kShownText = 200;  // bytes
  return shown_text(shortened(text, kShownText), Blanks::kBreaksMarked);
}

bool push_rollout_member(lua_State* L, const Batch& batch, const std::string& name) {
  if (const auto* rollouts = dynamic_cast<const Rollouts*>(&batch); rollouts && name == "routes") {
    push_routes(L, *rollouts);
    return true;
  }
  for (const RolloutMethod& method : rollout_methods()) {
    if (method.doc.name != "Rollouts:" + name) continue;
    const bool sampled = dynamic_cast<const Rollouts*>(&batch) != nullptr;
    // A column of the data may be called score or filter.
    if (!sampled && batch.has_field(name)) return false;
    XRUN_CHECK(sampled,
               "`{}` is a method of rollouts; this batch has rows of the data: call it on the "
               "rollouts that policy:sample returned",
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
           {"options?", "xrun.Config.sampling", {{"environment", "table|function"}}}},
          {"Rollouts"},
          "Samples answers to the prompts of a batch, in the order of prompts. The options are the "
          "fields of the configuration's `sampling`, and environment: a table with reply(self, "
          "turn) or a function that runs as a coroutine, with which an answer has several turns. "
          "Draws depend on the seed, the step, the row and the sample.",
          sample_policy);
  register_doc({.name = "Rollouts",
                .kind = DocKind::kClass,
                .doc = "Sampled answers, a Batch with the fields row, group (the prompt), sample, "
                       "version, sampler_logprob [R] and old_logprob [R] (the same until it is "
                       "assigned), prompt, text, finish (\"stop\", \"stop_string\" or \"length\", "
                       "of conversations also \"max_turns\" or \"aborted\"), environment_reward "
                       "(of conversations), routes (with replay_routes: of each answer the experts "
                       "[tokens, layers, k] of prompt and answer, without the last token) and the "
                       "extra columns. The trained tokens are those of "
                       "the answers, and log-probs are at the temperature."});
  const StackGuard guard(L);
  for (const RolloutMethod& method : rollout_methods()) {
    push_function(L, method.doc, method.function);  // registers the documentation
  }
}

}  // namespace xrun
