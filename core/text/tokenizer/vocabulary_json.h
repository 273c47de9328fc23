#pragma once
// Vocabularies and the options of models as tokenizer.json and vocab.json spell them.

#include <simdjson.h>

#include "core/base/error.h"
#include "core/text/tokenizer/token_model.h"

namespace xrun {

// Returns a view for simdjson of text in a buffer that goes on for kJsonPadding readable bytes.
inline simdjson::padded_string_view padded(std::string_view json) {
  return simdjson::padded_string_view(json.data(), json.size(), json.size() + kJsonPadding);
}

// Reads {"piece": id, ...}. Throws Error that starts with `where` if an id or a piece is wrong, and
// simdjson_error if the text is no such object.
Vocabulary read_vocabulary(std::string_view json, const std::string& where);

// Makes a model and gives simdjson's errors the place of the source.
template <class Read>
std::unique_ptr<const TokenModel> read_model(const ModelSource& source, const Read& read) {
  try {
    return read(source);
  } catch (const simdjson::simdjson_error& error) {
    throw Error(fmt::format("{}: {}", source.where, error.what()));
  }
}

}  // namespace xrun
