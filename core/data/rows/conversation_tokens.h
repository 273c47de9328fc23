#pragma once
// Turns a conversation into a stream of tokens with trained flags.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/data/rows/data_settings.h"
#include "core/data/rows/row.h"
#include "core/data/rows/row_encoder.h"
#include "core/text/chat/chat_template.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// The settings with which a conversation is rendered, tokenised and masked.
struct ConversationStyle {
  const Tokenizer& tokenizer;
  const ChatTemplate& chat_template;
  TrainOn train_on = TrainOn::kAssistant;
  bool lost_calls = false;    // as RowSettings::lost_calls
  bool lost_turns = false;    // as RowSettings::lost_turns
  RowTrace* trace = nullptr;  // as RowEncoding::trace
};

// The most text in one conversation: its messages, tools and documents. A rendering has at most 64
// MiB (kMaxTextBytes) with the template's own words, and it is held beside its tokens: with one
// token per byte a pair takes some 30 times its text.
constexpr size_t kMaxConversationBytes = size_t{24} << 20;

// Renders, tokenises and sets trained flags. The first `given` messages are not trained unless
// train_on is kAll; kLast trains only the last answer. The first token is never trained, nor is an
// answer that asks not to be (is_untrained). Adds the number of tokens half inside a generation
// span to `straddlers`. Throws RowRefusal:
//   template_error   the template refuses the messages
//   lost_tool_calls  the template leaves out a call
//   lost_turn        the template leaves out a turn
//   too_long         more text than kMaxConversationBytes, or than the tokenizer takes at once
//                    (require_borders)
TokenStream encode_conversation(const Json& messages, const Json& kwargs, size_t given,
                                const ConversationStyle& style, int64_t& straddlers);

bool is_trained(const TokenStream& stream);

}  // namespace xrun
