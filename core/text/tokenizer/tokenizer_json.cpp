// Reads tokenizer.json. The small stages are parsed into JSON values; the model, which is nearly
// all of the file, stays text and is read straight into its tables.

#include <simdjson.h>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/text/tokenizer/tokenizer_pipeline.h"

namespace xrun {

namespace {

constexpr uint64_t kMaxJsonBytes = 512 << 20;  // the largest known file has 35 MB

// The members of the top-level object that xrun reads.
struct Sections {
  Json stages = Json::object();  // normalizer, pre_tokenizer, post_processor, decoder, added_tokens
  ModelSource model;
};

bool is_stage(std::string_view key) {
  return key == "normalizer" || key == "pre_tokenizer" || key == "post_processor" ||
         key == "decoder" || key == "added_tokens";
}

void read_model_members(simdjson::ondemand::object model, ModelSource& source) {
  for (auto field : model) {
    const std::string key(std::string_view(field.unescaped_key()));
    // Parsers disagree on which of two equal keys wins.
    for (const auto& [known, text] : source.members) {
      XRUN_CHECK(known != key, "{}: the key \"{}\" appears twice", source.where, key);
    }
    simdjson::ondemand::value value = field.value();
    source.members.emplace_back(key, simdjson::to_json_string(value));
  }
}

Sections read_sections(simdjson::ondemand::document& document, const std::string& name) {
  Sections sections;
  sections.model.where = name + ": model";
  for (auto field : document.get_object()) {
    const std::string_view key = field.unescaped_key();
    simdjson::ondemand::value value = field.value();
    if (key == "model") {
      XRUN_CHECK(sections.model.members.empty(), "{}: the key \"model\" appears twice", name);
      read_model_members(value.get_object(), sections.model);
    } else if (is_stage(key)) {
      XRUN_CHECK(sections.stages.find(key) == nullptr, "{}: the key \"{}\" appears twice", name,
                 key);
      const std::string_view raw = simdjson::to_json_string(value);
      sections.stages.set(key, parse_json(raw, fmt::format("{}: {}", name, key)));
    }
  }
  // The parser is lazy: text after the object would pass unnoticed.
  XRUN_CHECK(document.current_location().error() == simdjson::OUT_OF_BOUNDS,
             "{}: there is text after the end of the object", name);
  XRUN_CHECK(!sections.model.members.empty(), "{}: the key \"model\" is missing", name);
  return sections;
}

template <class Component>
std::unique_ptr<const Component> make_stage(
    const Json& stages, const char* key, const std::string& name,
    std::unique_ptr<const Component> (*make)(const ComponentSpec&)) {
  const Json* json = stages.find(key);
  if (json == nullptr || json->is_null()) return nullptr;
  return make({*json, name + ": " + key});
}

// Returns true if a normalizer or pre-tokenizer, or one in a sequence, puts a space before the
// text.
bool prefixes_space(const Json* stage) {
  if (stage == nullptr || !stage->is_object()) return false;
  for (const char* list : {"normalizers", "pretokenizers"}) {
    const Json* stages = stage->find(list);
    if (stages == nullptr || !stages->is_array()) continue;
    for (const Json& inner : stages->as_array()) {
      if (prefixes_space(&inner)) return true;
    }
  }
  const auto is = [&](const char* key, const Json& value) {
    const Json* found = stage->find(key);
    return found != nullptr && *found == value;
  };
  if (is("type", "Prepend")) return is("prepend", "\u2581") || is("prepend", " ");
  if (is("type", "ByteLevel")) return !is("add_prefix_space", false);
  if (!is("type", "Metaspace")) return false;
  return stage->find("prepend_scheme") != nullptr ? !is("prepend_scheme", "never")
                                                  : !is("add_prefix_space", false);
}

TokenizerPipeline make_pipeline(Sections& sections, const std::string& name) {
  TokenizerPipeline pipeline;
  pipeline.prefixes_space = prefixes_space(sections.stages.find("normalizer")) ||
                            prefixes_space(sections.stages.find("pre_tokenizer"));
  pipeline.normalizer = make_stage(sections.stages, "normalizer", name, &make_normalizer);
  pipeline.pre_tokenizer = make_stage(sections.stages, "pre_tokenizer", name, &make_pre_tokenizer);
  pipeline.post_processor =
      make_stage(sections.stages, "post_processor", name, &make_post_processor);
  pipeline.decoder = make_stage(sections.stages, "decoder", name, &make_token_decoder);
  sections.model.maps_bytes = pipeline.pre_tokenizer && pipeline.pre_tokenizer->maps_bytes();
  // For a model that cannot map bytes the pieces are spelled out.
  if (sections.model.maps_bytes && !sections.model.can_map_bytes()) {
    pipeline.pre_tokenizer = make_spelling(std::move(pipeline.pre_tokenizer));
    sections.model.maps_bytes = false;
  }
  pipeline.model = make_model(sections.model);
  if (const Json* added = sections.stages.find("added_tokens"); added && !added->is_null()) {
    XRUN_CHECK(added->is_array(), "{}: added_tokens: got {}, wanted an array", name,
               added->kind_name());
    for (size_t i = 0; i < added->size(); ++i) {
      const std::string where = fmt::format("{}: added_tokens[{}]", name, i);
      AddedToken token = read_added_token(added->as_array()[i], where);
      const int64_t id = ComponentSpec(added->as_array()[i], where).integer("id");
      XRUN_CHECK(id >= 0 && id <= Vocabulary::kMaxId, "{}.id: got {}, wanted 0 to {}", where, id,
                 Vocabulary::kMaxId);
      token.id = int32_t(id);
      pipeline.added.push_back(std::move(token));
    }
  }
  return pipeline;
}

}  // namespace

TokenizerPipeline read_tokenizer_json(const std::string& path, std::string& digest) {
  const PaddedFile file(path, kMaxJsonBytes);
  const std::string_view bytes = file.bytes();
  digest = hash_hex(bytes);
  simdjson::ondemand::parser parser;
  try {
    simdjson::ondemand::document document = parser.iterate(padded(bytes));
    Sections sections = read_sections(document, path);
    return make_pipeline(sections, path);
  } catch (const simdjson::simdjson_error& error) {
    // Reports line and column if the file is not JSON.
    const Json whole = parse_json(bytes, path);
    XRUN_CHECK(whole.is_object(), "{}: got {}, wanted an object", path, whole.kind_name());
    const Json* const model = whole.find("model");
    XRUN_CHECK(model == nullptr || model->is_object(), "{}: model: got {}, wanted an object", path,
               model->kind_name());
    // All other members were parsed by parse_json.
    throw Error(fmt::format("{}: model: {}", path, error.what()));
  }
}

}  // namespace xrun
