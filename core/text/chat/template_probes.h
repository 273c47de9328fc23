#pragma once
// Compares two chat templates on a fixed set of conversations, the probes.

#include <optional>
#include <string>

#include "core/text/chat/chat_template.h"

namespace xrun {

// Returns true if `marked` renders every probe that `stock` renders to the same text, and if enough
// of these texts contain the answer to count as evidence.
bool renders_alike(const ChatTemplate& stock, const ChatTemplate& marked);

// Returns the error for the first probe if the template renders none of them; else nothing.
std::optional<std::string> refusal_of_probes(const ChatTemplate& chat_template);

}  // namespace xrun
