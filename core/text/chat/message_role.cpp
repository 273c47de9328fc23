#include "core/text/chat/message_role.h"

namespace xrun {

const std::string& message_role(const Json& message) {
  static const std::string kNone;
  const Json* role = message.find("role");
  return role != nullptr && role->is_string() ? role->as_string() : kNone;
}

bool is_assistant(const Json& message) { return message_role(message) == "assistant"; }

}  // namespace xrun
