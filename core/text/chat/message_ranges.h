#pragma once
// Messages of a conversation: their roles, and their bytes in a rendering.

#include <string>
#include <vector>

#include "core/text/chat/chat_template.h"

namespace xrun {

// Returns the role of a message, "" if it has no such string.
const std::string& message_role(const Json& message);
bool is_assistant(const Json& message);
// Returns the first `count` messages of a conversation.
Json first_messages(const Json& messages, size_t count);

// The bytes of a rendering that one message produced: its header, its content, its end.
struct MessageRange {
  int64_t message = -1;  // -1: the template's own text: a default system turn, a generation prompt
  std::string role;      // "" for the template's own
  ByteRange bytes;
  bool operator==(const MessageRange&) const = default;
};

// Returns non-empty ranges that tile the text in order. A message begins where the rendering of the
// messages before it ends, which the law `prefix` guarantees. If those do not render on their own,
// neighbouring messages share a range with both roles ("user, assistant"). A conversation of more
// than 256 messages, or whose text now differs from `rendering`, is one range of all roles. Renders
// up to twice per message.
std::vector<MessageRange> message_ranges(const ChatTemplate& chat_template, const Json& messages,
                                         const Json& kwargs, const Rendering& rendering);

}  // namespace xrun
