// Chat rows: a conversation whose assistant turns are trained; where prompt and completion stand
// apart, the completion alone.

#include <algorithm>

#include "core/data/rows/conversation_row.h"
#include "core/data/rows/conversation_tokens.h"
#include "core/data/rows/fit_length.h"
#include "core/data/rows/messages.h"
#include "core/data/rows/row_encoder.h"
#include "core/data/rows/tool_calls.h"
#include "core/text/chat/message_ranges.h"

namespace xrun {

namespace {

class ChatEncoder : public RowEncoder {
 public:
  explicit ChatEncoder(const EncoderParts& parts)
      : parts_(parts),
        reader_(RowKind::kChat, parts.settings),
        style_{parts.tokenizer, *parts_.chat_template, parts.settings.train_on,
               parts.settings.lost_calls, parts.trace} {}

  void encode(const Json& row, const std::string& place, EncodedRow& out) const override {
    ConversationRow chat = read(row);
    out.streams[0] =
        encode_conversation(chat.messages, chat.kwargs, chat.given, style_, out.straddlers);
    if (!is_trained(out.streams[0])) {
      throw RowRefusal("empty_mask", "no token of the conversation is trained");
    }
    note_unrendered_tools(chat.messages, chat.kwargs, *parts_.chat_template, chat.notes);
    chat.prompt_hash = hash_messages(chat.messages, first_answer(chat.messages));
    static_cast<RowExtras&>(out) = std::move(chat);
    fit_length(parts_, place, {"the conversation"}, out);
  }

  LawSample law_sample(const Json& row) const override {
    ConversationRow chat = read(row);
    return {"", std::move(chat.messages), Json(), std::move(chat.kwargs)};
  }

 private:
  static size_t first_answer(const Json& messages) {
    const Json::Array& list = messages.as_array();
    return static_cast<size_t>(std::find_if(list.begin(), list.end(), is_assistant) - list.begin());
  }

  ConversationRow read(const Json& row) const {
    ConversationRow chat = reader_.read(row);
    const Json::Array& list = chat.messages.as_array();
    const auto last = std::find_if(list.rbegin(), list.rend(), is_assistant);
    if (last == list.rend()) {
      throw RowRefusal("no_assistant",
                       "the conversation has no assistant turn" + other_speakers(chat.messages));
    }
    if (!says_something(*last)) {
      throw RowRefusal("empty_answer", "the last assistant turn has no content");
    }
    const bool empty = std::any_of(list.begin(), list.end(), [](const Json& message) {
      return is_assistant(message) && !says_something(message);
    });
    require_user_texts(chat.messages);
    if (empty) chat.notes.push_back("an assistant turn without content is trained");
    if (last != list.rbegin()) chat.notes.push_back("turns after the last answer");
    return chat;
  }

  EncoderParts parts_;
  ConversationReader reader_;
  ConversationStyle style_;
};

}  // namespace

std::unique_ptr<RowEncoder> make_chat_encoder(const EncoderParts& parts) {
  return std::make_unique<ChatEncoder>(parts);
}

}  // namespace xrun
