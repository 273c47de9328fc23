#pragma once
// Who speaks a message of a conversation.

#include <string>

#include "core/base/json.h"

namespace xrun {

// "" if the message has no such text.
const std::string& message_role(const Json& message);

bool is_assistant(const Json& message);

}  // namespace xrun
