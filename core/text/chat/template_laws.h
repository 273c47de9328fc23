#pragma once
// Laws that a chat template must keep before anything is trained through it, checked on sample
// rows.
//
//   bos             the tokens start with exactly the BOS that the tokenizer's own encoding would
//                   add, never two; a BOS that is also a turn marker is exempt
//   eot_trained     every generation block ends a turn (turn_end.h): its last non-space token is a
//                   special one or EOS, or the template writes none at all
//   prefix          the messages before each assistant turn render as a prefix of the whole, alone
//                   or with the generation prompt
//   mask_not_empty  something is trained
//   shared_prompt   the messages that chosen and rejected share render the same on both sides, in
//                   text and in tokens
//   tool_calls      the calls of a message are rendered; looked at row by row, where rows are
//                   encoded: what breaks it is a bad row, not a bad template

#include <span>
#include <string>
#include <vector>

#include "core/text/chat/chat_template.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// A row to check: a conversation, or the two sides of a pair.
struct LawSample {
  std::string where;  // "pairs.jsonl:17"
  Json messages;      // the conversation, or the chosen side
  Json rejected;      // null for a conversation
  Json kwargs;        // null for none
};

struct LawBreach {
  std::string law;
  std::string where;    // the first sample that breaks it
  int64_t samples = 0;  // how many do
  std::string message;  // what, got, wanted, way out; several lines with a diff
};

inline constexpr const char* kToolCallsLaw = "tool_calls";

const std::vector<std::string>& law_names();

// Throws Error with the nearest name if one of `names` is no law.
void require_law_names(const std::vector<std::string>& names);

// Returns one breach for each broken law, in the order of law_names(); laws in `disabled` are not
// looked at. A sample that does not render is left out: it is a bad row, not a bad template.
// Throws Error if `disabled` holds a name that is no law.
std::vector<LawBreach> check_laws(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                                  std::span<const LawSample> samples,
                                  const std::vector<std::string>& disabled = {});

}  // namespace xrun
