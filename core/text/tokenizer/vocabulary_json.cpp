#include "core/text/tokenizer/vocabulary_json.h"

#include "core/base/error.h"

namespace xrun {

Vocabulary read_vocabulary(std::string_view json, const std::string& where) {
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document = parser.iterate(padded(json));
  Vocabulary vocabulary;
  vocabulary.reserve(json.size() / 16, json.size());
  for (auto field : document.get_object()) {
    const std::string_view piece = field.unescaped_key();
    int64_t id = 0;
    const auto error = field.value().get_int64().get(id);
    XRUN_CHECK(error == simdjson::SUCCESS, "{}: the id of \"{}\" is not an integer", where, piece);
    XRUN_CHECK(id >= 0 && id <= Vocabulary::kMaxId, "{}: the id of \"{}\" is {}, wanted 0 to {}",
               where, piece, id, Vocabulary::kMaxId);
    vocabulary.add(piece, int32_t(id));
  }
  vocabulary.finish(where);
  return vocabulary;
}

}  // namespace xrun
