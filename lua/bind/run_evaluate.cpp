// run:evaluate, run:sample and run:choices. A resume repeats those outside loops with the weights
// of a later step, so their first results are saved with the run and returned instead.

#include <algorithm>
#include <exception>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/config/config_field.h"
#include "core/console/terminal/progress.h"
#include "core/dist/agreement.h"
#include "core/model/model.h"
#include "core/rollout/answer_text.h"
#include "core/train/evaluate.h"
#include "core/train/policy.h"
#include "lua/bind/choices.h"
#include "lua/bind/data_config.h"
#include "lua/bind/environments.h"
#include "lua/bind/objective.h"
#include "lua/bind/rollouts.h"
#include "lua/bind/run_loop.h"
#include "lua/bind/samples.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

constexpr int kSampleOptions = 5;  // argument of run:sample

// Runs `measure` (number -> Metrics) unless its values are known, and pushes them. math.random
// continues with the same numbers either way.
template <typename Measure>
int push_measured(RunLoop& loop, lua_State* L, const std::string& what, const Measure& measure) {
  leave_broken_loop(loop, L);
  loop.write_ledger();
  Run& run = loop.run();
  const int64_t number = loop.next_evaluation();
  Metrics values;
  if (run.replaying()) {
    values = run.recall(what);
  } else {
    const RandomScope random;
    loop.seed_random(L, 2 + 2 * number);
    try {
      values = measure(number);
    } catch (const std::exception&) {
      loop.forget_evaluation();
      throw;
    }
    run.remember(what, values);
  }
  loop.seed_lua(L, 3 + 2 * number);
  push(L, std::make_shared<MetricTable>(MetricTable{std::move(values)}));
  return 1;
}

// Saves the whole rows of a non-finite loss and reports the file.
[[noreturn]] void save_and_rethrow(RunLoop& run, const DataSet& set, const NonFiniteLoss& error) {
  int64_t longest = 0;
  for (const int64_t row : error.rows()) longest = std::max(longest, set.tokens(row));
  const std::vector<PackedBatch> packs = set.pack(error.rows(), longest);
  std::vector<const PackedBatch*> views;
  for (const PackedBatch& pack : packs) views.push_back(&pack);
  run.throw_with_batch(error, views, [&](int64_t row) { return set.location(row); });
}

Json id_list(const std::vector<int32_t>& ids) {
  Json list = Json::array();
  for (const int32_t id : ids) list.push_back(int64_t{id});
  return list;
}

// The argument of run:sample's score function, with the names of a rollout's sample, so that one
// function serves both. An extra column keeps its name.
void push_sample(lua_State* L, const Sample& sample) {
  Json table = sample.extra;
  if (table.find("prompt") == nullptr) table.set("prompt", sample.prompt);
  if (table.find("row") == nullptr) table.set("row", sample.row);
  if (table.find("index") == nullptr) table.set("index", int64_t{0});  // one answer a prompt
  // One answer a prompt makes a group.
  if (table.find("group") == nullptr) table.set("group", sample.row);
  table.set("prompt_ids", id_list(sample.prompt_ids));
  table.set("ids", id_list(sample.ids));
  table.set("prompt_text", sample.prompt);
  table.set("text", sample.text);
  table.set("length", sample.length);
  table.set("finish", sample.finish);
  if (sample.turns.size() > 0) {
    table.set("turns", sample.turns);
    table.set("environment_reward", sample.environment_reward);
  }
  push(L, table);
  guard_sample_fields(L);
}

double score_sample(lua_State* L, const LuaRef& function, const Sample& sample) {
  const StackGuard guard(L);
  function.push(L);
  push_sample(L, sample);
  protected_call(L, 1, 1);
  return read_number(L, lua_gettop(L), "the score");
}

struct SampleSettings {
  int64_t shown = 3;
  TextOptions text;
  // Scores a sample: a function, or 1 if the text contains the value of an extra column.
  std::optional<LuaRef> function;
  std::string column;
  bool converses = false;  // with the environment in the options

  bool scores() const { return function || !column.empty(); }
};

std::string column_text(const Sample& sample, const std::string& column) {
  const Json* value = sample.extra.find(column);
  if (value == nullptr || value->is_null()) return "";
  return value->is_string() ? value->as_string() : dump_json(*value);
}

double score_of(lua_State* L, const SampleSettings& settings, const Sample& sample) {
  if (sample.finish == "aborted") return 0;  // on_error = "zero"
  if (settings.function) return score_sample(L, *settings.function, sample);
  return holds_answer(sample.text, column_text(sample, settings.column)) ? 1 : 0;
}

