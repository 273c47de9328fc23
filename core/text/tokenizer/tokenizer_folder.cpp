#include "core/text/tokenizer/tokenizer_folder.h"

#include <charconv>

#include "core/base/file.h"
#include "core/text/tokenizer/class_roles.h"
#include "core/text/tokenizer/folder_templates.h"
#include "core/text/tokenizer/tokenizer_pipeline.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxBytes = 64 << 20;  // of a settings file

// Returns a JSON object, or an empty one if the file does not exist.
Json read_object(const fs::path& path) {
  if (!path_exists(path)) return Json::object();
  Json json = parse_json(read_file(path, kMaxBytes), path.string());
  XRUN_CHECK(json.is_object(), "{}: got {}, wanted an object", path.string(), json.kind_name());
  return json;
}

// tokenizer_config.json: {"added_tokens_decoder": {"151643": {...}}}.
void read_added_decoder(const Json& config, const std::string& file,
                        std::vector<AddedToken>& added) {
  const Json* decoder = config.find("added_tokens_decoder");
  if (decoder == nullptr || decoder->is_null()) return;
  const std::string where = file + ": added_tokens_decoder";
  XRUN_CHECK(decoder->is_object(), "{}: got {}, wanted an object", where, decoder->kind_name());
  for (const auto& [key, value] : decoder->as_object()) {
    AddedToken token = read_added_token(value, where + "." + key);
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token.id);
    XRUN_CHECK(error == std::errc() && end == key.data() + key.size() && token.id >= 0 &&
                   token.id <= Vocabulary::kMaxId,
               "{}: the key \"{}\" is not an id of 0 to {}", where, key, Vocabulary::kMaxId);
    added.push_back(std::move(token));
  }
}

// added_tokens.json: {"<pad>": 32000}, for tokens of which no more is known.
void read_added_map(const fs::path& path, std::vector<AddedToken>& added) {
  const Json json = read_object(path);
  for (const auto& [content, id] : json.as_object()) {
    XRUN_CHECK(id.is_int() && id.as_int() >= 0 && id.as_int() <= Vocabulary::kMaxId,
               "{}: the id of \"{}\" is not an integer of 0 to {}", path.string(), content,
               Vocabulary::kMaxId);
    AddedToken token = read_added_token(Json(content), path.string());
    token.id = int32_t(id.as_int());
    added.push_back(std::move(token));
  }
}

// They have no ids of their own.
void add_special(const std::vector<SpecialToken>& tokens, std::vector<AddedToken>& added) {
  for (const auto& [name, value, where] : tokens) {
    const bool empty = value.is_null() || (value.is_string() && value.as_string().empty());
    if (empty && !name.empty()) continue;
    AddedToken token = read_added_token(value, where);
    token.special = true;
    if (value.is_string() || value.find("normalized") == nullptr) token.normalized = false;
    added.push_back(std::move(token));
  }
}

}  // namespace

FolderSettings read_folder_settings(const fs::path& dir) {
  FolderSettings out;
  const std::string config_name = (dir / "tokenizer_config.json").string();
  const std::string map_name = (dir / "special_tokens_map.json").string();
  out.tokenizer_config = read_object(config_name);
  out.config = read_object(dir / "config.json");
  const Json map = read_object(map_name);
  const std::vector<SpecialToken> special =
      special_tokens({out.tokenizer_config, config_name}, {map, map_name});
  out.names = TokenNames(special);
  read_added_decoder(out.tokenizer_config, config_name, out.added);
  // transformers asks the older file only where the configuration lists none.
  if (!out.tokenizer_config.find("added_tokens_decoder")) {
    read_added_map(dir / "added_tokens.json", out.added);
  }
  add_special(special, out.added);
  out.chat_templates = read_folder_templates(dir, out.tokenizer_config, config_name);

  Json hashed = Json::object();
  for (const auto& [key, value] : out.tokenizer_config.as_object()) {
    if (key != "chat_template") hashed.set(key, value);
  }
  out.hashed = {{"tokenizer_config", dump_json(hashed)}, {"special_tokens_map", dump_json(map)}};
  if (path_exists(dir / "added_tokens.json")) {
    out.hashed.emplace_back("added_tokens", read_file(dir / "added_tokens.json", kMaxBytes));
  }
  return out;
}

void add_class_roles(FolderSettings& settings, std::string_view tokenizer_class,
                     const Vocabulary& vocabulary) {
  for (const ClassRole& role : class_roles(tokenizer_class)) {
    if (!vocabulary.find(role.text) || !settings.names.set_default(role.name, role.text)) continue;
    AddedToken token;
    token.content = role.text;
    token.special = true;
    token.normalized = false;
    settings.added.push_back(std::move(token));
  }
}

}  // namespace xrun
