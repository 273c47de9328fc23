// The answer counts if no choice has a higher score and none before it an equal one.

#include "lua/bind/choices.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/console/terminal/progress.h"
#include "core/data/rows/choice_rows.h"
#include "core/model/model.h"
#include "core/rollout/choices.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/policy.h"
#include "lua/bind/samples.h"
#include "lua/bind/session.h"
#include "lua/state/lua_state.h"

namespace xrun {

namespace {

constexpr int64_t kQuestions = 64;  // between two looks at signals and the progress line

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
    question.choices.push_back(tokenizer.encode(text).ids);
    question.bytes.push_back(std::ssize(text));
    const int64_t length = std::ssize(question.prompt) + std::ssize(question.choices.back());
    XRUN_CHECK(!question.choices.back().empty(), "{}: the choice \"{}\" has no tokens",
               set.location(row), text);
    XRUN_CHECK(length <= limit,
               "{}: prompt and choice \"{}\" have {} tokens, the model's limit is {}",
               set.location(row), text, count_text(length), count_text(limit));
  }
  return question;
}

// The index of the highest score, the first of equal ones.
template <typename Score>
int64_t best_choice(const std::vector<ChoiceScore>& scores, const Score& score) {
  const auto best = std::max_element(
      scores.begin(), scores.end(),
      [&](const ChoiceScore& a, const ChoiceScore& b) { return score(a) < score(b); });
  return best - scores.begin();
}

}  // namespace

Metrics measure_choices(lua_State* L, Policy& policy, const DataHandle& data) {
  const DataSet& set = data.set;
  check_columns(data);
  if (set.size() == 0 || policy.is_replaced()) return {};
  const std::shared_ptr<Model> copy = host_model(L, policy);
  Model& model = copy ? *copy : policy.model();
  TaskProgress progress(*session_of(L).console, "choosing " + data.name, "questions");
  int64_t by_sum = 0, by_mean = 0, by_byte = 0;
  for (int64_t begin = 0; begin < set.size(); begin += kQuestions) {
    check_interrupt(L);
    progress.update(begin, set.size());
    const int64_t end = std::min(set.size(), begin + kQuestions);
    std::vector<ChoiceQuestion> questions;
    for (int64_t i = begin; i < end; ++i) {
      questions.push_back(
          question_of(set, set.unit(i), *policy.tokenizer(), model.config().max_length));
    }
    const auto scores = score_choices(model, questions);
    for (int64_t i = begin; i < end; ++i) {
      const std::vector<ChoiceScore>& one = scores[static_cast<size_t>(i - begin)];
      const auto answer = static_cast<int64_t>(set.extra_number(set.unit(i), "answer"));
      by_sum += best_choice(one, [](const ChoiceScore& s) { return s.sum; }) == answer;
      by_mean += best_choice(one, [](const ChoiceScore& s) { return s.mean; }) == answer;
      by_byte += best_choice(one, [](const ChoiceScore& s) { return s.per_byte; }) == answer;
    }
  }
  const auto share = [&](int64_t right) {
    return static_cast<double>(right) / static_cast<double>(set.size());
  };
  return {{"accuracy", share(by_sum)},
          {"accuracy_mean", share(by_mean)},
          {"accuracy_byte", share(by_byte)}};
}

}  // namespace xrun
