// Preference rows: two conversations that share a prompt; what lies behind it is trained.

#include "core/data/rows/conversation_tokens.h"
#include "core/data/rows/fit_length.h"
#include "core/data/rows/preference_row.h"
#include "core/data/rows/row_encoder.h"
#include "core/data/rows/tool_calls.h"

namespace xrun {

namespace {

constexpr const char* kSides[2] = {"chosen", "rejected"};

class PreferenceEncoder : public RowEncoder {
 public:
  explicit PreferenceEncoder(const EncoderParts& parts)
      : parts_(parts),
        reader_(parts.settings),
        style_{parts.tokenizer, *parts_.chat_template, parts.settings.train_on,
               parts.settings.lost_calls, parts.trace} {}

  void encode(const Json& value, const std::string& place, EncodedRow& out) const override {
    PreferenceRow row = reader_.read(value);
    const Json* sides[2] = {&row.chosen, &row.rejected};
    for (size_t s = 0; s < 2; ++s) {
      out.streams[s] =
          encode_conversation(*sides[s], row.kwargs, row.shared, style_, out.straddlers);
    }
    for (size_t s = 0; s < 2; ++s) {
      if (is_trained(out.streams[s])) continue;
      throw RowRefusal("empty_mask", fmt::format("no token of the {} side is trained", kSides[s]));
    }
    note_unrendered_tools(row.chosen, row.kwargs, *parts_.chat_template, row.notes);
    static_cast<RowExtras&>(out) = std::move(row);
    fit_length(parts_, place, {"the chosen side", "the rejected side"}, out);
  }

  LawSample law_sample(const Json& value) const override {
    PreferenceRow row = reader_.read(value);
    return {"", std::move(row.chosen), std::move(row.rejected), std::move(row.kwargs)};
  }

 private:
  EncoderParts parts_;
  PreferenceReader reader_;
  ConversationStyle style_;
};

}  // namespace

std::unique_ptr<RowEncoder> make_preference_encoder(const EncoderParts& parts) {
  return std::make_unique<PreferenceEncoder>(parts);
}

}  // namespace xrun
