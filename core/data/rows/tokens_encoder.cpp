// Token rows: ids made elsewhere, and which of them are trained.
//   input_ids (or tokens, ids)   whole numbers of the vocabulary
//   labels                       the same ids, -100 where nothing is trained
//   mask (or loss_mask)          0 or 1 per id
//   weights                      a loss weight >= 0 per id
// Without labels, mask and weights every token is trained. If a row has several of them, only the
// tokens that all of them train are trained.

#include <cmath>

#include "core/base/hash.h"
#include "core/data/rows/conversation_tokens.h"
#include "core/data/rows/messages.h"
#include "core/data/rows/row_encoder.h"
#include "core/data/rows/row_fields.h"
#include "core/data/rows/row_length.h"

namespace xrun {

namespace {

constexpr int64_t kIgnoredLabel = -100;  // as in PyTorch's cross entropy

class TokensEncoder : public RowEncoder {
 public:
  explicit TokensEncoder(const RowEncoding& encoding)
      : RowEncoder(encoding),
        vocab_size_(encoding.tokenizer->vocab_size()),
        fields_(RowKind::kTokens,
                {"input_ids", "tokens", "ids", "labels", "mask", "loss_mask", "weights", "weight",
                 "attention_mask"},
                encoding.settings) {}

  void encode_value(const Json& row, const std::string&, EncodedRow& out) const override {
    RowFields::require_object(row);
    TokenStream& stream = out.streams[0];
    stream.ids = ids_of(row, out);
    stream.trained.assign(stream.ids.size(), 1);
    read_labels(row, stream);
    read_mask(row, "mask", stream);
    read_mask(row, "loss_mask", stream);
    read_weights(row, stream);
    refuse_padding(row, stream.ids.size());
    // Nothing predicts the first token.
    stream.trained[0] = 0;
    if (!is_trained(stream)) throw RowRefusal("empty_mask", "no token is trained");
    fields_.read_extra(row, out);
    fields_.finish_notes(row, out);
    // The hash is of all ids, since such a row has no prompt.
    out.prompt_hash = hash_u64(std::string_view(reinterpret_cast<const char*>(stream.ids.data()),
                                                stream.ids.size() * sizeof(int32_t)));
    fit_length(encoding_, {"the row"}, out);
  }

 private:
  const Json::Array& list_of(const Json& value, const std::string& ours) const {
    if (value.is_array()) return value.as_array();
    throw RowRefusal("wrong_type", fmt::format("\"{}\" is {}, wanted a list", fields_.spelled(ours),
                                               kind_text(value)));
  }

  // Returns a column, a list with one element per id; nullptr if the row lacks it.
  const Json::Array* column(const Json& row, const std::string& ours, size_t count) const {
    const Json* value = fields_.find(row, ours);
    if (value == nullptr) return nullptr;
    const Json::Array& list = list_of(*value, ours);
    if (list.size() != count) {
      throw RowRefusal("length_mismatch", fmt::format("\"{}\" has {} elements beside {} ids",
                                                      fields_.spelled(ours), list.size(), count));
    }
    return &list;
  }

  [[noreturn]] void refuse(const char* reason, const std::string& ours, size_t i, const Json& got,
                           const std::string& wanted) const {
    throw RowRefusal(reason, fmt::format("\"{}\"[{}] is {}, wanted {}", fields_.spelled(ours), i,
                                         dump_json(got), wanted));
  }

  // Of the names for ids the row's first one counts; a list of numbers under another must be equal.
  void check_rivals(const Json& row, const std::string& ours, EncodedRow& out) const {
    const Json& ids = *fields_.find(row, ours);
    for (const char* other : {"tokens", "ids"}) {
      const Json* rival = other == ours ? nullptr : fields_.find(row, other);
      if (rival == nullptr) continue;
      // The column "tokens" may hold strings.
      const bool holds_ids =
          rival->is_array() && rival->size() > 0 && rival->as_array()[0].is_int();
      if (holds_ids && *rival != ids) fields_.refuse_rivals(ours, other);
      fields_.note_losers(row, ours, {other}, out);
    }
  }

