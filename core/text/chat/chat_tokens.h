#pragma once
// A conversation as token ids and a loss mask.

#include <cstdint>
#include <vector>

#include "core/text/chat/chat_template.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

struct ChatTokens {
  std::vector<int32_t> ids;
  std::vector<uint8_t> mask;       // 1: the token touches a generation span
  std::vector<ByteRange> offsets;  // bytes of rendering.text
  Rendering rendering;
  int64_t straddlers = 0;  // tokens partly inside a generation span; trained whole
};

// Renders and tokenises as one string, without the post-processor. Special tokens come only from
// the template's own text: a message that spells one stays plain. Throws as render() does.
ChatTokens encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                       const Json& messages, const Json& kwargs);

// Rewrites the mask to train only generation blocks with a 1 in `trained` (one flag for each of
// rendering.turns) and recounts straddlers.
void train_turns(ChatTokens& tokens, const std::vector<uint8_t>& trained);

// Returns the number of leading messages that both arrays share.
size_t count_shared_messages(const Json& chosen, const Json& rejected);

// Returns the number of generation blocks of the shared messages, which is the index of the first
// turn after the shared prompt. 0 if nothing is shared or the shared messages do not render alone.
size_t count_shared_turns(const ChatTemplate& chat_template, const Json& chosen,
                          const Json& rejected, const Json& kwargs);

}  // namespace xrun
