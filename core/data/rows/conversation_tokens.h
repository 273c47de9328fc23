#pragma once
// A conversation as a stream of tokens with flags of what is trained.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/data/rows/data_settings.h"
#include "core/data/rows/row_encoder.h"
#include "core/data/rows/row_trace.h"
#include "core/data/rows/row_type.h"
#include "core/text/chat/chat_template.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// What a conversation is rendered and tokenised by.
struct ConversationStyle {
  const Tokenizer& tokenizer;
  const ChatTemplate& chat_template;
  TrainOn train_on = TrainOn::kAssistant;
  bool lost_calls = false;    // as RowSettings::lost_calls
  RowTrace* trace = nullptr;  // as EncoderParts::trace
};

// Text of one conversation: its messages, tools and documents. Templates render 64 MiB
// (kMaxTextBytes), their own words among them; and rendered text and its tokens are held at once,
// which with a token a byte takes some 30 times the text of a pair.
constexpr size_t kMaxConversationBytes = size_t{24} << 20;

// Renders, tokenises and marks. Nothing in the first `given` messages is trained unless train_on is
// kAll; kLast trains the last answer alone. The first token never is trained, nor an answer that
// says so itself (is_untrained). Adds tokens half inside a generation span to `straddlers`. Throws
// RowRefusal: template_error if the template refuses the messages, lost_tool_calls if it leaves
// calls of theirs out, too_long for more text than kMaxConversationBytes, or than the tokenizer
// takes at once (text_stretch.h).
TokenStream encode_conversation(const Json& messages, const Json& kwargs, size_t given,
                                const ConversationStyle& style, int64_t& straddlers);

bool is_trained(const TokenStream& stream);

}  // namespace xrun
