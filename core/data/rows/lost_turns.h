#pragma once
// Checks that the turns of a conversation reach its rendering.

#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/text/chat/chat_template.h"

namespace xrun {

// Returns the indices of the messages whose text does not influence the rendering. A template may
// strip, escape or move a text, or leave out the reasoning before it: such turns are not lost.
// `rendering` is that of `messages`, which are rendered again only if one of their texts is not
// found in it verbatim.
std::vector<size_t> lost_turns(const Json& messages, const Json& kwargs,
                               const ChatTemplate& chat_template, const Rendering& rendering);

// Throws RowRefusal lost_turn for the first lost turn that makes no tool call.
void require_turns(const Json& messages, const Json& kwargs, const ChatTemplate& chat_template,
                   const Rendering& rendering);

// Notes texts beside a tool call that the template leaves out, as Llama 3.1 does by design. Notes
// lost turns too if `may_be_lost`.
void note_lost_turns(const Json& messages, const Json& kwargs, const ChatTemplate& chat_template,
                     bool may_be_lost, std::vector<std::string>& notes);

// Notes reasoning that the template leaves out: of a message's "reasoning_content", "thinking" or
// "reasoning", or of its content before </think>. Qwen3 leaves out that of earlier turns by design.
void note_lost_reasoning(const Json& messages, const Json& kwargs,
                         const ChatTemplate& chat_template, std::vector<std::string>& notes);

// Adds all notes on what the template leaves out of a conversation: the above, and those on tools
// and calls.
void note_lost_parts(const Json& messages, const Json& kwargs, const ChatTemplate& chat_template,
                     bool may_be_lost, std::vector<std::string>& notes);

// Renames the role "developer" to "system", OpenAI's older name for it, if the template refuses or
// leaves out developer turns but renders system turns. Adds a note.
void map_developer_turns(Json& messages, const Json& kwargs, const ChatTemplate& chat_template,
                         std::vector<std::string>& notes);

}  // namespace xrun
