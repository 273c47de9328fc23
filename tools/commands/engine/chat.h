#pragma once
// Renders conversations as prompts, and holds a conversation on a terminal.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/rollout/text_sampler.h"
#include "core/text/chat/chat_template.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// Renders conversations as prompts, with the tokenizer's own template or a named one. Not
// thread-safe.
class ChatPrompt {
 public:
  // `setting` goes to resolve_template at the first conversation, which reports the choice on
  // standard error.
  ChatPrompt(std::shared_ptr<const Tokenizer> tokenizer, std::string setting)
      : tokenizer_(std::move(tokenizer)), setting_(std::move(setting)) {}

  // Returns the ids that an answer continues. Reads arguments of tool calls as training does
  // (tool_calls.h). `kwargs` go to the template; add_generation_prompt is true by default. Throws
  // Error as resolve_template and encode_chat do.
  std::vector<int32_t> ids(Json messages, Json kwargs);
  const ChatTemplate& chat_template();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::string setting_;
  std::shared_ptr<const ChatTemplate> template_;
};

// {"role": role, "content": content}
Json chat_message(const std::string& role, const std::string& content);

struct ChatSettings {
  Model& model;
  const Tokenizer& tokenizer;
  ChatPrompt& prompt;
  TextOptions options;  // the conversation sets on_text and the prompts' names
  std::string name;     // of the model, for the first line
};

// Reads messages from standard input, with a line editor if the terminal can move its cursor, and
// writes answers to standard output until exit, quit, /quit or the end of the input. Messages that
// begin with a slash are commands (/help lists them). Ctrl-C ends an answer, whose text so far
// stays in the conversation, or clears the message; it never ends the program. Answer n draws as
// prompt n of options.generate.sampling.seed. Returns the exit status; throws Interrupted on
// SIGTERM.
int chat_on_terminal(ChatSettings settings);

}  // namespace xrun
