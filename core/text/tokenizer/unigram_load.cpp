// Reads unigram models: {"vocab": [["piece", score], ...], "unk_id": 0, "byte_fallback": false}.

#include "core/base/error.h"
#include "core/text/tokenizer/serde_number.h"
#include "core/text/tokenizer/unigram.h"
#include "core/text/tokenizer/vocabulary_json.h"

namespace xrun {

namespace {

namespace od = simdjson::ondemand;

UnigramPieces read_pieces(std::string_view json, const std::string& where) {
  UnigramPieces out;
  out.vocabulary.reserve(json.size() / 24, json.size());
  od::parser parser;
  od::document document = parser.iterate(padded(json));
  for (auto item : document.get_array()) {
    const size_t id = out.scores.size();
    XRUN_CHECK(id <= size_t(Vocabulary::kMaxId), "{}: more than {} pieces", where,
               Vocabulary::kMaxId + 1);
    size_t sides = 0;
    for (auto side : item.get_array()) {
      if (sides == 0) {
        out.vocabulary.add(side.get_string(), int32_t(id));
      } else {
        XRUN_CHECK(sides == 1, "{}[{}]: more than a piece and its score", where, id);
        const std::string_view number = side.raw_json_token();
        (void)double(side.get_double());  // throws where it is no number
        out.scores.push_back(serde_number(number));
      }
      ++sides;
    }
    XRUN_CHECK(sides == 2, "{}[{}]: wanted a piece and its score", where, id);
  }
  out.vocabulary.finish(where, Repeats::kLastOneWins);
  return out;
}

std::optional<int32_t> read_unk_id(const ModelSource& source, const UnigramPieces& pieces) {
  const Json json = source.option("unk_id");
  if (json.is_null()) return {};
  XRUN_CHECK(json.is_int() && json.as_int() >= 0 && json.as_int() < pieces.vocabulary.size(),
             "{}.unk_id: got {}, wanted an id of the {} pieces", source.where, dump_json(json),
             pieces.vocabulary.size());
  return int32_t(json.as_int());
}

std::unique_ptr<const TokenModel> read_unigram(const ModelSource& source) {
  UnigramPieces pieces = read_pieces(source.member("vocab"), source.where + ".vocab");
  const std::optional<int32_t> unk_id = read_unk_id(source, pieces);
  return std::make_unique<Unigram>(std::move(pieces), unk_id, source.flag("byte_fallback"));
}

std::unique_ptr<const TokenModel> make(const ModelSource& source) {
  return read_model(source, &read_unigram);
}

const bool kAdded = add_model_type("Unigram", make);

}  // namespace

}  // namespace xrun
