#pragma once
// Conversations by which templates are compared: whoever renders them alike is of one family.

#include <optional>
#include <string>

#include "core/text/chat/chat_template.h"

namespace xrun {

// Whether `tagged` renders the text of `stock` for every probe that `stock` renders, and whether
// these are enough to tell: four with an answer, whose text the rendering holds. Plain turns,
// system turns, white space, tools, calls, thoughts, parts, and an open turn are among the probes.
bool renders_alike(const ChatTemplate& stock, const ChatTemplate& tagged);

// Returns what a template says to the first probe, if it renders none of them; else nothing.
std::optional<std::string> refusal_of_probes(const ChatTemplate& chat_template);

}  // namespace xrun
