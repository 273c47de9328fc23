#pragma once
// Aligns sampled answers with the tokens of a teacher that has another tokenizer.

#include <memory>

#include "core/align/retokenizer.h"
#include "core/rollout/rollouts.h"
#include "core/text/chat/chat_template.h"

namespace xrun {

// The tokenizers of student and teacher, and the teacher's own chat template.
struct AnswerTeacher {
  std::shared_ptr<const Retokenizer> retokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;
  int workers = 0;  // threads that align; 0: one per core
};

// Returns the same rollouts, with every field, as a batch with companions. The teacher reads the
// conversation of each prompt in its own template, then the bytes of the sampled tokens in its own
// tokens: sampled ids need not be those that the student's tokenizer would choose. The token that
// ended a turn pairs with the end of a turn in the teacher's template. There are no chunks of
// prompts, of an environment's messages, or of tokens beyond retokenizer->limit(), which the
// teacher cannot read. Throws Error if the rollouts lack the prompts of a data set, or if the
// template refuses a prompt or an environment's messages; the message then names the row.
std::shared_ptr<Rollouts> align_rollouts(const Rollouts& rollouts, const AnswerTeacher& teacher);

// Returns the same rollouts for a teacher with the student's vocabulary: each trained token is a
// chunk.
std::shared_ptr<Rollouts> with_row_chunks(const Rollouts& rollouts);

}  // namespace xrun
