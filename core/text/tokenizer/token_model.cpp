// The table of models, and access to the members of the "model" object of a tokenizer.json.

#include "core/text/tokenizer/token_model.h"

#include "core/base/error.h"
#include "core/base/strings.h"

namespace xrun {

namespace {

struct ModelType {
  const char* name;
  std::unique_ptr<const TokenModel> (*read)(const ModelSource&);
};

constexpr ModelType kModels[] = {
    {"BPE", &read_bpe},
    {"Unigram", &read_unigram},
    {"WordLevel", &read_word_level},
    {"WordPiece", &read_word_piece},
};

}  // namespace

std::string_view ModelSource::member(std::string_view key) const {
  for (const auto& [name, text] : members) {
    if (name == key) return text;
  }
  throw Error(fmt::format("{}: the key \"{}\" is missing", where, key));
}

Json ModelSource::option(std::string_view key) const {
  for (const auto& [name, text] : members) {
    if (name == key) return parse_json(text, fmt::format("{}.{}", where, key));
  }
  return {};
}

std::string ModelSource::text(std::string_view key) const {
  const Json json = option(key);
  XRUN_CHECK(json.is_null() || json.is_string(), "{}.{}: got {}, wanted a string", where, key,
             json.kind_name());
  return json.is_null() ? "" : json.as_string();
}

bool ModelSource::flag(std::string_view key) const {
  const Json json = option(key);
  XRUN_CHECK(json.is_null() || json.is_bool(), "{}.{}: got {}, wanted a boolean", where, key,
             json.kind_name());
  return !json.is_null() && json.as_bool();
}

std::string ModelSource::type() const {
  const std::string type = text("type");
  return type.empty() ? "BPE" : type;
}

bool ModelSource::can_map_bytes() const {
  // With affixes or byte tokens, the spelling of a byte is not that of the byte alphabet.
  return type() == "BPE" && text("continuing_subword_prefix").empty() &&
         text("end_of_word_suffix").empty() && !flag("byte_fallback");
}

std::unique_ptr<const TokenModel> make_model(const ModelSource& source) {
  const std::string type = source.type();
  std::string known;
  for (const ModelType& model : kModels) {
    add_item(known, model.name);
    if (type == model.name) return model.read(source);
  }
  throw Error(fmt::format("{}: the type \"{}\" is not supported; supported: {}", source.where, type,
                          known));
}

}  // namespace xrun
