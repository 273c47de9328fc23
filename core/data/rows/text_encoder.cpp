// Text rows: a document with the tokens that the tokenizer's encoding adds, ended by EOS.

#include "core/base/hash.h"
#include "core/base/strings.h"
#include "core/data/rows/messages.h"
#include "core/data/rows/row_encoder.h"
#include "core/data/rows/row_fields.h"
#include "core/data/rows/row_length.h"

namespace xrun {

namespace {

class TextEncoder : public RowEncoder {
 public:
  explicit TextEncoder(const RowEncoding& encoding)
      : RowEncoder(encoding), fields_(RowKind::kText, {"text", "weight"}, encoding.settings) {
    // A recipe that names no mode gets "all".
    if (encoding_.settings.train_on_given && encoding_.settings.train_on != TrainOn::kAll) {
      throw UsageError(
          fmt::format("train_on is \"{}\": text rows have no turns, so every token is trained; set "
                      "train_on = \"all\" or leave it out",
                      train_on_name(encoding_.settings.train_on)));
    }
  }

  void encode_value(const Json& row, const std::string&, EncodedRow& out) const override {
    const std::string& text = text_of(row);
    if (text.find_first_not_of(" \t\r\n\v\f") == std::string::npos) {
      throw RowRefusal("empty_text", "the text is empty");
    }
    require_borders(text, *encoding_.tokenizer);
    std::vector<int32_t> ids = encode(text);
    const std::optional<int32_t> end = encoding_.tokenizer->eos_id();
    // The tokenizer's own encoding may have added it.
    if (encoding_.settings.end_of_text && end && (ids.empty() || ids.back() != *end)) {
      ids.push_back(*end);
    }
    if (ids.size() < 2) throw RowRefusal("empty_mask", "a single token leaves nothing to train");
    TokenStream& stream = out.streams[0];
    stream.trained.assign(ids.size(), 1);
    stream.trained[0] = 0;
    stream.ids = std::move(ids);
    // A row that is a bare string has no other columns.
    if (row.is_object()) {
      fields_.read_extra(row, out);
      fields_.finish_notes(row, out);
    } else {
      fields_.read_extra(Json::object(), out);
    }
    out.prompt_hash = hash_u64(text);
    fit_length(encoding_, {"the text"}, out);
  }

 private:
  // Holds only the ids of a long text, and reserves memory for them by the tokens per byte so far.
  std::vector<int32_t> encode(const std::string& text) const {
    EncodeOptions options;
    options.add_post_processor = true;
    std::vector<int32_t> ids;
    encoding_.tokenizer->encode_parts(text, options, [&](Encoding&& part) {
      if (ids.empty()) {
        ids = std::move(part.ids);
      } else {
        ids.insert(ids.end(), part.ids.begin(), part.ids.end());
      }
      // The end of the last offset is the number of bytes encoded so far.
      const double bytes = part.offsets.empty() ? 0 : part.offsets.back().end;
      if (bytes == 0 || text.size() <= Tokenizer::kPartBytes) return;
      const double total =
          static_cast<double>(ids.size()) * static_cast<double>(text.size()) / bytes;
      if (static_cast<size_t>(total) > ids.capacity())
        ids.reserve(static_cast<size_t>(1.02 * total));
    });
    return ids;
  }

  // A bare string is a row too: a recipe may make such sources.
  const std::string& text_of(const Json& row) const {
    if (row.is_string()) return row.as_string();
    RowFields::require_object(row);
    const Json* text = fields_.find(row, "text");
    if (text == nullptr) fields_.refuse_format(row);
    if (!text->is_string()) {
      throw RowRefusal("wrong_type", fmt::format("\"{}\" is {}, wanted a string",
                                                 fields_.spelled("text"), kind_text(*text)));
    }
    return text->as_string();
  }

  RowFields fields_;
};

}  // namespace

std::unique_ptr<RowEncoder> make_text_encoder(const RowEncoding& encoding) {
  return std::make_unique<TextEncoder>(encoding);
}

}  // namespace xrun
