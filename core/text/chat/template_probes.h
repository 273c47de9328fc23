#pragma once
// Conversations by which two templates are compared.

#include <optional>
#include <string>

#include "core/text/chat/chat_template.h"

namespace xrun {

// Returns true if `marked` renders the text of `stock` for every probe that `stock` renders, and
// enough of these hold an answer to decide.
bool renders_alike(const ChatTemplate& stock, const ChatTemplate& marked);

// Returns the error of the first probe if a template renders none of them; else nothing.
std::optional<std::string> refusal_of_probes(const ChatTemplate& chat_template);

}  // namespace xrun
