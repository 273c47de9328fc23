#pragma once
// From the text of a row to its tokens: one encoder for each kind of row.

#include <functional>
#include <memory>
#include <string>

#include "core/base/json.h"
#include "core/data/rows/data_settings.h"
#include "core/data/rows/row.h"
#include "core/text/chat/chat_template.h"
#include "core/text/chat/template_laws.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// Everything that decides the tokens of a source's rows. The tokenizer and the trace must outlive
// the encoders.
struct RowEncoding {
  RowKind kind = RowKind::kPreference;
  RowSettings settings = {};
  const Tokenizer* tokenizer = nullptr;
  std::shared_ptr<const ChatTemplate> chat_template = nullptr;    // null for text and tokens
  std::shared_ptr<const RowTransformSource> transform = nullptr;  // null: no filter and no map
  RowTrace* trace = nullptr;  // collects the streams of each encoded row; null: not recorded
  // The note on a template whose turns end in ordinary text; made once by each encoder.
  mutable std::string plain_turns_note = {};
};

RowSchema row_schema(const RowEncoding& encoding);

// Encodes the rows of one source on one thread (a template or a transform may belong to a thread).
// The result depends only on the row, never on the rows before it.
class RowEncoder {
 public:
  explicit RowEncoder(const RowEncoding& encoding);
  virtual ~RowEncoder() = default;

  // Parses the row, runs the recipe's functions and encodes the result into `out`, whose old
  // content is dropped. `location` is "pairs.jsonl:17". Throws
  //   - RowRefusal for a row to drop; the reasons of every kind are malformed_json, too_long,
  //     no_answer_left, template_error, empty_mask and "filter";
  //   - TooLongError, with the settings that let the run continue, for a row that is too long
  //     under over_length = "raise";
  //   - another Error, which begins with `location` and ends the build.
  void encode(const RawRow& row, const std::string& location, EncodedRow& out);
  // Returns the parsed row after the recipe's functions ran; adds to `repairs` the number of
  // replacement characters. Throws as encode does.
  Json read(const RawRow& row, const std::string& location, int64_t& repairs);
  // Encodes a parsed row into `out`, which is empty. A row that is too long is refused even under
  // over_length = "raise".
  virtual void encode_value(const Json& row, const std::string& location,
                            EncodedRow& out) const = 0;
  // Returns the sample on which the template's laws are tested; its messages are null for kinds
  // without a template. Throws RowRefusal if the row cannot be used.
  virtual LawSample law_sample(const Json&) const { return {}; }

 protected:
  RowEncoding encoding_;

 private:
  std::unique_ptr<RowTransform> transform_;
};

// Called once per thread.
using RowEncoderMaker = std::function<std::unique_ptr<RowEncoder>()>;

// Returns the encoder of a kind. Throws UsageError for settings that the kind refuses.
std::unique_ptr<RowEncoder> make_row_encoder(const RowEncoding& encoding);

// One function per kind. Its comment lists the reasons for which it refuses rows, besides those of
// RowEncoder::encode and of the readers of its columns.
std::unique_ptr<RowEncoder> make_preference_encoder(const RowEncoding& encoding);
// no_assistant, empty_answer
std::unique_ptr<RowEncoder> make_chat_encoder(const RowEncoding& encoding);
// unknown_format, wrong_type, empty_text. A row is {"text"} or a string.
std::unique_ptr<RowEncoder> make_text_encoder(const RowEncoding& encoding);
// no_prompt, empty_prompt. Nothing is trained, since a model will answer. A row that is a string is
// a user turn.
std::unique_ptr<RowEncoder> make_prompts_encoder(const RowEncoding& encoding);
// unknown_format, wrong_type, bad_token, length_mismatch, bad_token_weight
std::unique_ptr<RowEncoder> make_tokens_encoder(const RowEncoding& encoding);
// no_prompt, no_assistant, empty_answer, bad_label
std::unique_ptr<RowEncoder> make_feedback_encoder(const RowEncoding& encoding);

}  // namespace xrun
