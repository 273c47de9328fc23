#pragma once
// What makes tokens of one parsed row: one file a row kind.

#include <memory>
#include <string>

#include "core/base/json.h"
#include "core/data/rows/data_settings.h"
#include "core/data/rows/row_trace.h"
#include "core/data/rows/row_type.h"
#include "core/text/chat/chat_template.h"
#include "core/text/chat/template_laws.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// Immutable; one thread at a time, since a template may be a thread's own.
class RowEncoder {
 public:
  virtual ~RowEncoder() = default;
  // Fills `out`, which is empty. Throws RowRefusal if the row is dropped; any other Error, which
  // begins with `place`, ends the build.
  virtual void encode(const Json& row, const std::string& place, EncodedRow& out) const = 0;
  // What the laws of the template are tried on; messages null for kinds without a template. Throws
  // RowRefusal if the row is none.
  virtual LawSample law_sample(const Json&) const { return {}; }
};

// What encoders are made of; the tokenizer must outlive them.
struct EncoderParts {
  RowSettings settings;
  const Tokenizer& tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;  // null for text and tokens
  RowTrace* trace = nullptr;  // gets the streams of each row that is encoded; null: not kept
};

// Reasons of refusals, beside those of the readers: template_error, empty_mask, too_long.
std::unique_ptr<RowEncoder> make_preference_encoder(const EncoderParts& parts);
// no_assistant, empty_answer.
std::unique_ptr<RowEncoder> make_chat_encoder(const EncoderParts& parts);
// unknown_format, wrong_type, empty_text, too_long. A row is {"text"}, or a string.
std::unique_ptr<RowEncoder> make_text_encoder(const EncoderParts& parts);
// no_prompt, empty_prompt. Nothing is trained; a model is to answer. A string is a user's turn.
std::unique_ptr<RowEncoder> make_prompts_encoder(const EncoderParts& parts);
// unknown_format, wrong_type, bad_token, length_mismatch, bad_token_weight, empty_mask.
std::unique_ptr<RowEncoder> make_tokens_encoder(const EncoderParts& parts);
// no_prompt, no_assistant, empty_answer, bad_label.
std::unique_ptr<RowEncoder> make_feedback_encoder(const EncoderParts& parts);

std::unique_ptr<RowEncoder> make_row_encoder(RowKind kind, const EncoderParts& parts);

// Whether rows of a kind are rendered by a chat template.
bool uses_template(RowKind kind);

}  // namespace xrun
