#pragma once
// Checks and describes, before step 0, the answers that a loop will sample: their number, their
// longest length, and whether they fit.

#include <cstdint>
#include <optional>
#include <string>

#include "core/config/config_field.h"
#include "core/rollout/group_queue.h"

namespace xrun {

class DataSet;

// The sampling options that decide the size of a step.
struct PlannedAnswers {
  int64_t samples = kSamples;          // of a prompt
  int64_t max_tokens = kAnswerTokens;  // of an answer, or of one turn of a conversation
  double temperature = 1;
  int64_t turns = 1;  // of the policy in a conversation, at most

  // The most tokens that the policy samples after a prompt. A conversation also holds the messages
  // of its environment, whose length is not known beforehand.
  int64_t tokens() const { return max_tokens * turns; }
};

// Returns the answers that a table `sampling` of the configuration asks for: conversations if it
// has max_turns. Returns nothing for counts below 1, which policy:sample refuses.
std::optional<PlannedAnswers> planned_answers(const Json& sampling);

// Limits in tokens.
struct AnswerRoom {
  int64_t max_tokens = 0;    // of an answer
  int64_t batch_tokens = 0;  // batch.max_tokens; 0: none
  int64_t model_tokens = 0;  // of prompt and answer; the model may end an answer early; 0: none
};

// Throws Error that names the prompt and the fix if a prompt is empty, if the model has no room for
// one token of an answer, or if the longest answer does not fit a micro-batch.
//   where           "prompts.jsonl:17"
//   longest_prompt  tokens of another prompt that the proposed limit must fit too; 0: none
void check_room(const std::string& where, int64_t prompt_tokens, const AnswerRoom& room,
                int64_t longest_prompt = 0);

// Checks every prompt of a set as above. Reads the lengths of all rows, and the tokens of long
// ones.
void check_room(const DataSet& set, const AnswerRoom& room);

// Returns "8 groups x 4 samples = 32 answers a step, at most 24 tokens each, at temperature 1;
// ..."; for conversations "at most 3 turns of 24 tokens each".
//   queue  options of xrun.rollouts; null: a loop over prompts
std::string describe_answers(const PlannedAnswers& answers, int64_t prompts,
                             const GroupQueueOptions* queue);

}  // namespace xrun
