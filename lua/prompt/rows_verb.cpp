// The verb rows: the rows on which an objective has its highest loss or lowest metric, and the
// sampled answers with the lowest reward, as text.

#include <algorithm>
#include <utility>

#include "core/console/inspect/rollout_text.h"
#include "core/console/terminal/progress.h"
#include "core/console/terminal/shown_text.h"
#include "core/rollout/rollout_log.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/batches/batch.h"
#include "core/train/evaluate.h"
#include "core/train/models/policy.h"
#include "core/train/worst_rows.h"
#include "lua/bind/objective.h"
#include "lua/bind/run/run_loop.h"
#include "lua/prompt/paused_run.h"
#include "lua/prompt/prompt_verbs.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

// Returns the start of the first word in which two answers differ; 0 if they are equal, or differ
// on the first line, where a reader sees it anyway.
size_t differing_word(const std::string& a, const std::string& b, size_t line) {
  const auto [end, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const size_t same = static_cast<size_t>(end - a.begin());
  if (same < line || (end == a.end() && other == b.end())) return 0;
  // line > 0, so `same - 1` is a position.
  const size_t blank = a.rfind(' ', same - 1);
  return blank == std::string::npos || blank < line ? 0 : blank + 1;
}

std::string row_text(const WorstRow& row, int width) {
  const bool pair = !row.rejected.empty();
  const size_t from =
      pair ? differing_word(row.text, row.rejected, static_cast<size_t>(std::max(20, width - 14)))
           : 0;
  const auto answer = [&](const std::string& text) {
    return (from == 0 ? "" : "…") + one_paragraph(text.substr(std::min(from, text.size())));
  };
  std::string out = fmt::format("\n{}  {}", format_metric(row.value), shown_text(row.row));
  out += labelled_text("prompt", one_paragraph(row.prompt), width, true);
  out += labelled_text(pair ? "chosen" : "answer", answer(row.text), width, false);
  if (pair) out += labelled_text("rejected", answer(row.rejected), width, false);
  return out;
}

// Pushes a list of { value, row, prompt, text, rejected } that prints as text under a title.
void push_rows(lua_State* L, const std::vector<WorstRow>& rows, const std::string& title) {
  const int width = session_of(L).console->traits().width;
  std::string text = title;
  lua_createtable(L, static_cast<int>(rows.size()), 0);
  int i = 0;
  for (const WorstRow& row : rows) {
    lua_createtable(L, 0, 5);
    set_field(L, "value", row.value);
    for (const auto& [name, value] :
         {std::pair("row", &row.row), std::pair("prompt", &row.prompt),
          std::pair("text", &row.text), std::pair("rejected", &row.rejected)}) {
      set_field(L, name, *value);
    }
    lua_rawseti(L, -2, ++i);
    text += row_text(row, width);
  }
  show_as(L, std::move(text));
}

// ---- sampled answers

// Returns the rollouts of the open body, else of the latest; empty before any were sampled.
RolloutList latest_rollouts(const Session& session) {
  const auto& open = session.rollouts != nullptr ? session.rollouts : session.last_rollouts;
  return open == nullptr ? RolloutList{} : open->all;
}

// Converts a rollout to the form of the files, so that one function shows both.
RecordedRollout recorded(const Rollout& one) {
  return {.row = one.row,
          .location = one.location,
          .group = one.prompt,
          .sample = one.sample,
          .length = std::ssize(one.logprobs),
          .prompt = one.prompt_text,
          .text = one.text,
          .finish = one.finish,
          .reward = one.reward,
          .advantage = one.advantage,
          .parts = one.parts,
          .trained = one.trained};
}

void push_answer(lua_State* L, const RecordedRollout& one) {
  lua_createtable(L, 0, 10);
  set_field(L, "row", one.row);
  set_field(L, "group", one.group);
  set_field(L, "sample", one.sample);
  set_field(L, "length", one.length);
  set_field(L, "prompt", one.prompt);
  set_field(L, "text", one.text);
  set_field(L, "finish", one.finish);
  if (one.reward) set_field(L, "reward", *one.reward);
  if (one.advantage) set_field(L, "advantage", *one.advantage);
  lua_createtable(L, 0, static_cast<int>(one.parts.size()));
  for (const auto& [name, value] : one.parts) {
    set_field(L, name.c_str(), value);
  }
  lua_setfield(L, -2, "parts");
}

// Pushes the n answers with the lowest (or highest) value of `by`; false if no answer has one.
bool push_answers(lua_State* L, const Options& options, const std::string& by, int64_t most) {
  const Session& session = paused_run_of(L).pause().run->session();
  std::vector<RecordedRollout> answers;
  const auto group = options.find<int64_t>("group");
  for (const auto& one : latest_rollouts(session)) {
    if (!group || one->prompt == *group) answers.push_back(recorded(*one));
  }
  if (std::none_of(answers.begin(), answers.end(),
                   [&](const RecordedRollout& one) { return one.value(by).has_value(); })) {
    return false;
  }
  const bool highest = options.get<bool>("highest", false);
  const std::vector<size_t> order = ordered_by(answers, by, highest);
  const int width = session_of(L).console->traits().width;
  std::string text = fmt::format("{} of {} sampled answers, the {} first", by, answers.size(),
                                 highest ? "highest" : "lowest");
  lua_newtable(L);
  for (size_t i = 0; i < std::min(order.size(), static_cast<size_t>(most)); ++i) {
    push_answer(L, answers[order[i]]);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
    text += rollout_text(answers[order[i]], width);
  }
  show_as(L, std::move(text));
  return true;
}

// ---- the verb

// rows{ by = "margin", n = 10, of = valid, objective = dpo, highest = false }
int show_rows(lua_State* L) {
  PausedRun& paused = paused_run_of(L);
  const Options options(L, 1);
  const std::string by = options.get<std::string>("by");
  const int64_t most = options.get<int64_t>("n");
  XRUN_CHECK(most > 0, "n is {}, wanted a number of rows above 0", most);
  // `by` may be a value of the sampled answers, which need no objective.
  if (!options.has("objective") && !options.has("of") && push_answers(L, options, by, most)) {
    return 1;
  }
  XRUN_CHECK(!options.has("group"),
             "`group` is for sampled answers: no answer of that group has a {} yet; step() samples",
             by);
  paused.begin_loop();
  const LoopPause& at = paused.pause();
  std::string name;
  options.has("objective") ? options.push_value("objective") : push_objective(L, paused, &name);
  const Objective objective = lua_objective(L, lua_gettop(L), "objective");
  auto data = at.loop->sources.front().data;
  if (options.has("of")) data = options.get<std::shared_ptr<DataHandle>>("of");
  const Tokenizer* tokenizer = data->policy == nullptr ? nullptr : data->policy->tokenizer().get();
  // High losses are suspicious, and low margins and rewards.
  const bool highest = options.get<bool>("highest", by == "loss");
  WorstRows rows(by, most, highest, tokenizer);
  const Objective listing = [&](MicroBatch& micro) {
    ObjectiveResult result = objective(micro);
    check_result(result, micro);
    rows.add(result, micro);
    return result;
  };
  TaskProgress progress(*paused.session().console, "scoring rows", "rows");
  EvaluateOptions evaluation;
  evaluation.poll = [&](int64_t) {
    check_interrupt(L);
    progress.update(rows.seen(), options.has("of") ? data->set.size() : 0);
  };
  evaluation.seed = at.run->seed();
  evaluation.step = at.step;
  evaluation.device = at.run->device();
  if (options.has("of")) {
    evaluation.extra = data->extra.get();
    data->set.check_fits(at.loop->max_tokens);
    evaluate(data->set, at.loop->max_tokens, listing, evaluation);
  } else {
    std::shared_ptr<Batch> batch = paused.batch();
    // evaluate asks until it gets null; there is one batch.
    evaluate([&] { return std::exchange(batch, nullptr); }, listing, evaluation);
  }
  push_rows(L, rows.rows(),
            fmt::format("{}{} of {} rows, the {} first", by, name.empty() ? "" : " of " + name,
                        rows.seen(), highest ? "highest" : "lowest"));
  return 1;
}

}  // namespace

PromptVerb rows_verb() {
  return {
      "rows",
      {{"options?",
        "table",
        {{"by", "string", "loss"},
         {"n", "integer", 10},
         {"of", "DataSet"},
         {"objective", "function"},
         {"highest", "boolean"},
         {"group", "integer"}}}},
      {"table"},
      "The n rows of the current batch, or of the set `of`, with the lowest value of `by`, a "
      "metric of the objective, or with the highest loss (the default). `highest` reverses the "
      "order. Each is { value, row, prompt, text, rejected }: file and line, the end of the "
      "prompt, the first trained tokens of the answer or of both. With by = \"reward\", "
      "\"advantage\", \"length\" or a part of the reward: the answers that the last body sampled, "
      "of one group if `group` is given.",
      show_rows};
}

}  // namespace xrun
