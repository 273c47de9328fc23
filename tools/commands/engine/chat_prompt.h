#pragma once
// Conversations as prompts, through the tokenizer's own template or one that is named.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/text/chat/chat_template.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// Not thread-safe.
class ChatPrompt {
 public:
  // `setting` is what resolve_template takes; it is looked at by the first conversation, which
  // says on standard error what was found.
  ChatPrompt(std::shared_ptr<const Tokenizer> tokenizer, std::string setting)
      : tokenizer_(std::move(tokenizer)), setting_(std::move(setting)) {}

  // The ids that an answer continues. `kwargs` is an object for the template, whose
  // add_generation_prompt is true unless it says otherwise. Throws Error as resolve_template and
  // encode_chat do.
  std::vector<int32_t> ids(const Json& messages, Json kwargs);
  const ChatTemplate& chat_template();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::string setting_;
  std::shared_ptr<const ChatTemplate> template_;
};

// {"role": role, "content": content}
Json chat_message(const std::string& role, const std::string& content);

}  // namespace xrun
