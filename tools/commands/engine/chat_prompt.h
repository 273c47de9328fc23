#pragma once
// Renders conversations as prompts, with the tokenizer's own template or a named one.

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
  // `setting` goes to resolve_template at the first conversation, which reports the choice on
  // standard error.
  ChatPrompt(std::shared_ptr<const Tokenizer> tokenizer, std::string setting)
      : tokenizer_(std::move(tokenizer)), setting_(std::move(setting)) {}

  // Returns the ids that an answer continues. `kwargs` go to the template; add_generation_prompt is
  // true by default. Throws Error as resolve_template and encode_chat do.
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
