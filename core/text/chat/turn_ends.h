#pragma once
// The ends of trained turns, for the law eot_trained.

#include <optional>
#include <string>

#include "core/text/chat/chat_tokens.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// Returns what is wrong with the first generation block that does not end a turn, or nothing.
std::optional<std::string> find_open_turn(const Tokenizer& tokenizer, const ChatTokens& side);

}  // namespace xrun
