// xrun.adamw and its step, the only place where a recipe changes weights, and xrun.ema, the average
// that follows its updates.

#include "core/train/adamw.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/config/config_field.h"
#include "core/dist/agreement.h"
#include "core/rollout/rollout_log.h"
#include "core/rollout/watched_rollouts.h"
#include "core/train/backward_error.h"
#include "core/train/batches/batch.h"
#include "core/train/ema.h"
#include "core/train/models/policy.h"
#include "core/train/models/scorer.h"
#include "core/train/step.h"
#include "lua/bind/metrics.h"
#include "lua/bind/modules.h"
#include "lua/bind/objective.h"
#include "lua/bind/rollout/body_rollouts.h"
#include "lua/bind/run/run_loop.h"
#include "lua/bind/run_hooks.h"
#include "lua/bind/session.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

AdamWOptions read_options(lua_State* L, int i) {
  if (!Options(L, i).has("lr")) {
    throw UsageError("optim.lr is missing; it has no default: write optim = { lr = 2e-5 }");
  }
  // Read from the recipe's table, not from the config: two optimizers may differ.
  Json optim = to_json(L, i);
  check_fields(optim, "optim");
  add_defaults(optim, "optim");
  AdamWOptions options;
  options.lr = optim.at("lr").as_double();
  options.schedule = schedule_of(optim.at("schedule").as_string());
  options.warmup = optim.at("warmup").as_double();
  options.beta1 = optim.at("betas").as_array()[0].as_double();
  options.beta2 = optim.at("betas").as_array()[1].as_double();
  options.eps = optim.at("eps").as_double();
  options.weight_decay = optim.at("weight_decay").as_double();
  options.clip = optim.at("clip").as_double();
  return options;
}

// "lr (required), schedule, ...".
std::string optim_field_names() {
  std::string names;
  for (const std::string& name : config_field_names("optim")) {
    const bool required = find_config_field("optim." + name)->required;
    add_item(names, name + (required ? " (required)" : ""));
  }
  return names;
}

int make_adamw(lua_State* L) {
  std::vector<std::shared_ptr<Trainable>> trainables;
  if (class_of(L, 1) == &class_info<Scorer>) {
    trainables.push_back(arg<std::shared_ptr<Scorer>>(L, 1, "scorer"));
  } else {
    trainables.push_back(arg<std::shared_ptr<Policy>>(L, 1, "policy"));
  }
  const auto adamw =
      std::make_shared<AdamW>(std::move(trainables), read_options(L, 2), recipe_dist(L));
  // For the memory plan, and for xrun.ema, which finds it here.
  session_of(L).models.add(adamw);
  push(L, adamw);
  return 1;
}

// step(batch, f) or step({ { batch, f, weight = 1 }, ... }).
std::vector<StepTerm> read_terms(lua_State* L, int* next) {
  std::vector<StepTerm> terms;
  if (class_of(L, 2) == &class_info<Batch>) {
    terms.push_back({&arg<Batch&>(L, 2, "batch"), lua_objective(L, 3)});
    *next = 4;
    return terms;
  }
  if (lua_type(L, 2) != LUA_TTABLE)
    throw_argument(L, 2, "batch", "a Batch, or a list of { batch, objective, weight = 1 }");
  *next = 3;
  const int count = static_cast<int>(lua_objlen(L, 2));
  for (int k = 1; k <= count; ++k) {
    lua_rawgeti(L, 2, k);
    const int entry = lua_gettop(L);
    XRUN_CHECK(lua_istable(L, entry), "entry {} of the step is {}, wanted {{ batch, objective }}",
               k, type_name(L, entry));
    lua_rawgeti(L, entry, 1);
    lua_rawgeti(L, entry, 2);
    // Errors count entries from 1, as Lua does.
    const std::string name = fmt::format("entry {} of the step: ", k);
    StepTerm term{&arg<Batch&>(L, entry + 1, (name + "batch").c_str()),
                  lua_objective(L, entry + 2, (name + "objective").c_str())};
    lua_getfield(L, entry, "weight");
    if (!lua_isnil(L, -1)) {
      term.weight = arg<double>(L, lua_gettop(L), (name + "weight").c_str());
    }
    terms.push_back(std::move(term));
    // The batch stays alive in the caller's table.
    lua_settop(L, entry - 1);
  }
  XRUN_CHECK(!terms.empty(), "the step has no entries; wanted {{ {{ batch, objective }}, ... }}");
  return terms;
}

