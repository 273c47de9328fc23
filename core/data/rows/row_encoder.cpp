#include "core/data/rows/row_encoder.h"

namespace xrun {

std::unique_ptr<RowEncoder> make_row_encoder(RowKind kind, const EncoderParts& parts) {
  switch (kind) {
    case RowKind::kPreference: return make_preference_encoder(parts);
    case RowKind::kChat: return make_chat_encoder(parts);
    case RowKind::kText: return make_text_encoder(parts);
    case RowKind::kPrompts: return make_prompts_encoder(parts);
    case RowKind::kTokens: return make_tokens_encoder(parts);
    case RowKind::kFeedback: return make_feedback_encoder(parts);
  }
  throw Error("an unknown kind of rows");
}

bool uses_template(RowKind kind) { return kind != RowKind::kText && kind != RowKind::kTokens; }

}  // namespace xrun
