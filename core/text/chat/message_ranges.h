#pragma once
// Which bytes of a rendering belong to which message.

#include <string>
#include <vector>

#include "core/text/chat/chat_template.h"

namespace xrun {

// A stretch of a rendering that one message made: its header, its content, its end.
struct MessageRange {
  int64_t message = -1;  // -1: the template's own, as a default system turn or a generation prompt
  std::string role;      // "" for the template's own
  ByteRange bytes;
  bool operator==(const MessageRange&) const = default;
};

// Returns stretches that tile the text in order, none of them empty. A message begins where the
// rendering of those before it ends, which the law of prefixes promises; where a beginning does not
// render, messages are one stretch under both roles ("user, assistant"). Renders once a message;
// of a conversation of more than 256 messages, and of one whose own text differs from `rendering`,
// one stretch of all roles.
std::vector<MessageRange> message_ranges(const ChatTemplate& chat_template, const Json& messages,
                                         const Json& kwargs, const Rendering& rendering);

}  // namespace xrun
