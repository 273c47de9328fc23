#pragma once
// Conversations of rows in one form: {"role", "content", ...} per message.

#include <string>
#include <vector>

#include "core/base/json.h"

namespace xrun {

// Returns the messages of a row's field: a list of messages or one message. Messages are spelled
// {"role", "content"} or {"from", "value"}; human, gpt, User, ... become user, assistant, ...;
// other members stay. A content is a string or a list of text parts. Recognised spellings are
// noted. Throws RowRefusal with field, index and fault: not a message, a wrong type, an unknown
// speaker, a content that is neither text nor, beside tool calls, null, or a flag that is neither 0
// nor 1.
Json read_messages(const Json& value, const std::string& field, std::vector<std::string>& notes);

// Throws RowRefusal "wrong_type" if a field is a string that spells a list of messages, as in
// tables (.csv): read as text its brackets and quotes would be trained.
void refuse_spelled_messages(const Json& value, const std::string& field);

Json make_message(const std::string& role, std::string content);

// Throws RowRefusal "empty_prompt" if a user turn is empty. An empty system text or tool result is
// allowed.
void require_user_texts(const Json& messages);

// Returns the speakers of a conversation, for a message about a missing one: "; its turns are by
// user, tool".
std::string other_speakers(const Json& messages);

// Returns true if an assistant message has text that is not blank, or a tool call.
bool says_something(const Json& message);

// Returns a row's "tools": a list, or one as a JSON string, since columns of tables cannot hold
// lists of mixed types. Throws RowRefusal wrong_type for anything else.
Json read_tools(const Json& tools);

// Returns the template arguments of a row whose keys all go to the template, as in the input of
// render and sample: every key but "messages", with "tools" as read_tools() reads them.
Json template_kwargs_of(const Json& row);

// Merges a row's template arguments over `defaults`: its "chat_template_kwargs" object and its
// "tools", as read_tools() reads them (either may be null). Throws RowRefusal for a wrong type
// and for an argument that belongs to the engine: add_generation_prompt and those of
// is_reserved_argument().
Json merge_template_kwargs(const Json& defaults, const Json* kwargs, const Json* tools);

}  // namespace xrun
