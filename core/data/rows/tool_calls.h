#pragma once
// Whether the tool calls and the tools of a conversation reach its rendering.

#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/text/chat/chat_template.h"

namespace xrun {

// Whether a message calls a tool: its "tool_calls" is a list with an element, or OpenAI's older
// "function_call" holds one.
bool makes_calls(const Json& message);

// A turn whose call is lost would teach the model to end it at once. Throws RowRefusal
// lost_tool_calls if the template's source does not know the key of the calls, or if the rendering
// has the name of a tool less often than it is called. Only names of letters, digits and "_-." are
// looked for: every template writes those as they are.
void require_calls(const Json& messages, const Json& kwargs, const ChatTemplate& chat_template,
                   std::string_view rendered);

// Notes tools that the template leaves out, and calls, where they were let pass: the conversation
// is rendered without them, and so it is trained.
void note_unrendered_tools(const Json& messages, const Json& kwargs,
                           const ChatTemplate& chat_template, std::vector<std::string>& notes);

}  // namespace xrun
