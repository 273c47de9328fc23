#pragma once
// Laws that a chat template must obey before it is used for training, checked on sample rows.
//
//   bos             the tokens start with exactly the BOS that the tokenizer's own encoding would
//                   add, never two; a BOS that is also a turn marker is exempt
//   eot_trained     every generation block ends a turn. Its last non-space token is special or EOS;
//                   if the template writes no special token but BOS, its own text will do. A block
//                   that another block follows at once ends there (GLM-4 ends an answer with the
//                   head of the next turn); the last block of such a conversation is exempt.
//   prefix          the messages before each assistant turn render as a prefix of the whole, alone
//                   or with the generation prompt
//   mask_not_empty  something is trained
//   shared_prompt   the messages that chosen and rejected share render the same on both sides, in
//                   text and in tokens
//   tool_calls      the calls of a message are rendered; checked for each row when it is encoded,
//                   since a breach means a bad row, not a bad template
//   turns           the text of every message is rendered; checked like tool_calls

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
  std::string where;     // the first sample that breaks it
  int64_t samples = 0;   // the number of those that break it
  int64_t rendered = 0;  // the number of those checked
  std::string message;   // what, got, wanted, fix; several lines with a diff
};

inline constexpr const char* kMaskLaw = "mask_not_empty";
inline constexpr const char* kToolCallsLaw = "tool_calls";
inline constexpr const char* kTurnsLaw = "turns";

const std::vector<std::string>& law_names();
// Returns the law as a sentence for users; "" for a name that is not a law.
std::string law_statement(const std::string& name);

// Throws UsageError with the nearest name if one of `names` is not a law.
void require_law_names(const std::vector<std::string>& names);

// Returns one breach for each broken law, in the order of law_names(), skipping those in `disabled`
// and samples that do not render (a bad row, not a bad template). Throws Error if `disabled` holds
// a name that is not a law.
std::vector<LawBreach> check_laws(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                                  std::span<const LawSample> samples,
                                  const std::vector<std::string>& disabled = {});

}  // namespace xrun