// True if the set has the extra column. Without it the prompts are answered but not scored, which
// is reported.
bool has_column(RunLoop& run, const DataHandle& data, const std::string& column) {
  std::vector<std::string> names;
  for (const ExtraColumn& column : data.set.extra_columns()) names.push_back(column.name);
  if (std::find(names.begin(), names.end(), column) != names.end()) return true;
  run.session().console->say(fmt::format(
      "{}: answers are not scored; no row has the column \"{}\" that `score` names, or `keep` of "
      "the data does not name it{}",
      data.name, column, did_you_mean(column, names)));
  return false;
}

// Options of the configuration's `sampling` that run:sample has no use for. The table has their
// defaults, so only another value was asked for.
void refuse_rollout_options(const Options& options) {
  const auto refuse = [](const char* name) {
    throw Error(fmt::format(
        "{} is an option of policy:sample; run:sample answers each prompt once, for no training",
        name));
  };
  if (options.get<int64_t>("samples", kSamples) != kSamples) refuse("samples");
  if (options.get<std::string>("draws", "step") != "step") refuse("draws");
  if (options.get<bool>("replay_routes", false)) refuse("replay_routes");
}

SampleSettings read_sample_settings(RunLoop& run, lua_State* L, const DataHandle& data) {
  SampleSettings settings;
  settings.shown = std::max<int64_t>(opt_arg<int64_t>(L, 4, "shown").value_or(3), 0);
  const Options options(L, kSampleOptions);
  settings.text = read_sampling_options(L, options, /*temperature=*/0, run.seed());
  refuse_rollout_options(options);
  const GenerateOptions& generate = settings.text.generate;
  check_sampling(generate.sampling);
  check_stop_strings(settings.text.stop);
  settings.converses = has_environment(options);
  if (!options.has("score")) return settings;
  if (options.is_string("score")) {
    const std::string column = options.get<std::string>("score");
    if (settings.text.generate.max_new_tokens > 0 && has_column(run, data, column)) {
      settings.column = column;
    }
  } else {
    settings.function = options.get<LuaRef>("score");
  }
  return settings;
}

// Answers all prompts, or with random tokens (a null model) the first three.
std::vector<Sample> sample_answers(RunLoop& run, lua_State* L, Policy& policy, Model* model,
                                   const DataHandle& data, const SampleSettings& settings,
                                   const TextOptions& text) {
  constexpr int64_t kRandomAnswers = 3;
  if (settings.converses) {
    return converse_with_environment(L, kSampleOptions, policy, model, data,
                                     model == nullptr ? kRandomAnswers : data.set.size(), text);
  }
  if (model != nullptr) {
    return answer_prompts(*model, *policy.tokenizer(), data, text, session_ranks(L));
  }
  return random_samples(*policy.tokenizer(), data, kRandomAnswers, text.generate.max_new_tokens,
                        run.seed());
}

// A dry run has no weights to answer with: environment and score function get random answers, so
// that their errors show.
void score_stand_ins(RunLoop& run, lua_State* L, Policy& policy, const DataHandle& data,
                     const SampleSettings& settings) {
  if (!settings.function && !settings.converses) return;
  const std::vector<Sample> samples =
      sample_answers(run, L, policy, nullptr, data, settings, settings.text);
  for (const Sample& sample : samples) {
    if (settings.function) score_of(L, settings, sample);
  }
  run.session().notices.add(
      "run:sample gave random tokens, since no weights are loaded; its scores are of those");
}

// Samples, saves and prints; with max_tokens 0 there are no answers and no metrics.
Metrics answer(RunLoop& run, lua_State* L, Policy& policy, const DataHandle& data,
               const SampleSettings& settings) {
  TextOptions text = settings.text;
  if (text.generate.max_new_tokens < 1) return {};
  if (policy.is_replaced()) {
    score_stand_ins(run, L, policy, data, settings);
    return {};
  }
  const std::shared_ptr<Model> copy = host_model(L, policy);
  const int64_t most = text.generate.max_new_tokens * data.set.size();
  TaskProgress progress(*run.session().console, "answering " + data.name, "tokens");
  text.generate.progress = [&](int64_t tokens) {
    progress.update(tokens, most);
    return true;
  };
  std::vector<Sample> samples =
      sample_answers(run, L, policy, copy ? copy.get() : &policy.model(), data, settings, text);
  if (samples.empty()) return {};
  find_questions(samples, static_cast<size_t>(settings.shown), data, *policy.tokenizer());
  const auto count = static_cast<double>(samples.size());
  double length = 0, score = 0, turns = 0;
  for (const Sample& sample : samples) {
    length += static_cast<double>(sample.length);
    turns += static_cast<double>(sample.turns.size());
    if (settings.scores()) score += score_of(L, settings, sample);
  }
  Metrics metrics = {{"sample/length", length / count}};
  if (settings.scores()) metrics.emplace_back("sample/score", score / count);
  if (settings.converses) metrics.emplace_back("sample/turns", turns / count);
  std::string shown = from_first_rank(session_ranks(L), "the record of samples", [&] {
    return save_and_show(run.run().dir().path() / "samples", run.run().step(), samples,
                         static_cast<size_t>(settings.shown));
  });
  shown += fmt::format(
      "  {} at step {}: {:.1f} tokens on average",
      counted(std::ssize(samples),
              text.generate.sampling.temperature == 0 ? "greedy answer" : "sampled answer"),
      run.run().step(), length / count);
  if (settings.scores()) shown += fmt::format(", score {:.3f}", score / count);
  run.session().console->say(shown);
  return metrics;
}

