#pragma once
// Conversations as rows spell them, brought to one form: {"role", "content", ...} a message.

#include <string>
#include <vector>

#include "core/base/json.h"

namespace xrun {

// Returns the messages of a row's field: a list of messages or one message. Messages are spelled
// {"role", "content"} or {"from", "value"}; human, gpt, User, ... become user, assistant, ...;
// other members stay. A content is a string or a list of text parts. What was recognised is noted.
// Throws RowRefusal that names field, index and what is wrong: no message, a wrong type, an unknown
// speaker, a content that is neither text nor, beside tool calls, null, a flag that is none.
Json read_messages(const Json& value, const std::string& field, std::vector<std::string>& notes);

// Throws RowRefusal "wrong_type" if a field is a string that spells a list of messages, as tables
// (.csv) hold lists: read as a text its brackets and quotes would be trained.
void refuse_spelled_messages(const Json& value, const std::string& field);

Json make_message(const std::string& role, std::string content);

// "an integer", "a string": what a value is, for messages to users.
std::string kind_text(const Json& value);

// Throws RowRefusal "empty_prompt" if a user turn says nothing. An empty system text or tool result
// may be.
void require_user_texts(const Json& messages);

// "; its turns are of user, tool": who speaks instead of the speaker that is missing.
std::string other_speakers(const Json& messages);

// Whether an assistant message says anything: text that is not blank, or a tool call.
bool says_something(const Json& message);

// Merges a row's template arguments over `defaults`: its "chat_template_kwargs" object and its
// "tools", a list or one as a JSON string (either may be null). Throws RowRefusal for a wrong type
// and for an argument that is the engine's own: add_generation_prompt, and what
// is_reserved_argument() says.
Json merge_template_kwargs(const Json& defaults, const Json* kwargs, const Json* tools);

}  // namespace xrun