// Saves the batch of a non-finite loss and reports the file.
[[noreturn]] void save_and_rethrow(lua_State* L, const NonFiniteLoss& error,
                                   const std::vector<StepTerm>& terms) {
  const auto& run = session_of(L).run;
  // All ranks have this error and the batch; one of them writes it.
  if (run == nullptr || !is_first_rank(session_ranks(L))) throw Error(error.what());
  const Batch& batch = *terms.at(static_cast<size_t>(error.term())).batch;
  std::vector<const PackedBatch*> packs;
  for (const auto& micro : batch.micros()) packs.push_back(&micro->pack());
  run->throw_with_batch(error, packs, batch.info().row_name);
}

void note_trained(const Batch& batch) {
  const auto* rollouts = dynamic_cast<const Rollouts*>(&batch);
  if (rollouts != nullptr) rollouts->note_trained();
}

bool was_skipped(const Metrics& metrics) {
  return std::any_of(metrics.begin(), metrics.end(),
                     [](const auto& metric) { return metric.first == "skipped"; });
}

void say_skipped(Session& session, const Batch& batch) {
  if (session.notices.skipped_steps++ > 0 || session.console == nullptr) return;
  session.console->print_raw(fmt::format(
      "step {}: no update, because the weights of its losses add up to 0; further such steps are "
      "counted at the end",
      batch.step()));
}

int step(AdamW& adamw, lua_State* L) {
  int next = 0;
  std::vector<StepTerm> terms = read_terms(L, &next);
  const Options table(L, next);
  RunHooks* const hooks = run_hooks(L);
  // A preview takes the step itself: without weights nothing can be updated.
  if (auto taken = hooks == nullptr ? std::nullopt : hooks->before_step(L, terms)) {
    push(L, std::make_shared<MetricTable>(with_prefix(std::move(*taken), "train/")));
    return 1;
  }
  StepOptions options;
  options.lr = table.find<double>("lr");
  options.poll = [L] { check_stop(L); };
  options.ranks = session_ranks(L);
  // From here on an error leaves the body half done; the run then restores its beginning.
  if (const auto& run = session_of(L).run) run->run().begin_update();
  if (const auto& run = session_of(L).run) check_update_folding(*run, terms, adamw);
  const WatchedRollouts watched(terms, adamw);
  Metrics values;
  try {
    values = train_step(terms, &adamw, options);
  } catch (const NonFiniteLoss& error) {
    save_and_rethrow(L, error, terms);
  } catch (const BackwardError& error) {
    // The backward runs after the objective has returned, so the error has no line of its own.
    throw_at_objective(L, error.what());
  }
  // Draws after the step do not depend on the micro-batches that were computed here.
  if (const auto& run = session_of(L).run) run->seed_after_update(L);
  // A skipped step trained nothing, so its rollouts do not count as used.
  if (was_skipped(values)) {
    say_skipped(session_of(L), *terms.front().batch);
  } else if (const auto& run = session_of(L).run) {
    int64_t tokens = 0;
    for (const StepTerm& term : terms) {
      tokens += term.batch->token_count();
      note_trained(*term.batch);
    }
    run->note_update(tokens);
  }
  if (!was_skipped(values) && !watched.empty()) {
    UpdateRecord outside;  // for a script, which has no body
    BodyRollouts* const body = body_rollouts(L);
    watched.report(body == nullptr ? outside : body->updates, values, session_ranks(L));
  }
  push(L, std::make_shared<MetricTable>(with_prefix(std::move(values), "train/")));
  return 1;
}

std::shared_ptr<Trainable> trainable_at(lua_State* L, int i) {
  if (class_of(L, i) == &class_info<Scorer>) return arg<std::shared_ptr<Scorer>>(L, i, "scorer");
  return arg<std::shared_ptr<Policy>>(L, i, "policy");
}

