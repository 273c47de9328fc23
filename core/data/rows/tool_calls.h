#pragma once
// Checks that the tools and tool calls of a conversation reach its rendering.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/text/chat/chat_template.h"

namespace xrun {

// True if a message calls a tool: its "tool_calls" is a list with an element, or OpenAI's older
// "function_call" is one.
bool makes_calls(const Json& message);

// A turn whose call is lost would teach the model to end the turn at once. Throws RowRefusal
// lost_tool_calls if the template's source does not mention the key of the calls, or if a tool's
// name occurs in the rendering less often than the tool is called. Only names of letters, digits
// and "_-." are counted: every template writes those unchanged.
void require_calls(const Json& messages, const Json& kwargs, const ChatTemplate& chat_template,
                   std::string_view rendered);

// The same for a template that failed to render them: only its source is asked. If calls may be
// lost, a turn without content beside its call has nothing else to train: RowRefusal empty_answer.
void refuse_unknown_calls(const Json& messages, const Json& kwargs,
                          const ChatTemplate& chat_template, bool may_be_lost);

// Notes tools that the template leaves out, and calls if they are allowed to be lost: the
// conversation is trained without them.
void note_unrendered_tools(const Json& messages, const Json& kwargs,
                           const ChatTemplate& chat_template, std::vector<std::string>& notes);

// Notes arguments that are JSON text, as OpenAI's API returns them, if the template quotes that
// text once more instead of printing a table. `rendered` is called only for such arguments.
void note_quoted_arguments(const Json& messages, const std::function<std::string()>& rendered,
                           std::vector<std::string>& notes);

}  // namespace xrun
