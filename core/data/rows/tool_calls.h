#pragma once
// Checks that the tools and tool calls of a conversation reach its rendering.

#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/text/chat/chat_template.h"

namespace xrun {

// Returns true if a message calls a tool: its "tool_calls" is a list with an element, or OpenAI's
// older "function_call" is one.
bool makes_calls(const Json& message);

// Throws RowRefusal lost_tool_calls if the template's source does not mention the key of the calls,
// or if a tool's name occurs in the rendering less often than the tool is called: a turn whose call
// is lost would teach the model to end the turn at once. Only names of letters, digits and "_-."
// are counted, which every template writes unchanged.
void require_calls(const Json& messages, const Json& kwargs, const ChatTemplate& chat_template,
                   std::string_view rendered);

// Explains a failed rendering, for calls whose key the template's source does not mention. Throws
// RowRefusal lost_tool_calls. If calls `may_be_lost`, throws RowRefusal empty_answer instead, and
// only for a turn without content beside its call, which has nothing else to train.
void refuse_unknown_calls(const Json& messages, const Json& kwargs,
                          const ChatTemplate& chat_template, bool may_be_lost);

// Returns a sentence with the fix for the first call without a name or arguments, which a template
// may need: "turn 2 calls a tool \"f\", and its tool_calls[0].function.arguments is missing; ...";
// "" if there is none.
std::string incomplete_call_text(const Json& messages);

// Returns a sentence with the fix for the first message that calls a tool and has a null content,
// which many templates cannot join to a string; "" if there is none.
std::string null_content_text(const Json& messages);

// Notes tools and calls that the template leaves out: the conversation is trained without them.
void note_unrendered_tools(const Json& messages, const Json& kwargs,
                           const ChatTemplate& chat_template, std::vector<std::string>& notes);

// Parses the arguments of calls that are strings of JSON, as OpenAI's API writes them, if the
// template would quote the string again or refuses it; a template that wants strings keeps them.
// Adds a note. Throws RowRefusal bad_arguments for a string that begins as an object and is not
// JSON, unless `may_be_broken`.
void parse_arguments(Json& messages, const Json& kwargs, const ChatTemplate& chat_template,
                     bool may_be_broken, std::vector<std::string>& notes);

// Notes tool results with a "tool_call_id" that no earlier call has, and calls with an "id" that no
// result answers although the conversation goes on.
void note_unmatched_results(const Json& messages, std::vector<std::string>& notes);

}  // namespace xrun
