// xrun.run: the loop of a recipe, what it logs, evaluates, shows, exports.

#include <ATen/Parallel.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/console/summary.h"
#include "core/run/failed_batch.h"
#include "core/train/adamw.h"
#include "core/train/evaluate.h"
#include "core/train/policy.h"
#include "core/train/reference.h"
#include "lua/bind/args.h"
#include "lua/bind/modules.h"
#include "lua/bind/objective.h"
#include "lua/bind/run_loop.h"
#include "lua/bind/samples.h"
#include "lua/bind/tensor.h"

namespace xrun {

namespace {

constexpr int64_t kSampleTokens = 128;

int64_t config_int(lua_State* L, const char* path, int64_t otherwise) {
  const Json* value = recipe_context(L).config.find(path);
  return value == nullptr || value->is_null() ? otherwise : value->as_int();
}

// { policy = policy, adamw = adamw }, in the order of the names.
SavedObjects read_objects(lua_State* L, int i, std::vector<std::shared_ptr<Policy>>& policies) {
  if (lua_type(L, i) != LUA_TTABLE) {
    throw_argument(L, i, "objects",
                   "a table of what the run saves: { policy = policy, adamw = adamw }");
  }
  SavedObjects saved;
  for (lua_pushnil(L); lua_next(L, i) != 0; lua_pop(L, 1)) {
    XRUN_CHECK(lua_type(L, -2) == LUA_TSTRING,
               "xrun.run: what is saved needs a name: {{ policy = policy }}");
    const std::string name = lua_tostring(L, -2);
    const int value = lua_gettop(L);
    if (class_of(L, value) == &class_info<Policy>) {
      policies.push_back(arg<std::shared_ptr<Policy>>(L, value));
      saved.emplace_back(name, policies.back());
    } else if (class_of(L, value) == &class_info<AdamW>) {
      saved.emplace_back(name, arg<std::shared_ptr<AdamW>>(L, value));
    } else {
      throw Error(
          fmt::format("xrun.run: {} is {}, which cannot be saved; give policies and "
                      "optimizers, and keep plain values in run.state",
                      name, type_name(L, value)));
    }
  }
  std::sort(saved.begin(), saved.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return saved;
}

int make_run(lua_State* L) {
  Session& session = session_of(L);
  std::vector<std::shared_ptr<Policy>> policies;
  SavedObjects saved = read_objects(L, 2, policies);
  RunDir dir = session.run_dir ? std::move(*session.run_dir) : open_run_dir(L);
  session.run_dir.reset();
  if (dir.finished()) {
    session.already_finished = true;
    session.console->print(
        fmt::format("{} is finished; there is nothing to resume (a larger "
                    "steps or epochs goes on)",
                    dir.path().string()));
    throw Error("finished");
  }
  // Weights that do not load are an error before the folder holds a run.
  for (const auto& policy : policies) policy->model();
  RunSettings settings;
  settings.save_every = config_int(L, "save.every", settings.save_every);
  settings.save_keep = config_int(L, "save.keep", settings.save_keep);
  settings.steps_limit = recipe_context(L).options.steps.value_or(-1);
  auto loop = std::make_shared<RunLoop>(
      session, recipe_context(L).options.recipe,
      std::make_unique<Run>(std::move(dir), settings, std::move(saved)), std::move(policies));
  push(L, loop->run().state().is_object() ? loop->run().state() : Json::object());
  auto state = std::make_shared<LuaRef>(L, lua_gettop(L));
  lua_pop(L, 1);
  LuaState& owner = LuaState::of(L);
  loop->read_state = [&owner, state] {
    const StackGuard guard(owner);
    state->push(owner);
    return to_json(owner, lua_gettop(owner));
  };
  loop->state_ref = state;
  session.run = loop;
  owner.may_interrupt = [loop = loop.get()] { return loop->run().may_interrupt_now(); };
  push(L, loop);
  return 1;
}

// The iterator of `for step, batch in run:steps(...)`: called with the
// StepLoop.
int next_step(lua_State* L) {
  const auto loop = arg<std::shared_ptr<StepLoop>>(L, 1, "steps");
  RunLoop& run = *session_of(L).run;
  lua_gc(L, LUA_GCCOLLECT,
         0);  // handles of the body before; outside the step's hot part
  const std::optional<Body> body = run.next(*loop, run.read_state());
  if (!body) {
    lua_pushnil(L);
    return 1;
  }
  seed_lua_random(LuaState::of(L), loop->plan.seed, static_cast<uint64_t>(body->step));
  push(L, body->step);
  push(L, loop->batch);
  return 2;
}

int steps(RunLoop&, lua_State* L) {
  auto loop = std::make_shared<StepLoop>();
  loop->data = arg<std::shared_ptr<PreferenceData>>(L, 2, "data");
  const Options batch(L, 3, "run:steps batch",
                      {"pairs", "sequences", "prompts", "tokens", "max_tokens", "steps", "epochs"});
  XRUN_CHECK(batch.has("pairs"),
             "run:steps: batch.pairs is missing; pairs are counted in pairs: "
             "write batch = {{ pairs = 8 }}");
  loop->plan.pairs = batch.get<int64_t>("pairs");
  XRUN_CHECK(loop->plan.pairs >= 1, "run:steps: batch.pairs is {}, wanted 1 or more",
             loop->plan.pairs);
  loop->max_tokens = batch.get<int64_t>("max_tokens", 8192);
  loop->plan.shuffle = loop->data->shuffle;
  loop->plan.seed = loop->data->seed;
  loop->plan.epochs = batch.get<int64_t>("epochs", config_int(L, "epochs", 1));
  const int64_t limit = batch.get<int64_t>("steps", config_int(L, "steps", 0));
  if (limit > 0) {
    loop->plan.epochs = 0;
    const std::string origin = recipe_context(L).config.origin("epochs");
    if (!origin.empty() && origin != "default") {
      session_of(L).notices.push_back(
          fmt::format("steps = {} decides the length; epochs ({}) is not used", limit, origin));
    }
  }
  loop->steps = limit > 0 ? limit : loop->data->set.steps_total(loop->plan);
  XRUN_CHECK(loop->data->set.size() > 0, "run:steps: the set has no rows; nothing can be trained");
  push_function(L,
                {"StepLoop.next", DocKind::kFunction, "(loop) -> step, Batch",
                 "Ends the body before and opens the next; nil where the loop ends."},
                next_step);
  push(L, std::move(loop));
  return 2;
}

// Keeps the rows of a loss that is not finite, and says where.
[[noreturn]] void save_and_rethrow(RunLoop& run, const PreferenceSet& set, int64_t max_tokens,
                                   const NonFiniteLoss& error) {
  const std::vector<PackedBatch> packs = set.pack(error.rows(), max_tokens);
  std::vector<const PackedBatch*> views;
  for (const PackedBatch& pack : packs) views.push_back(&pack);
  throw Error(fmt::format("{}; {}", error.what(),
                          save_failed_batch(run.run().dir().path(), run.run().step(), views,
                                            [&](int64_t row) { return set.place(row); })));
}

int evaluate_set(RunLoop& run, lua_State* L) {
  const auto data = arg<std::shared_ptr<PreferenceData>>(L, 2, "set");
  const std::string name = opt_arg<std::string>(L, 4, "name").value_or("");
  MetricTable metrics;
  if (!run.run().replaying()) {
    EvaluateOptions options;
    options.poll = [L] { check_interrupt(L); };
    if (!run.policies().empty()) options.policy = run.policies()[0].get();
    const int64_t max_tokens = config_int(L, "batch.max_tokens", 8192);
    data->set.check_fits(max_tokens);
    try {
      metrics = with_prefix(evaluate(data->set, max_tokens, lua_objective(L, 3), options),
                            name.empty() ? "valid/" : "valid/" + name + "/");
    } catch (const NonFiniteLoss& error) {
      save_and_rethrow(run, data->set, max_tokens, error);
    }
  } else {
    read_function(L, 3, "objective");
  }
  push(L, std::make_shared<MetricTable>(std::move(metrics)));
  return 1;
}

// What the score function of run:sample is given.
void push_sample(lua_State* L, const Sample& sample) {
  Json table = sample.kept;
  table.set("prompt_text", sample.prompt);
  table.set("text", sample.text);
  table.set("length", sample.length);
  table.set("finish", sample.finish);
  push(L, table);
}

double score_sample(lua_State* L, const LuaRef& function, const Sample& sample) {
  const StackGuard guard(L);
  function.push(L);
  push_sample(L, sample);
  protected_call(L, 1, 1);
  return read_number(L, lua_gettop(L), "the score");
}

int sample(RunLoop& run, lua_State* L) {
  const auto policy = arg<std::shared_ptr<Policy>>(L, 2, "policy");
  const auto data = arg<std::shared_ptr<PreferenceData>>(L, 3, "set");
  const int64_t shown = opt_arg<int64_t>(L, 4, "shown").value_or(3);
  const Options options(L, 5, "run:sample options", {"max_tokens", "score"});
  MetricTable metrics;
  if (!run.run().replaying()) {
    TaskProgress progress(*run.session().console, "answering " + data->name, "tokens");
    const int64_t max_tokens = options.get<int64_t>("max_tokens", kSampleTokens);
    int64_t done = 0;
    const std::vector<Sample> samples = answer_prompts(*policy, *data, max_tokens, [&] {
      progress.update(++done, max_tokens);
      check_interrupt(L);
    });
    double length = 0, score = 0;
    for (const Sample& one : samples) length += static_cast<double>(one.length);
    if (options.has("score")) {
      const LuaRef function = options.get<LuaRef>("score");
      for (const Sample& one : samples) score += score_sample(L, function, one);
    }
    const double count = static_cast<double>(std::max<size_t>(samples.size(), 1));
    metrics.values.emplace_back("sample/length", length / count);
    if (options.has("score")) metrics.values.emplace_back("sample/score", score / count);
    std::string text = keep_and_show(run.run().dir().path() / "samples", run.run().step(), samples,
                                     static_cast<size_t>(std::max<int64_t>(shown, 0)));
    text += fmt::format("  {} greedy answers at step {}: {:.1f} tokens on average", samples.size(),
                        run.run().step(), length / count);
    if (options.has("score")) text += fmt::format(", score {:.3f}", score / count);
    run.session().console->print(text);
  }
  push(L, std::make_shared<MetricTable>(std::move(metrics)));
  return 1;
}

int export_policy(RunLoop& run, lua_State* L) {
  Policy& policy = arg<Policy&>(L, 2, "policy");
  policy.export_to(run.run().dir().hf());
  run.run().set_exported(run.run().dir().hf());
  push(L, run.run().dir().hf().string());
  return 1;
}

std::string describe_run(const RunLoop& run) { return "Run " + run.run().dir().path().string(); }

}  // namespace

void open_run(LuaState& state) {
  Class<StepLoop>(state, "StepLoop", "What `for step, batch in run:steps(...)` walks over.");
  Class<RunLoop>(state, "Run", "A run: its loops, metrics, checkpoints and exports.")
      .method("steps", "(data, batch) -> iterator of step, Batch",
              "The training loop: batches of the shuffled stream; `batch` is { "
              "pairs, max_tokens } and may override steps and epochs. Saves, "
              "resumes and stops between bodies.",
              steps)
      .method("log", "(metrics)",
              "Writes metrics of this body: what adamw:step and run:evaluate "
              "return, or a table of numbers.",
              [](RunLoop& self, lua_State* L) {
                self.log(read_metrics(L, 2));
                return 0;
              })
      .method("evaluate", "(set, objective, name?) -> Metrics",
              "Loss and metrics over every row of a set, each weighted once, "
              "without gradient; valid/loss, or valid/<name>/loss.",
              evaluate_set)
      .method("sample", "(policy, set, shown?, options?) -> Metrics",
              "Greedy answers to every prompt of a set; shows the first `shown` "
              "(3) beside the run's earliest ones and keeps all of them in "
              "samples/. Options: max_tokens (128), score, a function of a sample "
              "{ text, length, finish, prompt_text, kept columns }.",
              sample)
      .method("export", "(policy) -> string",
              "Writes the policy alone as a Hugging Face folder, hf/ of the "
              "run; returns its path.",
              export_policy)
      .method("stop", "(reason?)", "Ends the loop after this body; the reason is logged.",
              [](RunLoop& self, lua_State* L) {
                self.run().stop(
                    opt_arg<std::string>(L, 2, "reason").value_or("the recipe asked to stop"));
                return 0;
              })
      .method("mean", "(x) -> Tensor", "The mean over ranks; with one process, x itself.",
              [](RunLoop&, lua_State* L) {
                lua_settop(L, 2);
                return 1;
              })
      .property("state", "table", "A plain table that is saved with the run: best loss, patience.",
                [](RunLoop& self, lua_State* L) {
                  self.state_ref->push(L);
                  return 1;
                })
      .property("dir", "string", "The run's folder.",
                [](RunLoop& self, lua_State* L) {
                  push(L, self.run().dir().path().string());
                  return 1;
                })
      .property("step", "number", "Loop bodies done.",
                [](RunLoop& self, lua_State* L) {
                  push(L, self.run().step());
                  return 1;
                })
      .tostring(describe_run);
  state.function("run", "(cfg, objects) -> Run",
                 "Opens the run's folder and restores `objects`, by name, when "
                 "resuming: { policy = policy, adamw = adamw }.",
                 make_run);
}

}  // namespace xrun
