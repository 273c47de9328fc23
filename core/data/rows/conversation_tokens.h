#pragma once
// A conversation as a stream of tokens with trained flags.

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

// Rendering, tokenisation and masking of a conversation.
struct ConversationStyle {
  const Tokenizer& tokenizer;
  const ChatTemplate& chat_template;
  TrainOn train_on = TrainOn::kAssistant;
  bool lost_calls = false;    // as RowSettings::lost_calls
  bool lost_turns = false;    // as RowSettings::lost_turns
  RowTrace* trace = nullptr;  // as RowEncoding::trace
};

// Limit on the text of one conversation: its messages, tools and documents. Templates render 64 MiB
// (kMaxTextBytes) including their own words; and rendered text and tokens are held at once, which
// with one token per byte takes some 30 times the text of a pair.
constexpr size_t kMaxConversationBytes = size_t{24} << 20;

// Renders, tokenises and sets trained flags. The first `given` messages are not trained unless
// train_on is kAll; kLast trains only the last answer. The first token is never trained, nor is an
// answer that asks not to be (is_untrained). Adds tokens half inside a generation span to
// `straddlers`. Throws RowRefusal: template_error if the template refuses the messages,
// lost_tool_calls if it leaves out their calls, lost_turn if it leaves out a turn, too_long for
// more text than kMaxConversationBytes or than the tokenizer takes at once (require_borders).
TokenStream encode_conversation(const Json& messages, const Json& kwargs, size_t given,
                                const ConversationStyle& style, int64_t& straddlers);

bool is_trained(const TokenStream& stream);

}  // namespace xrun
