// config.json gives the family, whose reader fills the config; generation_config.json gives the
// stops.

#include "core/model/weights/hf_config.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "core/base/error.h"
#include "core/model/weights/families.h"
#include "core/model/weights/run_folder.h"

namespace xrun {

namespace {

// eos_token_id: absent, one id, or a list.
std::vector<int32_t> read_stop_ids(const Json& json, const std::string& name) {
  const Json* value = json.find("eos_token_id");
  std::vector<int32_t> ids;
  if (value == nullptr || value->is_null()) return ids;
  const Json::Array one = {*value};
  for (const Json& id : value->is_array() ? value->as_array() : one) {
    XRUN_CHECK(id.is_int() && id.as_int() >= 0 && id.as_int() <= INT32_MAX,
               "{}: eos_token_id is {}, wanted an id or a list of ids", name, dump_json(*value));
    ids.push_back(static_cast<int32_t>(id.as_int()));
  }
  return ids;
}

// True for a sequence classifier, which has the model_type of its family and another head.
bool is_classifier(const Json& config, const ConfigReader& reader, bool classifiers) {
  const Json* value = config.find("architectures");
  // Absent in some old folders; the model_type then decides alone.
  if (value == nullptr || !value->is_array() || value->as_array().empty()) return false;
  const char* hint = "";
  for (const Json& name : value->as_array()) {
    if (!name.is_string()) continue;
    const std::string& text = name.as_string();
    if (text.ends_with("ForCausalLM") || text.ends_with("LMHeadModel")) return false;
    if (!text.ends_with("ForSequenceClassification")) continue;
    if (classifiers) return true;
    hint = "; xrun.frozen opens it as a reward or value model";
  }
  reader.fail(fmt::format("architectures is {}, which is not a causal language model{}",
                          dump_json(*value), hint));
}

// As transformers counts them: the names, else num_labels, else 2.
int64_t label_count(const Json& config, const ConfigReader& reader) {
  const Json* names = config.find("id2label");
  const bool named = names != nullptr && names->is_object() && names->size() > 0;
  return named ? std::ssize(names->as_object()) : reader.integer("num_labels", 2);
}

// `generation` may be empty; `name` is the file that messages name.
ModelConfig parse_config(const Json& config, const Json& generation, const std::string& name,
                         bool classifiers) {
  XRUN_CHECK(config.is_object(), "{}: is not a JSON object", name);
  const ConfigReader reader(config, name);
  const std::string model_type = reader.text("model_type", "");
  if (model_type.empty()) reader.fail("has no model_type");
  ModelConfig parsed;
  parsed.model_type = model_type;
  const ModelFamily& family = family_named(model_type, name);
  const bool classifier = is_classifier(config, reader, classifiers);
  family.read(reader, parsed);
  if (classifier) {
    parsed.labels = label_count(config, reader);
    parsed.tied = false;
    parsed.names.head = "score";
  }
  // transformers 5 writes dtype, 4 torch_dtype.
  const std::string dtype = reader.text("dtype", reader.text("torch_dtype", "float32"));
  try {
    parsed.dtype = dtype_from_name(dtype);
  } catch (const Error& error) {
    reader.fail(error.what());
  }
  // generation_config.json often lists the end of a turn too, config.json only the end of a text.
  parsed.stop_ids = read_stop_ids(generation, "generation_config.json");
  if (parsed.stop_ids.empty()) parsed.stop_ids = read_stop_ids(config, name);
  // Kept whole: an export writes it again with only the type changed.
  parsed.source = config;
  return parsed;
}

ModelConfig read_config(const std::filesystem::path& dir, bool classifiers) {
  const std::filesystem::path path = dir / "config.json";
  std::error_code code;  // without permission, reading below gives the error
  XRUN_CHECK(std::filesystem::is_directory(dir, code) || code == std::errc::permission_denied,
             "{}: there is no such model folder", dir.string());
  const bool has_config =
      std::filesystem::exists(path, code) || code == std::errc::permission_denied;
  // A run also has a config.json: its settings.
  if (!has_config || std::filesystem::exists(dir / "run.json", code)) {
    const std::string of_run = run_folder_text(dir);
    XRUN_CHECK(of_run.empty(), "{}: is {} of a run; {}", dir.string(),
               has_config ? "the folder" : "a folder", of_run);
  }
  XRUN_CHECK(has_config, "{}: has no config.json, so it is not a model folder", dir.string());
  const std::filesystem::path generation = dir / "generation_config.json";
  const Json stops =
      std::filesystem::exists(generation, code) ? read_json(generation.string()) : Json::object();
  return parse_config(read_json(path.string()), stops, path.string(), classifiers);
}

}  // namespace

ModelConfig parse_model_config(const Json& config, const Json& generation,
                               const std::string& name) {
  return parse_config(config, generation, name, /*classifiers=*/false);
}

ModelConfig read_model_config(const std::filesystem::path& dir) {
  return read_config(dir, /*classifiers=*/false);
}

ModelConfig read_frozen_config(const std::filesystem::path& dir) {
  return read_config(dir, /*classifiers=*/true);
}

// transformers' spelling, which exports write.
std::string dtype_name(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Float: return "float32";
    case c10::ScalarType::BFloat16: return "bfloat16";
    case c10::ScalarType::Half: return "float16";
    default: throw Error(fmt::format("models have no type {}", c10::toString(dtype)));
  }
}

// Several spellings, since recipes, configs and commands all come here.
c10::ScalarType dtype_from_name(const std::string& name) {
  const auto is = [&](std::initializer_list<std::string_view> spellings) {
    return std::find(spellings.begin(), spellings.end(), name) != spellings.end();
  };
  if (is({"float32", "fp32", "f32", "float"})) return c10::ScalarType::Float;
  if (is({"bfloat16", "bf16"})) return c10::ScalarType::BFloat16;
  if (is({"float16", "fp16", "f16", "half"})) return c10::ScalarType::Half;
  throw Error(fmt::format("unknown dtype '{}'; supported: fp32, bf16, fp16", name));
}

}  // namespace xrun
