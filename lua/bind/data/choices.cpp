// An answer is right if no choice has a higher score and no earlier one the same score.

#include "lua/bind/data/choices.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/strings.h"
#include "core/base/utf8.h"
#include "core/console/terminal/progress.h"
#include "core/data/rows/choice_rows.h"
#include "core/dist/agreement.h"
#include "core/dist/rank_message.h"
#include "core/dist/ranks.h"
#include "core/model/model.h"
#include "core/model/weights/hf_config.h"
#include "core/rollout/choices.h"
#include "core/run/checkpoint.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/models/policy.h"
#include "lua/bind/decoding_model.h"
#include "lua/bind/session.h"
#include "lua/state/error_report.h"
#include "lua/state/lua_state.h"
#include "lua/state/outside_error.h"

namespace xrun {

namespace {

constexpr int64_t kQuestions = 64;        // between two updates of the progress line
constexpr size_t kShownChoice = 60;       // bytes of a choice in an error
constexpr const char* kPlainCharacters =  // in a name that becomes a folder
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

void check_columns(const DataHandle& data) {
  const std::vector<ExtraColumn>& columns = data.set.extra_columns();
  for (const char* const name : kChoiceColumns) {
    const bool found = std::any_of(columns.begin(), columns.end(),
                                   [&](const ExtraColumn& column) { return column.name == name; });
    XRUN_CHECK(found, "{}: its rows have no {}; open the questions with xrun.choices", data.name,
               name);
  }
}

ChoiceQuestion question_of(const DataSet& set, int64_t row, const Tokenizer& tokenizer,
                           int64_t limit) {
  ChoiceQuestion question{set.prompt_ids(row), {}, {}};
  for (const std::string& text : choice_texts(set.extra_string(row, "choices"))) {
    // Encoded alone: all choices then continue the same prompt tokens.
    question.choices.push_back(tokenizer.encode(text).ids);
    question.bytes.push_back(std::ssize(text));
    const int64_t tokens = std::ssize(question.choices.back());
    const int64_t length = std::ssize(question.prompt) + tokens;
    XRUN_CHECK(tokens > 0, "{}: the choice \"{}\" has no tokens", set.location(row), text);
    XRUN_CHECK(length <= limit,
               "{}: prompt and choice \"{}\" have {} tokens, the model's limit is {}; shorten the "
               "question{}",
               set.location(row), shortened(text, kShownChoice), count_text(length),
               count_text(limit),
               tokens >= limit ? std::string()
                               : fmt::format(", or leave it out: max_length = {} with over_length "
                                             "= \"drop\" drops longer prompts",
                                             limit - tokens));
  }
  return question;
}

// The scores of questions, which ranks (null: one process) share.
std::vector<std::vector<ChoiceScore>> score_shared(Model& model,
                                                   const std::vector<ChoiceQuestion>& questions,
                                                   const ChoiceOptions& options, Ranks* ranks) {
  if (ranks == nullptr) return score_choices(model, questions, options);
  const auto size = static_cast<size_t>(ranks->size());
  const auto messages = gather_results(ranks, "scores of choices", [&] {
    std::vector<ChoiceQuestion> own;
    for (auto q = static_cast<size_t>(ranks->rank()); q < questions.size(); q += size) {
      own.push_back(questions[q]);
    }
    MessageWriter out;
    for (const auto& scores : score_choices(model, own, options)) {
      for (const ChoiceScore& score : scores) {
        out.float64(score.sum).float64(score.mean).float64(score.per_byte).list(score.logprobs);
      }
    }
    return out.take();
  });
  std::vector<std::vector<ChoiceScore>> all(questions.size());
  for (size_t rank = 0; rank < size; ++rank) {
    MessageReader in(messages[rank]);
    for (size_t q = rank; q < questions.size(); q += size) {
      for (size_t c = 0; c < questions[q].choices.size(); ++c) {
        ChoiceScore& score = all[q].emplace_back();
        score.sum = in.float64();
        score.mean = in.float64();
        score.per_byte = in.float64();
        score.logprobs = in.list<float>();
      }
    }
  }
  return all;
}

// The ways to compare choices, by the names of metrics and records.
struct ChoiceOrder {
  const char *name, *metric;
  double ChoiceScore::*score;
};
constexpr ChoiceOrder kChoiceOrders[] = {{"sum", "accuracy", &ChoiceScore::sum},
                                         {"mean", "accuracy_mean", &ChoiceScore::mean},
                                         {"byte", "accuracy_byte", &ChoiceScore::per_byte}};

// The index of the highest score, the first of equal ones.
int64_t best_choice(const std::vector<ChoiceScore>& scores, const ChoiceOrder& order) {
  const auto best = std::max_element(
      scores.begin(), scores.end(),
      [&](const ChoiceScore& a, const ChoiceScore& b) { return a.*order.score < b.*order.score; });
  return best - scores.begin();
}

// The record of a question.
Json question_json(const DataSet& set, int64_t row, const Tokenizer& tokenizer,
                   const std::vector<ChoiceScore>& scores) {
  const std::vector<std::string> texts = choice_texts(set.extra_string(row, "choices"));
  Json choices = Json::array(), best = Json::object();
  for (size_t c = 0; c < scores.size(); ++c) {
    Json choice(Json::Object{{"text", texts[c]}, {"tokens", std::ssize(scores[c].logprobs)}});
    for (const ChoiceOrder& order : kChoiceOrders) choice.set(order.name, scores[c].*order.score);
    choices.push_back(std::move(choice));
  }
  for (const ChoiceOrder& order : kChoiceOrders) best.set(order.name, best_choice(scores, order));
  return Json(Json::Object{{"row", row},
                           {"prompt", tokenizer.decode(set.prompt_ids(row), true)},
                           {"answer", static_cast<int64_t>(set.extra_number(row, "answer"))},
                           {"best", std::move(best)},
                           {"choices", std::move(choices)}});
}

}  // namespace

void check_choices_fit(lua_State* L, const DataHandle& data) {
  const int64_t limit = read_model_config(data.policy->dir()).max_length;
  TaskProgress progress(*session_of(L).console, "reading " + data.name, "questions");
  for (int64_t i = 0; i < data.set.size(); ++i) {
    if (i % kQuestions == 0) {
      check_interrupt(L);
      progress.update(i, data.set.size());
    }
    question_of(data.set, data.set.unit(i), *data.policy->tokenizer(), limit);
  }
}

std::filesystem::path choices_file(const std::filesystem::path& run_dir, const std::string& name,
                                   int64_t step) {
  std::filesystem::path dir = run_dir / "choices";
  // Names are the recipe's, and a recipe may be anybody's: none leads out of the run's folder.
  for (size_t at = 0; !name.empty() && at <= name.size();) {
    const size_t end = std::min(name.find('/', at), name.size());
    const std::string part = name.substr(at, end - at);
    XRUN_CHECK(!part.empty() && part[0] != '.' &&
                   part.find_first_not_of(kPlainCharacters) == std::string::npos,
               "run:choices: \"{}\" cannot be a folder name: use letters, digits, _, -, . and "
               "single slashes, and no dot in front",
               name);
    dir /= part;
    at = end + 1;
  }
  return dir / (checkpoint_name(step) + ".jsonl");
}

Metrics measure_choices(lua_State* L, Policy& policy, const DataHandle& data,
                        const std::filesystem::path& file) {
  const DataSet& set = data.set;
  check_columns(data);
  if (set.size() == 0) return {};
  const std::shared_ptr<Model> decoding = decoding_model(L, policy);
  if (decoding == nullptr) return {};  // random tokens would measure nothing
  Model& model = *decoding;
  TaskProgress progress(*session_of(L).console, "choosing " + data.name, "questions");
  const ChoiceOptions options{.poll = [L] { check_stop(L); }};
  Ranks* const ranks = session_ranks(L);
  std::array<int64_t, std::size(kChoiceOrders)> right{};
  std::string lines;
  for (int64_t begin = 0; begin < set.size(); begin += kQuestions) {
    progress.update(begin, set.size());
    const int64_t end = std::min(set.size(), begin + kQuestions);
    std::vector<ChoiceQuestion> questions;
    for (int64_t i = begin; i < end; ++i) {
      questions.push_back(
          question_of(set, set.unit(i), *policy.tokenizer(), model.config().max_length));
    }
    const auto scores = score_shared(model, questions, options, ranks);
    for (int64_t i = begin; i < end; ++i) {
      const std::vector<ChoiceScore>& one = scores[static_cast<size_t>(i - begin)];
      const auto answer = static_cast<int64_t>(set.extra_number(set.unit(i), "answer"));
      for (size_t o = 0; o < right.size(); ++o) {
        right[o] += best_choice(one, kChoiceOrders[o]) == answer ? 1 : 0;
      }
      lines += dump_json(question_json(set, set.unit(i), *policy.tokenizer(), one)) + "\n";
    }
  }
  on_first_rank(ranks, "the record of choices", [&] {
    outside_recipe([&] {
      make_dirs(file.parent_path());
      write_file_atomic(file, lines);
    });
  });
  Metrics metrics;
  for (size_t o = 0; o < right.size(); ++o) {
    metrics.emplace_back(kChoiceOrders[o].metric,
                         static_cast<double>(right[o]) / static_cast<double>(set.size()));
  }
  return metrics;
}

}  // namespace xrun
