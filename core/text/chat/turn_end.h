#pragma once
// How trained turns end: whether a model learns from them where to stop.

#include <optional>
#include <string>

#include "core/text/chat/chat_tokens.h"

namespace xrun {

// Returns what is wrong with the first generation block that does not end a turn, or nothing. A
// block ends a turn if its last non-space token is a special token or EOS; text of the template's
// own will do where it writes no special token at all but BOS. A block that goes on into another
// one, as where the next turn's head ends an answer, does too, and so does the last one of such a
// conversation.
std::optional<std::string> find_open_turn(const Tokenizer& tokenizer, const ChatTokens& side);

}  // namespace xrun
