// A row is parsed, changed by the recipe's functions, then encoded by the encoder of its kind. A
// refusal for length ends the build if over_length is "raise"; any other only drops the row.

#include "core/data/rows/row_encoder.h"

#include "core/base/strings.h"
#include "core/data/rows/data_fault.h"
#include "core/data/rows/row_length.h"
#include "core/data/rows/row_parse.h"

namespace xrun {

namespace {

// Returns what over_length = "cut" keeps of a row.
const char* cut_keeps(RowKind kind) {
  switch (kind) {
    case RowKind::kText: return "keep the beginning of the text";
    case RowKind::kTokens: return "keep the first tokens of the row";
    default: return "keep the prompt and the beginning of the answer";
  }
}

}  // namespace

RowSchema row_schema(const RowEncoding& encoding) {
  return {encoding.kind, encoding.tokenizer->vocab_size(), encoding.settings.keep,
          encoding.kind == RowKind::kTokens};
}

RowEncoder::RowEncoder(const RowEncoding& encoding)
    : encoding_(encoding), transform_(encoding.transform ? encoding.transform->make() : nullptr) {}

Json RowEncoder::read(const RawRow& row, const std::string& location, int64_t& repairs) {
  Json value = parse_row(row, location, repairs);
  if (transform_ && !transform_->apply(value, location)) {
    throw RowRefusal(kFilteredReason, "the recipe's filter leaves it out");
  }
  return value;
}

void RowEncoder::encode(const RawRow& row, const std::string& location, EncodedRow& out) {
  // The caller passes one `out` for all rows.
  out = EncodedRow();
  try {
    encode_value(read(row, location, out.repairs), location, out);
  } catch (const RatingRefusal& refusal) {
    throw data_error(fmt::format("{}: {}", location, refusal.what()), row.text, {});
  } catch (const RowRefusal& refusal) {
    const bool raises =
        refusal.reason() == kTooLongReason && encoding_.settings.over_length == OverLength::kRaise;
    // The caller counts every other refusal in the ledger.
    if (!raises) throw;
    std::vector<PastedSetting> settings = {
        {"over_length=drop", "leave such rows out; with it xrun check counts them"}};
    std::string fault = fmt::format("{}: {}", location, refusal.what());
    if (const auto* above = dynamic_cast<const AboveMaxLength*>(&refusal)) {
      const int64_t model_length = encoding_.settings.model_length;
      if (!above->cut_helps()) {
        fault += "; its prompt alone fills it, and a cut keeps whole prompts";
      }
      // A prompt has no answer to cut.
      if (encoding_.kind != RowKind::kPrompts && above->cut_helps()) {
        settings.push_back({"over_length=cut", cut_keeps(encoding_.kind)});
      }
      // A max_length beyond the model's own limit would not help.
      if (model_length == 0 || above->tokens() <= model_length) {
        settings.push_back(
            {fmt::format("max_length={}", above->tokens()),
             "train on this whole row, if the memory allows it; others may be longer"});
      } else {
        fault += fmt::format("; the model was made for {}", count_text(model_length));
      }
    }
    throw TooLongError(std::move(fault), row.text, std::move(settings));
  }
}

std::unique_ptr<RowEncoder> make_row_encoder(const RowEncoding& encoding) {
  switch (encoding.kind) {
    case RowKind::kPreference: return make_preference_encoder(encoding);
    case RowKind::kChat: return make_chat_encoder(encoding);
    case RowKind::kText: return make_text_encoder(encoding);
    case RowKind::kPrompts: return make_prompts_encoder(encoding);
    case RowKind::kTokens: return make_tokens_encoder(encoding);
    case RowKind::kFeedback: return make_feedback_encoder(encoding);
  }
  throw Error("an unknown kind of rows");
}

}  // namespace xrun