// A set is measured in the windows and micro-batches that the run trains in.
Metrics measure(RunLoop& run, lua_State* L, const DataHandle& data, const Objective& objective,
                int64_t number) {
  EvaluateOptions options;
  int64_t total = 0;
  TaskProgress progress(*run.session().console, "evaluating " + data.name, "tokens");
  options.poll = [&](int64_t tokens) {
    check_stop(L);
    progress.update(tokens, total);
  };
  options.ranks = session_ranks(L);
  if (!run.policies().empty()) options.policy = run.policies()[0].get();
  options.seed = run.seed();
  options.step = run.run().step();
  options.number = number;
  options.extra = data.extra.get();
  options.device = run.device();
  const BatchSizes sizes = run.sizes().value_or(config_sizes(L));
  const DataSet set = cuts_windows(data.set.kind(), sizes) ? windows_of(data, sizes) : data.set;
  options.fold = sizes.fold;
  options.tokenizer = data.tokenizer();
  set.check_fits(pack_limits(sizes.max_tokens, sizes.fold));
  for (int64_t u = 0; u < set.size(); ++u) total += set.tokens(set.unit(u));
  try {
    return evaluate(set, sizes.max_tokens, objective, options);
  } catch (const NonFiniteLoss& error) {
    save_and_rethrow(run, data.set, error);
  }
}

// A set may be empty on purpose (a split by 0). One with rows should have been measured.
void say_unmeasured(RunLoop& run, const DataHandle& data, const std::string& prefix) {
  const int64_t rows = data.set.size();
  if (rows == 0) return;
  run.session().console->say(fmt::format(
      "{}: nothing was measured, no metrics: no trained token of its {} ({}{}) has a weight "
      "above 0; prompts without answers, labels of -100 and rows of weight 0 are not trained",
      prefix.substr(0, prefix.size() - 1), counted(rows, "row"),
      data.set.location(data.set.unit(0)), rows == 1 ? "" : ", ..."));
}

}  // namespace

int run_evaluate(RunLoop& run, lua_State* L) {
  const auto data = arg<std::shared_ptr<DataHandle>>(L, 2, "set");
  const Objective objective = lua_objective(L, 3);
  const std::string name = opt_arg<std::string>(L, 4, "name").value_or("");
  const std::string prefix = name.empty() ? "valid/" : "valid/" + name + "/";
  return push_measured(run, L, "evaluate " + name, [&](int64_t number) {
    const Metrics metrics = measure(run, L, *data, objective, number);
    if (metrics.empty()) say_unmeasured(run, *data, prefix);
    return with_prefix(metrics, prefix).values;
  });
}

int run_sample(RunLoop& run, lua_State* L) {
  const auto policy = arg<std::shared_ptr<Policy>>(L, 2, "policy");
  const auto data = arg<std::shared_ptr<DataHandle>>(L, 3, "set");
  const SampleSettings settings = read_sample_settings(run, L, *data);
  return push_measured(run, L, "sample " + data->name,
                       [&](int64_t) { return answer(run, L, *policy, *data, settings); });
}

int run_choices(RunLoop& run, lua_State* L) {
  const auto policy = arg<std::shared_ptr<Policy>>(L, 2, "policy");
  const auto data = arg<std::shared_ptr<DataHandle>>(L, 3, "set");
  const std::string name = opt_arg<std::string>(L, 4, "name").value_or("");
  const std::filesystem::path file = choices_file(run.run().dir().path(), name, run.run().step());
  return push_measured(run, L, "choices " + name, [&](int64_t) {
    return with_prefix(measure_choices(L, *policy, *data, file),
                       name.empty() ? "choices/" : "choices/" + name + "/")
        .values;
  });
}

}  // namespace xrun
