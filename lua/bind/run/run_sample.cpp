// run:sample: answers to the prompts of a set, written to the run, shown and scored.

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/config/config_field.h"
#include "core/console/terminal/progress.h"
#include "core/dist/agreement.h"
#include "core/model/model.h"
#include "core/rollout/answer_text.h"
#include "core/train/models/policy.h"
#include "lua/bind/decoding_model.h"
#include "lua/bind/rollout/environments.h"
#include "lua/bind/rollout/reward_call.h"
#include "lua/bind/rollout/sample_table.h"
#include "lua/bind/rollout/samples.h"
#include "lua/bind/run/run_loop.h"
#include "lua/state/args.h"
#include "lua/state/interruption.h"

namespace xrun {

namespace {

constexpr int kSampleOptions = 5;  // argument of run:sample
constexpr double kSlowScoreS = 30;

std::string slow_score_text(const std::string& where) {
  return fmt::format(
      "the score function has run for {} s on one answer, now at {}; Ctrl-C stops it", kSlowScoreS,
      where);
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
  if (table.find("index") == nullptr) table.set("index", int64_t{0});  // one answer per prompt
  // One answer per prompt makes a group.
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
  guard_sample_fields(L, session_of(L).data.ledger);
}

// A score has no deadline, since the run cannot go on without it: after kSlowScoreS the console
// names the line that runs.
double score_sample(lua_State* L, const LuaRef& function, const Sample& sample,
                    const std::string& location) {
  const StackGuard guard(L);
  function.push(L);
  push_sample(L, sample);
  {
    const LuaDeadline slow(L, kSlowScoreS, LuaDeadline::Clock::kWall, [&](const std::string& line) {
      session_of(L).console->print_escaped(
          slow_score_text(line.empty() ? location : line + ", for " + location));
    });
    protected_call(L, 1, 1);
  }
  Reward reward;
  const double score = read_reward_value(L, lua_gettop(L), "the score", reward);
  XRUN_CHECK(reward.failure.empty(), "{}: the score failed: {}\n  prompt: {}\n  answer: {}",
             location, reward.failure, shown_start(sample.prompt), shown_start(sample.text));
  return score;
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

double score_of(lua_State* L, const SampleSettings& settings, const DataHandle& data,
                const Sample& sample) {
  if (sample.finish == "aborted") return 0;  // on_error = "zero"
  if (settings.function) {
    return score_sample(L, *settings.function, sample, data.set.location(sample.row));
  }
  return holds_answer(sample.text, column_text(sample, settings.column)) ? 1 : 0;
}

// Returns true if the set has the extra column. Without it the prompts are answered but not scored,
// which is reported.
bool has_column(RunLoop& run, const DataHandle& data, const std::string& column) {
  std::vector<std::string> names;
  for (const ExtraColumn& column : data.set.extra_columns()) names.push_back(column.name);
  if (std::find(names.begin(), names.end(), column) != names.end()) return true;
  run.session().console->print_escaped(fmt::format(
      "{}: answers are not scored; no row has the column \"{}\" that `score` names, or `keep` of "
      "the data does not name it{}",
      data.name, column, did_you_mean(column, names)));
  return false;
}

// Refuses options of the configuration's `sampling` that run:sample has no use for. The
// configuration has their defaults, so only another value was asked for.
void refuse_rollout_options(const Options& options) {
  const auto refuse = [](const char* name) {
    throw UsageError(fmt::format(
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
    const int64_t count = model == nullptr ? kRandomAnswers : data.set.size();
    return converse_with_environment(L, kSampleOptions, {policy, model, data, count, text});
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
    if (settings.function) score_of(L, settings, data, sample);
  }
  run.session().notices.add(
      "run:sample gave random tokens, since no weights are loaded; its scores are for those");
}

// Samples, saves and prints; with max_tokens 0 there are no answers and no metrics.
Metrics answer(RunLoop& run, lua_State* L, Policy& policy, const DataHandle& data,
               const SampleSettings& settings) {
  TextOptions text = settings.text;
  if (text.generate.max_new_tokens < 1) return {};
  const std::shared_ptr<Model> model = decoding_model(L, policy);
  if (model == nullptr) {
    score_stand_ins(run, L, policy, data, settings);
    return {};
  }
  const int64_t most = text.generate.max_new_tokens * data.set.size();
  TaskProgress progress(*run.session().console, "answering " + data.name, "tokens");
  text.generate.progress = [&](int64_t tokens) {
    progress.update(tokens, most);
    return true;
  };
  std::vector<Sample> samples = sample_answers(run, L, policy, model.get(), data, settings, text);
  if (samples.empty()) return {};
  find_questions(samples, static_cast<size_t>(settings.shown), data, *policy.tokenizer());
  const auto count = static_cast<double>(samples.size());
  double length = 0, score = 0, turns = 0;
  for (const Sample& sample : samples) {
    length += static_cast<double>(sample.length);
    turns += static_cast<double>(sample.turns.size());
    if (settings.scores()) score += score_of(L, settings, data, sample);
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
  run.session().console->print_escaped(shown);
  return metrics;
}

}  // namespace

int run_sample(RunLoop& run, lua_State* L) {
  const auto policy = arg<std::shared_ptr<Policy>>(L, 2, "policy");
  const auto data = arg<std::shared_ptr<DataHandle>>(L, 3, "set");
  const SampleSettings settings = read_sample_settings(run, L, *data);
  return push_measured(run, L, "sample " + data->name,
                       [&](int64_t) { return answer(run, L, *policy, *data, settings); });
}

}  // namespace xrun
