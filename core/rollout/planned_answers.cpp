// An answer fits if min(prompt + max_tokens, the model's limit) <= batch.max_tokens.

#include "core/rollout/planned_answers.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/data/packs/data_set.h"

namespace xrun {

namespace {

// "raise it to 35, lower max_tokens of the sampling, or leave longer prompts out: ..."
std::string room_fix(int64_t wanted, const AnswerRoom& room) {
  std::string text =
      fmt::format("raise it to {}, or lower max_tokens of the sampling", count_text(wanted));
  const int64_t longest = room.batch_tokens - room.max_tokens;
  if (longest > 0) {
    text += fmt::format("; max_length = {} with over_length = \"drop\" leaves such prompts out",
                        longest);
  }
  return text;
}

int64_t longest_prompt(const DataSet& set) {
  int64_t longest = 0;
  for (int64_t row = 0; row < set.total_rows(); ++row) {
    // A row's length is an upper bound: it may have an answer.
    if (set.unit_tokens(row) <= longest) continue;
    longest = std::max<int64_t>(longest, std::ssize(set.prompt_ids(row)));
  }
  return longest;
}

}  // namespace

std::optional<PlannedAnswers> planned_answers(const Json& sampling) {
  if (!sampling.is_object()) return std::nullopt;
  PlannedAnswers answers;
  const auto read = [&](const char* key, auto& value) {
    const Json* found = sampling.find(key);
    if (found != nullptr && found->is_number()) {
      value = static_cast<std::remove_reference_t<decltype(value)>>(found->as_double());
    }
  };
  read("samples", answers.samples);
  read("max_tokens", answers.max_tokens);
  read("temperature", answers.temperature);
  read("max_turns", answers.turns);
  // Values that the sampler refuses later, with a message.
  if (answers.samples < 1 || answers.max_tokens < 1 || answers.turns < 1) return std::nullopt;
  return answers;
}

void check_room(const std::string& where, int64_t prompt_tokens, const AnswerRoom& room,
                int64_t longest_prompt) {
  XRUN_CHECK(prompt_tokens > 0, "{}: the prompt is empty", where);
  XRUN_CHECK(room.model_tokens == 0 || prompt_tokens < room.model_tokens,
             "{}: the prompt has {} tokens, which leaves none of the model's {} for an answer; "
             "shorten it, or leave such prompts out: max_length = {} with over_length = \"drop\"",
             where, count_text(prompt_tokens), count_text(room.model_tokens),
             room.model_tokens - 1);
  // min(prompt + max_tokens, the model's limit).
  const auto with_answer = [&room](int64_t prompt) {
    const int64_t tokens = prompt + room.max_tokens;
    return room.model_tokens > 0 ? std::min(tokens, room.model_tokens) : tokens;
  };
  XRUN_CHECK(room.batch_tokens == 0 || with_answer(prompt_tokens) <= room.batch_tokens,
             "{}: a prompt of {} tokens and max_tokens = {} of an answer exceed batch.max_tokens "
             "= {}; {}",
             where, count_text(prompt_tokens), count_text(room.max_tokens),
             count_text(room.batch_tokens),
             room_fix(with_answer(std::max(prompt_tokens, longest_prompt)), room));
}

void check_room(const DataSet& set, const AnswerRoom& room) {
  // Rows up to this length fit whatever they contain, so their tokens are not read.
  int64_t max_prompt = room.batch_tokens > 0 ? room.batch_tokens - room.max_tokens
                                             : std::numeric_limits<int64_t>::max();
  if (room.model_tokens > 0) max_prompt = std::min(max_prompt, room.model_tokens - 1);
  for (int64_t i = 0; i < set.size(); ++i) {
    const int64_t row = set.unit(i);
    // A row's length is an upper bound: it may have an answer.
    const int64_t length = set.unit_tokens(row);
    if (length > 0 && length <= max_prompt) continue;
    const int64_t tokens = std::ssize(set.prompt_ids(row));
    try {
      check_room(set.location(row), tokens, room);
    } catch (const Error&) {
      // Thrown again, with a limit that fits every prompt.
      check_room(set.location(row), tokens, room, longest_prompt(set));
    }
  }
}

std::string describe_answers(const PlannedAnswers& answers, int64_t prompts,
                             const GroupQueueOptions* queue) {
  std::string longest = counted(answers.max_tokens, "token");
  if (answers.turns > 1) longest = fmt::format("{} turns of {}", answers.turns, longest);
  std::string text = fmt::format(
      "{} x {} = {} a step, at most {} each, at temperature {:g}",
      counted(prompts, queue != nullptr ? "group" : "prompt"), counted(answers.samples, "sample"),
      counted(prompts * answers.samples, "answer"), longest, answers.temperature);
  if (queue == nullptr) return text;
  text += fmt::format("; prompts are drawn until {} have rewards that deviate by more than {:g}",
                      counted(prompts, "group"), queue->eps);
  if (queue->depth > 0) {
    text += fmt::format("; sampled {} ahead, so their weights are older",
                        counted(queue->depth, "step"));
  }
  return text;
}

}  // namespace xrun
