// If the settings files of a folder disagree, the precedence is that of transformers.

#include "core/text/tokenizer/tokenizer_folder.h"

#include <algorithm>
#include <charconv>

#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/text/tokenizer/tokenizer_class.h"
#include "core/text/tokenizer/tokenizer_component.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxSettingsBytes = 64 << 20;

// Returns the file's JSON object, or an empty one if there is no file.
Json read_settings_object(const fs::path& path) {
  if (!path_exists(path)) return Json::object();
  Json json = parse_json(read_file(path, kMaxSettingsBytes), path.string());
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
               "{}: the key \"{}\" is not an id from 0 to {}", where, key, Vocabulary::kMaxId);
    added.push_back(std::move(token));
  }
}

// added_tokens.json: {"<pad>": 32000}.
void read_added_map(const fs::path& path, std::vector<AddedToken>& added) {
  const Json json = read_settings_object(path);
  for (const auto& [content, id] : json.as_object()) {
    XRUN_CHECK(id.is_int() && id.as_int() >= 0 && id.as_int() <= Vocabulary::kMaxId,
               "{}: the id of \"{}\" is not an integer from 0 to {}", path.string(), content,
               Vocabulary::kMaxId);
    AddedToken token = read_added_token(Json(content), path.string());
    token.id = int32_t(id.as_int());
    added.push_back(std::move(token));
  }
}

// Adds tokens of roles and lists, whose entries have no ids.
void add_special_tokens(const std::vector<SpecialToken>& tokens, std::vector<AddedToken>& added) {
  for (const auto& [name, value, where] : tokens) {
    const bool empty = value.is_null() || (value.is_string() && value.as_string().empty());
    // A role may have no token; an entry of a list must have one.
    if (empty && !name.empty()) continue;
    AddedToken token = read_added_token(value, where);
    token.special = true;
    // As in transformers, a special token matches the raw input unless its entry says otherwise.
    if (value.is_string() || value.find("normalized") == nullptr) token.normalized = false;
    added.push_back(std::move(token));
  }
}

void set_template(NamedTexts& out, const std::string& name, std::string text) {
  const auto known =
      std::find_if(out.begin(), out.end(), [&](const auto& one) { return one.first == name; });
  if (known == out.end()) {
    out.emplace_back(name, std::move(text));
  } else {
    known->second = std::move(text);  // the last template of a name wins, as in transformers
  }
}

NamedTexts read_template_member(const Json& value, const std::string& where) {
  NamedTexts out;
  // An empty string means that there is no template.
  if (value.is_string()) {
    if (!value.as_string().empty()) set_template(out, "default", value.as_string());
    return out;
  }
  if (value.is_object()) {
    for (const auto& [name, text] : value.as_object()) {
      XRUN_CHECK(text.is_string(), "{}.{}: got {}, wanted a template's text", where, name,
                 text.kind_name());
      set_template(out, name, text.as_string());
    }
    return out;
  }
  XRUN_CHECK(value.is_array(),
             "{}: got {}, wanted a string, an object of templates by name or a "
             "list of named templates",
             where, value.kind_name());
  for (size_t i = 0; i < value.size(); ++i) {
    const ComponentSpec item(value.as_array()[i], fmt::format("{}[{}]", where, i));
    set_template(out, item.text("name"), item.text("template"));
  }
  return out;
}

}  // namespace

FolderSettings read_folder_settings(const fs::path& dir) {
  FolderSettings out;
  const std::string config_name = (dir / "tokenizer_config.json").string();
  const std::string map_name = (dir / "special_tokens_map.json").string();
  out.tokenizer_config = read_settings_object(config_name);
  out.config = read_settings_object(dir / "config.json");
  const Json map = read_settings_object(map_name);
  const std::vector<SpecialToken> special =
      special_tokens({out.tokenizer_config, config_name}, {map, map_name});
  out.names = TokenNames(special);
  read_added_decoder(out.tokenizer_config, config_name, out.added);
  // transformers reads the older file only if the configuration lists none.
  if (!out.tokenizer_config.find("added_tokens_decoder")) {
    read_added_map(dir / "added_tokens.json", out.added);
  }
  add_special_tokens(special, out.added);
  out.chat_templates = read_folder_templates(dir, out.tokenizer_config, config_name);

  Json hashed = Json::object();
  for (const auto& [key, value] : out.tokenizer_config.as_object()) {
    // A template changes no id; the key of a cache contains it beside this digest.
    if (key != "chat_template") hashed.set(key, value);
  }
  out.hashed = {{"tokenizer_config", dump_json(hashed)}, {"special_tokens_map", dump_json(map)}};
  if (path_exists(dir / "added_tokens.json")) {
    out.hashed.emplace_back("added_tokens",
                            read_file(dir / "added_tokens.json", kMaxSettingsBytes));
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

NamedTexts read_folder_templates(const fs::path& dir, const Json& config,
                                 const std::string& config_name) {
  NamedTexts out;
  if (path_exists(dir / "chat_template.jinja")) {
    out.emplace_back("default", read_file(dir / "chat_template.jinja", kMaxSettingsBytes));
  }
  for (const std::string& file : named_template_files(dir)) {
    set_template(out, fs::path(file).stem().string(),
                 read_file(dir / kNamedTemplateFolder / file, kMaxSettingsBytes));
  }
  const Json* value = config.find("chat_template");
  // The member is read only if there are no template files.
  if (!out.empty() || value == nullptr || value->is_null()) return out;
  return read_template_member(*value, config_name + ": chat_template");
}

}  // namespace xrun