  std::vector<int32_t> ids_of(const Json& row, EncodedRow& out) const {
    for (const char* ours : {"input_ids", "tokens", "ids"}) {
      const Json* value = fields_.find(row, ours);
      if (value == nullptr) continue;
      const Json::Array& list = list_of(*value, ours);
      if (list.empty()) {
        throw RowRefusal("empty_list", fmt::format("\"{}\" has no ids", fields_.spelled(ours)));
      }
      if (list[0].is_array()) {
        throw RowRefusal("wrong_type", fmt::format("\"{}\"[0] is a list, wanted a number: a row is "
                                                   "one list of ids",
                                                   fields_.spelled(ours)));
      }
      if (list.size() < 2) {
        throw RowRefusal("empty_mask", fmt::format("\"{}\" has {} ids, wanted at least two",
                                                   fields_.spelled(ours), list.size()));
      }
      std::vector<int32_t> ids;
      for (size_t i = 0; i < list.size(); ++i) {
        const bool fits =
            list[i].is_int() && list[i].as_int() >= 0 && list[i].as_int() < vocab_size_;
        if (!fits) {
          refuse("bad_token", ours, i, list[i],
                 fmt::format("a whole number from 0 to {}", vocab_size_ - 1));
        }
        ids.push_back(static_cast<int32_t>(list[i].as_int()));
      }
      check_rivals(row, ours, out);
      return ids;
    }
    fields_.refuse_format(row);
  }

  void read_labels(const Json& row, TokenStream& stream) const {
    const Json::Array* labels = column(row, "labels", stream.ids.size());
    if (labels == nullptr) return;
    for (size_t i = 0; i < labels->size(); ++i) {
      const Json& label = (*labels)[i];
      if (label.is_int() && label.as_int() == kIgnoredLabel) {
        stream.trained[i] = 0;
      } else if (!label.is_int() || label.as_int() != stream.ids[i]) {
        refuse("bad_token", "labels", i, label, fmt::format("{} or -100", stream.ids[i]));
      }
    }
  }

  void read_mask(const Json& row, const char* ours, TokenStream& stream) const {
    const Json::Array* mask = column(row, ours, stream.ids.size());
    if (mask == nullptr) return;
    for (size_t i = 0; i < mask->size(); ++i) {
      const Json& flag = (*mask)[i];
      // x | 1 is 1 for 0 and 1 alone.
      const bool is_flag = flag.is_bool() || (flag.is_int() && (flag.as_int() | 1) == 1);
      if (!is_flag) refuse("wrong_type", ours, i, flag, "0 or 1");
      if (flag.is_bool() ? !flag.as_bool() : flag.as_int() == 0) stream.trained[i] = 0;
    }
  }

  // A weight of 0 means that the token is not trained.
  void read_weights(const Json& row, TokenStream& stream) const {
    const Json::Array* weights = column(row, "weights", stream.ids.size());
    if (weights == nullptr) return;
    stream.weights.resize(stream.ids.size());
    for (size_t i = 0; i < weights->size(); ++i) {
      const Json& weight = (*weights)[i];
      // -1 fails the check below, as a negative weight does.
      const float value = weight.is_number() ? static_cast<float>(weight.as_double()) : -1.0f;
      if (!std::isfinite(value) || value < 0) {
        refuse("bad_token_weight", "weights", i, weight, "a finite number >= 0");
      }
      stream.weights[i] = value;
      if (value == 0) stream.trained[i] = 0;
    }
  }

  // Padding would be trained or seen by later tokens.
  void refuse_padding(const Json& row, size_t count) const {
    const Json::Array* mask = column(row, "attention_mask", count);
    if (mask == nullptr) return;
    for (size_t i = 0; i < mask->size(); ++i) {
      if (!(*mask)[i].is_int() || (*mask)[i].as_int() != 1) {
        refuse("wrong_type", "attention_mask", i, (*mask)[i],
               "1: rows are not padded; remove the padding");
      }
    }
  }

  int64_t vocab_size_;
  RowFields fields_;
};

}  // namespace

std::unique_ptr<RowEncoder> make_tokens_encoder(const RowEncoding& encoding) {
  return std::make_unique<TokensEncoder>(encoding);
}

}  // namespace xrun
