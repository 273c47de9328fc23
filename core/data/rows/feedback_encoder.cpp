// Feedback rows: one answer with a label, whether it is desirable; the answer is trained.

#include "core/data/rows/conversation_row.h"
#include "core/data/rows/conversation_tokens.h"
#include "core/data/rows/fit_length.h"
#include "core/data/rows/messages.h"
#include "core/data/rows/row_encoder.h"
#include "core/data/rows/tool_calls.h"
#include "core/text/chat/message_ranges.h"

namespace xrun {

namespace {

class FeedbackEncoder : public RowEncoder {
 public:
  explicit FeedbackEncoder(const EncoderParts& parts)
      : parts_(parts),
        reader_(RowKind::kFeedback, parts.settings, {"label"}),
        style_{parts.tokenizer, *parts_.chat_template, parts.settings.train_on,
               parts.settings.lost_calls, parts.trace} {}

  void encode(const Json& row, const std::string& place, EncodedRow& out) const override {
    ConversationRow answer = read(row);
    out.label = label_of(row);
    out.streams[0] =
        encode_conversation(answer.messages, answer.kwargs, answer.given, style_, out.straddlers);
    if (!is_trained(out.streams[0])) {
      throw RowRefusal("empty_mask", "no token of the answer is trained");
    }
    note_unrendered_tools(answer.messages, answer.kwargs, *parts_.chat_template, answer.notes);
    answer.prompt_hash = hash_messages(answer.messages, answer.given);
    static_cast<RowExtras&>(out) = std::move(answer);
    fit_length(parts_, place, {"the answer with its prompt"}, out);
  }

  LawSample law_sample(const Json& row) const override {
    ConversationRow answer = read(row);
    return {"", std::move(answer.messages), Json(), std::move(answer.kwargs)};
  }

 private:
  // Where the row does not say what the prompt is, it is all but the last turn.
  ConversationRow read(const Json& row) const {
    ConversationRow answer = reader_.read(row);
    const Json& last = answer.messages.as_array().back();
    if (!is_assistant(last)) {
      throw RowRefusal("no_assistant",
                       fmt::format("the last turn is one of \"{}\", wanted the assistant's answer",
                                   message_role(last)));
    }
    if (!says_something(last)) throw RowRefusal("empty_answer", "the answer has no content");
    if (answer.given == 0) answer.given = answer.messages.size() - 1;
    if (answer.given == 0) throw RowRefusal("no_prompt", "no turn stands before the answer");
    require_user_texts(answer.messages);
    return answer;
  }

  int8_t label_of(const Json& row) const {
    const std::string name = reader_.fields().spelled("label");
    const Json* label = reader_.fields().find(row, "label");
    if (label == nullptr) {
      throw RowRefusal("bad_label", fmt::format("has no \"{}\"{}", name,
                                                reader_.fields().other_columns(row, "label")));
    }
    if (label->is_bool()) return label->as_bool() ? 1 : 0;
    if (label->is_number() && (label->as_double() == 0 || label->as_double() == 1)) {
      return static_cast<int8_t>(label->as_double());
    }
    throw RowRefusal("bad_label",
                     fmt::format("\"{}\" is {}, wanted true or false", name, dump_json(*label)));
  }

  EncoderParts parts_;
  ConversationReader reader_;
  ConversationStyle style_;
};

}  // namespace

std::unique_ptr<RowEncoder> make_feedback_encoder(const EncoderParts& parts) {
  return std::make_unique<FeedbackEncoder>(parts);
}

}  // namespace xrun
