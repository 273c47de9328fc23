#pragma once
// The tokens between a sampled turn and the next one, without encoding the sampled turn again.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/text/chat/chat_template.h"
#include "core/text/chat/sampled_calls.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// The messages and arguments of a rendered prompt, and the template that rendered it.
struct Conversation {
  Json messages = Json::array();
  Json kwargs = Json::object();
  std::shared_ptr<const ChatTemplate> chat_template = nullptr;
};

// A conversation that continues after sampled turns. The sampled ids stay as they are: the template
// renders a placeholder in their position, and only the text after the placeholder is used. Refers
// to the tokenizer, which must outlive it. Not thread-safe.
class TurnTail {
 public:
  TurnTail(const Tokenizer& tokenizer, Conversation conversation);

  // Adds a sampled turn with these calls and the messages that answer it. Returns the tokens after
  // the turn's own: the special token that ends a turn, the messages, and the beginning of the next
  // turn. A tool's message without tool_call_id or name gets those of the call at its position.
  // Throws Error with the template's name if the template does not render such messages or writes
  // no special token after a turn; the conversation cannot continue then.
  std::vector<int32_t> append(const std::vector<SampledCall>& calls, const Json& reply);

 private:
  struct Turn {
    std::vector<SampledCall> calls;
    Json reply;
  };
  Json messages(const std::string& placeholder, bool as_calls) const;
  std::vector<int32_t> render(bool as_calls) const;

  const Tokenizer& tokenizer_;
  Conversation conversation_;
  std::vector<Turn> turns_;
};

}  // namespace xrun
