#pragma once
// Reads the conversations of rows, in any spelling, into one form: {"role", "content", ...} per
// message.

#include <string>
#include <vector>

#include "core/base/json.h"

namespace xrun {

// Returns the messages of a row's field: a list of messages or one message. Messages are spelled
// {"role", "content"} or {"from", "value"}; human, gpt, User, ... become user, assistant, ...;
// other members stay. A content is a string, a list of text parts or, beside tool calls, null.
// Recognised spellings are noted. Throws RowRefusal with field, index and fault: not a message, a
// wrong type, an unknown speaker, any other content, or a flag (turn_flags.h) neither on nor off.
Json read_messages(const Json& value, const std::string& field, std::vector<std::string>& notes);

// Throws RowRefusal "wrong_type" if a field is a string that spells a list of messages, as in
// tables (.csv): read as text, its brackets and quotes would be trained.
void refuse_spelled_messages(const Json& value, const std::string& field);

// Returns {"role", "content"}, for turns that a row gives as plain text.
Json make_message(const std::string& role, std::string content);

// Throws RowRefusal "empty_prompt" if a user turn is empty. An empty system text or tool result is
// allowed.
void require_user_texts(const Json& messages);

// Returns the end of a message about a missing speaker: "; its turns are by user, tool".
std::string other_speakers(const Json& messages);

// Returns true if an assistant message has text that is not blank, or a tool call.
bool says_something(const Json& message);

// Returns a row's "tools" as a list; a JSON string of a list is parsed, since columns of tables
// cannot hold lists of mixed types. Throws RowRefusal wrong_type for anything else.
Json read_tools(const Json& tools);

// Returns the template arguments of an input of render or sample: every key but "messages", with
// "tools" as read_tools() reads them.
Json template_kwargs_of(const Json& row);

// Returns `defaults` overridden by a row's template arguments: its "chat_template_kwargs" object
// (`kwargs`) and its "tools" as read_tools() reads them; either may be null. Throws RowRefusal for
// a wrong type and for an argument that belongs to the engine: add_generation_prompt and those of
// is_reserved_argument().
Json merge_template_kwargs(const Json& defaults, const Json* kwargs, const Json* tools);

}  // namespace xrun
