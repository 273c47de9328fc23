// xrun.run and the Run class: the loop of a recipe, its log, evaluations, samples and exports.

#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/strings.h"
#include "core/model/weights/hf_config.h"
#include "core/run/machine.h"
#include "core/share/recorded_run.h"
#include "core/train/batches/whole_batch.h"
#include "core/train/models/policy.h"
#include "core/train/models/scorer.h"
#include "lua/bind/modules.h"
#include "lua/bind/objective.h"
#include "lua/bind/run/memory_report.h"
#include "lua/bind/run/run_loop.h"
#include "lua/bind/run/run_objects.h"
#include "lua/bind/run/run_state.h"
#include "lua/bind/run_hooks.h"
#include "lua/bind/type_settings.h"
#include "lua/state/args.h"
#include "lua/tensor/tensor.h"

namespace xrun {

namespace {

RunSettings read_settings(lua_State* L) {
  RunSettings settings;
  settings.save_every = config_whole(L, "save.every");
  settings.save_minutes = config_number(L, "save.minutes");
  settings.save_keep = config_whole(L, "save.keep");
  // --steps of the command line, which ends a run early and does not change its plan.
  settings.steps_limit = recipe_context(L).options.steps.value_or(-1);
  settings.saves = session_of(L).folder.scratch == nullptr;
  settings.stop_minutes = settings.saves ? config_number(L, "stop.after") : 0;
  // The limit in minutes counts the loading of models and data too.
  settings.began = session_of(L).began;
  settings.ranks = session_ranks(L);
  return settings;
}

// Lets the run of a bundle compare itself with the first steps in the lock.
void compare_first_steps(lua_State* L, RunLoop& loop) {
  const RecipeContext& context = recipe_context(L);
  const auto& bundle = context.options.bundle;
  if (!bundle) return;
  if (!bundle->lock.run) return loop.say("the bundle recorded no first steps to compare with");
  loop.first_steps.emplace(
      *bundle->lock.run, FirstStepsTerms{.machine = loop.run().dir().identity().machine,
                                         .environment = run_environment(),
                                         .settings = find_differences(
                                             deciding_settings(bundle->lock.config),
                                             deciding_settings(context.config.values()), "config"),
                                         .force = context.options.force});
  loop.say(loop.first_steps->comparison_notice());
}

std::string finished_text(const RunDir& dir) {
  constexpr const char* kLonger = "give it more steps: --resume --set steps=N (or epochs=N)";
  const std::string stopped = text_member(dir.record(), "stopped");
  if (stopped.empty()) {
    return fmt::format(
        "{} is finished, so there is nothing to resume; to train it further, {}; to export it in "
        "another type: --resume --set export.dtype=bf16",
        dir.path().string(), kLonger);
  }
  const Json* const steps = dir.record().find("steps");
  return fmt::format(
      "{} was stopped by its recipe after {} (run:stop: {}), so there is nothing to resume; to "
      "train it further, change the keys that the recipe's condition reads: --resume --force --set "
      "KEY=VALUE (as in patience=10), or {}",
      dir.path().string(),
      counted(steps != nullptr && steps->is_int() ? steps->as_int() : 0, "step"), stopped, kLonger);
}

int make_run(lua_State* L) {
  Session& session = session_of(L);
  const RecipeOptions& options = recipe_context(L).options;
  // xrun cache is done here: the data sets above this line are built.
  if (options.purpose == RecipePurpose::kCache) return end_recipe(L);
  check_config_unchanged(L);
  RunModels models;
  // For the memory plan, which counts what xrun.kd holds; the loss reads the config again itself.
  if (const Config& config = recipe_context(L).config; config.find("kd") != nullptr) {
    const Json* const loss = config.find("kd.loss");
    models.kd_loss = loss != nullptr && loss->is_string() ? loss->as_string() : "";
    const Json* const mean = config.find("kd.mean");
    models.kd_support =
        models.kd_loss == "topk" && (mean == nullptr || *mean != Json("arithmetic"));
  }
  SavedObjects saved = read_objects(L, 2, models);
  report_unsaved(L, session, saved);
  RunDir dir = session.folder.dir ? std::move(*session.folder.dir) : open_run_dir(L);
  // Moved from: the run owns the folder now.
  session.folder.dir.reset();
  if (dir.finished()) {
    session.console->print_escaped(finished_text(dir));
    return end_recipe(L);
  }
  const RunSettings settings = read_settings(L);
  // Weights that do not load are an error before the folder holds a run; a preview needs none.
  if (settings.saves) {
    if (!models.optimizers.empty()) {
      check_before_load(with_session_models(models, session.models));
    }
    for (const auto& policy : models.policies) policy->model();
  }
  if (!session.data.date.empty()) dir.record().set("date", session.data.date);
  // For the report, which takes the tokenizer from there if nothing is exported or `model` is a
  // name.
  if (!models.policies.empty()) {
    dir.record().set("model_folder", absolute_path(models.policies.front()->dir()).string());
  }
  // For the command that exports the model of a run that was interrupted.
  const std::string recipe_file = options.bundle ? options.bundle->file : options.recipe;
  dir.record().set("recipe_file", absolute_path(recipe_file).string());
  keep_dtype(L, dir);
  keep_measured(L, dir);
  auto loop = std::make_shared<RunLoop>(
      session, recipe_file, config_whole(L, "seed"),
      std::make_unique<Run>(std::move(dir), settings, std::move(saved)), std::move(models));
  // Before anything of the recipe may run: a checkpoint reads run.state.
  tie_state(L, *loop);
  session.run = loop;
  session.open_run = &loop->run();
  // This run must not record the rollouts of an earlier run of the recipe.
  session.rollouts = session.last_rollouts = nullptr;
  if (settings.saves) compare_first_steps(L, *loop);
  for (const SessionInputs::Input& input : session.data.inputs) check_input(loop->run(), input);
  LuaState::of(L).may_interrupt = [run = &loop->run()] {
    // Lua code is not work that ranks agree on: a rank that stopped in a body would leave the
    // others waiting. They stop together, in shared work or at the end of the body.
    if (run->settings().ranks != nullptr && run->in_body()) return false;
    return run->may_interrupt_now();
  };
  push(L, loop);
  return 1;
}

// Folders of the run that no export may overwrite. An export without a name goes to hf.
constexpr const char* kOwnFolders[] = {"checkpoints", "choices", "reference",
                                       "rollouts",    "samples", "tb"};

void check_export_name(const std::string& name) {
  const bool plain = !name.empty() && name.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_-") == std::string::npos;
  XRUN_CHECK(plain,
             "export name \"{}\": wanted letters, digits, _ and -; it is a folder of the run",
             name);
  for (const char* own : kOwnFolders) {
    XRUN_CHECK(name != own, "export name \"{}\" is one of the run's own folders; choose another",
               name);
  }
}

int push_export(RunLoop& loop, lua_State* L) {
  leave_broken_loop(loop, L);
  const auto name = opt_arg<std::string>(L, 3, "name");
  if (name) check_export_name(*name);
  // A scorer exports its policy's weights with the value head, as a classifier.
  const bool is_scorer = class_of(L, 2) == &class_info<Scorer>;
  const auto scorer = is_scorer ? arg<std::shared_ptr<Scorer>>(L, 2, "scorer") : nullptr;
  const auto policy = is_scorer ? nullptr : arg<std::shared_ptr<Policy>>(L, 2, "policy");
  Run& run = loop.run();
  const std::filesystem::path out = name ? run.dir().path() / *name : run.dir().hf();
  // While a resume replays saved steps the weights are those of a later step, so the earlier export
  // is kept. It is noted all the same: the closing report lists all exports.
  const auto write = [&] { is_scorer ? scorer->export_to(out) : policy->export_to(out); };
  if (run.replaying() || run.write_out("an export", write)) {
    run.add_exported(out, dtype_name((is_scorer ? *scorer->policy() : *policy).export_dtype()));
  }
  push(L, out.string());
  return 1;
}

// Every rank runs the recipe on the whole batch, so most values are the same everywhere; times and
// what a function drew from outside are not.
int push_mean(RunLoop& loop, lua_State* L) {
  const at::Tensor x = arg<at::Tensor>(L, 2, "x");
  Ranks* const ranks = loop.run().settings().ranks;
  XRUN_CHECK(ranks == nullptr || open_micro(L) == nullptr,
             "run:mean cannot be called inside an objective, which sees only the micro-batches of "
             "this rank; take the mean in the loop");
  push(L, ranks == nullptr ? x : mean_over_ranks(*ranks, x));
  return 1;
}

std::string describe_run(const RunLoop& run) { return "Run " + run.run().dir().path().string(); }

void add_loop_methods(Class<RunLoop>& run) {
  run.method(
         "steps",
         {{"data", "DataSet|RolloutSource|table"},
          {"batch", "xrun.Config.batch", {{"steps", "integer"}, {"epochs", "integer"}}}},
         {"fun(): integer, Batch"},
         "The training loop: batches of the shuffled stream; cfg.batch, or a table like it, is "
         "{ pairs, max_tokens } and may override steps and epochs; steps, even of cfg, go before "
         "epochs. A list of sets gives a "
         "batch of each, counted in the unit of its rows: the first set decides the length, "
         "the others go round. Of xrun.rollouts a batch is Rollouts, counted in groups. Saves, "
         "resumes and stops between bodies.",
         run_steps)
      .method("log", {{"metrics", "Metrics|table"}}, {},
              "Writes metrics of this body: what adamw:step and run:evaluate return, or a table "
              "of numbers, { foo = 3 }, written as recipe/foo.",
              [](RunLoop& self, lua_State* L) {
                leave_broken_loop(self, L);
                self.log(read_metrics(L, 2));
                return 0;
              });
}

void add_measuring_methods(Class<RunLoop>& run) {
  run.method("evaluate", {{"set", "DataSet"}, {"objective", "function"}, {"name?", "string"}},
             {"Metrics"},
             "Loss and metrics over every row of a set, each weighted once, without gradient; "
             "valid/loss, or valid/<name>/loss.",
             run_evaluate)
      .method(
          "sample",
          {{"policy", "Policy"},
           {"set", "DataSet"},
           {"shown?", "integer"},
           {"options?",
            "xrun.Config.sampling",
            {{"score", "string|function"}, {"environment", "table|function"}}}},
          {"Metrics"},
          "Samples an answer to every prompt of a set; prints the first `shown` (3) beside the "
          "run's earliest answers and writes all to samples/. Options: those of the "
          "configuration's `sampling`, where temperature is 0 unless it is given and max_tokens = "
          "0 makes no answers, and score: a function of a sample { text, ids, "
          "length, finish, prompt, prompt_ids, row, group, index, extra columns }, or the name "
          "of an extra column, which scores 1 if the answer contains its value as whole words, "
          "in either case. An error in the function ends the run. With environment, max_turns, "
          "on_error and deadline_s, answers are conversations as in policy:sample: a sample also "
          "has turns and environment_reward, and sample/turns is their mean.",
          run_sample)
      .method(
          "choices", {{"policy", "Policy"}, {"set", "DataSet"}, {"name?", "string"}}, {"Metrics"},
          "Scores the choices of a set from xrun.choices by their log-probs after the prompt. "
          "Returns the shares of questions whose right choice is likeliest: choices/accuracy by "
          "the sum, accuracy_mean by the mean per token, accuracy_byte by the mean per byte; "
          "choices/<name>/... with a name. Every question with its scores is in the run's folder, "
          "choices/step_N.jsonl or choices/<name>/step_N.jsonl.",
          run_choices);
}

}  // namespace

void open_run(LuaState& state) {
  Class<StepLoop>(state, "StepLoop", "The state of `for step, batch in run:steps(...)`.");
  Class<RunLoop> run(state, "Run", "A run: its loops, metrics, checkpoints and exports.");
  add_loop_methods(run);
  add_measuring_methods(run);
  run.method("export", {{"policy", "Policy|Scorer"}, {"name?", "string"}}, {"string"},
             "Writes the policy alone as a Hugging Face folder, a scorer as a sequence classifier "
             "of one label; returns its path. The folder is hf/ inside the run, or `name`: "
             "run:export(policy, \"best\") keeps the weights as they are now beside the last ones.",
             push_export)
      .method("stop", {{"reason?", "string"}}, {},
              "Ends the loop after this body and logs the reason.",
              [](RunLoop& self, lua_State* L) {
                self.run().stop(
                    opt_arg<std::string>(L, 2, "reason").value_or("the recipe asked to stop"));
                return 0;
              })
      .method("mean", {{"x", "Tensor"}}, {"Tensor"},
              "The mean of a tensor over ranks, in the loop and outside objectives; x itself where "
              "all have the same, as with one process.",
              push_mean)
      .property("state", "table", "A plain table saved with the run: best loss, patience.",
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
                  leave_broken_loop(self, L);
                  push(L, self.run().step());
                  return 1;
                })
      .tostring(describe_run);
  make_retryable(state, &class_info<RunLoop>, "evaluate");
  make_retryable(state, &class_info<RunLoop>, "sample");
  make_retryable(state, &class_info<RunLoop>, "choices");
  state.function("run", {{"cfg", "xrun.Config"}, {"objects", "table"}}, {"Run"},
                 "Opens the run's folder and restores `objects`, by name, when resuming: { policy "
                 "= policy, adamw = adamw }.",
                 make_run);
}

}  // namespace xrun