// The average follows the updates of an optimizer.
std::shared_ptr<AdamW> optimizer_of(lua_State* L, const std::shared_ptr<Trainable>& trainable) {
  std::shared_ptr<AdamW> found;
  bool scored = false;
  for (const auto& adamw : session_of(L).models.optimizers()) {
    const auto scorer = std::dynamic_pointer_cast<Scorer>(adamw->trainables().front());
    scored = scored || (scorer != nullptr && scorer->policy() == trainable);
    if (adamw->trainables().front() != trainable) continue;
    // The average could follow either of them, so neither is chosen.
    XRUN_CHECK(found == nullptr,
               "two optimizers train this policy, and an average follows the updates of only one");
    found = adamw;
  }
  XRUN_CHECK(found != nullptr || !scored,
             "xrun.ema follows the updates of an optimizer, and the optimizer trains a scorer over "
             "this policy; write xrun.ema(scorer)");
  XRUN_CHECK(found != nullptr,
             "xrun.ema follows the updates of an optimizer, and none trains this policy yet; write "
             "local adamw = xrun.adamw(policy, cfg.optim) before it");
  return found;
}

int make_ema(lua_State* L) {
  const Options options(L, 2);
  push(L, Ema::of(optimizer_of(L, trainable_at(L, 1)), options.get<double>("decay")));
  return 1;
}

int use(Ema& ema, lua_State* L) {
  arg<LuaRef>(L, 2, "f");
  XRUN_CHECK(!ema.in_use(), "ema:use cannot be nested; the weights are the average already");
  XRUN_CHECK(
      open_micro(L) == nullptr,
      "ema:use inside an objective: it exchanges all weights, which the backward needs; call "
      "it in the loop");
  // f is called with no arguments and returns any number of values.
  lua_settop(L, 2);
  ema.swap();
  try {
    protected_call(L, 0, LUA_MULTRET);
  } catch (...) {
    // An error or a signal leaves the policy with its own weights, which are saved. Ranks swap
    // together: if only this one failed, the run ends with the average in place.
    Ranks* const ranks = session_ranks(L);
    if (ema.in_use() && (ranks == nullptr || ranks->fails_together())) ema.swap();
    throw;
  }
  if (ema.in_use()) ema.swap();
  return lua_gettop(L) - 1;
}

}  // namespace

void open_adamw(LuaState& state) {
  Class<AdamW>(state, "AdamW", "AdamW over a policy's weights, with a schedule and clipping.")
      .method("step",
              {{"batch", "Batch|table"},
               {"objective?", "function"},
               {"options?", "table", {{"lr", "number"}}}},
              {"Metrics"},
              "One update: forward, objective and backward per micro-batch, one global weight, "
              "clip, update. Options: lr. A list of { batch, objective, weight = 1 } in place of "
              "batch and objective updates from several sources at once.",
              step)
      .property("update_count", "number", "Updates so far.", [](AdamW& self, lua_State* L) {
        push(L, self.update_count());
        return 1;
      });
  make_retryable(state, &class_info<AdamW>, "step");
  state.function("adamw", {{"policy", "Policy|Scorer"}, {"optim", "xrun.Config.optim"}}, {"AdamW"},
                 "Makes the optimizer of a policy, or of a scorer and its policy: " +
                     optim_field_names() + ".",
                 make_adamw);
}

void open_ema(LuaState& state) {
  Class<Ema>(state, "Ema",
             "The exponential moving average of a policy's trained weights. It follows every "
             "update of their optimizer, and is saved with the run that it is given to.")
      .method("use", {{"f", "function"}}, {"any"},
              "Calls f with the average in place of the policy's weights, then puts them back, "
              "also after an error; returns what f returns. Inside, evaluate, sample and export: "
              "ema:use(function() return run:evaluate(valid, dpo, \"ema\") end). An update inside "
              "is an error.",
              use)
      .property("decay", "number", "The weight of the average before an update.",
                [](Ema& self, lua_State* L) {
                  push(L, self.decay());
                  return 1;
                })
      .property("update_count", "number", "Updates that it has followed.",
                [](Ema& self, lua_State* L) {
                  push(L, self.update_count());
                  return 1;
                });
  state.function("ema",
                 {{"policy", "Policy|Scorer"}, {"options?", "table", {{"decay", "number", 0.999}}}},
                 {"Ema"},
                 "Averages the trained weights of a policy over its updates: average = decay * "
                 "average + (1 - decay) * weight, in fp32, beginning with the "
                 "weights before the first update. Made after the policy's optimizer. On several "
                 "processes each holds its share, as of the optimizer's moments.",
                 make_ema);
}

}  // namespace xrun
