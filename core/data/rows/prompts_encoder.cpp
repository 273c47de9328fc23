// Prompt rows: a conversation that a model is to answer, rendered up to where its answer begins.

#include "core/data/rows/conversation_row.h"
#include "core/data/rows/conversation_tokens.h"
#include "core/data/rows/fit_length.h"
#include "core/data/rows/messages.h"
#include "core/data/rows/row_encoder.h"
#include "core/data/rows/tool_calls.h"
#include "core/data/rows/turn_flags.h"
#include "core/text/chat/message_ranges.h"

namespace xrun {

namespace {

class PromptsEncoder : public RowEncoder {
 public:
  explicit PromptsEncoder(const EncoderParts& parts)
      : parts_(parts), reader_(RowKind::kPrompts, parts.settings) {
    if (parts_.settings.over_length == OverLength::kCut) {
      throw UsageError(
          "over_length = \"cut\" keeps the prompt, and prompt rows are nothing else; set "
          "over_length to \"raise\" or \"drop\"");
    }
  }

  void encode(const Json& row, const std::string& place, EncodedRow& out) const override {
    ConversationRow prompt = read(row);
    prompt.kwargs.set("add_generation_prompt", true);
    const ConversationStyle style{parts_.tokenizer, *parts_.chat_template, TrainOn::kAll,
                                  parts_.settings.lost_calls, parts_.trace};
    out.streams[0] = encode_conversation(prompt.messages, prompt.kwargs, 0, style, out.straddlers);
    out.streams[0].trained.assign(out.streams[0].ids.size(), 0);
    note_unrendered_tools(prompt.messages, prompt.kwargs, *parts_.chat_template, prompt.notes);
    prompt.prompt_hash = hash_messages(prompt.messages, prompt.messages.size());
    static_cast<RowExtras&>(out) = std::move(prompt);
    fit_length(parts_, place, {"the prompt"}, out);
  }

 private:
  // A string, and what a .txt file holds, is a prompt.
  static Json as_prompt(const Json& row) {
    if (row.is_string()) return Json(Json::Object{{"prompt", row}});
    const Json* text = row.size() == 1 ? row.find("text") : nullptr;
    return text == nullptr ? row : Json(Json::Object{{"prompt", *text}});
  }

  ConversationRow read(const Json& row) const {
    ConversationRow prompt = reader_.read(as_prompt(row));
    Json::Array& turns = prompt.messages.as_array();
    const size_t before = turns.size();
    if (prompt.given > 0) turns.resize(prompt.given);
    while (!turns.empty() && is_assistant(turns.back())) turns.pop_back();
    if (turns.size() < before) prompt.notes.push_back("the answer is left out of the prompt");
    // Nothing of a prompt is trained, so what its turns say about that asks for nothing.
    for (Json& turn : turns) turn = without_flags(turn);
    if (turns.empty()) throw RowRefusal("no_prompt", "no turn stands before the answer");
    require_user_texts(prompt.messages);
    return prompt;
  }

  EncoderParts parts_;
  ConversationReader reader_;
};

}  // namespace

std::unique_ptr<RowEncoder> make_prompts_encoder(const EncoderParts& parts) {
  return std::make_unique<PromptsEncoder>(parts);
}

}  // namespace xrun
